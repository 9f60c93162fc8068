//! The benchmark on the simulated machine.

use std::{collections::BTreeMap, time::Duration};

use lockyard_core::Event;
use lockyard_sim::{Machine, SPENDINGS, Scenario, Spending, Stats};
use lockyard_torture::{
    Simulated,
    futexhash::{Keys, Layout, Report, simulate},
    interrupted,
};
use serde::Serialize;

use super::{
    super::pairs::{Effect, Spread},
    NAME,
};
use crate::{
    failure::Failure, measure, place::nanos, record::rounded, screen::Screen,
    simulation::per_operation,
};

/// Linux of then has 256 for each CPU, rounded up to a power of two.
const BUCKETS: usize = 16_384;

/// Private futexes and later keys make so many times as many operations, or more: they
/// run for a shorter time.
const FASTER: f64 = 25.0;

/// Private, before, after, and later.
const KEYS: [Keys; 4] = [
    Keys::Private,
    Keys::PageLock,
    Keys::Lockless,
    Keys::Sequenced,
];

/// Where the words lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Words {
    /// As `calloc` has them, so that a page has those of two threads.
    Neighbours,
    /// On pages of their own for each thread.
    Apart,
    /// As `calloc` has them, in huge pages.
    Huge,
}

impl From<Layout> for Words {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Neighbours => Self::Neighbours,
            Layout::Apart => Self::Apart,
            Layout::Huge => Self::Huge,
        }
    }
}

impl From<Words> for Layout {
    fn from(words: Words) -> Self {
        match words {
            Words::Neighbours => Self::Neighbours,
            Words::Apart => Self::Apart,
            Words::Huge => Self::Huge,
        }
    }
}

/// What is run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Setting {
    /// Where the words lie.
    pub layout: Words,
    /// Threads.
    pub threads: usize,
    /// Words of each thread.
    pub futexes: usize,
    /// Simulated seconds of a run.
    pub seconds: f64,
}

/// A run of a seed.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Operations of all threads together, in thousands per second.
    pub rate_kops: f64,
    /// What all threads together spent for an operation, by [`Spending`], in
    /// nanoseconds; `None` when there was none.
    pub cost: Option<[f64; SPENDINGS]>,
    /// Of the time of an operation, that for which it waited for lines of each kind.
    pub lines: BTreeMap<&'static str, f64>,
    /// How often a thread went to sleep for an operation, at a page lock or a bucket.
    pub sleeps: f64,
}

impl Run {
    fn new(report: &Report, stats: &Stats) -> Self {
        let all: u64 = report.ops.iter().sum();
        let each = |of: f64| of / all.max(1) as f64;
        let lines = stats.lines.iter();
        Self {
            rate_kops: all as f64 * 1e6 / report.elapsed_ns.max(1) as f64,
            cost: (all > 0).then(|| per_operation(&stats.spent, all)),
            lines: lines
                .map(|(name, waited)| (*name, each(nanos(*waited))))
                .collect(),
            sleeps: each(stats.events[Event::GateParked as usize] as f64),
        }
    }
}

/// What an operation takes, in nanoseconds: the means over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// Computing, and accesses of lines in the core's own cache.
    pub compute: f64,
    /// Waiting for the line of a page: its lock and its count.
    pub page: f64,
    /// Waiting for that of the address space: its count.
    pub space: f64,
    /// Waiting for that of a bucket.
    pub bucket: f64,
    /// Waiting for any other.
    pub other_lines: f64,
    /// Spinning at a bucket.
    pub spin: f64,
    /// Asleep at a page lock, or at a bucket.
    pub sleep: f64,
    /// Ready to run, but without a CPU, or on the way to one.
    pub ready: f64,
}

impl Cost {
    fn of(runs: &[Run]) -> Option<Self> {
        let mean = |of: &dyn Fn(&Run) -> f64| {
            let all: f64 = runs.iter().map(of).sum();
            rounded(all / runs.len() as f64, 1e1)
        };
        runs.iter().all(|run| run.cost.is_some()).then(|| {
            let spent =
                |kind: Spending| mean(&|run| run.cost.map_or(0.0, |cost| cost[kind as usize]));
            let line = |name| mean(&|run| run.lines.get(name).copied().unwrap_or(0.0));
            let [page, space, bucket] = ["page", "space", "bucket"].map(line);
            let named = page + space + bucket;
            Self {
                compute: spent(Spending::Compute),
                page,
                space,
                bucket,
                other_lines: rounded((spent(Spending::Cache) - named).max(0.0), 1e1),
                spin: spent(Spending::Spin),
                sleep: spent(Spending::Sleep),
                ready: spent(Spending::Ready),
            }
        })
    }
}

/// A kind of key at a setting, over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Side {
    /// Operations of all threads together, in thousands per second.
    pub rate_kops: Spread,
    /// What one took; null when a run made none.
    pub cost_ns: Option<Cost>,
    /// How often a thread went to sleep for one.
    pub sleeps: f64,
}

impl Side {
    fn new(runs: &[Run]) -> Option<Self> {
        let sleeps: f64 = runs.iter().map(|run| run.sleeps).sum();
        Some(Self {
            rate_kops: Spread::of(runs.iter().map(|run| Some(run.rate_kops)), 1e3)?,
            cost_ns: Cost::of(runs),
            sleeps: rounded(sleeps / runs.len() as f64, 1e4),
        })
    }
}

/// All kinds of keys at a setting, over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "type", rename = "threads")]
pub struct Row {
    /// The experiment.
    pub experiment: &'static str,
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// Seeds.
    pub seeds: usize,
    /// Private futexes.
    pub private: Side,
    /// Under the page lock.
    pub before: Side,
    /// Without it.
    pub after: Side,
    /// As in later kernels: the key refers to nothing.
    pub later: Side,
    /// Of the change, in the rate.
    #[serde(flatten)]
    pub effect: Effect,
}

impl Row {
    /// What the runs say: of each kind of keys, one of each seed.
    pub fn new(setting: Setting, runs: &[Vec<Run>; 4]) -> Option<Self> {
        let side = |which: usize| Side::new(&runs[which]);
        let pairs = runs[1].iter().zip(&runs[2]);
        let rates = |(before, after): (&Run, &Run)| (Some(before.rate_kops), Some(after.rate_kops));
        Some(Self {
            experiment: NAME,
            setting,
            seeds: runs[0].len(),
            private: side(0)?,
            before: side(1)?,
            after: side(2)?,
            later: side(3)?,
            effect: Effect::between(pairs.map(rates)),
        })
    }
}

/// What is run, and on what.
pub struct Bench {
    /// The machine.
    pub machine: Machine,
    /// Seeds: 1 to so many.
    pub seeds: u32,
    /// The settings.
    pub settings: Vec<Setting>,
}

impl Bench {
    /// How many runs these are.
    pub fn runs(&self) -> u64 {
        (KEYS.len() * self.settings.len()) as u64 * u64::from(self.seeds)
    }

    /// A row for each setting, until the end, an interrupt or a failure.
    pub fn measure(&self, screen: &Screen, rows: &mut Vec<Row>) -> Result<(), Failure> {
        for setting in &self.settings {
            let mut runs: [Vec<Run>; 4] = Default::default();
            for seed in 1..=self.seeds {
                for (keys, runs) in KEYS.into_iter().zip(&mut runs) {
                    let Setting {
                        threads, layout, ..
                    } = setting;
                    screen.begins(format!(
                        "{keys:?}, {threads} threads, {layout:?}, seed {seed}"
                    ));
                    let run = self.run(setting, keys, seed)?;
                    screen.ended();
                    if interrupted() {
                        return Ok(());
                    }
                    runs.push(run);
                }
            }
            rows.extend(Row::new(*setting, &runs));
        }
        Ok(())
    }

    fn run(&self, setting: &Setting, keys: Keys, seed: u32) -> Result<Run, Failure> {
        let Setting {
            layout,
            threads,
            futexes,
            seconds,
        } = *setting;
        let scenario = Scenario {
            machine: self.machine.clone(),
            seed: seed.into(),
        };
        let seconds = match keys {
            Keys::PageLock | Keys::Lockless => seconds,
            Keys::Private | Keys::Sequenced => seconds / FASTER,
        };
        let duration = Duration::from_secs_f64(seconds);
        let hash = || simulate::<BUCKETS>(keys, layout.into(), threads, futexes, duration);
        let (report, stats) =
            measure::quietly(|| Simulated::on(scenario, hash)).map_err(|panic| {
                let why = measure::message(panic.as_ref());
                let name = &self.machine.name;
                Failure::Check(format!(
                    "{keys:?} failed with {threads} threads on {name} with seed {seed}: {why}"
                ))
            })?;
        Ok(Run::new(&report, &stats))
    }
}
