//! How soon an inherited priority arrives, for any lock in any world: a high task
//! asks for a lock whose owner waits for a lock whose owner waits, and the last
//! owner could run, but a medium task has its CPU.
//!
//! All tasks share one CPU. Those that hold locks, the nodes, have the lowest
//! real-time priority, and whoever runs among them keeps the CPU until it sleeps:
//! so each is asleep in its lock before the next one begins, and when all are, the
//! owner wakes the medium task, which takes its CPU, and that one wakes the high
//! task. From the moment that this one asks for its lock, measured is how long it
//! takes until the owner runs, and until the high task has the lock, after
//! everybody between them.

mod forest;

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hdrhistogram::Histogram;

use crate::{
    Host, Lock,
    board::{At, Board},
    locktest::GROWS,
    meet::{Barrier, Token},
    race::{Race, Ran, histogram, patience, policy},
};
use forest::Forest;
pub use forest::Shape;

/// What a run does.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    /// Who waits for whom.
    pub shape: Shape,
    /// The tasks are scheduled round robin, and not first in first out.
    pub round_robin: bool,
    /// How long, in the world's time.
    pub duration: Duration,
    /// For so long the medium task computes while the high one waits.
    pub limit: Duration,
    /// Seed of the forests.
    pub seed: u64,
    /// Told which tasks wait for what when none has got on for long, in a world
    /// that does not notice itself. Should it return, it is told again.
    pub hung: &'a (dyn Fn(&str) + Sync),
}

/// What a run measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// How long it took until the owner ran, in nanoseconds, each time.
    pub owner_runs: Histogram<u64>,
    /// How long it took until the high task had the lock, in nanoseconds, each time.
    pub waits: Histogram<u64>,
    /// Whether the high task waited beyond the limit once. Such a wait is in none
    /// of the histograms.
    pub unbounded: bool,
}

/// Measures chains of tasks that wait for each other.
///
/// # Panics
/// When the tasks may not have real-time priorities: ask [`Host::schedule`] first.
/// When the lock panics.
pub fn run<H: Host, L: Lock>(config: &Config<'_>) -> Report {
    let run = Run::<H, L>::new(config);
    H::watched(&|| run.look(), || {
        let tasks = run.nodes() + 2;
        H::run(tasks, config.duration, &run.stop, &|task| run.task(task));
    });
    let report = run.report.into_inner();
    report.unwrap_or_else(PoisonError::into_inner)
}

/// Who a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Node(usize),
    Medium,
    High,
}

impl Member {
    fn of(task: usize, nodes: usize) -> Self {
        match task.checked_sub(nodes) {
            None => Self::Node(task),
            Some(0) => Self::Medium,
            Some(_) => Self::High,
        }
    }

    /// Its real-time priority.
    fn priority(self) -> u8 {
        match self {
            Self::Node(_) => 1,
            Self::Medium => 2,
            Self::High => 3,
        }
    }
}

/// A run; its tasks are the nodes, then the medium one, then the high one.
struct Run<'a, H: Host, L> {
    config: &'a Config<'a>,
    locks: Vec<L>,
    start: Barrier<H>,
    finish: Barrier<H>,
    /// From each node to the next: it has its lock, and goes to sleep. The last
    /// one's is for the owner.
    turns: Vec<Token<H>>,
    /// For the roots of the other trees: the high task has its lock.
    releases: Vec<Token<H>>,
    /// For the medium and for the high task: it is to run.
    runs: [Token<H>; 2],
    race: Race<H>,
    /// When the owner ran, on the world's clock.
    ran: AtomicU64,
    /// The high task has said, before the start of a round, that there is none.
    over: AtomicBool,
    stop: AtomicBool,
    board: Board,
    report: Mutex<Report>,
}

impl<'a, H: Host, L: Lock> Run<'a, H, L> {
    fn new(config: &'a Config<'a>) -> Self {
        let nodes = config.shape.nodes();
        let tokens = |n| (0..n).map(|_| Token::new()).collect();
        Self {
            config,
            locks: (0..nodes).map(|_| L::new()).collect(),
            start: Barrier::new(nodes + 2),
            finish: Barrier::new(nodes + 2),
            turns: tokens(nodes),
            releases: tokens(nodes),
            runs: [Token::new(), Token::new()],
            race: Race::new(),
            ran: AtomicU64::new(0),
            over: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            board: Board::new(nodes + 2),
            report: Mutex::new(Report {
                owner_runs: histogram(),
                waits: histogram(),
                unbounded: false,
            }),
        }
    }

    fn nodes(&self) -> usize {
        self.locks.len()
    }

    fn task(&self, task: usize) {
        let cpus = H::cpus();
        H::confine(H::me(), &[cpus[1 % cpus.len()]]);
        let member = Member::of(task, self.nodes());
        let policy = policy(self.config.round_robin, member.priority());
        H::schedule(policy).unwrap_or_else(|why| panic!("{why}"));
        let mut round = 0;
        while self.begins(member) {
            let forest = self.config.shape.forest(self.config.seed, round);
            match member {
                Member::Node(node) => self.node(&forest, node),
                Member::Medium => self.medium(),
                Member::High => self.high(&forest),
            }
            round += 1;
        }
        self.board.set(task, At::Ended);
    }

    /// Whether a round begins. The high task alone decides, so that nobody is left
    /// alone at the start.
    fn begins(&self, member: Member) -> bool {
        if member == Member::High {
            self.race.prepare();
            self.over.store(self.stop.load(Relaxed), Relaxed);
        }
        self.start.meet();
        !self.over.load(Relaxed)
    }

    fn node(&self, forest: &Forest, node: usize) {
        let is_at = |at| self.board.set(node, at);
        if node > 0 {
            self.turns[node - 1].take();
        }
        self.locks[node].with(|| {
            is_at(At::Inside);
            self.turns[node].leave();
            match forest.parents[node] {
                Some(parent) => {
                    is_at(At::Waits);
                    self.locks[parent].with(|| is_at(At::Inside));
                }
                None if node == forest.owner() => self.own(),
                None => self.releases[node].take(),
            }
        });
        is_at(At::Outside);
        self.finish.meet();
    }

    /// What the owner does in its lock.
    fn own(&self) {
        self.turns[self.nodes() - 1].take();
        // The medium task takes the CPU at once, and the owner comes back here
        // when it has been lent the high task's priority.
        self.runs[0].leave();
        self.ran.store(H::now_ns(), Relaxed);
    }

    fn medium(&self) {
        self.runs[0].take();
        self.runs[1].leave();
        if let Ran::Out(_) = self.race.run(self.config.limit) {
            self.report().unbounded = true;
            self.stop.store(true, Relaxed);
        }
        self.finish.meet();
    }

    fn high(&self, forest: &Forest) {
        let is_at = |at| self.board.set(self.nodes() + 1, at);
        self.runs[1].take();
        is_at(At::Waits);
        let won = self.race.win(&self.locks[forest.asked]);
        is_at(At::Outside);
        forest
            .bystanders()
            .for_each(|root| self.releases[root].leave());
        self.finish.meet();
        let mut report = self.report();
        // An owner that kept its CPU was not waited for.
        let ran = self.ran.load(Relaxed).checked_sub(won.asked);
        if let (Some(ran), false) = (ran, report.unbounded) {
            report.owner_runs.record(ran).expect(GROWS);
            report.waits.record(won.wait).expect(GROWS);
        }
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the tasks get on, and tells who waits for what if not.
    fn look(&self) {
        let name = |task| match Member::of(task, self.nodes()) {
            Member::Node(node) => format!("owner {node}"),
            Member::Medium => "medium".into(),
            Member::High => "high".into(),
        };
        if let Some(tasks) = self.board.stuck(patience(self.config.limit), name) {
            (self.config.hung)(&tasks);
        }
    }
}
