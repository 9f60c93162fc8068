//! rt-tests' pi_stress on the simulated machine.

use std::time::Duration;

use lockyard_core::Event;
use lockyard_sim::{Machine, Stats};
use lockyard_torture::{
    interrupted,
    pistress::{Config, Report},
};
use serde::Serialize;

use super::{
    super::pairs::{Effect, Spread},
    NAME,
    verdict::Paper,
};
use crate::{
    failure::Failure, measure, place::Place, record::rounded, registry::Entry, screen::Screen,
};

/// What is run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Setting {
    /// All threads of a group share a CPU. If not, all run on all.
    pub pinned: bool,
    /// Groups of three threads.
    pub groups: usize,
    /// Simulated seconds of a run.
    pub seconds: f64,
}

/// What became of the waits of a run: each high thread that did not get the lock
/// at once.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Waits {
    /// It spun until the owner had left.
    pub spun: u64,
    /// It did not spin on: the owner was off its CPU.
    pub owner_off: u64,
    /// It stopped spinning for another reason.
    pub stopped: u64,
    /// It went to sleep, after any of these, or at once.
    pub slept: u64,
}

impl Waits {
    fn new(events: &[u64; Event::ALL.len()]) -> Self {
        let of = |event: Event| events[event as usize];
        Self {
            spun: of(Event::SpinAcquired),
            owner_off: of(Event::SpinOwnerOff),
            stopped: of(Event::SpinResched) + of(Event::SpinNotTop),
            slept: of(Event::Parked),
        }
    }

    /// With those of another run.
    pub fn and(self, other: Self) -> Self {
        Self {
            spun: self.spun + other.spun,
            owner_off: self.owner_off + other.owner_off,
            stopped: self.stopped + other.stopped,
            slept: self.slept + other.slept,
        }
    }
}

/// A run of a seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Run {
    /// Inversions of all groups together.
    pub inversions: u64,
    /// The same in a second.
    pub rate: f64,
    /// What became of the waits.
    pub waits: Waits,
}

impl Run {
    fn new(report: &Report, stats: &Stats) -> Self {
        let inversions = report.total();
        Self {
            inversions,
            rate: inversions as f64 / (report.elapsed_ns as f64 / 1e9).max(1e-9),
            waits: Waits::new(&stats.events),
        }
    }
}

/// A lock at a setting, over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Side {
    /// The lock.
    pub lock: &'static str,
    /// Inversions of all groups in a second: the harmonic mean over the runs.
    pub hmean: f64,
    /// Their standard deviation.
    pub sd: Option<f64>,
    /// Inversions of all runs together.
    pub inversions: u64,
    /// What became of the waits of all runs together.
    pub waits: Waits,
}

impl Side {
    fn new(lock: &'static str, runs: &[Run]) -> Option<Self> {
        let rates = || runs.iter().map(|run| run.rate);
        let spread = Spread::of(rates().map(Some), 1e1)?;
        let inverses: f64 = rates().map(f64::recip).sum();
        Some(Self {
            lock,
            hmean: rounded(runs.len() as f64 / inverses, 1e1),
            sd: spread.sd,
            inversions: runs.iter().map(|run| run.inversions).sum(),
            waits: runs
                .iter()
                .map(|run| run.waits)
                .fold(Waits::default(), Waits::and),
        })
    }
}

/// Both locks at a setting, over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "type", rename = "groups")]
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
    /// In the rate.
    #[serde(flatten)]
    pub effect: Effect,
    /// In the standard deviation of the rate; null where there was none.
    pub sd_change: Option<f64>,
    /// What the paper says.
    pub paper: Paper,
}

impl Row {
    /// What the runs say: of each lock, one of each seed.
    pub fn new(
        setting: Setting,
        paper: Paper,
        locks: [&'static str; 2],
        runs: &[Vec<Run>; 2],
    ) -> Option<Self> {
        let [before, after] = [0, 1].map(|which| Side::new(locks[which], &runs[which]));
        let (before, after) = (before?, after?);
        let pairs = runs[0].iter().zip(&runs[1]);
        let sd_change = match (before.sd, after.sd) {
            (Some(before), Some(after)) if before > 0.0 => Some(rounded(after / before - 1.0, 1e4)),
            _ => None,
        };
        Some(Self {
            experiment: NAME,
            setting,
            seeds: runs[0].len(),
            before,
            after,
            effect: Effect::between(
                pairs.map(|(before, after)| (Some(before.rate), Some(after.rate))),
            ),
            sd_change,
            paper,
        })
    }
}

/// The locks, and what they are put through.
pub struct Bench {
    /// The machine.
    pub machine: Machine,
    /// Before and after.
    pub locks: Vec<Entry>,
    /// Seeds: 1 to so many.
    pub seeds: u32,
    /// The settings, each beside what the paper says.
    pub settings: Vec<(Setting, Paper)>,
}

impl Bench {
    /// How many runs these are.
    pub fn runs(&self) -> u64 {
        (self.locks.len() * self.settings.len()) as u64 * u64::from(self.seeds)
    }

    /// A row for each setting, until the end, an interrupt or a failure.
    pub fn measure(&self, screen: &Screen, rows: &mut Vec<Row>) -> Result<(), Failure> {
        let names = [0, 1].map(|lock| self.locks[lock].name);
        for (setting, paper) in &self.settings {
            let mut runs: [Vec<Run>; 2] = Default::default();
            for seed in 1..=self.seeds {
                for (lock, runs) in self.locks.iter().zip(&mut runs) {
                    screen.begins(format!(
                        "{} with {} groups, seed {seed}",
                        lock.name, setting.groups
                    ));
                    let run = self.run(setting, lock, seed)?;
                    screen.ended();
                    if interrupted() {
                        return Ok(());
                    }
                    runs.push(run);
                }
            }
            rows.extend(Row::new(*setting, *paper, names, &runs));
        }
        Ok(())
    }

    fn run(&self, setting: &Setting, lock: &Entry, seed: u32) -> Result<Run, Failure> {
        let config = Config {
            groups: setting.groups,
            pinned: setting.pinned,
            mediums: 1,
            round_robin: false,
            duration: Duration::from_secs_f64(setting.seconds),
            inversions: u64::MAX,
            limit: None,
            hung: &|_| (),
        };
        let place = Place::Simulated(Box::new(self.machine.clone()));
        let (report, stats) = measure::pi_stress(&place, lock, &config, seed.into())?;
        Ok(Run::new(&report, &stats.expect("a simulation has them")))
    }
}

#[cfg(test)]
pub mod tests {
    use super::{super::verdict::PAPER, *};

    /// From 1,000 inversions a second to these, of which so many are spun for.
    pub fn row(pinned: bool, groups: usize, after: [f64; 2], spun: u64) -> Row {
        let run = |rate, spun, slept| Run {
            inversions: 1_000,
            rate,
            waits: Waits {
                spun,
                owner_off: slept,
                stopped: 0,
                slept,
            },
        };
        let setting = Setting {
            pinned,
            groups,
            seconds: 1.0,
        };
        let runs = [
            vec![run(1_000.0, 0, 1_000); 2],
            after.map(|rate| run(rate, spun, 1_000 - spun)).to_vec(),
        ];
        Row::new(setting, PAPER[0], ["a", "b"], &runs).expect("there are runs")
    }
}
