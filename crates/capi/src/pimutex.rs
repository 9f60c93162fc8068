//! The mutex with priority inheritance, and its condition variable.

use std::{ffi::c_int, mem::MaybeUninit};

use libc::{EBUSY, EDEADLK, EPERM, timespec};
use lock_api::{GuardNoSend, RawCondvar};
use lockyard_core::{Deadline, RawPiMutex};
use lockyard_linux::{LinuxPi, condvar::RawPiCondvar};

use crate::{Opaque, result, until};

/// A mutual-exclusion lock whose owner runs at the priority of the most urgent real-time
/// thread that waits for it.
///
/// Among threads that are scheduled fairly it is as fast as lockyard_mutex_t, and waits
/// as that does. A fork's child must not use one that the forking thread held.
#[repr(transparent)]
pub struct Pimutex(Opaque<RawPiMutex<LinuxPi>, [u64; 3]>);

/// Does now what the calling thread's first lock would do, some microseconds of work. For a
/// real-time thread, before its first deadline, and again when its policy has changed.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_prepare_thread() -> c_int {
    lockyard_linux::prepare_thread();
    0
}

/// Makes an unlocked mutex. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_pimutex_init(mutex: &mut MaybeUninit<Pimutex>) -> c_int {
    mutex.write(Pimutex(Opaque::new(RawPiMutex::new())));
    0
}

/// Ends the use of a mutex. There is nothing to give back: it only says whether it was
/// right. No other thread may use it meanwhile.
///
/// Returns 0, or EBUSY when it is held.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_pimutex_destroy(mutex: &mut Pimutex) -> c_int {
    result(!mutex.0.is_locked(), EBUSY)
}

/// Takes the mutex, waiting as long as it takes.
///
/// Returns 0, or EDEADLK when the calling thread holds it already. Where the owner waits, by
/// other such mutexes, for one that the caller holds, it ends the process and says so.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_pimutex_lock(mutex: &Pimutex) -> c_int {
    result(mutex.0.lock_unless_mine(), EDEADLK)
}

/// Takes the mutex if it is free.
///
/// Returns 0, or EBUSY when anybody holds it, the calling thread included.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_pimutex_trylock(mutex: &Pimutex) -> c_int {
    result(mutex.0.try_lock(), EBUSY)
}

/// Takes the mutex, waiting until the deadline at the latest.
///
/// Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
/// thread holds it already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_pimutex_timedlock(mutex: &Pimutex, deadline: &timespec) -> c_int {
    if mutex.0.is_mine() {
        return EDEADLK;
    }
    until(deadline, |deadline| mutex.0.lock_until(deadline))
}

/// Releases the mutex. Once another thread can take it, nothing of it is touched any
/// more: that thread may free it.
///
/// Returns 0, or EPERM when the calling thread does not hold it.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_pimutex_unlock(mutex: &Pimutex) -> c_int {
    if !mutex.0.is_mine() {
        return EPERM;
    }
    // SAFETY: the caller holds it.
    unsafe { mutex.0.unlock() };
    0
}

/// A condition variable for mutexes of the type lockyard_pimutex_t, which wakes the
/// waiter of the highest real-time priority, and of equals the one that has waited
/// longest.
///
/// A waiter may wake without a signal: wait in a loop.
#[repr(transparent)]
pub struct Picond(Opaque<RawPiCondvar<RawPiMutex<LinuxPi>>, [u32; 2]>);

/// Makes a condition variable that nobody waits for. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_picond_init(cond: &mut MaybeUninit<Picond>) -> c_int {
    cond.write(Picond(Opaque::new(RawPiCondvar::INIT)));
    0
}

/// Ends the use of a condition variable. There is nothing to give back. Every wait must
/// have returned before: it is not enough, as it is with POSIX's, that all waiters have
/// been signalled. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_picond_destroy(_cond: &mut Picond) -> c_int {
    0
}

/// Releases the mutex, waits to be signalled, and takes the mutex again.
///
/// Returns 0, or EPERM when the calling thread does not hold the mutex.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_picond_wait(cond: &Picond, mutex: &Pimutex) -> c_int {
    if !mutex.0.is_mine() {
        return EPERM;
    }
    // SAFETY: the caller holds the mutex.
    unsafe { wait(cond, mutex, None) };
    0
}

/// Releases the mutex, waits to be signalled or until the deadline, and takes the mutex
/// again, however long that takes.
///
/// Returns 0, ETIMEDOUT (with the mutex held), EINVAL for a malformed deadline, or EPERM
/// when the calling thread does not hold the mutex.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_picond_timedwait(
    cond: &Picond,
    mutex: &Pimutex,
    deadline: &timespec,
) -> c_int {
    if !mutex.0.is_mine() {
        return EPERM;
    }
    until(deadline, |deadline| {
        // SAFETY: the caller holds the mutex.
        !unsafe { wait(cond, mutex, Some(deadline)) }
    })
}

/// Returns whether the deadline ended it.
///
/// # Safety
/// The caller holds the mutex.
unsafe fn wait(cond: &Picond, mutex: &Pimutex, deadline: Option<Deadline>) -> bool {
    let mut guard = GuardNoSend::new();
    // SAFETY: the caller holds the mutex, and has no other guard of it: C has none.
    unsafe { cond.0.wait_by(&mutex.0, &mut guard, deadline) }
}

/// Lets the most urgent thread that waits go on, if any waits. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_picond_signal(cond: &Picond) -> c_int {
    cond.0.notify_one();
    0
}

/// Lets all threads that wait go on. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_picond_broadcast(cond: &Picond) -> c_int {
    cond.0.notify_all();
    0
}
