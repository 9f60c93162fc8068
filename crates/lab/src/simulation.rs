//! What the simulation of a run was.

use lockyard_sim::{Picos, SPENDINGS, Spending, Stats};
use serde::Serialize;

use crate::{format, place::nanos, record::rounded};

/// A simulation, as `--json` prints it after what was measured in it.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    /// The machine.
    machine: String,
    /// The simulated time until the last thread had ended.
    sim_seconds: f64,
    /// What happened on the machine: steps of threads, ticks, timers.
    sim_events: u64,
    /// Accesses of words of memory.
    sim_accesses: u64,
    /// What an operation cost, all threads together; null when none was made.
    cost_ns: Option<Cost>,
}

/// The time that threads spent for each lock operation, in nanoseconds.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    /// Computing: work, and accesses of lines in the core's own cache.
    compute: f64,
    /// Waiting for a cache line.
    cache: f64,
    /// Spinning on a CPU, for another thread.
    spin: f64,
    /// Parked.
    sleep: f64,
    /// Ready to run, but without a CPU, or on the way to one.
    ready: f64,
}

impl Simulation {
    /// What `stats` say of the simulation of so many lock operations.
    pub fn new(machine: &str, stats: &Stats, operations: u64) -> Self {
        Self {
            machine: machine.into(),
            sim_seconds: stats.simulated_ps as f64 / 1e12,
            sim_events: stats.happened,
            sim_accesses: stats.accesses,
            cost_ns: (operations > 0).then(|| Cost::new(&stats.spent, operations)),
        }
    }

    /// Its lines, which follow those of the run and begin as they do.
    pub fn text(&self, head: &str) -> String {
        let cost = match &self.cost_ns {
            Some(cost) => cost.text(),
            None => "not known, as none was made".into(),
        };
        format!(
            "{head}, Simulated Time = {}; Happened = {}; Accesses = {}\n\
             {head}, Cost per operation = {cost}\n",
            format::time((self.sim_seconds * 1e9).round() as u64),
            format::count(self.sim_events),
            format::count(self.sim_accesses),
        )
    }
}

/// The nanoseconds that threads spent for each operation, by [`Spending`].
pub fn per_operation(spent: &[[Picos; SPENDINGS]], operations: u64) -> [f64; SPENDINGS] {
    std::array::from_fn(|kind| {
        let all: Picos = spent.iter().map(|task| task[kind]).sum();
        nanos(all) / operations as f64
    })
}

impl Cost {
    fn new(spent: &[[Picos; SPENDINGS]], operations: u64) -> Self {
        let costs = per_operation(spent, operations);
        let each = |spending: Spending| rounded(costs[spending as usize], 1e3);
        Self {
            compute: each(Spending::Compute),
            cache: each(Spending::Cache),
            spin: each(Spending::Spin),
            sleep: each(Spending::Sleep),
            ready: each(Spending::Ready),
        }
    }

    fn text(&self) -> String {
        let all = [
            (self.compute, "compute"),
            (self.cache, "cache"),
            (self.spin, "spin"),
            (self.sleep, "sleep"),
            (self.ready, "ready"),
        ];
        let each = all.map(|(ns, what)| format!("{} ns {what}", format::count(ns.round() as u64)));
        each.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn costs_are_those_of_all_threads_for_each_operation() {
        let stats = Stats {
            simulated_ps: 2_000_000,
            stopped_ps: None,
            happened: 7,
            accesses: 1_234,
            spent: vec![[10_000, 0, 2_000_000, 0, 4_000], [30_000, 8_000, 0, 0, 0]],
            events: [0; _],
            lines: BTreeMap::new(),
        };
        let text = Simulation::new("m", &stats, 4).text("Threads = 2");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "Threads = 2, Simulated Time = 2.00 µs; Happened = 7; Accesses = 1,234",
                "Threads = 2, Cost per operation = \
                 10 ns compute, 2 ns cache, 500 ns spin, 0 ns sleep, 1 ns ready",
            ]
        );
        let idle = Simulation::new("m", &stats, 0);
        assert!(idle.text("").contains("none was made"));
        let json = serde_json::to_value(&idle).expect("plain data");
        assert!(json["cost_ns"].is_null());
    }
}
