//! The condition variable: ours is its address, no more.
//!
//! Waiters stand in the process's table of queues, known by the address; so nothing of the
//! object is touched to wait or to wake, and it may be destroyed as soon as its waiters are
//! woken. Its bytes are the C library's, whose `pthread_cond_init` and `pthread_cond_destroy`
//! are not replaced: of them we read what its deadlines mean, and whether processes share it.
//!
//! Who signals most often has the mutex, and whoever is woken then would sleep again for that;
//! so it is moved to the queue of that, and woken once, when it is unlocked.
//!
//! Who waits with a mutex of ours waits in our queue, and with one of the C library's in
//! its own. At any time all wait with the same mutex, so there are never both; and who
//! signals, which does not know, signals both. Where processes share it, who signals may be in
//! another one, and all wait in the C library's queue: see `wait_among_processes`.
//!
//! # Cancellation
//!
//! A wait is a cancellation point. `pthread_cancel` also ends a wait of ours, and whoever
//! finds its wait ended so takes the mutex again and then lets itself be cancelled: it is
//! unwound from here, not from inside a lock. A waiter that was signalled as well returns,
//! and is cancelled at the next such point: no signal is lost.

use std::{ffi::c_int, mem::MaybeUninit, ptr, sync::atomic::AtomicU32};

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EPERM, ETIMEDOUT, clockid_t, pthread_t, timespec};
use lockyard_core::{Deadline, RawMutex};
use lockyard_linux::{
    Linux,
    futex::{self, WaitedAfter},
    interrupt,
};

use crate::{
    layout,
    mutex::{self, Mutex, Partner, pthread_mutex_lock, pthread_mutex_unlock},
    next, policy,
    time::Until,
};

/// What lies in a `pthread_cond_t` is the C library's.
#[repr(C)]
pub struct Cond([u64; 6]);

const _: () = assert!(size_of::<Cond>() == size_of::<libc::pthread_cond_t>());

unsafe extern "C-unwind" {
    /// In the C library; it may unwind the thread.
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// How a wait ended.
enum Ended {
    With(c_int),
    /// Somebody may have cancelled the thread.
    Interrupted,
}

/// # Safety
/// As POSIX has it, here and for all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(cond: *mut Cond, mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match mutex::partner(mutex) {
            None => next::pthread_cond_wait(cond, mutex),
            Some(partner) => wait(cond, mutex, partner, None),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut Cond,
    mutex: *mut Mutex,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        let Some(partner) = mutex::partner(mutex) else {
            return next::pthread_cond_timedwait(cond, mutex, at);
        };
        let clock = match layout::is_monotonic(cond) {
            true => CLOCK_MONOTONIC,
            false => CLOCK_REALTIME,
        };
        wait(cond, mutex, partner, Some(Until { clock, at }))
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut Cond,
    mutex: *mut Mutex,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match mutex::partner(mutex) {
            None => next::pthread_cond_clockwait(cond, mutex, clock, at),
            Some(partner) => wait(cond, mutex, partner, Some(Until { clock, at })),
        }
    }
}

/// Waits with a mutex of ours.
///
/// # Safety
/// As for `pthread_cond_wait`.
unsafe fn wait(
    cond: *mut Cond,
    mutex: *mut Mutex,
    partner: Partner<'_>,
    until: Option<Until>,
) -> c_int {
    // SAFETY: the caller's.
    let deadline = until.map(|until| unsafe { until.deadline() }).transpose();
    let deadline = match deadline {
        Ok(deadline) if partner.may_wait => deadline,
        Ok(_) => return EPERM,
        Err(error) => return error,
    };
    partner.waits();
    // SAFETY: the caller's.
    if unsafe { layout::is_shared(cond) } {
        // SAFETY: the caller's.
        return unsafe { wait_among_processes(cond, mutex, partner, until) };
    }
    interrupt::begin();
    // SAFETY: it has no clause. It unwinds past frames that have nothing to drop.
    unsafe { pthread_testcancel() };
    partner.leaves();
    // SAFETY: the caller's.
    let ended = unsafe { wait_interruptibly(cond, mutex, partner.lock, deadline) };
    partner.is_back();
    match ended {
        Ended::With(code) => code,
        Ended::Interrupted => {
            // SAFETY: as above; and the thread has the mutex.
            unsafe { pthread_testcancel() };
            0 // it was an earlier one: a spurious wake-up
        }
    }
}

/// The wait, in which nothing cancels the thread.
///
/// # Safety
/// As for `pthread_cond_wait`.
unsafe fn wait_interruptibly(
    cond: *mut Cond,
    mutex: *mut Mutex,
    lock: Option<&RawMutex<Linux>>,
    deadline: Option<Deadline>,
) -> Ended {
    // SAFETY: the caller's, who has the mutex.
    let unlock = || unsafe {
        pthread_mutex_unlock(mutex);
    };
    let waited = futex::wait_after(address(cond), lock, unlock, deadline);
    let interrupted = interrupt::came();
    interrupt::end();
    let taken = match waited {
        WaitedAfter::Locked => 0,
        // SAFETY: the caller's: the mutex is there until the wait returns.
        WaitedAfter::Woken | WaitedAfter::NotWoken => unsafe { pthread_mutex_lock(mutex) },
    };
    match (waited, interrupted) {
        (WaitedAfter::NotWoken, true) => Ended::Interrupted,
        (WaitedAfter::NotWoken, false) => Ended::With(ETIMEDOUT),
        _ => Ended::With(taken),
    }
}

/// Waits with a mutex of ours where others may signal that do not know our queues: in the C
/// library's, with a mutex of its own that nobody else has. A signal that comes when ours is
/// unlocked and the thread is not in that queue yet passes it by; so no wait is long, and its
/// end is one of the spurious wake-ups that POSIX has its callers expect. So is the end of a
/// wait that is cancelled, which is seen that much later.
///
/// # Safety
/// As for `pthread_cond_wait`.
#[cold]
unsafe fn wait_among_processes(
    cond: *mut Cond,
    mutex: *mut Mutex,
    partner: Partner<'_>,
    until: Option<Until>,
) -> c_int {
    // SAFETY: the caller's.
    let (moment, ends) = unsafe { Until::soon(until) };
    let mut own = MaybeUninit::new(libc::PTHREAD_MUTEX_INITIALIZER);
    let (own, mut state) = (own.as_mut_ptr().cast(), 0);
    // SAFETY: the mutex of the caller's is locked, and there until the wait returns; `own` is
    // an unlocked one of the C library's, and stays here until nobody uses it. What unwinds
    // does so where there is nothing to drop, with the caller's mutex locked.
    unsafe {
        pthread_testcancel();
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state);
        next::pthread_mutex_lock(own);
        partner.leaves();
        pthread_mutex_unlock(mutex);
        let waited = next::pthread_cond_clockwait(cond, own, moment.0, &raw const moment.1);
        next::pthread_mutex_unlock(own);
        let taken = pthread_mutex_lock(mutex);
        partner.is_back();
        pthread_setcancelstate(state, &raw mut state);
        if waited == 0 {
            return taken; // a signal, which is not to be lost
        }
        pthread_testcancel();
        if ends && waited == ETIMEDOUT {
            ETIMEDOUT
        } else {
            taken
        }
    }
}

/// What the queue of a condition variable is known by.
fn address(cond: *mut Cond) -> *const AtomicU32 {
    ptr::without_provenance(cond.addr())
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut Cond) -> c_int {
    // First, for it reads the object: whom we wake may destroy that.
    // SAFETY: the caller's.
    let done = unsafe { next::pthread_cond_signal(cond) };
    if policy::mutexes() {
        futex::wake(address(cond), 1);
    }
    done
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut Cond) -> c_int {
    // SAFETY: the caller's; first, as above.
    let done = unsafe { next::pthread_cond_broadcast(cond) };
    if policy::mutexes() {
        futex::wake(address(cond), u32::MAX);
    }
    done
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's. It may unwind, when the caller cancels itself.
    let done = unsafe { next::pthread_cancel(thread) };
    interrupt::interrupt(thread);
    done
}
