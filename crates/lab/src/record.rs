//! What one run measured, for programs and for people.

use std::fmt::Write;

use lockyard_torture::locktest::Config;
use serde::Serialize;

use crate::{
    events::Events, format, measure::Measured, place::Place, simulation::Simulation, values::World,
};

/// One run, as `--json` prints it: the field order is part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The world that the lock ran in.
    pub world: World,
    /// The lock.
    pub lock: &'static str,
    /// Threads that contended.
    pub threads: usize,
    /// How long they did: measured, not planned.
    pub seconds: f64,
    /// Work units inside the critical section.
    pub load: u32,
    /// Work units outside.
    pub gap: u32,
    /// Percentage of readers: 0, as a mutex has none.
    pub read_pct: u32,
    /// Operations of the thread that made the fewest.
    pub ops_min: u64,
    /// Operations of a thread on average.
    pub ops_mean: f64,
    /// Operations of the thread that made the most.
    pub ops_max: u64,
    /// Operations of all threads together, in thousands per second.
    pub rate_kops: f64,
    /// The median of the sampled waits.
    pub wait_p50_ns: u64,
    /// The wait that one sampled acquisition in a thousand exceeded.
    pub wait_p999_ns: u64,
    /// The longest sampled wait: one that was not sampled may be longer.
    pub wait_max_ns: u64,
    /// Jain's index of fairness over the threads' operations.
    pub jain: f64,
    /// The number of the run, from 1.
    pub run: u32,
    /// The seed of its sampling.
    pub seed: u64,
    /// One acquisition in so many was sampled, on average.
    pub sample: u32,
    /// How many waits were sampled. With fewer than a thousand, `wait_p999_ns`
    /// is the longest of them.
    pub wait_samples: u64,
    /// The rare paths taken, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// In the simulated world: what the simulation was.
    #[serde(flatten)]
    pub simulation: Option<Simulation>,
}

impl Record {
    /// The record of a run of `lock`.
    pub fn new(
        place: &Place,
        lock: &'static str,
        config: &Config,
        run: u32,
        measured: &Measured,
    ) -> Self {
        let Measured { report, stats } = measured;
        let threads = config.threads;
        let simulation = match (place, stats) {
            (Place::Simulated(machine), Some(stats)) => {
                Some(Simulation::new(&machine.name, stats, report.total()))
            }
            _ => None,
        };
        Self {
            world: place.world(),
            lock,
            threads,
            seconds: report.elapsed_ns as f64 / 1e9,
            load: config.load,
            gap: config.gap,
            read_pct: 0,
            ops_min: report.ops.iter().copied().min().unwrap_or(0),
            ops_mean: rounded(report.total() as f64 / threads as f64, 1e3),
            ops_max: report.ops.iter().copied().max().unwrap_or(0),
            rate_kops: rounded(report.rate() / 1e3, 1e3),
            wait_p50_ns: report.waits.value_at_quantile(0.5),
            wait_p999_ns: report.waits.value_at_quantile(0.999),
            wait_max_ns: report.waits.max(),
            jain: rounded(report.jain(), 1e6),
            run,
            seed: config.seed,
            sample: config.sample,
            wait_samples: report.waits.len(),
            events: None,
            simulation,
        }
    }

    /// The lines of the run as seed 001 prints them, and one of waits.
    pub fn text(&self) -> String {
        let per_second = self.rate_kops * 1e3;
        let head = format!("Threads = {}", self.threads);
        let mut text = format!(
            "{head}, Min/Mean/Max = {}/{}/{}\n\
             {head}, Total Rate = {}; Percpu Rate = {}\n\
             {head}, Wait p50/p99.9/Max = {}/{}/{}; Jain = {:.3}\n",
            format::count(self.ops_min),
            format::count(self.ops_mean.round() as u64),
            format::count(self.ops_max),
            format::rate(per_second),
            format::rate(per_second / self.threads as f64),
            format::time(self.wait_p50_ns),
            format::time(self.wait_p999_ns),
            format::time(self.wait_max_ns),
            self.jain,
        );
        if let Some(simulation) = &self.simulation {
            text += &simulation.text(&head);
        }
        if let Some(events) = &self.events {
            let happened = events.happened();
            let all: Vec<_> = happened
                .map(|(name, n)| format!("{name} = {}", format::count(n)))
                .collect();
            let all = if all.is_empty() {
                "none".into()
            } else {
                all.join(", ")
            };
            let _ = writeln!(text, "{head}, Events: {all}");
        }
        text
    }
}

/// `x` to the nearest `1 / parts`: more digits than were measured help nobody.
pub fn rounded(x: f64, parts: f64) -> f64 {
    (x * parts).round() / parts
}
