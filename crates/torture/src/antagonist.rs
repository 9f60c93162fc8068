//! The story behind seed 002: a task moves processes between groups, for which it
//! writes, while an antagonist group under a CPU quota holds tasks that fork, for
//! which they read, and tasks that only compute.
//!
//! How long a fork and a move take is an estimate; nothing else is given.

use std::{
    hint::black_box,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hdrhistogram::Histogram;

use crate::{Host, Lock, Policy};

/// Work units under the lock of a fork, and between two: some 100 µs, of which most
/// copies the address space; and a short life of the child.
const FORK: u32 = 100_000;
const LIFE: u32 = 400_000;
/// Work units under the lock of a move.
const MOVE: u32 = 50_000;
/// How long the mover pauses between two moves.
const PAUSE: Duration = Duration::from_millis(10);

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Moves processes; outside of the antagonist group.
    Mover,
    /// Forks, again and again.
    Forker,
    /// Computes.
    Soaker,
}

/// What a run does.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    /// Tasks that fork.
    pub forkers: usize,
    /// Tasks that compute.
    pub soakers: usize,
    /// How long, in the world's time.
    pub duration: Duration,
    /// Whether nobody is preempted while inside the lock, as in a kernel without
    /// preemption: who is in has a real-time priority, once it is on a CPU.
    pub unpreempted: bool,
    /// Called first by each task: puts it into the antagonist group, or leaves it
    /// out.
    pub enlist: &'a (dyn Fn(Role) + Sync),
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// Nanoseconds from the start to the stop.
    pub elapsed_ns: u64,
    /// The mover's waits for the lock, each of them, in nanoseconds.
    pub waits: Histogram<u64>,
    /// Forks of all forkers.
    pub forks: u64,
}

/// The lock at the beginning of a line: where it lies must not decide what is simulated.
#[repr(align(128))]
struct Aligned<L>(L);

/// Runs the mover beside its antagonists.
pub fn run<H: Host, L: Lock>(config: &Config<'_>) -> Report {
    let (Aligned(ref lock), stop) = (Aligned(L::new()), AtomicBool::new(false));
    let waits = Mutex::new(Histogram::new(3).expect("3 significant digits are valid"));
    let forks = AtomicU64::new(0);
    let tasks = 1 + config.forkers + config.soakers;
    let elapsed_ns = H::run(tasks, config.duration, &stop, &|task| {
        let role = match task {
            0 => Role::Mover,
            task if task <= config.forkers => Role::Forker,
            _ => Role::Soaker,
        };
        (config.enlist)(role);
        let mut chain = 1;
        while !stop.load(Relaxed) {
            chain = match role {
                Role::Mover => {
                    H::sleep(PAUSE);
                    let begin = H::now_ns();
                    let (wait, chain) = lock.with(|| {
                        let wait = H::now_ns().saturating_sub(begin);
                        (wait, inside::<H>(config, MOVE, chain))
                    });
                    let mut waits = waits.lock().expect("no task panics here");
                    waits.record(wait).expect("the histogram grows");
                    chain
                }
                Role::Forker => {
                    let chain = lock.read(|| inside::<H>(config, FORK, chain));
                    forks.fetch_add(1, Relaxed);
                    H::work(LIFE, chain)
                }
                Role::Soaker => H::work(FORK, chain),
            };
        }
        black_box(chain);
    });
    Report {
        elapsed_ns,
        waits: waits.into_inner().expect("no task panicked"),
        forks: forks.into_inner(),
    }
}

/// Works while inside the lock.
///
/// # Panics
/// When the task may not have a real-time priority and is to.
fn inside<H: Host>(config: &Config<'_>, units: u32, chain: u64) -> u64 {
    let schedule = |policy| {
        if config.unpreempted {
            H::schedule(policy).unwrap_or_else(|why| panic!("{why}"));
        }
    };
    schedule(Policy::Fifo(1));
    let chain = H::work(units, chain);
    schedule(Policy::Fair);
    chain
}
