//! The locks of `threads.h`, which the C library makes of those of `pthread.h`: it calls
//! these inside itself, where nothing can be put in front of them. `cnd_init` and
//! `cnd_destroy` stay its own, as a condition variable's bytes do: see `cond.rs`.

use std::ffi::c_int;

use libc::{EBUSY, ETIMEDOUT, timespec};

use crate::{
    cond::{self, Cond},
    mutex::{self, Mutex},
    next, policy,
};

// What `threads.h` of the C library has.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const TIMED_OUT: c_int = 4;
const RECURSIVE: c_int = 1;

fn code(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        EBUSY => BUSY,
        ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// # Safety
/// As C11 has it, here and for all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_init(mutex: *mut Mutex, kind: c_int) -> c_int {
    if !policy::mutexes() {
        // SAFETY: the caller's.
        return unsafe { next::mtx_init(mutex, kind) };
    }
    let kind = match kind & RECURSIVE != 0 {
        true => libc::PTHREAD_MUTEX_RECURSIVE,
        false => libc::PTHREAD_MUTEX_NORMAL,
    };
    // SAFETY: the caller's.
    unsafe { mutex::init(mutex, kind.cast_unsigned(), false) };
    SUCCESS
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(mutex::pthread_mutex_lock(mutex)),
            false => next::mtx_lock(mutex),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(mutex::pthread_mutex_trylock(mutex)),
            false => next::mtx_trylock(mutex),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_timedlock(mutex: *mut Mutex, at: *const timespec) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(mutex::pthread_mutex_timedlock(mutex, at)),
            false => next::mtx_timedlock(mutex, at),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(mutex::pthread_mutex_unlock(mutex)),
            false => next::mtx_unlock(mutex),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_destroy(mutex: *mut Mutex) {
    // Of one of the C library's, its `mtx_destroy` does the same.
    // SAFETY: the caller's.
    unsafe { mutex::pthread_mutex_destroy(mutex) };
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_signal(cond: *mut Cond) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(cond::pthread_cond_signal(cond)),
            false => next::cnd_signal(cond),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_broadcast(cond: *mut Cond) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(cond::pthread_cond_broadcast(cond)),
            false => next::cnd_broadcast(cond),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cnd_wait(cond: *mut Cond, mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(cond::pthread_cond_wait(cond, mutex)),
            false => next::cnd_wait(cond, mutex),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cnd_timedwait(
    cond: *mut Cond,
    mutex: *mut Mutex,
    at: *const timespec,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        match policy::mutexes() {
            true => code(cond::pthread_cond_timedwait(cond, mutex, at)),
            false => next::cnd_timedwait(cond, mutex, at),
        }
    }
}
