//! Real-time threads: what runs, in which order, for how long.

use std::time::Duration;

use lockyard_torture::{chains, chains::Shape, interrupted, pistress};
use serde::Serialize;

use super::{
    super::{Args, Out},
    OURS, RIVAL, STRICT,
};
use crate::{
    failure::Failure,
    pi_stress::{self, Record, Row, Scene},
    registry::Entry,
    screen::Screen,
};

/// The locks that inherit.
pub const LOCKS: [&str; 3] = [OURS, STRICT, RIVAL];

/// The longest wait of a run is a matter of luck: of fewer rounds two thirds are soon
/// on one side.
pub const ROUNDS: u32 = 30;
/// What fewer say, an interrupt having come, is not judged.
pub const LEAST: usize = 10;

/// Groups pinned as those of rt-tests, and not.
pub const PINNED: [bool; 2] = [true, false];

/// How long a run lasts, and with `--full`.
const SHORT: Duration = Duration::from_millis(80);
const FULL: Duration = Duration::from_millis(500);

/// For so long a high thread may wait while a medium one computes.
pub const LIMIT: Duration = Duration::from_secs(1);

/// A run, and the round that it belongs to.
#[derive(Clone, Serialize)]
pub struct Run<S, R> {
    #[serde(flatten)]
    pub run: R,
    pub round: u32,
    /// What ran.
    #[serde(skip)]
    pub setting: S,
    #[serde(skip)]
    pub lock: &'static str,
}

/// What each lock did at a setting, in the rounds in which all of them ran.
pub fn complete<S: PartialEq, R>(runs: &[Run<S, R>], setting: S) -> Vec<(&'static str, Vec<&R>)> {
    let here = || runs.iter().filter(|run| run.setting == setting);
    let all_ran = |round| here().filter(|run| run.round == round).count() == LOCKS.len();
    let of = |lock| {
        let its = here().filter(|run| run.lock == lock && all_ran(run.round));
        (lock, its.map(|run| &run.run).collect())
    };
    LOCKS.map(of).to_vec()
}

/// All that was measured.
#[derive(Default)]
pub struct Runs {
    pub groups: Vec<Run<bool, Record>>,
    pub chains: Vec<Run<Shape, Row>>,
}

/// The plan.
pub struct RealTime {
    scene: Scene,
    locks: Vec<Entry>,
    /// Of groups, and of chains.
    rounds: [u32; 2],
    each: Duration,
}

impl RealTime {
    /// The plan that the flags ask for, with those of these locks that inherit.
    pub fn new(args: &Args, scene: Scene, locks: &[Entry]) -> Self {
        let inherits = |lock: &&Entry| LOCKS.contains(&lock.name);
        let each = if args.full { FULL } else { SHORT };
        Self {
            scene,
            locks: locks.iter().filter(inherits).cloned().collect(),
            rounds: [args.rounds().max(ROUNDS), args.rounds()],
            each: args.seconds.unwrap_or(each),
        }
    }

    /// How many runs there are.
    pub fn runs(&self) -> u32 {
        let [groups, chains] = self.rounds;
        let settings = groups * PINNED.len() as u32 + chains * pi_stress::shapes().len() as u32;
        settings * self.locks.len() as u32
    }

    /// What they last together.
    pub fn planned(&self) -> Duration {
        self.each * self.runs()
    }

    /// The most threads that a run has.
    pub fn most_threads(&self) -> usize {
        let of = |pinned| {
            let (groups, mediums) = pi_stress::usual(pinned, self.scene.cpus());
            groups * (2 + mediums)
        };
        PINNED.map(of).into_iter().max().unwrap_or(0)
    }

    /// The plan for people.
    pub fn text(&self) -> String {
        let [groups, chains] = self.rounds;
        let text = format!(
            "{} of them with real-time threads, {:.3} s a run: {groups} rounds of groups, pinned and \
             not, and\n{chains} rounds of {} chains and trees: {} runs, about {} s\n",
            self.locks.len(),
            self.each.as_secs_f64(),
            pi_stress::shapes().len(),
            self.runs(),
            self.planned().as_secs_f64().ceil(),
        );
        text + &self.scene.throttling.line().unwrap_or_default()
    }

    /// Runs all until their end or an interrupt. Only whole runs count.
    ///
    /// # Errors
    /// A thread panicked, or a run could not be written.
    pub fn measure(
        &self,
        mut out: Option<&mut Out>,
        screen: &Screen,
        runs: &mut Runs,
    ) -> Result<(), Failure> {
        let [groups, chains] = self.rounds;
        let named = PINNED.map(|at| (at, format!("{} groups", pinned(at))));
        let group = |at, lock: &Entry, _| self.group(at, lock);
        let done = self.rounds(
            groups,
            &named,
            out.as_deref_mut(),
            screen,
            &mut runs.groups,
            group,
        );
        done?;
        let named: Vec<_> = pi_stress::shapes()
            .map(|at| (at, pi_stress::named(at)))
            .collect();
        let chain = |at, lock: &Entry, round| self.chain(at, lock, round);
        self.rounds(chains, &named, out, screen, &mut runs.chains, chain)
    }

    /// Runs rounds of one kind, the locks in an order shuffled anew at each setting.
    fn rounds<S: Copy, R: Serialize>(
        &self,
        rounds: u32,
        settings: &[(S, String)],
        mut out: Option<&mut Out>,
        screen: &Screen,
        runs: &mut Vec<Run<S, R>>,
        measure: impl Fn(S, &Entry, u32) -> Result<R, Failure>,
    ) -> Result<(), Failure> {
        let mut dice = fastrand::Rng::with_seed(self.scene.seed);
        let mut order: Vec<&Entry> = self.locks.iter().collect();
        for round in 1..=rounds {
            for (setting, name) in settings {
                dice.shuffle(&mut order);
                for lock in &order {
                    if interrupted() {
                        return Ok(());
                    }
                    screen.begins(format!("round {round}, {name}, {}", lock.name));
                    let run = Run {
                        run: measure(*setting, lock, round)?,
                        round,
                        setting: *setting,
                        lock: lock.name,
                    };
                    if interrupted() {
                        return Ok(());
                    }
                    if let Some(out) = out.as_mut() {
                        out.raw(&run)?;
                    }
                    runs.push(run);
                    screen.ended();
                }
            }
        }
        Ok(())
    }

    fn group(&self, pinned: bool, lock: &Entry) -> Result<Record, Failure> {
        let (groups, mediums) = pi_stress::usual(pinned, self.scene.cpus());
        let config = pistress::Config {
            groups,
            pinned,
            mediums,
            round_robin: false,
            duration: self.each,
            inversions: u64::MAX,
            limit: Some(LIMIT),
            hung: &|tasks| pi_stress::hung(lock.name, tasks),
        };
        Record::measure(&self.scene, lock, &config)
    }

    fn chain(&self, shape: Shape, lock: &Entry, round: u32) -> Result<Row, Failure> {
        let config = chains::Config {
            shape,
            round_robin: false,
            duration: self.each,
            limit: LIMIT,
            seed: self.scene.seed.wrapping_add(u64::from(round) - 1),
            hung: &|tasks| pi_stress::hung(lock.name, tasks),
        };
        Row::measure(&self.scene, lock, &config)
    }
}

/// Whether groups are.
pub fn pinned(pinned: bool) -> &'static str {
    if pinned { "pinned" } else { "unpinned" }
}
