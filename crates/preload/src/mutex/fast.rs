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
        false => lock_unkept(mutex),
    }
}

/// One that is plain, and not reserved for the caller.
#[inline(never)]
extern "C" fn lock_free(mutex: &Mutex) -> c_int {
    match mutex.lock.take_free() {
        true => 0,
        false => lock_unkept(mutex),
    }
}

/// One that is not plain, or not free.
#[inline(never)]
extern "C" fn lock_unkept(mutex: &Mutex) -> c_int {
    let taken = match mutex.pi() {
        Some(pi) => policy::unwatched() && pi.try_lock(),
        None if policy::plain() => mutex.is_plain() && mutex.lock.lock_unkept(),
        // What is reserved for the caller is ours.
        None => policy::profiled() && mutex.is_plain() && mutex.lock.retake(),
    };
    if !taken {
        return lock_as_asked(mutex);
    }
    watch::took(mutex.key());
    0
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
    let is_plain = mutex.is_plain() && mutex.is_once() && !watch::times_any();
    // What the caller has is ours.
    // SAFETY: C has no guards.
    match is_plain && unsafe { mutex.lock.unlock_at_once() } {
        true => 0,
        false => unlock_unkept(mutex),
    }
}

/// One that is not plain, or is contended.
#[inline(never)]
extern "C" fn unlock_unkept(mutex: &Mutex) -> c_int {
    if mutex.is_once() && !watch::times_any() {
        let unlocked = match mutex.pi() {
            Some(pi) => policy::unwatched() && pi.unlock_if_mine(),
            None => policy::plain() && mutex.is_plain() && Lock::unlock_if_mine(&mutex.lock),
        };
        if unlocked {
            return 0;
        }
    }
    unlock_as_asked(mutex)
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
