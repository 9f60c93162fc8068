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
//! and owner and leaves the mutex as it was. A thread that ends while it holds
//! a mutex leaves it locked; its number may later name another thread, which
//! then passes for the owner.
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

pub use lock_api::WaitTimeoutResult;
pub use lockyard_core::{mutex::PATIENCE_MICROS, osq};
use lockyard_linux::Linux;

/// The mutex without its data: sixteen bytes, all zero when unlocked.
pub type RawMutex<W = osq::Event> = lockyard_core::RawMutex<Linux, W>;

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
pub type Condvar = lock_api::Condvar<lockyard_core::Condvar<Linux>>;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
