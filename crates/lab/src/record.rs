//! What one run measured, for programs and for people.

use std::fmt::Write;

use hdrhistogram::Histogram;
use lockyard_torture::locktest::{Config, Report};
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
    /// Percentage of the operations that only read.
    pub read_pct: u32,
    /// Cache lines, beside the payload's, that a section writes to, or reads.
    #[serde(skip_serializing_if = "none")]
    pub lines: u32,
    /// Operations of the thread that made the fewest.
    pub ops_min: u64,
    /// Operations of a thread on average.
    pub ops_mean: f64,
    /// Operations of the thread that made the most.
    pub ops_max: u64,
    /// Operations of all threads together, in thousands per second.
    pub rate_kops: f64,
    /// The median of the sampled waits, if there were any.
    pub wait_p50_ns: Option<u64>,
    /// The wait that one sampled acquisition in a thousand exceeded.
    pub wait_p999_ns: Option<u64>,
    /// The longest sampled wait: one that was not sampled may be longer.
    pub wait_max_ns: Option<u64>,
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
    /// Readers and writers apart, where there were to be readers.
    #[serde(flatten)]
    pub apart: Option<Apart>,
    /// The rare paths taken, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// In the simulated world: what the simulation was.
    #[serde(flatten)]
    pub simulation: Option<Simulation>,
}

/// The operations and waits of readers, and those of writers. Of waits that
/// were not sampled nothing is known.
#[derive(Clone, Debug, Serialize)]
pub struct Apart {
    /// Operations that only read.
    pub reads: u64,
    /// Operations that wrote.
    pub writes: u64,
    /// As `wait_p50_ns`, of readers.
    pub read_wait_p50_ns: Option<u64>,
    /// As `wait_p999_ns`, of readers.
    pub read_wait_p999_ns: Option<u64>,
    /// As `wait_max_ns`, of readers.
    pub read_wait_max_ns: Option<u64>,
    /// As `wait_samples`, of readers.
    pub read_wait_samples: u64,
    /// As `wait_p50_ns`, of writers.
    pub write_wait_p50_ns: Option<u64>,
    /// As `wait_p999_ns`, of writers.
    pub write_wait_p999_ns: Option<u64>,
    /// As `wait_max_ns`, of writers.
    pub write_wait_max_ns: Option<u64>,
    /// As `wait_samples`, of writers.
    pub write_wait_samples: u64,
}

impl Apart {
    fn new(report: &Report) -> Self {
        let [read, write] = [&report.read_waits, &report.write_waits].map(waits_ns);
        Self {
            reads: report.reads,
            writes: report.writes(),
            read_wait_p50_ns: read[0],
            read_wait_p999_ns: read[1],
            read_wait_max_ns: read[2],
            read_wait_samples: report.read_waits.len(),
            write_wait_p50_ns: write[0],
            write_wait_p999_ns: write[1],
            write_wait_max_ns: write[2],
            write_wait_samples: report.write_waits.len(),
        }
    }

    /// Its lines, which begin as those of the run do.
    fn text(&self, head: &str) -> String {
        let side = |name, ops, waits| {
            let (ops, waits) = (format::count(ops), waits_text(waits));
            format!("{head}, {name} = {ops}; {waits}\n")
        };
        let reads = [
            self.read_wait_p50_ns,
            self.read_wait_p999_ns,
            self.read_wait_max_ns,
        ];
        let writes = [
            self.write_wait_p50_ns,
            self.write_wait_p999_ns,
            self.write_wait_max_ns,
        ];
        side("Reads", self.reads, reads) + &side("Writes", self.writes, writes)
    }
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
        let waits = report.waits();
        let [wait_p50_ns, wait_p999_ns, wait_max_ns] = waits_ns(&waits);
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
            read_pct: config.read_pct,
            lines: config.lines,
            ops_min: report.ops.iter().copied().min().unwrap_or(0),
            ops_mean: rounded(report.total() as f64 / threads as f64, 1e3),
            ops_max: report.ops.iter().copied().max().unwrap_or(0),
            rate_kops: rounded(report.rate() / 1e3, 1e3),
            wait_p50_ns,
            wait_p999_ns,
            wait_max_ns,
            jain: rounded(report.jain(), 1e6),
            run,
            seed: config.seed,
            sample: config.sample,
            wait_samples: waits.len(),
            apart: (config.read_pct > 0).then(|| Apart::new(report)),
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
             {head}, {}; Jain = {:.3}\n",
            format::count(self.ops_min),
            format::count(self.ops_mean.round() as u64),
            format::count(self.ops_max),
            format::rate(per_second),
            format::rate(per_second / self.threads as f64),
            waits_text([self.wait_p50_ns, self.wait_p999_ns, self.wait_max_ns]),
            self.jain,
        );
        if let Some(apart) = &self.apart {
            text += &apart.text(&head);
        }
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

/// The median, the 99.9th percentile and the longest; of none nothing is known.
fn waits_ns(waits: &Histogram<u64>) -> [Option<u64>; 3] {
    let at = |quantile| (!waits.is_empty()).then(|| waits.value_at_quantile(quantile));
    [at(0.5), at(0.999), at(1.0)]
}

fn waits_text(waits: [Option<u64>; 3]) -> String {
    let [p50, p999, max] = waits.map(|ns| ns.map_or("not sampled".into(), format::time));
    format!("Wait p50/p99.9/Max = {p50}/{p999}/{max}")
}

/// What is left out of a record.
fn none(n: &u32) -> bool {
    *n == 0
}

/// `x` to the nearest `1 / parts`: more digits than were measured help nobody.
pub fn rounded(x: f64, parts: f64) -> f64 {
    (x * parts).round() / parts
}
