//! Locking and unlocking, by ways of their own for what is frequent: a mutex of ours, of any
//! kind, that stays reserved for the caller; then what is not contended; then all else.
//! Each is a function of its own, so that the ways before it are short, and `extern "C"`,
//! so that it is jumped to.

use std::{ffi::c_int, ptr};

use super::{Lock, Mutex, Whose};
use crate::{next, policy, watch};

/// # Safety
/// As POSIX has it, here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    let mutex = unsafe { &*mutex };
    match mutex.is_plain() && policy::plain() {
        true if mutex.lock.retake() => 0,
        true => lock_free(mutex),
        false => lock_not_plain(mutex),
    }
}

/// One that is plain, and not reserved for the caller.
#[inline(never)]
extern "C" fn lock_free(mutex: &Mutex) -> c_int {
    match mutex.lock.take_free() {
        true => 0,
        false => lock_not_free(mutex),
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

/// One that is not plain, or profiled.
#[inline(never)]
extern "C" fn lock_not_plain(mutex: &Mutex) -> c_int {
    // What is reserved for the caller is ours.
    if policy::profiled() && mutex.is_plain() && mutex.lock.retake() {
        watch::took(mutex.key());
        return 0;
    }
    match mutex.pi() {
        Some(_) => lock_pi(mutex),
        None => lock_as_asked(mutex),
    }
}

/// One with priority inheritance.
#[inline(never)]
extern "C" fn lock_pi(mutex: &Mutex) -> c_int {
    match mutex
        .pi()
        .is_some_and(|pi| policy::unwatched() && pi.try_lock())
    {
        true => 0,
        false => lock_as_asked(mutex),
    }
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
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    let mutex = unsafe { &*mutex };
    let is_timed = || watch::may_time(ptr::from_ref(mutex).addr());
    let is_plain = mutex.is_plain() && mutex.is_once() && !is_timed();
    // What the caller has is ours.
    // SAFETY: C has no guards.
    let unlocked = is_plain && unsafe { mutex.lock.unlock_at_once() };
    match is_plain {
        true if unlocked => 0,
        true => unlock_not_at_once(mutex),
        false => unlock_not_plain(mutex),
    }
}

/// One that is plain, and is waited for, or not the caller's.
#[inline(never)]
extern "C" fn unlock_not_at_once(mutex: &Mutex) -> c_int {
    // SAFETY: C has no guards.
    match unsafe { mutex.lock.unlock_not_at_once() } {
        true => 0,
        false => unlock_as_asked(mutex),
    }
}

/// One that is not plain, that the caller has locked again, or whose hold is timed.
#[inline(never)]
extern "C" fn unlock_not_plain(mutex: &Mutex) -> c_int {
    let pi = || mutex.pi().filter(|_| policy::unwatched());
    match mutex.is_once() && pi().is_some_and(Lock::unlock_if_mine) {
        true => 0,
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
