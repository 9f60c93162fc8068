//! Workloads that load locks, measure them and check them: the same source
//! runs on every [`Host`].

pub mod antagonist;
mod board;
pub mod chains;
pub mod crowd;
pub mod explore;
pub mod futexblock;
pub mod futexhash;
pub mod futexpingpong;
pub mod locktest;
pub mod locktorture;
mod meet;
mod native;
pub mod pistress;
mod race;
mod simulated;
pub mod subjects;
mod workloads;

pub use lockyard_sim::Policy;
pub use native::{Native, NoThread};
pub use simulated::Simulated;
pub use workloads::{InSimulation, OnThreads};

use std::{
    mem::ManuallyDrop,
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

impl<R: lock_api::RawMutex + Send + Sync + 'static> Lock for lock_api::Mutex<R, ()> {
    fn new() -> Self {
        Self::new(())
    }
    #[inline]
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        holding(self.lock(), section)
    }
}

impl<R: lock_api::RawRwLock + Send + Sync + 'static> Lock for lock_api::RwLock<R, ()> {
    fn new() -> Self {
        Self::new(())
    }
    #[inline]
    fn with<T>(&self, section: impl FnOnce() -> T) -> T {
        holding(self.write(), section)
    }
    #[inline]
    fn read<T>(&self, section: impl FnOnce() -> T) -> T {
        holding(self.read(), section)
    }
}

/// Runs `section`, and then gives back what is held; not if the task is abandoned in it, for its
/// simulation has failed: the lock may be why, and panic once more.
#[inline]
fn holding<G, T>(held: G, section: impl FnOnce() -> T) -> T {
    let held = ManuallyDrop::new(held);
    let done = section();
    drop(ManuallyDrop::into_inner(held));
    done
}

/// What a workload needs of its world besides the lock: tasks, time and work.
pub trait Host: 'static {
    /// The world's name, as `--world` takes it.
    const NAME: &'static str;

    /// A word of the memory that tasks share: what a lock protects lies there.
    type Word: Word;

    /// What names a task to others.
    type Task: Copy + Send;

    /// Runs `body(0)` to `body(tasks - 1)`, each in a task of its own, all
    /// started together; sets `stop` after `duration` of the world's time, or
    /// at once after [`interrupt`]; and returns when all have ended, the
    /// nanoseconds from the start to the stop or to the end, whichever was first.
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

    /// Keeps the task's CPU busy until so much of the world's time has passed.
    fn busy(duration: Duration);

    /// Leaves the CPU to others for so long.
    fn sleep(duration: Duration);

    /// Lets others run, if any wait for the task's CPU.
    fn yield_now();

    /// Has the calling task scheduled by this policy.
    ///
    /// # Errors
    /// It may not be: a line says what to grant.
    fn schedule(policy: Policy) -> Result<(), String>;

    /// Sleeps while the word has this value, unless it is woken; a futex. Who
    /// changes the word then calls [`Host::wake`]. May return for no reason.
    fn wait(word: &Self::Word, value: u32);

    /// Wakes all tasks that sleep for the word.
    fn wake(word: &Self::Word);

    /// The calling task.
    fn me() -> Self::Task;

    /// The CPUs that the calling task may run on.
    fn cpus() -> Vec<usize>;

    /// Lets a task that has not ended run on these CPUs only.
    fn confine(task: Self::Task, cpus: &[usize]);

    /// Does `work`, and now and then, from outside of all tasks, `look`: the
    /// tasks of `work` may be stuck. A world that notices that itself, as its
    /// [`Host::run`] says, does not look.
    fn watched<R>(look: &(dyn Fn() + Sync), work: impl FnOnce() -> R) -> R;
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
