//! The kernel's locktorture on the simulated machine.

use std::time::Duration;

use lockyard_sim::Machine;
use lockyard_torture::{
    interrupted,
    locktorture::{Config, Counts, Delays, Report},
};
use serde::Serialize;

use super::{
    super::pairs::{Effect, Spread},
    NAME,
};
use crate::{failure::Failure, measure, place::Place, registry::Entry, screen::Screen};

/// The kernel's defaults.
const LONG_HOLD: Duration = Duration::from_millis(100);
const STUTTER: Duration = Duration::from_secs(5);
const SHUFFLE: Duration = Duration::from_secs(3);

/// Microseconds between an unlock and the next lock.
const GAPS: [u64; 4] = [3, 10, 50, 200];

/// What a setting is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The experiment as it is published.
    Experiment,
    /// Without pauses of all tasks.
    Stutter,
    /// Idle CPUs do not sleep deeply.
    Idle,
    /// A task needs a while to come back.
    Gap,
}

/// What is run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Setting {
    /// What it is for.
    #[serde(rename = "of")]
    pub kind: Kind,
    /// The variant of the tool's delays.
    pub delays: &'static str,
    /// Simulated seconds of a run.
    pub seconds: f64,
    /// All tasks run for so many seconds, and pause for as many.
    pub stutter_seconds: f64,
    /// Microseconds between an unlock and the next lock.
    pub gap_us: u64,
    /// Whether idle CPUs sleep deeply.
    pub deep_idle: bool,
}

/// For each variant of the delays the published setting, and what is varied, for a
/// tenth of the time.
pub fn settings(seconds: Duration) -> Vec<Setting> {
    let of = |delays| {
        let published = Setting {
            kind: Kind::Experiment,
            delays,
            seconds: seconds.as_secs_f64(),
            stutter_seconds: STUTTER.as_secs_f64(),
            gap_us: 0,
            deep_idle: true,
        };
        let varied = |kind| Setting {
            kind,
            seconds: (seconds / 10).as_secs_f64(),
            ..published
        };
        let mut all = vec![
            published,
            Setting {
                stutter_seconds: 0.0,
                ..varied(Kind::Stutter)
            },
            Setting {
                deep_idle: false,
                ..varied(Kind::Idle)
            },
        ];
        all.extend(GAPS.map(|gap_us| Setting {
            gap_us,
            ..varied(Kind::Gap)
        }));
        all
    };
    ["new", "old"].into_iter().flat_map(of).collect()
}

/// What writers, or readers, did in the runs of all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// How often they had the lock.
    pub total: Spread,
    /// Who had it most often, and who most seldom.
    pub max: Spread,
    /// The latter.
    pub min: Spread,
    /// The longest wait, in milliseconds.
    pub longest_wait_ms: Spread,
}

impl Done {
    fn new<'a>(runs: impl Iterator<Item = &'a Counts> + Clone) -> Option<Self> {
        let of = |what: fn(&Counts) -> u64, unit: f64| {
            Spread::of(runs.clone().map(|run| Some(what(run) as f64 / unit)), 1e3)
        };
        Some(Self {
            total: of(Counts::total, 1.0)?,
            max: of(|run| run.per_task.iter().copied().max().unwrap_or(0), 1.0)?,
            min: of(|run| run.per_task.iter().copied().min().unwrap_or(0), 1.0)?,
            longest_wait_ms: of(|run| run.longest_wait_ns, 1e6)?,
        })
    }
}

/// A lock at a setting, over the seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The lock.
    pub lock: &'static str,
    /// What its writers did.
    pub writes: Done,
    /// What its readers did.
    pub reads: Done,
}

/// All locks at a setting, over the seeds.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "torture")]
pub struct Row {
    /// The experiment.
    pub experiment: &'static str,
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// Seeds.
    pub seeds: usize,
    /// Before the change.
    pub before: Side,
    /// After it.
    pub after: Side,
    /// After it, with the bound that is ours.
    pub bounded: Side,
    /// What the change does to the writes.
    pub writes: Effect,
    /// What it does to the reads.
    pub reads: Effect,
}

impl Row {
    /// What the runs say: of each lock, one of each seed.
    pub fn new(
        setting: Setting,
        locks: [&'static str; 3],
        runs: &[Vec<Report>; 3],
    ) -> Option<Self> {
        let side = |which: usize| {
            Some(Side {
                lock: locks[which],
                writes: Done::new(runs[which].iter().map(|run| &run.writes))?,
                reads: Done::new(runs[which].iter().map(|run| &run.reads))?,
            })
        };
        let effect = |of: fn(&Report) -> &Counts| {
            let total = |run: &Report| Some(of(run).total() as f64);
            let pairs = runs[0].iter().zip(&runs[1]);
            Effect::between(pairs.map(|(before, after)| (total(before), total(after))))
        };
        Some(Self {
            experiment: NAME,
            setting,
            seeds: runs[0].len(),
            before: side(0)?,
            after: side(1)?,
            bounded: side(2)?,
            writes: effect(|run| &run.writes),
            reads: effect(|run| &run.reads),
        })
    }
}

/// The locks, and what they are put through.
pub struct Bench {
    /// Before, after, bounded.
    pub locks: Vec<Entry>,
    /// Seeds: 1 to so many.
    pub seeds: u32,
    /// The settings.
    pub settings: Vec<Setting>,
}

impl Bench {
    /// How many runs these are.
    pub fn runs(&self) -> u64 {
        (self.locks.len() * self.settings.len()) as u64 * u64::from(self.seeds)
    }

    /// A row for each setting, until the end, an interrupt or a failure.
    pub fn measure(
        &self,
        machine: &Machine,
        screen: &Screen,
        rows: &mut Vec<Row>,
    ) -> Result<(), Failure> {
        let names = [0, 1, 2].map(|lock| self.locks[lock].name);
        for setting in &self.settings {
            let mut runs: [Vec<Report>; 3] = Default::default();
            for seed in 1..=self.seeds {
                for (lock, runs) in self.locks.iter().zip(&mut runs) {
                    screen.begins(format!(
                        "{} with {} delays, seed {seed}",
                        lock.name, setting.delays
                    ));
                    let report = run(machine, setting, lock, seed)?;
                    screen.ended();
                    if interrupted() {
                        return Ok(());
                    }
                    runs.push(report);
                }
            }
            rows.extend(Row::new(*setting, names, &runs));
        }
        Ok(())
    }
}

fn run(machine: &Machine, setting: &Setting, lock: &Entry, seed: u32) -> Result<Report, Failure> {
    let mut machine = machine.clone();
    if !setting.deep_idle {
        machine.costs.deep_wake = machine.costs.wake;
    }
    let cpus = machine.cpus();
    let config = Config {
        writers: cpus,
        readers: cpus,
        duration: Duration::from_secs_f64(setting.seconds),
        delays: match setting.delays {
            "old" => Delays::Old,
            _ => Delays::New,
        },
        long_hold: LONG_HOLD,
        gap: Duration::from_micros(setting.gap_us),
        stutter: Duration::from_secs_f64(setting.stutter_seconds),
        shuffle: SHUFFLE,
        boost: false,
        seed: seed.into(),
        hung: &|_| (),
    };
    let place = Place::Simulated(Box::new(machine));
    let (report, _) = measure::torture(&place, lock, &config)?;
    match report.failures() {
        0 => Ok(report),
        failures => Err(Failure::Check(format!(
            "{} failed {failures} times under torture with seed {seed}",
            lock.name
        ))),
    }
}
