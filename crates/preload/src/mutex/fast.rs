//! Locking and unlocking, by ways of their own for what is frequent: a mutex of ours, of any
//! kind, that stays reserved for the caller; then what is not contended; then all else.
//! Each is a function of its own, so that the ways before it are short, and `extern "C"`,
//! so that it is jumped to. The most frequent are in a section of their own, as those of
//! `rwlock/fast.rs`: how they lie to each other makes some tenths of a nanosecond, and is not to
//! change with all else.

use std::{ffi::c_int, hint, ptr};

use lockyard_core::Quick;

use super::{Lock, Mutex, PiLock, Whose};
use crate::{next, policy, watch};

/// # Safety
/// As POSIX has it, here and below.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.quick")]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    let mutex = unsafe { &*mutex };
    match policy::is_quick_mutex(mutex.kind()) {
        true => match mutex.lock.retake() {
            None => lock_free(mutex),
            Some(true) => retook(mutex),
            Some(false) => lock_as_asked(mutex),
        },
        false => lock_not_quick(mutex),
    }
}

/// The caller has it, by a reservation.
#[inline(always)]
fn retook(mutex: &Mutex) -> c_int {
    match mutex.lock.is_to_see() {
        true => see(mutex),
        false => 0,
    }
}

/// The caller has it. What it returns is not to be known, so that it is jumped to.
#[cold]
#[inline(never)]
extern "C" fn see(mutex: &Mutex) -> c_int {
    mutex.lock.see();
    hint::black_box(0)
}

/// One that is plain, and not reserved for the caller.
#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn lock_free(mutex: &Mutex) -> c_int {
    match mutex.lock.take_free() {
        Quick::Took => 0,
        Quick::TookToSee => see(mutex),
        Quick::Not => lock_not_free(mutex),
    }
}

/// One that is plain, and not free.
#[inline(never)]
extern "C" fn lock_not_free(mutex: &Mutex) -> c_int {
    match mutex.lock.lock_not_free() {
        true => 0,
        false => lock_as_asked(mutex),
    }
}

/// One with priority inheritance, or profiled, or not ours.
#[inline(never)]
extern "C" fn lock_not_quick(mutex: &Mutex) -> c_int {
    match mutex.pi() {
        Some(_) => lock_pi(mutex),
        None => lock_not_pi(mutex),
    }
}

/// One that is profiled, or not ours.
#[inline(never)]
extern "C" fn lock_not_pi(mutex: &Mutex) -> c_int {
    // What is reserved for the caller is ours.
    match policy::profiled() && mutex.is_plain() && mutex.lock.retake() == Some(true) {
        true => {
            watch::took(mutex.key());
            retook(mutex)
        }
        false => lock_as_asked(mutex),
    }
}

/// One with priority inheritance.
#[inline(never)]
extern "C" fn lock_pi(mutex: &Mutex) -> c_int {
    match unwatched_pi(mutex) {
        Some(pi) if pi.retake_uninspected() => match pi.is_to_see() {
            true => see_pi(mutex),
            false => 0,
        },
        Some(_) => lock_pi_free(mutex),
        None => lock_as_asked(mutex),
    }
}

/// Likewise, and not reserved for the caller.
#[inline(never)]
extern "C" fn lock_pi_free(mutex: &Mutex) -> c_int {
    match unwatched_pi(mutex).is_some_and(Lock::try_lock) {
        true => 0,
        false => lock_as_asked(mutex),
    }
}

/// As [`see`].
#[cold]
#[inline(never)]
extern "C" fn see_pi(mutex: &Mutex) -> c_int {
    if let Some(pi) = mutex.pi() {
        pi.see();
    }
    hint::black_box(0)
}

#[inline(always)]
fn unwatched_pi(mutex: &Mutex) -> Option<&PiLock> {
    mutex.pi().filter(|_| policy::unwatched())
}

/// One that is watched, contended with priority inheritance, the caller's already, or the
/// C library's.
#[inline(never)]
extern "C" fn lock_as_asked(mutex: &Mutex) -> c_int {
    match mutex.whose() {
        Whose::Ours(held) => held.lock(),
        Whose::OursPi(held) => held.lock(),
        // SAFETY: as for `pthread_mutex_lock`, whose caller's it is.
        Whose::Libcs => unsafe { next::pthread_mutex_lock(ptr::from_ref(mutex).cast_mut()) },
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.quick")]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    let mutex = unsafe { &*mutex };
    // What the caller has is ours.
    match policy::is_quick_mutex(mutex.kind()) && mutex.is_once() {
        // SAFETY: C has no guards.
        true if unsafe { mutex.lock.unlock_kept() } => 0,
        true => unlock_alone(mutex),
        false => unlock_not_quick(mutex),
    }
}

/// One that is plain, and not reserved for the caller.
#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn unlock_alone(mutex: &Mutex) -> c_int {
    // SAFETY: C has no guards.
    match unsafe { mutex.lock.unlock_alone() } {
        true => 0,
        false => unlock_at_once(mutex),
    }
}

/// One that is plain, and is waited for, or that the caller has waited for lately.
#[inline(never)]
extern "C" fn unlock_at_once(mutex: &Mutex) -> c_int {
    // SAFETY: C has no guards.
    match unsafe { mutex.lock.unlock_at_once() } {
        true => 0,
        false => unlock_not_at_once(mutex),
    }
}

/// One that is plain, and is waited for by one who has to be seen to, or not the caller's.
#[inline(never)]
extern "C" fn unlock_not_at_once(mutex: &Mutex) -> c_int {
    // SAFETY: C has no guards.
    match unsafe { mutex.lock.unlock_not_at_once() } {
        true => 0,
        false => unlock_as_asked(mutex),
    }
}

/// One with priority inheritance, or profiled, or that the caller has locked again, or not ours.
#[inline(never)]
extern "C" fn unlock_not_quick(mutex: &Mutex) -> c_int {
    match mutex.pi() {
        Some(_) => unlock_pi(mutex),
        None => unlock_not_pi(mutex),
    }
}

/// One with priority inheritance.
#[inline(never)]
extern "C" fn unlock_pi(mutex: &Mutex) -> c_int {
    match unwatched_pi(mutex) {
        // SAFETY: C has no guards.
        Some(pi) if mutex.is_once() && unsafe { pi.unlock_kept() } => 0,
        _ => unlock_pi_unkept(mutex),
    }
}

/// Likewise, and not reserved for the caller.
#[inline(never)]
extern "C" fn unlock_pi_unkept(mutex: &Mutex) -> c_int {
    match mutex.is_once() && unwatched_pi(mutex).is_some_and(Lock::unlock_if_mine) {
        true => 0,
        false => unlock_as_asked(mutex),
    }
}

/// One that is profiled, or that the caller has locked again, or not ours.
#[inline(never)]
extern "C" fn unlock_not_pi(mutex: &Mutex) -> c_int {
    let is_timed = || watch::may_time(ptr::from_ref(mutex).addr());
    match mutex.is_plain() && mutex.is_once() && !is_timed() {
        // What the caller has is ours.
        // SAFETY: C has no guards.
        true if unsafe { mutex.lock.unlock_kept() } => 0,
        true => unlock_alone(mutex),
        false => unlock_as_asked(mutex),
    }
}

/// One that is watched, locked again, not the caller's, or the C library's.
#[inline(never)]
extern "C" fn unlock_as_asked(mutex: &Mutex) -> c_int {
    match mutex.whose() {
        Whose::Ours(held) => held.unlock(),
        Whose::OursPi(held) => held.unlock(),
        // SAFETY: as for `pthread_mutex_unlock`, whose caller's it is.
        Whose::Libcs => unsafe { next::pthread_mutex_unlock(ptr::from_ref(mutex).cast_mut()) },
    }
}
