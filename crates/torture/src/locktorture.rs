//! The kernel's locktorture, for any lock in any world: writers and readers
//! hold a lock for odd lengths of time, pause together, are moved between CPUs
//! and get real-time priorities, and whoever is in looks who else is.

mod delays;
mod guarded;

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;

use crate::{
    Host, Lock, Policy,
    board::{At, Board},
};
pub use delays::Delays;
use delays::{Role, Stay};
use guarded::Guarded;

/// How long a task sleeps once in [`SELDOM`] rounds: the kernel's jiffy at 250 Hz.
const JIFFY: Duration = Duration::from_millis(4);
const SELDOM: u32 = 1 << 20;

/// Whoever sleeps looks so often whether the run has ended.
const NAP: Duration = Duration::from_millis(100);

/// A writer becomes a real-time task once in so many rounds, and stops being one
/// once in twice as many, for each writer.
const BOOST: usize = 50;

/// Nobody is said to hang before this and the longest time for which all may
/// rightly stand still.
const GENEROUS: Duration = Duration::from_secs(30);

/// What a run does.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    /// Tasks that have the lock for themselves.
    pub writers: usize,
    /// Tasks that share it with each other.
    pub readers: usize,
    /// How long, in the world's time.
    pub duration: Duration,
    /// How long tasks hold the lock.
    pub delays: Delays,
    /// The unit of long holds, from a millisecond to five seconds: the longest
    /// is ten of it.
    pub long_hold: Duration,
    /// How long tasks keep their CPU busy between an unlock and the next lock.
    pub gap: Duration,
    /// All tasks run for so long, and pause for so long; zero: they never pause.
    pub stutter: Duration,
    /// Every so often another CPU is the one where no task may run; zero: never.
    pub shuffle: Duration,
    /// Whether writers become real-time tasks for a while. Where they may not,
    /// the run panics: ask [`Host::schedule`] first.
    pub boost: bool,
    /// Seed of the dice.
    pub seed: u64,
    /// Told which tasks wait for what when none has got on for long, in a world
    /// that does not notice itself. Should it return, it is told again.
    pub hung: &'a (dyn Fn(&str) + Sync),
}

/// What tasks of a kind did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How often each had the lock.
    pub per_task: Vec<u64>,
    /// How often one of them found somebody in who should not be, or the
    /// protected value half written.
    pub failures: u64,
    /// The longest wait for the lock.
    pub longest_wait_ns: u64,
}

impl Counts {
    /// How often they had the lock, all together.
    pub fn total(&self) -> u64 {
        self.per_task.iter().sum()
    }

    fn add(&mut self, tally: &Tally) {
        self.per_task.push(tally.rounds);
        self.failures += tally.failures;
        self.longest_wait_ns = self.longest_wait_ns.max(tally.longest_wait_ns);
    }
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Nanoseconds from the start to the stop.
    pub elapsed_ns: u64,
    /// What the writers did.
    pub writes: Counts,
    /// What the readers did.
    pub reads: Counts,
}

impl Report {
    /// How often tasks found somebody in who should not be.
    pub fn failures(&self) -> u64 {
        self.writes.failures + self.reads.failures
    }
}

/// Tortures a lock.
///
/// # Panics
/// When `boost` is asked for and not allowed, or the lock panics.
pub fn run<H: Host, L: Lock>(config: &Config<'_>) -> Report {
    let run = Run::<H, L>::new(config);
    let look = || run.look();
    let tasks = run.tasks() + usize::from(!config.shuffle.is_zero());
    let elapsed_ns = H::watched(&look, || {
        H::run(tasks, config.duration, &run.stop, &|task| run.task(task))
    });
    run.report(elapsed_ns)
}

/// What a task counts.
#[derive(Clone, Copy, Default)]
struct Tally {
    rounds: u64,
    failures: u64,
    longest_wait_ns: u64,
}

/// A run; its tasks are the writers, then the readers, then who shuffles them.
struct Run<'a, H: Host, L> {
    config: &'a Config<'a>,
    tortured: Tortured<L, H::Word>,
    stop: AtomicBool,
    /// When the first task began.
    begin: OnceLock<u64>,
    board: Board,
    /// Those that have begun and not ended. Nobody waits while it has the guard:
    /// tasks of a simulation share a thread.
    active: Mutex<Vec<Option<H::Task>>>,
    tallies: Mutex<Vec<Tally>>,
}

/// The lock and, on lines of its own, what it protects.
#[repr(align(128))]
struct Tortured<L, W> {
    lock: L,
    guarded: Guarded<W>,
}

/// A writer or a reader.
struct Member {
    task: usize,
    role: Role,
    dice: Rng,
    boosted: bool,
    tally: Tally,
}

impl<'a, H: Host, L: Lock> Run<'a, H, L> {
    fn new(config: &'a Config<'a>) -> Self {
        let tasks = config.writers + config.readers;
        Self {
            config,
            tortured: Tortured {
                lock: L::new(),
                guarded: Guarded::new(),
            },
            stop: AtomicBool::new(false),
            begin: OnceLock::new(),
            board: Board::new(tasks),
            active: Mutex::new(vec![None; tasks]),
            tallies: Mutex::new(vec![Tally::default(); tasks]),
        }
    }

    fn tasks(&self) -> usize {
        self.config.writers + self.config.readers
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn role(&self, task: usize) -> Role {
        match task < self.config.writers {
            true => Role::Writer,
            false => Role::Reader,
        }
    }

    fn task(&self, task: usize) {
        let now = H::now_ns();
        let begin = *self.begin.get_or_init(|| now);
        if task == self.tasks() {
            self.shuffle(begin);
            return;
        }
        let mut member = Member {
            task,
            role: self.role(task),
            dice: Rng::with_seed(self.config.seed ^ (task as u64 + 1) << 32),
            boosted: false,
            tally: Tally::default(),
        };
        guard(&self.active)[task] = Some(H::me());
        while !self.stops() {
            self.round(&mut member);
            self.stutter(begin);
        }
        guard(&self.active)[task] = None;
        guard(&self.tallies)[task] = member.tally;
        self.board.set(task, At::Ended);
    }

    fn round(&self, member: &mut Member) {
        if member.dice.u32(0..SELDOM) == 0 {
            H::sleep(JIFFY);
        }
        if self.config.boost && member.role == Role::Writer {
            self.boost(member);
        }
        let Tortured { lock, guarded } = &self.tortured;
        let (task, role) = (member.task, member.role);
        self.board.set(task, At::Waits);
        let begin = H::now_ns();
        let section = || {
            let wait = H::now_ns().saturating_sub(begin);
            self.board.set(task, At::Inside);
            let sound = guarded.visit(role, || self.stay(member));
            (wait, sound)
        };
        let (wait, sound) = match role {
            Role::Writer => lock.with(section),
            Role::Reader => lock.read(section),
        };
        self.board.set(task, At::Outside);
        if !self.config.gap.is_zero() {
            H::busy(self.config.gap);
        }
        let tally = &mut member.tally;
        tally.rounds += 1;
        tally.failures += u64::from(!sound);
        tally.longest_wait_ns = tally.longest_wait_ns.max(wait);
    }

    /// Once the run is over nobody stays: those who wait shall get through.
    fn stay(&self, member: &mut Member) {
        if self.stops() {
            return;
        }
        let Config {
            writers,
            readers,
            delays,
            long_hold,
            ..
        } = *self.config;
        let peers = match member.role {
            Role::Writer => writers,
            Role::Reader => readers,
        };
        let stay = delays.stay(member.role, peers, long_hold, &mut member.dice);
        let Stay {
            busy,
            preempted,
            sleeps,
        } = stay;
        if !busy.is_zero() {
            H::busy(busy);
        }
        if preempted {
            H::yield_now();
        }
        if !sleeps.is_zero() {
            H::sleep(sleeps);
        }
    }

    /// Now and then a writer gets or loses its real-time priority.
    fn boost(&self, member: &mut Member) {
        let seldom = self.config.writers * BOOST * if member.boosted { 2 } else { 1 };
        if member.dice.usize(0..seldom) == 0 {
            member.boosted = !member.boosted;
            let policy = match member.boosted {
                true => Policy::Fifo(1),
                false => Policy::Fair,
            };
            H::schedule(policy).unwrap_or_else(|why| panic!("{why}"));
        }
    }

    /// Pauses while all pause.
    fn stutter(&self, begin: u64) {
        if let Some(period) = nanos(self.config.stutter) {
            let passed = H::now_ns().saturating_sub(begin) / period;
            if passed % 2 == 1 {
                self.sleep_until(begin + (passed + 1) * period);
            }
        }
    }

    /// Leaves each CPU in turn to others, and then none.
    fn shuffle(&self, begin: u64) {
        let cpus = H::cpus();
        let period = nanos(self.config.shuffle).expect("somebody shuffles only then");
        for turn in 0.. {
            self.sleep_until(begin + (turn as u64 + 1) * period);
            if self.stops() || cpus.len() == 1 {
                return;
            }
            let left = cpus.get(turn % (cpus.len() + 1));
            let others = cpus.iter().filter(|&cpu| Some(cpu) != left);
            let others: Vec<usize> = others.copied().collect();
            for &task in guard(&self.active).iter().flatten() {
                H::confine(task, &others);
            }
        }
    }

    /// Sleeps until then or the end of the run.
    fn sleep_until(&self, then: u64) {
        while !self.stops() {
            let left = Duration::from_nanos(then.saturating_sub(H::now_ns()));
            if left.is_zero() {
                return;
            }
            H::sleep(left.min(NAP));
        }
    }

    /// Looks whether the tasks get on, and tells who waits for what if not.
    fn look(&self) {
        let Config {
            long_hold,
            stutter,
            hung,
            ..
        } = *self.config;
        let patience = GENEROUS + 10 * long_hold + stutter;
        if let Some(tasks) = self.board.stuck(patience, |task| self.name(task)) {
            hung(&tasks);
        }
    }

    fn name(&self, task: usize) -> String {
        let (kind, number) = match self.role(task) {
            Role::Writer => ("writer", task),
            Role::Reader => ("reader", task - self.config.writers),
        };
        format!("{kind} {}", number + 1)
    }

    fn report(&self, elapsed_ns: u64) -> Report {
        let tallies = guard(&self.tallies);
        let (writers, readers) = tallies.split_at(self.config.writers);
        let counts = |tallies: &[Tally]| {
            let mut counts = Counts::default();
            tallies.iter().for_each(|tally| counts.add(tally));
            counts
        };
        Report {
            elapsed_ns,
            writes: counts(writers),
            reads: counts(readers),
        }
    }
}

/// The guard of a mutex; a task that panics does so without one.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds, if there are any.
fn nanos(duration: Duration) -> Option<u64> {
    let nanos = duration.as_nanos() as u64;
    (nanos > 0).then_some(nanos)
}
