//! What the patch was written for: a task that moves processes waits for seconds,
//! because the lock was handed to forking tasks of a group that is out of CPU time.

use std::time::Duration;

use hdrhistogram::Histogram;
use lockyard_core::percpu_rwsem::{Barging, Grant, Handoff};
use lockyard_sim::{Machine, Quota, Scenario, Sim};
use lockyard_torture::{
    Simulated,
    antagonist::{self, Config, Report, Role},
    interrupted,
};
use serde::Serialize;

use super::{LOCKS, NAME};
use crate::{
    failure::Failure,
    measure,
    ours::{Patient, PercpuRwLock},
    record::rounded,
    screen::Screen,
};

/// The antagonists: a quarter of the mail's four thousand of each kind.
const FORKERS: usize = 1_000;
const SOAKERS: usize = 1_000;
/// The shares of the machine that their group may use; 1 is no limit.
const SHARES: [f64; 3] = [1.0, 0.5, 0.25];
/// The kernel's default period of a quota.
const PERIOD: Duration = Duration::from_millis(100);

/// The story, to be run.
pub struct Story {
    machine: Machine,
    duration: Duration,
    seeds: u32,
}

/// What a lock does in it, over the seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Teller {
    /// The lock.
    pub lock: &'static str,
    /// Moves.
    pub moves: u64,
    /// The median wait of the mover for the lock, in milliseconds.
    pub wait_p50_ms: f64,
    /// The wait that one in a hundred exceeds.
    pub wait_p99_ms: f64,
    /// The longest.
    pub wait_max_ms: f64,
    /// Forks of the antagonists, per second.
    pub forks_per_second: f64,
}

impl Teller {
    /// What these runs of a lock say together.
    pub fn new(lock: &'static str, runs: &[Report]) -> Self {
        let mut waits = Histogram::<u64>::new(3).expect("3 significant digits are valid");
        for run in runs {
            waits.add(&run.waits).expect("both histograms grow");
        }
        let seconds: f64 = runs.iter().map(|run| run.elapsed_ns as f64 / 1e9).sum();
        let forks: u64 = runs.iter().map(|run| run.forks).sum();
        let ms = |nanos: u64| rounded(nanos as f64 / 1e6, 1e4);
        Self {
            lock,
            moves: waits.len(),
            wait_p50_ms: ms(waits.value_at_quantile(0.5)),
            wait_p99_ms: ms(waits.value_at_quantile(0.99)),
            wait_max_ms: ms(waits.max()),
            forks_per_second: rounded(forks as f64 / seconds.max(f64::MIN_POSITIVE), 10.0),
        }
    }
}

/// All locks under a quota.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "story")]
pub struct Told {
    /// The experiment.
    pub experiment: &'static str,
    /// The world.
    pub world: &'static str,
    /// CPUs that the antagonists may use; null when they may use all.
    pub quota_cpus: Option<f64>,
    /// Whether tasks may be preempted while they are inside the lock.
    pub preempted_inside: bool,
    /// Antagonists that fork.
    pub forkers: usize,
    /// Antagonists that compute.
    pub soakers: usize,
    /// Seconds of a run.
    pub seconds: f64,
    /// Runs of each lock.
    pub runs: usize,
    /// Before, after, and after with a bound.
    pub locks: Vec<Teller>,
}

type Run = fn(Scenario, Duration, bool) -> Report;

const RUNS: [Run; 3] = [
    simulate::<Handoff>,
    simulate::<Barging>,
    simulate::<Patient>,
];

fn simulate<G: Grant>(scenario: Scenario, duration: Duration, unpreempted: bool) -> Report {
    let config = Config {
        forkers: FORKERS,
        soakers: SOAKERS,
        duration,
        unpreempted,
        enlist: &|role| {
            if role == Role::Mover {
                lockyard_sim::exempt();
            }
        },
    };
    let run = || antagonist::run::<Simulated, PercpuRwLock<Sim, G>>(&config);
    Simulated::on(scenario, run).0
}

impl Story {
    /// On that machine, each run for so long.
    pub fn new(machine: Machine, duration: Duration, seeds: u32) -> Self {
        Self {
            machine,
            duration,
            seeds,
        }
    }

    /// How many runs these are.
    pub fn runs(&self) -> u64 {
        (2 * SHARES.len() * RUNS.len()) as u64 * u64::from(self.seeds)
    }

    /// What it is, in a line.
    pub fn title(&self) -> String {
        format!(
            "{FORKERS} tasks that fork and {SOAKERS} that compute, for {} s",
            rounded(self.duration.as_secs_f64(), 1e3)
        )
    }

    /// What all locks do under each quota, until the end, an interrupt or a failure.
    pub fn measure(&self, screen: &Screen, told: &mut Vec<Told>) -> Result<(), Failure> {
        for preempted_inside in [false, true] {
            for share in SHARES {
                let mut machine = self.machine.clone();
                let cpus = share * machine.cpus() as f64;
                let limited = share < 1.0;
                machine.quota = limited.then(|| Quota {
                    runtime: (PERIOD.mul_f64(cpus).as_nanos() * 1_000) as u64,
                    period: (PERIOD.as_nanos() * 1_000) as u64,
                });
                let locks = self.locks(&machine, !preempted_inside, screen)?;
                if interrupted() {
                    return Ok(());
                }
                told.push(Told {
                    experiment: NAME,
                    world: "sim",
                    quota_cpus: limited.then_some(cpus),
                    preempted_inside,
                    forkers: FORKERS,
                    soakers: SOAKERS,
                    seconds: self.duration.as_secs_f64(),
                    runs: self.seeds as usize,
                    locks,
                });
            }
        }
        Ok(())
    }

    fn locks(
        &self,
        machine: &Machine,
        unpreempted: bool,
        screen: &Screen,
    ) -> Result<Vec<Teller>, Failure> {
        let mut locks = Vec::new();
        for (run, lock) in RUNS.into_iter().zip(LOCKS) {
            let mut reports = Vec::new();
            for seed in 1..=self.seeds {
                screen.begins(format!("the story with {lock}, seed {seed}"));
                let scenario = Scenario {
                    machine: machine.clone(),
                    seed: seed.into(),
                };
                let report = measure::quietly(|| run(scenario, self.duration, unpreempted));
                reports.push(report.map_err(|panic| {
                    let why = measure::message(panic.as_ref());
                    Failure::Check(format!("{lock} failed in the story: {why}"))
                })?);
                screen.ended();
                if interrupted() {
                    return Ok(locks);
                }
            }
            locks.push(Teller::new(lock, &reports));
        }
        Ok(locks)
    }
}
