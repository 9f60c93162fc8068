//! The mutex and the condition variable.

use std::{ffi::c_int, mem::MaybeUninit};

use libc::{EBUSY, EDEADLK, EPERM, timespec};
use lockyard_core::{Condvar, RawMutex};
use lockyard_linux::Linux;

use crate::{Opaque, result, until};

/// A mutual-exclusion lock.
///
/// A thread that finds it held spins while the owner is on a CPU, and sleeps when the
/// owner is not. Running threads overtake sleeping ones for up to 4 ms; then the first
/// sleeper is given the lock.
#[repr(transparent)]
pub struct Mutex(Opaque<RawMutex<Linux>, [u64; 2]>);

/// Makes an unlocked mutex. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_mutex_init(mutex: &mut MaybeUninit<Mutex>) -> c_int {
    mutex.write(Mutex(Opaque::new(RawMutex::new())));
    0
}

/// Ends the use of a mutex. There is nothing to give back: it only says whether it was
/// right. No other thread may use it meanwhile.
///
/// Returns 0, or EBUSY when it is held.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_mutex_destroy(mutex: &mut Mutex) -> c_int {
    result(!mutex.0.is_locked(), EBUSY)
}

/// Takes the mutex, waiting as long as it takes.
///
/// Returns 0, or EDEADLK when the calling thread holds it already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_mutex_lock(mutex: &Mutex) -> c_int {
    result(mutex.0.lock_unless_mine(), EDEADLK)
}

/// Takes the mutex if it is free.
///
/// Returns 0, or EBUSY when anybody holds it, the calling thread included.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_mutex_trylock(mutex: &Mutex) -> c_int {
    result(mutex.0.try_lock(), EBUSY)
}

/// Takes the mutex, waiting until the deadline at the latest.
///
/// Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
/// thread holds it already.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_mutex_timedlock(mutex: &Mutex, deadline: &timespec) -> c_int {
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
pub extern "C" fn lockyard_mutex_unlock(mutex: &Mutex) -> c_int {
    if !mutex.0.is_mine() {
        return EPERM;
    }
    // SAFETY: the caller holds it.
    unsafe { mutex.0.unlock() };
    0
}

/// A condition variable for mutexes of the type lockyard_mutex_t.
///
/// Signalled waiters move to the mutex's queue asleep, and wake when it is theirs to
/// take. There are no spurious wake-ups, but the condition may have changed again: wait
/// in a loop.
#[repr(transparent)]
pub struct Cond(Opaque<Condvar<Linux>, [u32; 2]>);

/// Makes a condition variable that nobody waits for. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_cond_init(cond: &mut MaybeUninit<Cond>) -> c_int {
    cond.write(Cond(Opaque::new(Condvar::new())));
    0
}

/// Ends the use of a condition variable. There is nothing to give back. Every wait must
/// have returned before: it is not enough, as it is with POSIX's, that all waiters have
/// been signalled. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_cond_destroy(_cond: &mut Cond) -> c_int {
    0
}

/// Releases the mutex, waits to be signalled, and takes the mutex again.
///
/// Returns 0, or EPERM when the calling thread does not hold the mutex.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_cond_wait(cond: &Cond, mutex: &Mutex) -> c_int {
    if !mutex.0.is_mine() {
        return EPERM;
    }
    // SAFETY: the caller holds the mutex.
    unsafe { cond.0.wait_until(&mutex.0, None) };
    0
}

/// Releases the mutex, waits to be signalled or until the deadline, and takes the mutex
/// again, however long that takes.
///
/// Returns 0, ETIMEDOUT (with the mutex held), EINVAL for a malformed deadline, or EPERM
/// when the calling thread does not hold the mutex.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_cond_timedwait(
    cond: &Cond,
    mutex: &Mutex,
    deadline: &timespec,
) -> c_int {
    if !mutex.0.is_mine() {
        return EPERM;
    }
    until(deadline, |deadline| {
        // SAFETY: the caller holds the mutex.
        unsafe { cond.0.wait_until(&mutex.0, Some(deadline)) }
    })
}

/// Lets the thread that has waited longest go on, if any waits. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_cond_signal(cond: &Cond) -> c_int {
    cond.0.notify_one();
    0
}

/// Lets all threads that wait go on, one after the other. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_cond_broadcast(cond: &Cond) -> c_int {
    cond.0.notify_all();
    0
}
