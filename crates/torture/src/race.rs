//! A high task waits for a lock, and medium ones compute until it has it: who
//! should not run at all while it waits.

use std::{
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
    time::Duration,
};

use hdrhistogram::Histogram;
use lockyard_core::Word;

use crate::{Host, Lock, Policy};

/// How a task of a priority is scheduled.
pub(crate) fn policy(round_robin: bool, priority: u8) -> Policy {
    match round_robin {
        true => Policy::RoundRobin(priority),
        false => Policy::Fifo(priority),
    }
}

/// Nobody is said to hang before this.
pub(crate) fn patience(limit: Duration) -> Duration {
    Duration::from_secs(5) + 2 * limit
}

/// A histogram of times, in nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

/// How often a medium task looks whether high has the lock.
const STEP: Duration = Duration::from_micros(10);

/// Whether the high task has the lock, in this round.
#[repr(align(128))]
pub(crate) struct Race<H: Host>(H::Word);

/// The high task's wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Won {
    /// When it asked for the lock, on the world's clock.
    pub(crate) asked: u64,
    /// The nanoseconds from then until it had it.
    pub(crate) wait: u64,
}

/// What became of a medium task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ran {
    /// High had the lock before it ran at all.
    Never,
    /// It ran for so many nanoseconds, until high had the lock.
    For(u64),
    /// It ran for so many, beyond the limit, and gave up.
    Out(u64),
}

impl<H: Host> Race<H> {
    pub(crate) fn new() -> Self {
        Self(Word::ZERO)
    }

    /// Before a round: high does not have the lock.
    pub(crate) fn prepare(&self) {
        self.0.store(0, Relaxed); // all meet before anybody looks
    }

    /// The high task takes the lock and leaves it.
    pub(crate) fn win<L: Lock>(&self, lock: &L) -> Won {
        let asked = H::now_ns();
        lock.with(|| {
            let wait = H::now_ns().saturating_sub(asked);
            self.0.store(1, Release); // (W)
            Won { asked, wait }
        })
    }

    /// A medium task computes until high has the lock, or up to the limit.
    pub(crate) fn run(&self, limit: Duration) -> Ran {
        let won = || self.0.load(Acquire) == 1; // (W)
        if won() {
            return Ran::Never;
        }
        let limit = limit.as_nanos() as u64;
        let begin = H::now_ns();
        loop {
            H::busy(STEP);
            // In this order: it may have been off its CPU, and high on one.
            let ran = H::now_ns().saturating_sub(begin);
            match (won(), ran > limit) {
                (true, _) => return Ran::For(ran),
                (false, true) => return Ran::Out(ran),
                (false, false) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;

    struct Plain(std::sync::Mutex<()>);

    impl Lock for Plain {
        fn new() -> Self {
            Self(std::sync::Mutex::new(()))
        }
        fn with<R>(&self, section: impl FnOnce() -> R) -> R {
            let _held = self.0.lock().expect("no section panics");
            section()
        }
    }

    #[test]
    fn a_medium_task_runs_only_until_high_has_the_lock() {
        let (race, lock) = (Race::<Native>::new(), Plain::new());
        let millisecond = Duration::from_millis(1);
        for _ in 0..2 {
            race.prepare();
            let Ran::Out(ns) = race.run(millisecond) else {
                panic!("nobody asked for the lock");
            };
            assert!(ns > 1_000_000, "{ns}");
            let before = Native::now_ns();
            let won = race.win(&lock);
            assert!(won.asked >= before && won.asked + won.wait <= Native::now_ns());
            assert_eq!(race.run(millisecond), Ran::Never);
        }
    }
}
