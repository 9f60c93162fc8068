//! Locking and unlocking, by ways of their own for what is frequent: a lock that stays reserved for
//! the caller; then what is plain or biased; one with per-CPU counters; then all else. Each is a
//! function of its own, so that the ways before it are short, and `extern "C"`, so that it is jumped
//! to. None but the last has to register the calling thread. The section is that of `mutex/fast.rs`.

use std::{ffi::c_int, hint, ptr, sync::atomic::Ordering::Relaxed};

use lockyard_core::{Quick, RawPercpuRwLock};
use lockyard_linux::Linux;

use super::Rwlock;
use crate::{next, policy};

impl Rwlock {
    /// Whether it is ours, and nobody wants to know what happens to it.
    #[inline(always)]
    fn is_quick(&self) -> bool {
        policy::is_quick_rwlock(self.shared.load(Relaxed)) // constant since it was initialised
    }

    /// The lock that it has, if that is one with per-CPU counters, and nobody wants to know what
    /// happens to it.
    #[inline(always)]
    fn quick_percpu(&self) -> Option<&RawPercpuRwLock<Linux>> {
        // It tells no more than itself.
        policy::is_quick_percpu(self.which.load(Relaxed)).then(|| self.percpu())
    }
}

/// # Safety
/// As POSIX has it, here and below.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.quick")]
pub unsafe extern "C" fn pthread_rwlock_rdlock(rwlock: *mut Rwlock) -> c_int {
    // SAFETY: the caller's.
    let rwlock = unsafe { &*rwlock };
    match rwlock.is_quick() {
        true => match rwlock.rwsem.retake_to_read() {
            None => rdlock_plain(rwlock),
            Some(true) => retook(rwlock),
            Some(false) => rdlock(rwlock),
        },
        false => rdlock_percpu(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn rdlock_percpu(rwlock: &Rwlock) -> c_int {
    match rwlock.quick_percpu() {
        Some(percpu) if percpu.try_read() => 0,
        _ => rdlock(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn rdlock_plain(rwlock: &Rwlock) -> c_int {
    match rwlock.rwsem.try_read_plain() {
        Quick::Took => 0,
        Quick::TookToSee => see(rwlock),
        Quick::Not => rdlock_biased(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn rdlock_biased(rwlock: &Rwlock) -> c_int {
    match rwlock.rwsem.try_read_biased() {
        true => 0,
        false => rdlock_shared(rwlock),
    }
}

#[inline(never)]
extern "C" fn rdlock_shared(rwlock: &Rwlock) -> c_int {
    match rwlock.rwsem.try_read_shared() {
        true => 0,
        false => rdlock(rwlock),
    }
}

#[inline(never)]
extern "C" fn rdlock(rwlock: &Rwlock) -> c_int {
    match rwlock.is_ours() {
        true => rwlock.read(),
        // SAFETY: it is the C library's, and initialised.
        false => unsafe { next::pthread_rwlock_rdlock(ptr::from_ref(rwlock).cast_mut()) },
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.quick")]
pub unsafe extern "C" fn pthread_rwlock_wrlock(rwlock: *mut Rwlock) -> c_int {
    // SAFETY: the caller's.
    let rwlock = unsafe { &*rwlock };
    match rwlock.is_quick() {
        true => match rwlock.rwsem.retake_to_write() {
            None => wrlock_plain(rwlock),
            Some(true) => retook(rwlock),
            Some(false) => wrlock(rwlock),
        },
        false => wrlock(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn wrlock_plain(rwlock: &Rwlock) -> c_int {
    match rwlock.rwsem.try_write_plain() {
        Quick::Took => 0,
        Quick::TookToSee => see(rwlock),
        Quick::Not => wrlock(rwlock),
    }
}

/// The caller has it, by a reservation.
#[inline(always)]
fn retook(rwlock: &Rwlock) -> c_int {
    match rwlock.rwsem.is_to_see() {
        true => see(rwlock),
        false => 0,
    }
}

/// The caller has it. What it returns is not to be known, so that it is jumped to.
#[cold]
#[inline(never)]
extern "C" fn see(rwlock: &Rwlock) -> c_int {
    rwlock.rwsem.see();
    hint::black_box(0)
}

#[inline(never)]
extern "C" fn wrlock(rwlock: &Rwlock) -> c_int {
    match rwlock.is_ours() {
        true => rwlock.write(),
        // SAFETY: likewise.
        false => unsafe { next::pthread_rwlock_wrlock(ptr::from_ref(rwlock).cast_mut()) },
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.quick")]
pub unsafe extern "C" fn pthread_rwlock_unlock(rwlock: *mut Rwlock) -> c_int {
    // SAFETY: the caller's.
    let rwlock = unsafe { &*rwlock };
    match rwlock.is_quick() {
        // SAFETY: if the caller has the lock, it releases it.
        true => match unsafe { rwlock.rwsem.unlock_kept() } {
            None => unlock_read_shortly(rwlock),
            Some(true) => 0,
            Some(false) => unlock(rwlock),
        },
        false => unlock_percpu(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn unlock_percpu(rwlock: &Rwlock) -> c_int {
    match rwlock.quick_percpu() {
        Some(percpu) if !percpu.is_write_locked() => {
            // SAFETY: likewise; without a writer the caller is a reader.
            unsafe { percpu.unlock_read() };
            0
        }
        _ => unlock(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn unlock_read_shortly(rwlock: &Rwlock) -> c_int {
    // SAFETY: likewise.
    match unsafe { rwlock.rwsem.unlock_read_shortly() } {
        true => 0,
        false => unlock_write_plain(rwlock),
    }
}

#[inline(never)]
#[unsafe(link_section = ".text.quick")]
extern "C" fn unlock_write_plain(rwlock: &Rwlock) -> c_int {
    // SAFETY: likewise.
    match unsafe { rwlock.rwsem.unlock_write_plain() } {
        true => 0,
        false => unlock(rwlock),
    }
}

#[inline(never)]
extern "C" fn unlock(rwlock: &Rwlock) -> c_int {
    match rwlock.is_ours() {
        true => rwlock.unlock(),
        // SAFETY: likewise.
        false => unsafe { next::pthread_rwlock_unlock(ptr::from_ref(rwlock).cast_mut()) },
    }
}
