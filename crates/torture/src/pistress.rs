//! What rt-tests' pi_stress does, for any lock in any world: groups of real-time
//! tasks, low, medium and high, in which high waits for a lock that low has, and
//! medium keeps low off the CPU. With priority inheritance low runs as high for
//! as long as it has the lock. Without it high waits for as long as medium runs.
//!
//! A round, and where its tasks meet:
//!
//! | low | medium | high | |
//! |---|---|---|---|
//! | start | start | start | |
//! | takes the lock | | | |
//! | locked | | locked | so high comes when low has it |
//! | | | asks for the lock | and lends low its priority, if the lock does |
//! | elevate | elevate | | so medium runs from now on, or could |
//! | unlocks | | has the lock, unlocks | |
//! | finish | finish | finish | |
//!
//! The medium task of rt-tests goes from elevate straight to finish, so every
//! inversion ends whatever the lock does. This one computes until high has the
//! lock: where low is lent the priority, on the one CPU of a group, it never gets
//! to. If high still waits after the limit, nothing but the limit ends its wait:
//! the inversion is unbounded. A run can have the rounds of rt-tests instead.

mod group;

use std::{
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use hdrhistogram::Histogram;

use crate::{
    Host, Lock,
    board::{At, Board},
    locktest::GROWS,
    race::{histogram, patience, policy},
};
use group::{Counts, Group, Role};

/// The real-time priority of who watches the tasks: above theirs.
pub const ABOVE: u8 = 4;

/// What a run does.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    /// Groups of tasks, each with a lock of its own.
    pub groups: usize,
    /// Each group runs on one CPU, the first on the second, the next on the one
    /// after. If not, all run on all CPUs.
    pub pinned: bool,
    /// Medium tasks of a group: as many as the CPUs that it may run on. With fewer,
    /// low finds a CPU without being lent a priority.
    pub mediums: usize,
    /// The tasks are scheduled round robin, and not first in first out.
    pub round_robin: bool,
    /// How long, in the world's time.
    pub duration: Duration,
    /// Rounds after which a group ends.
    pub inversions: u64,
    /// For so long a medium task computes while high waits. If none, it does not
    /// compute, and low leaves the lock at once, both as in rt-tests.
    pub limit: Option<Duration>,
    /// Told which tasks wait for what when none has got on for long, in a world
    /// that does not notice itself. Should it return, it is told again.
    pub hung: &'a (dyn Fn(&str) + Sync),
}

/// What a run did.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Nanoseconds from when the first group began to when the last one ended.
    pub elapsed_ns: u64,
    /// Inversions that each group resolved: rounds in which high got the lock
    /// before the limit.
    pub inversions: Vec<u64>,
    /// How long a high task waited for the lock, in nanoseconds, each time.
    pub waits: Histogram<u64>,
    /// Rounds in which a medium task ran while high waited.
    pub inverted: u64,
    /// The longest that one ran so.
    pub longest_inversion_ns: u64,
    /// The group whose high task waited beyond the limit, if one did.
    pub unbounded: Option<usize>,
}

impl Report {
    /// Inversions that all groups resolved.
    pub fn total(&self) -> u64 {
        self.inversions.iter().sum()
    }
}

/// Has the groups invert priorities.
///
/// # Panics
/// When the tasks may not have real-time priorities: ask [`Host::schedule`] first.
/// When the lock panics.
pub fn run<H: Host, L: Lock>(config: &Config<'_>) -> Report {
    let run = Run::<H, L>::new(config);
    let tasks = config.groups * Role::members(config.mediums);
    H::watched(&|| run.look(), || {
        H::run(tasks, config.duration, &run.stop, &|task| run.task(task));
    });
    run.report()
}

/// A run; the tasks of a group follow each other.
struct Run<'a, H: Host, L> {
    config: &'a Config<'a>,
    groups: Vec<Group<H, L>>,
    /// No group begins another round.
    stop: AtomicBool,
    board: Board,
    sums: Mutex<Sums>,
}

/// What the groups counted, as far as they have ended.
struct Sums {
    began: u64,
    ended: u64,
    inversions: Vec<u64>,
    waits: Histogram<u64>,
    inverted: u64,
    longest_inversion_ns: u64,
}

impl<'a, H: Host, L: Lock> Run<'a, H, L> {
    fn new(config: &'a Config<'a>) -> Self {
        let groups = (0..config.groups).map(|_| Group::new(config.mediums));
        Self {
            config,
            groups: groups.collect(),
            stop: AtomicBool::new(false),
            board: Board::new(config.groups * Role::members(config.mediums)),
            sums: Mutex::new(Sums {
                began: u64::MAX,
                ended: 0,
                inversions: vec![0; config.groups],
                waits: histogram(),
                inverted: 0,
                longest_inversion_ns: 0,
            }),
        }
    }

    /// The group of a task, and who it is there.
    fn place(&self, task: usize) -> (usize, Role) {
        let members = Role::members(self.config.mediums);
        (task / members, Role::of(task % members))
    }

    fn task(&self, task: usize) {
        let (number, role) = self.place(task);
        if self.config.pinned {
            let cpus = H::cpus();
            H::confine(H::me(), &[cpus[(number + 1) % cpus.len()]]);
        }
        let policy = policy(self.config.round_robin, role.priority());
        H::schedule(policy).unwrap_or_else(|why| panic!("{why}"));
        let group = &self.groups[number];
        let is_at = |at| self.board.set(task, at);
        match role {
            Role::Low => {
                let stays = !self.config.pinned && self.config.limit.is_some();
                group.low(stays, is_at);
            }
            Role::Medium => {
                let longest = group.medium(self.config.limit, &self.stop, is_at);
                let mut sums = self.sums();
                sums.longest_inversion_ns = sums.longest_inversion_ns.max(longest);
            }
            Role::High => {
                let counts = group.high(self.config.inversions, &self.stop, is_at);
                self.sums().add(number, &counts);
            }
        }
        self.board.set(task, At::Ended);
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the tasks get on, and tells who waits for what if not.
    fn look(&self) {
        let name = |task| {
            let (group, role) = self.place(task);
            format!("{} of group {group}", role.name())
        };
        let limit = self.config.limit.unwrap_or_default();
        if let Some(tasks) = self.board.stuck(patience(limit), name) {
            (self.config.hung)(&tasks);
        }
    }

    fn report(self) -> Report {
        let sums = self.sums.into_inner();
        let sums = sums.unwrap_or_else(PoisonError::into_inner);
        Report {
            elapsed_ns: sums.ended.saturating_sub(sums.began),
            inversions: sums.inversions,
            waits: sums.waits,
            inverted: sums.inverted,
            longest_inversion_ns: sums.longest_inversion_ns,
            unbounded: self.groups.iter().position(Group::is_unbounded),
        }
    }
}

impl Sums {
    /// What a group's high task counted.
    fn add(&mut self, group: usize, counts: &Counts) {
        self.began = self.began.min(counts.began);
        self.ended = self.ended.max(counts.ended);
        self.inversions[group] = counts.resolved;
        self.inverted += counts.inverted;
        self.waits.add(&counts.waits).expect(GROWS);
    }
}
