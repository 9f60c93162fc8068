//! The host that runs workloads on a simulated machine.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lockyard_core::{Platform, Woken};
use lockyard_sim::{Policy, Scenario, Sim, SimWord, Stats, Until};

use crate::{Host, interrupted};

thread_local! {
    static SCENARIO: RefCell<Option<Scenario>> = const { RefCell::new(None) };
    static STATS: RefCell<Option<Stats>> = const { RefCell::new(None) };
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

    fn boost(real_time: bool) -> Result<(), String> {
        lockyard_sim::set_policy(match real_time {
            true => Policy::Fifo(1),
            false => Policy::Fair,
        });
        Ok(())
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
