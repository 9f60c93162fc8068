//! The best sleeping locks outside a kernel.
//!
//! They spin while the owner runs and sleep when it does not, hand over in
//! order when somebody has waited for long, and are released without an atomic
//! read-modify-write.
//!
//! ```
//! use lockyard::Mutex;
//!
//! static HITS: Mutex<u32> = Mutex::new(0);
//!
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| *HITS.lock() += 1);
//!     }
//! });
//! assert_eq!(*HITS.lock(), 4);
//! ```
//!
//! # Misuse
//!
//! Locking a mutex that the calling thread holds already, and unlocking one
//! that it does not hold (which takes `unsafe`), panics with the lock's address
//! and owner and leaves the mutex as it was. The same goes for the writer of an
//! [`RwLock`]; of readers it knows only how many there are. A thread that ends while it holds
//! a mutex leaves it locked; its number may later name another thread, which
//! then passes for the owner.
//!
//! # Deadlocks
//!
//! With the feature `deadlock` every lock of this crate but [`RobustPiMutex`] and the futex
//! is watched: a deadlock is reported on standard error, with the stacks of those who could
//! get into it, when it becomes possible; and some misuse with the stack of the holder.
//! `docs/deadlock.md` says what is reported. Locks are eight bytes larger then, and
//! each takes a tenth of a microsecond more. Without it nothing of it is there.
//!
//! # Fork
//!
//! In a fork's child the forking thread still holds what it held, and may
//! unlock it: threads that waited in the parent are not waited for. As with
//! any lock, one that another thread held or was just queueing up for at the
//! moment of the fork stays as it was for ever.
//!
//! # Signal handlers
//!
//! A handler must not lock: like glibc's, these locks are not
//! async-signal-safe.
//!
//! # The process
//!
//! A process that forbids itself the system call `membarrier` after it has started, by
//! seccomp, stops at a contended lock. A shared library with these locks in it stays loaded
//! when it is closed; one that has them from another, a Rust `dylib`, must not be closed.

pub mod futex;
mod robust;
#[cfg(feature = "deadlock")]
mod watched;

/// The locks as they are.
#[cfg(not(feature = "deadlock"))]
mod watched {
    pub type Mutex<R> = R;
    pub type Condvar<C> = C;
    pub type RwLock<R> = R;
}

pub use lock_api::WaitTimeoutResult;
pub use lockyard_core::{mutex::PATIENCE_MICROS, osq, percpu_rwsem, pimutex, rwsem};
pub use lockyard_linux::condvar::RawPiCondvar;
pub use lockyard_linux::prepare_thread;
use lockyard_linux::{Linux, LinuxPi};
pub use robust::{OwnerDied, RobustPiMutex};

/// The mutex without its data: sixteen bytes, all zero when unlocked.
pub type RawMutex<W = osq::Event> = watched::Mutex<lockyard_core::RawMutex<Linux, W>>;

/// A mutual-exclusion lock around a `T`.
///
/// A thread that finds it held spins while the owner is on a CPU, and sleeps
/// when the owner is not, or when the spinner itself has been descheduled.
/// Running threads overtake sleeping ones, for up to [`PATIENCE_MICROS`]; then
/// the first sleeper is given the lock.
///
/// It has no poisoning: a thread that panics while it holds the guard unlocks.
///
/// ```
/// use std::time::Duration;
/// use lockyard::{Mutex, MutexGuard};
///
/// let pair = Mutex::new((1, 2));
/// let mut right = MutexGuard::map(pair.lock(), |pair| &mut pair.1);
/// *right += 1;
/// assert!(pair.try_lock_for(Duration::from_millis(1)).is_none());
/// drop(right);
/// assert_eq!(*pair.lock(), (1, 3));
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to a locked [`Mutex`]'s data; unlocks when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// Access to a part of a locked [`Mutex`]'s data; unlocks when dropped.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A condition variable for a [`Mutex`]: eight bytes, all zero when nobody
/// waits.
///
/// Notified waiters move to the mutex's queue asleep, and wake when it is
/// theirs to take. There are no spurious wake-ups, but the condition may have
/// changed again: wait in a loop, or with `wait_while`.
///
/// ```
/// use lockyard::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// let waiter = std::thread::spawn(|| {
///     let mut ready = READY.lock();
///     CHANGED.wait_while(&mut ready, |ready| !*ready);
/// });
/// *READY.lock() = true;
/// CHANGED.notify_one();
/// waiter.join().unwrap();
/// ```
pub type Condvar = lock_api::Condvar<watched::Condvar<lockyard_core::Condvar<Linux>>>;

/// The mutex with priority inheritance without its data: 24 bytes, all zero when
/// unlocked. `S` says who waits in the kernel; see [`pimutex`].
pub type RawPiMutex<S = pimutex::Adaptive> = watched::Mutex<lockyard_core::RawPiMutex<LinuxPi, S>>;

/// A mutual-exclusion lock around a `T` whose owner runs at the priority of the most
/// urgent real-time thread that waits for it.
///
/// Among threads that are scheduled fairly it is as fast as [`Mutex`], and waits as
/// that does. A thread under `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE` that waits, and
/// one that owns another mutex of this kind, waits by the kernel's priority-inheriting
/// futex. `docs/priority.md` says what is promised, and what is not.
///
/// It has no poisoning: a thread that panics while it holds the guard unlocks.
///
/// # Panics
/// Locking one that the calling thread holds already panics. So does locking one whose
/// owner waits for what the caller owns, where the kernel notices.
///
/// # Fork
/// A fork's child must not use one that the forking thread held: it is held by a thread
/// of the parent.
///
/// ```
/// use std::time::Duration;
/// use lockyard::PiMutex;
///
/// static SETPOINT: PiMutex<i32> = PiMutex::new(0);
///
/// *SETPOINT.lock() += 1;
/// if let Some(mut setpoint) = SETPOINT.try_lock_for(Duration::from_millis(1)) {
///     *setpoint += 1;
/// }
/// assert_eq!(*SETPOINT.lock(), 2);
/// ```
pub type PiMutex<T, S = pimutex::Adaptive> = lock_api::Mutex<RawPiMutex<S>, T>;

/// Access to a locked [`PiMutex`]'s data; unlocks when dropped.
pub type PiMutexGuard<'a, T, S = pimutex::Adaptive> = lock_api::MutexGuard<'a, RawPiMutex<S>, T>;

/// Access to a part of a locked [`PiMutex`]'s data; unlocks when dropped.
pub type MappedPiMutexGuard<'a, T, S = pimutex::Adaptive> =
    lock_api::MappedMutexGuard<'a, RawPiMutex<S>, T>;

/// A condition variable that wakes by priority: eight bytes, all zero when nobody
/// waits.
///
/// A notification wakes the waiter of the highest real-time priority, and of equals
/// the one that has waited longest. `RawPiCondvar` says what that is worth, and when
/// to notify with the mutex held. `notify_one` returns `false` and `notify_all` 0, for
/// nobody knows whom the kernel woke, and a waiter may wake without a notification:
/// wait in a loop, or with `wait_while`.
///
/// ```
/// use lockyard::{PiCondvar, PiMutex};
///
/// static READY: PiMutex<bool> = PiMutex::new(false);
/// static CHANGED: PiCondvar = PiCondvar::new();
///
/// let waiter = std::thread::spawn(|| {
///     let mut ready = READY.lock();
///     CHANGED.wait_while(&mut ready, |ready| !*ready);
/// });
/// *READY.lock() = true;
/// CHANGED.notify_one();
/// waiter.join().unwrap();
/// ```
pub type PiCondvar<M = RawPiMutex> = lock_api::Condvar<RawPiCondvar<M>>;

/// The reader-writer lock without its data: 24 bytes, all zero when unlocked.
pub type RawRwLock<C = rwsem::Lockless, W = osq::Event> =
    watched::RwLock<lockyard_core::RawRwLock<Linux, C, W>>;

/// A lock around a `T` for many readers or one writer.
///
/// Who finds it held spins while the writer is on a CPU, and for some microseconds
/// while readers have it. Then they sleep; readers are let in together. Running
/// threads overtake sleeping ones, and readers that come join readers past a writer
/// that sleeps, for up to [`PATIENCE_MICROS`]. Then the first sleeper is woken, and is
/// next as soon as it runs; where more threads than CPUs keep it from running, once it
/// has waited for six times as long. So a thread that reads already and reads again may
/// wait for a writer that waits for it.
///
/// It has no poisoning: a thread that panics while it holds a guard unlocks. Where a read
/// guard was forgotten, nobody writes any more: to that lock, or if it was moved away, to
/// another that is moved there.
///
/// ```
/// use lockyard::{RwLock, RwLockWriteGuard};
///
/// static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// let mut names = NAMES.write();
/// names.push("a");
/// let names = RwLockWriteGuard::downgrade(names); // nobody writes in between
/// assert_eq!(NAMES.read().len(), names.len());
/// ```
///
/// While nobody writes, its readers come to write to nothing that another thread
/// writes to; a writer ends that, at the price of a `membarrier`, and it comes back
/// when the lock has been read for a while.
///
/// One reader at a time may be upgradable: it becomes the writer without
/// letting another write before.
///
/// ```
/// use lockyard::{RwLock, RwLockUpgradableReadGuard};
///
/// let cache = RwLock::new(None);
/// let found = cache.upgradable_read();
/// if found.is_none() {
///     *RwLockUpgradableReadGuard::upgrade(found) = Some(7);
/// }
/// assert_eq!(*cache.read(), Some(7));
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// A reader's access to a locked [`RwLock`]'s data; unlocks when dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The writer's access to a locked [`RwLock`]'s data; unlocks when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The access of the reader of a locked [`RwLock`] that may become the writer;
/// unlocks when dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// A reader's access to a part of a locked [`RwLock`]'s data; unlocks when
/// dropped.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// The writer's access to a part of a locked [`RwLock`]'s data; unlocks when
/// dropped.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// The per-CPU reader-writer lock without its data: 32 bytes, all zero when unlocked.
/// `G` says who gets it from a writer; see [`percpu_rwsem`].
pub type RawPercpuRwLock<G = percpu_rwsem::Bounded> =
    watched::RwLock<lockyard_core::RawPercpuRwLock<Linux, G>>;

/// A lock around a `T` that is read all the time and written seldom.
///
/// A reader writes to nothing that another CPU writes to: it counts itself on its
/// own CPU, without an atomic instruction or a barrier. So readers do not slow each
/// other down, however many there are. The writer pays: it interrupts the threads of
/// the process that are on a CPU (`membarrier`), unless another wrote just before,
/// and adds up the counts of all CPUs. For half a millisecond after a writer, readers
/// pay for a fence.
///
/// Choose it for configuration, routing tables, caches: where thousands of reads
/// come on each write. Choose [`RwLock`] where writers come often or must not wait,
/// where a reader is to wait briefly without sleeping, for an upgradable reader, and
/// for very many locks: each of these takes sixteen bytes for every CPU as well,
/// from its first use until it is dropped. A program can have 4 million at a time.
///
/// A writer lets no further reader in, and waits for those that are in. So a thread
/// must not read again what it reads already: a writer that came in between waits
/// for the first, and the second for the writer. A thread that waits may be overtaken
/// for up to [`PATIENCE_MICROS`]. A read guard may be sent to another thread.
///
/// It has no poisoning: a thread that panics while it holds a guard unlocks.
///
/// ```
/// use lockyard::{PercpuRwLock, PercpuRwLockWriteGuard};
///
/// static ROUTES: PercpuRwLock<Vec<&str>> = PercpuRwLock::new(Vec::new());
///
/// let mut routes = ROUTES.write();
/// routes.push("a");
/// let routes = PercpuRwLockWriteGuard::downgrade(routes); // nobody writes in between
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| assert_eq!(ROUTES.read().len(), 1));
///     }
/// });
/// drop(routes);
/// ```
///
/// In a fork's child a lock that another thread of the parent had for reading keeps
/// that reader for ever; writers of the child wait for it.
pub type PercpuRwLock<T> = lock_api::RwLock<RawPercpuRwLock, T>;

/// A reader's access to a locked [`PercpuRwLock`]'s data; unlocks when dropped, by
/// whichever thread.
pub type PercpuRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawPercpuRwLock, T>;

/// The writer's access to a locked [`PercpuRwLock`]'s data; unlocks when dropped.
pub type PercpuRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawPercpuRwLock, T>;

/// A reader's access to a part of a locked [`PercpuRwLock`]'s data; unlocks when
/// dropped.
pub type MappedPercpuRwLockReadGuard<'a, T> =
    lock_api::MappedRwLockReadGuard<'a, RawPercpuRwLock, T>;

/// The writer's access to a part of a locked [`PercpuRwLock`]'s data; unlocks when
/// dropped.
pub type MappedPercpuRwLockWriteGuard<'a, T> =
    lock_api::MappedRwLockWriteGuard<'a, RawPercpuRwLock, T>;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
