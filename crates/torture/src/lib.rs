//! Workloads that load locks, measure them and check them: the same source
//! runs on every [`Host`].

pub mod explore;
pub mod locktest;
mod native;
mod simulated;
pub mod subjects;

pub use native::Native;
pub use simulated::Simulated;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lockyard_core::Word;

/// A lock under load.
pub trait Lock: Send + Sync + 'static {
    /// An unlocked lock.
    fn new() -> Self;
    /// Runs `section` while nobody else has the lock.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;
    /// Runs `section` while nobody else has the lock, or, if it is one for
    /// readers and writers, only readers have.
    #[inline]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.with(section)
    }
}

/// What a workload needs of its world besides the lock: tasks, time and work.
pub trait Host: 'static {
    /// The world's name, as `--world` takes it.
    const NAME: &'static str;

    /// A word of the memory that tasks share: what a lock protects lies there.
    type Word: Word;

    /// Runs `body(0)` to `body(tasks - 1)`, each in a task of its own, all
    /// started together; sets `stop` after `duration` of the world's time, or
    /// at once after [`interrupt`]; and waits for all of them. Returns the
    /// nanoseconds from the start to the stop.
    fn run(
        tasks: usize,
        duration: Duration,
        stop: &AtomicBool,
        body: &(dyn Fn(usize) + Sync),
    ) -> u64;

    /// The world's clock, in nanoseconds from an origin of its own.
    fn now_ns() -> u64;

    /// Computes for `units` steps of a chain of arithmetic, each about a
    /// nanosecond. A step waits for the one before, the first for `chain`; the
    /// last is returned, to be passed on, so that no two pieces of a task's
    /// work overlap in the processor.
    fn work(units: u32, chain: u64) -> u64;
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes every running and future workload stop at once: what was measured so
/// far is still reported. For a handler of Ctrl-C.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether [`interrupt`] was called.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
