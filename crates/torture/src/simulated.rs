//! The host that runs workloads on a simulated machine.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lockyard_sim::{Policy, Scenario, SimWord, Stats, Until};

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
}
