//! The host that runs workloads on a simulated machine.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lockyard_core::{Ordering as Order, Platform, TaskId, Woken, Word};
use lockyard_sim::{Scenario, Sim, SimWord, Stats, Until};

use crate::{Host, Policy, interrupted};

thread_local! {
    static SCENARIO: RefCell<Option<Scenario>> = const { RefCell::new(None) };
    static STATS: RefCell<Option<Stats>> = const { RefCell::new(None) };
    /// Who sleeps for which word, by its address.
    static ASLEEP: RefCell<Vec<(usize, TaskId)>> = const { RefCell::new(Vec::new()) };
}

/// A simulated machine, and its time.
pub struct Simulated;

impl Simulated {
    /// Runs a workload on this scenario's machine. Returns what the simulation
    /// was, too.
    ///
    /// # Panics
    /// When `workload` runs nothing, or what it runs panics or never ends.
    pub fn on<R>(scenario: Scenario, workload: impl FnOnce() -> R) -> (R, Stats) {
        SCENARIO.set(Some(scenario));
        let result = workload();
        let stats = STATS.take().expect("the workload ran tasks");
        (result, stats)
    }
}

impl Host for Simulated {
    const NAME: &'static str = "sim";

    type Word = SimWord;

    /// Its number, from 0.
    type Task = usize;

    fn run(
        tasks: usize,
        duration: Duration,
        stop: &AtomicBool,
        body: &(dyn Fn(usize) + Sync),
    ) -> u64 {
        let scenario = SCENARIO.take().expect("a workload runs once in a scenario");
        ASLEEP.take(); // who slept for ever in a scenario that failed
        let until = Until {
            time: duration.as_nanos() as u64 * 1_000,
            stop: &|| stop.store(true, Ordering::Relaxed),
            interrupted: &interrupted,
        };
        let stats = scenario.simulate(&vec![Policy::Fair; tasks], Some(until), body);
        let stats = stats.unwrap_or_else(|failure| panic!("{failure}"));
        let elapsed = stats.stopped_ps.unwrap_or(stats.simulated_ps) / 1_000;
        STATS.set(Some(stats));
        elapsed
    }

    fn now_ns() -> u64 {
        lockyard_sim::now_ns()
    }

    fn work(units: u32, chain: u64) -> u64 {
        lockyard_sim::work(units);
        chain
    }

    fn busy(duration: Duration) {
        lockyard_sim::busy(duration.as_nanos() as u64);
    }

    fn sleep(duration: Duration) {
        let end = Sim::after(duration.as_nanos() as u64);
        // A lock may have left it a wake-up for which it has no use.
        while Sim::park(Some(end)) == Woken::Unparked {}
    }

    fn yield_now() {
        Sim::yield_to(Sim::me());
    }

    fn schedule(policy: Policy) -> Result<(), String> {
        lockyard_sim::set_policy(policy);
        Ok(())
    }

    fn wait(word: &SimWord, value: u32) {
        let sleeper = (std::ptr::from_ref(word).addr(), Sim::me());
        // From the look at the word until it parks no other task runs.
        if word.load(Order::Relaxed) == value {
            ASLEEP.with_borrow_mut(|asleep| asleep.push(sleeper));
            while ASLEEP.with_borrow(|asleep| asleep.contains(&sleeper)) {
                Sim::park(None);
            }
        }
    }

    fn wake(word: &SimWord) {
        let here = std::ptr::from_ref(word).addr();
        let woken: Vec<_> = ASLEEP.with_borrow_mut(|asleep| {
            let here = asleep.extract_if(.., |(word, _)| *word == here);
            here.collect()
        });
        woken.into_iter().for_each(|(_, task)| Sim::unpark(task));
    }

    fn me() -> usize {
        Sim::me().number() as usize - 1
    }

    fn cpus() -> Vec<usize> {
        (0..lockyard_sim::cpus()).collect()
    }

    fn confine(task: usize, cpus: &[usize]) {
        lockyard_sim::confine(task, cpus);
    }

    fn watched<R>(_: &(dyn Fn() + Sync), work: impl FnOnce() -> R) -> R {
        work()
    }
}
