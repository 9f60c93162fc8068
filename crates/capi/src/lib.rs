//! lockyard: sleeping locks that spin while the owner runs and sleep when it does not.
//!
//! Initialising. Zero bytes are an unlocked lock: a LOCKYARD_..._INITIALIZER, memory from
//! calloc and a static without an initialiser are ready for use, and so is what an _init
//! function has set. A lock must not be moved or copied while anybody uses it, and is for
//! the threads of one process. No pointer may be null unless its function
//! says so.
//!
//! Results. Functions return 0, or a number of errno.h; errno means nothing after them.
//! Signals do not interrupt them, and they are no cancellation points, but for one: the
//! process's first use of a lockyard_percpu_rwlock_t reads a file, and no thread may be
//! cancelled there.
//!
//! Deadlines. A struct timespec is a moment of CLOCK_MONOTONIC (clock_gettime), not a
//! duration. One of which tv_nsec is not in [0, 999999999] gives EINVAL, also where the
//! lock is free. What can be taken at once is taken even when the deadline has passed.
//!
//! Misuse. Who takes what it holds already as its owner or writer is told so by EDEADLK,
//! who releases what it does not hold by EPERM, and the lock is as before. Of readers a
//! lock knows only how many there are: a thread that reads and wants to write waits for
//! itself for ever. What cannot be told so ends the process with a message on standard
//! error: 2^24 readers of one rwlock; a deadlock through several priority-inheriting mutexes
//! that the kernel has noticed; no memory for the records of more threads, for the queues of
//! the futex, which the first wait maps, or for the counters of lockyard_percpu_rwlock_t, which
//! the first in use maps, and each 4096th after it. No function unwinds. A thread that ends while
//! it holds a lock leaves it locked; its number may later name another thread, which then passes
//! for the owner or writer, and is told so by EDEADLK, and may release the lock.
//!
//! Forks and signals. In a fork's child the forking thread holds what it held (but for
//! lockyard_pimutex_t); what other threads held stays locked for ever. A signal handler
//! must not use any of these functions.
//!
//! The process. One that forbids itself the system call membarrier after it has started, by
//! seccomp, stops at a contended lock. Any lock may read the processor's time-stamp counter:
//! on x86, one that forbids itself that, by prctl(PR_SET_TSC, PR_TSC_SIGSEGV) or by strict
//! seccomp, which does so, too, may be ended there by SIGSEGV. The library stays loaded.

use std::{ffi::c_int, marker::PhantomData, ops::Deref};

use libc::{EINVAL, ETIMEDOUT, timespec};
use lockyard_core::Deadline;
use lockyard_linux::clock;

mod mutex;
mod pimutex;
mod rwlock;

mod futex; // last in the header, too

/// A `T` that C sees as a `C`, which the header has. Its bytes are zero at first.
#[repr(transparent)]
pub struct Opaque<T, C>(T, PhantomData<C>);

impl<T, C> Opaque<T, C> {
    const fn new(zero: T) -> Self {
        Self(zero, PhantomData)
    }
}

impl<T, C> Deref for Opaque<T, C> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        const {
            assert!(size_of::<T>() == size_of::<C>());
            assert!(align_of::<T>() == align_of::<C>());
        }
        &self.0
    }
}

/// The deadline at a moment of `CLOCK_MONOTONIC`. What lies before its beginning has
/// passed.
///
/// # Errors
/// `EINVAL`.
fn deadline(at: &timespec) -> Result<Deadline, c_int> {
    const SECOND: u64 = 1_000_000_000;
    let nanos = u64::try_from(at.tv_nsec).map_err(|_| EINVAL)?;
    if nanos >= SECOND {
        return Err(EINVAL);
    }
    let seconds = u64::try_from(at.tv_sec);
    let deadline = seconds.map(|seconds| seconds.saturating_mul(SECOND).saturating_add(nanos));
    Ok(clock::monotonic(deadline.unwrap_or(0)))
}

/// Waits until a moment of `CLOCK_MONOTONIC` at the latest: `wait` says whether it got
/// what it waited for.
fn until(at: &timespec, wait: impl FnOnce(Deadline) -> bool) -> c_int {
    match deadline(at) {
        Ok(deadline) => result(wait(deadline), ETIMEDOUT),
        Err(error) => error,
    }
}

/// 0, or what went wrong.
#[inline(always)]
fn result(done: bool, error: c_int) -> c_int {
    if done { 0 } else { error }
}
