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
    static WORKLOAD: RefCell<Workload> = const { RefCell::new(Workload::new()) };
}

/// What surrounds the simulation that a workload runs.
struct Workload {
    /// On what it is to run.
    scenario: Option<Scenario>,
    /// What it was.
    stats: Option<Stats>,
    /// Who sleeps for which word, by its address.
    asleep: Vec<(usize, TaskId)>,
}

impl Workload {
    const fn new() -> Self {
        Self {
            scenario: None,
            stats: None,
            asleep: Vec::new(),
        }
    }

    /// Asks or tells it. Nobody may wait meanwhile: all tasks share a thread.
    fn ask<R>(question: impl FnOnce(&mut Self) -> R) -> R {
        WORKLOAD.with_borrow_mut(question)
    }
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
        // Who slept for ever in one that failed is gone.
        WORKLOAD.set(Workload {
            scenario: Some(scenario),
            ..Workload::new()
        });
        let result = workload();
        let stats = Workload::ask(|workload| workload.stats.take());
        let stats = stats.expect("the workload ran tasks");
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
        let scenario = Workload::ask(|workload| workload.scenario.take());
        let scenario = scenario.expect("a workload runs once in a scenario");
        let until = Until {
            time: duration.as_nanos() as u64 * 1_000,
            stop: &|| stop.store(true, Ordering::Relaxed),
            interrupted: &interrupted,
        };
        let stats = scenario.simulate(&vec![Policy::Fair; tasks], Some(until), body);
        let stats = stats.unwrap_or_else(|failure| panic!("{failure}"));
        let elapsed = stats.stopped_ps.unwrap_or(stats.simulated_ps) / 1_000;
        Workload::ask(|workload| workload.stats = Some(stats));
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
            Workload::ask(|workload| workload.asleep.push(sleeper));
            while Workload::ask(|workload| workload.asleep.contains(&sleeper)) {
                Sim::park(None);
            }
        }
    }

    fn wake(word: &SimWord) {
        let here = std::ptr::from_ref(word).addr();
        let woken: Vec<_> = Workload::ask(|workload| {
            let sleepers = &mut workload.asleep;
            sleepers.extract_if(.., |(word, _)| *word == here).collect()
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
