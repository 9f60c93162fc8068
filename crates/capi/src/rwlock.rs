//! The locks for readers and writers.

use std::{ffi::c_int, mem::MaybeUninit};

use libc::{EBUSY, EDEADLK, EPERM, timespec};
use lockyard_core::{RawPercpuRwLock, RawRwLock};
use lockyard_linux::Linux;

use crate::{Opaque, result, until};

/// A lock for many readers or one writer.
///
/// A writer that finds it held spins while the writer before it is on a CPU, then sleeps.
/// Running threads overtake sleeping ones for up to 4 ms; then the first sleeper is given
/// the lock. Readers that come join readers past a writer that sleeps for as long; the next
/// wakes it, and may join them until it runs, and from then on none does. So a thread that
/// reads already and reads again may wait for a writer that waits for it.
#[repr(transparent)]
pub struct Rwlock(Opaque<RawRwLock<Linux>, [u64; 3]>);

/// Makes an unlocked lock. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_init(lock: &mut MaybeUninit<Rwlock>) -> c_int {
    lock.write(Rwlock(Opaque::new(RawRwLock::new())));
    0
}

/// Ends the use of a lock. There is nothing to give back: it only says whether it was
/// right. No other thread may use it meanwhile.
///
/// Returns 0, or EBUSY when it is held.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_destroy(lock: &mut Rwlock) -> c_int {
    result(!lock.0.is_locked(), EBUSY)
}

/// Takes the lock as a reader, waiting as long as it takes.
///
/// Returns 0, or EDEADLK when the calling thread is the writer.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_rdlock(lock: &Rwlock) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    lock.0.read();
    0
}

/// Takes the lock as a reader if it need not wait for that.
///
/// Returns 0, or EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_tryrdlock(lock: &Rwlock) -> c_int {
    result(lock.0.try_read(), EBUSY)
}

/// Takes the lock as a reader, waiting until the deadline at the latest.
///
/// Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
/// thread is the writer.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_timedrdlock(lock: &Rwlock, deadline: &timespec) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    until(deadline, |deadline| lock.0.read_until(deadline))
}

/// Takes the lock as the writer, waiting as long as it takes.
///
/// Returns 0, or EDEADLK when the calling thread is the writer already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_wrlock(lock: &Rwlock) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    lock.0.write();
    0
}

/// Takes the lock as the writer if it is free.
///
/// Returns 0, or EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_trywrlock(lock: &Rwlock) -> c_int {
    result(lock.0.try_write(), EBUSY)
}

/// Takes the lock as the writer, waiting until the deadline at the latest.
///
/// Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
/// thread is the writer already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_rwlock_timedwrlock(lock: &Rwlock, deadline: &timespec) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    until(deadline, |deadline| lock.0.write_until(deadline))
}

/// Releases the lock: as the writer if the calling thread is that, else as a reader. Once
/// another thread can take it, nothing of it is touched any more.
///
/// Returns 0, or EPERM when nobody holds it, or another thread as the writer.
///
/// # Safety
/// Unless it is the writer, the calling thread is a reader, where anybody is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_rwlock_unlock(lock: &Rwlock) -> c_int {
    if lock.0.is_mine() {
        // SAFETY: the caller is the writer.
        unsafe { lock.0.unlock_write() };
    } else if !lock.0.may_be_read_by_me() {
        return EPERM;
    } else {
        // SAFETY: somebody reads, and so the caller does, as it says.
        unsafe { lock.0.unlock_read() };
    }
    0
}

/// A lock for what is read all the time and written seldom.
///
/// A reader writes to nothing that another CPU writes to, so readers do not slow each
/// other down. The writer pays: it interrupts the threads of the process that are on a
/// CPU, and adds up the counts of all CPUs.
///
/// It takes sixteen bytes for every CPU as well, from its first use until it is destroyed; a
/// process can have 4 million at a time. A thread must not read again what it reads
/// already. A read lock may be released by another thread than the one that took it.
#[repr(transparent)]
pub struct PercpuRwlock(Opaque<RawPercpuRwLock<Linux>, [u64; 4]>);

/// Makes an unlocked lock. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_init(lock: &mut MaybeUninit<PercpuRwlock>) -> c_int {
    lock.write(PercpuRwlock(Opaque::new(RawPercpuRwLock::new())));
    0
}

/// Ends the use of a lock and gives back its memory; that is not to be left out. The lock
/// is then as after lockyard_percpu_rwlock_init. No other thread may use it meanwhile.
///
/// Returns 0, or EBUSY when it is held: then nothing was done.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_destroy(lock: &mut PercpuRwlock) -> c_int {
    if lock.0.is_locked() {
        return EBUSY;
    }
    *lock = PercpuRwlock(Opaque::new(RawPercpuRwLock::new()));
    0
}

/// Takes the lock as a reader, waiting as long as it takes.
///
/// Returns 0, or EDEADLK when the calling thread is the writer.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_rdlock(lock: &PercpuRwlock) -> c_int {
    if lock.0.try_read() {
        return 0;
    }
    if lock.0.is_mine() {
        return EDEADLK;
    }
    lock.0.read();
    0
}

/// Takes the lock as a reader if it need not wait for that.
///
/// Returns 0, or EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_tryrdlock(lock: &PercpuRwlock) -> c_int {
    result(lock.0.try_read(), EBUSY)
}

/// Takes the lock as a reader, waiting until the deadline at the latest.
///
/// Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
/// thread is the writer.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_timedrdlock(
    lock: &PercpuRwlock,
    deadline: &timespec,
) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    until(deadline, |deadline| lock.0.read_until(deadline))
}

/// Takes the lock as the writer, waiting as long as it takes.
///
/// Returns 0, or EDEADLK when the calling thread is the writer already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_wrlock(lock: &PercpuRwlock) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    lock.0.write();
    0
}

/// Takes the lock as the writer if it is free.
///
/// Returns 0, or EBUSY, also when a reader only tried to get in meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_trywrlock(lock: &PercpuRwlock) -> c_int {
    result(lock.0.try_write(), EBUSY)
}

/// Takes the lock as the writer, waiting until the deadline at the latest.
///
/// Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
/// thread is the writer already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_percpu_rwlock_timedwrlock(
    lock: &PercpuRwlock,
    deadline: &timespec,
) -> c_int {
    if lock.0.is_mine() {
        return EDEADLK;
    }
    until(deadline, |deadline| lock.0.write_until(deadline))
}

/// Releases the lock: as the writer if the calling thread is that, else as a reader. Once
/// another thread can take it, nothing of it is touched any more.
///
/// Returns 0. It does not notice a stranger: to count its readers would cost more than
/// all the rest.
///
/// # Safety
/// Unless it is the writer, the calling thread owns a read lock: its own, or one that
/// another thread has passed on to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_percpu_rwlock_unlock(lock: &PercpuRwlock) -> c_int {
    if lock.0.is_mine() {
        // SAFETY: the caller is the writer.
        unsafe { lock.0.unlock_write() };
    } else {
        // SAFETY: the caller owns a read lock, as it says.
        unsafe { lock.0.unlock_read() };
    }
    0
}
