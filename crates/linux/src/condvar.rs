//! A condition variable that wakes by priority: its waiters sleep in one queue of
//! the kernel's, in which real-time threads stand by their priorities, before all
//! others, and equals in the order of their coming.
//!
//! # No notification is lost
//!
//! | (A) the waiter, with the mutex | (B) the notifier |
//! |---|---|
//! | (A1) counts itself as a waiter | (B1) takes the mutex, makes the condition true |
//! | (A2) reads the number of notifications | (B2) releases the mutex, or does so later |
//! | (A3) releases the mutex | (B3) sees a waiter |
//! | (A4) in the kernel, with the queue locked: the number is the same? then queues up | (B4) adds 1 to the number |
//! | (A5) sleeps | (B5) in the kernel, with the queue locked: wakes the first |
//!
//! When (B1) comes before (A) takes the mutex, (A) finds the condition true and does
//! not wait. Else (A3) comes before (B1), and what (A) did until then happens before
//! what (B) does after: (B3) sees the waiter, and (A2) does not see (B4). If (A4) sees
//! (B4), it does not sleep. If it does not, it has the queue before (B5), which
//! then finds the waiter there. The mutex and the kernel's lock order all this, so
//! that the accesses here may be relaxed.
//!
//! The number is of 32 bits. Between (A2) and (A4), where a waiter does not sleep, it
//! would have to be notified a multiple of 2^32 times, no more and no less, for (A4) to
//! be wrong. Each of these is a system call, of 100 ns at least: 7 minutes of nothing
//! else.

use std::{
    marker::PhantomData,
    mem, process, ptr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use lock_api::{RawCondvar, RawCondvarTimed, RawMutex, RawMutexTimed};
use lockyard_core::{Clock, Deadline};
use rustix::{
    io::Errno,
    thread::futex::{self, Flags},
};

use crate::{Linux, park};

/// A condition variable for mutexes of the type `M`: eight bytes, all zero when
/// nobody waits. Its waiters may bring different mutexes.
///
/// # Who is woken
///
/// A notification wakes the waiter of the highest real-time priority, and of equals
/// the one that has waited longest; all threads without a real-time priority are
/// equals, and come last. What counts is the priority of its own that a thread had
/// when it fell asleep: not what it is lent, nor what it is set to later.
///
/// A woken thread then takes the mutex like anybody else. So it is also the mutex that
/// must go by priority, and a notification with the mutex held is best the last thing
/// that is done with it.
///
/// A waiter may wake without a notification: wait in a loop. A notification that is
/// given while the mutex is free may go to a thread that begins to wait just then, in
/// place of one that waited already. That is no matter if all wait for the same
/// condition; if they do not, notify with the mutex held, or notify all.
pub struct RawPiCondvar<M> {
    notifications: AtomicU32,
    /// Threads between (A1) and their waking, so that who notifies nobody needs no
    /// system call.
    waiters: AtomicU32,
    mutex: PhantomData<fn(&M)>,
}

impl<M: RawMutex> RawPiCondvar<M> {
    /// Releases the mutex, waits for a notification or until `deadline`, and takes the
    /// mutex again. Returns whether the deadline ended it.
    ///
    /// Ends the process when the mutex panics, which then would be in nobody's hands.
    ///
    /// # Safety
    /// As for [`RawCondvar::wait`].
    pub unsafe fn wait_by(
        &self,
        mutex: &M,
        guard: &mut M::Guard,
        deadline: Option<Deadline>,
    ) -> bool {
        self.waiters.fetch_add(1, Relaxed); // (A1)
        let seen = self.notifications.load(Relaxed); // (A2)
        let end = EndOnPanic;
        // SAFETY: the caller holds the mutex by this guard. The copy is used up, and the
        // original is overwritten before anybody uses it: nothing unwinds until then.
        unsafe { mutex.unlock(ptr::read(guard)) }; // (A3)
        let timed_out = self.sleep(seen, deadline);
        self.waiters.fetch_sub(1, Relaxed); // woken: it needs no notification
        let taken = mutex.lock();
        // SAFETY: what was there was used up above.
        unsafe { ptr::write(guard, taken) };
        mem::forget(end);
        timed_out
    }

    /// (A4), (A5)
    fn sleep(&self, seen: u32, deadline: Option<Deadline>) -> bool {
        loop {
            match park::wait(&self.notifications, seen, deadline) {
                Ok(()) | Err(Errno::AGAIN) => return false,
                // Who was woken is told so, even if its time was up as well.
                Err(Errno::TIMEDOUT) => return true,
                Err(Errno::INTR) => {}
                Err(error) => unreachable!("a futex wait on our own word failed: {error}"),
            }
        }
    }

    fn notify(&self, most: u32) {
        if self.waiters.load(Relaxed) == 0 {
            return; // (B3)
        }
        self.notifications.fetch_add(1, Relaxed); // (B4)
        // (B5)
        futex::wake(&self.notifications, Flags::PRIVATE, most)
            .expect("a futex wake on a mapped word cannot fail");
    }
}

/// While it lives, a panic ends the process.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        process::abort();
    }
}

// SAFETY: `wait` and `wait_until` release the mutex and wait as one step towards
// notifications, as the table above says, return with it held and the guard of that,
// and do not unwind. There are spurious wake-ups, and so the notifications return false
// and 0.
unsafe impl<M: RawMutex> RawCondvar for RawPiCondvar<M> {
    const INIT: Self = Self {
        notifications: AtomicU32::new(0),
        waiters: AtomicU32::new(0),
        mutex: PhantomData,
    };
    type RawMutex = M;

    unsafe fn wait(&self, mutex: &M, guard: &mut M::Guard) {
        // SAFETY: what this function's contract says.
        unsafe { self.wait_by(mutex, guard, None) };
    }

    fn notify_one(&self) -> bool {
        self.notify(1);
        false
    }

    fn notify_all(&self) -> usize {
        self.notify(i32::MAX as u32);
        0
    }
}

// SAFETY: as above.
unsafe impl<M> RawCondvarTimed for RawPiCondvar<M>
where
    M: RawMutexTimed<Duration = Duration, Instant = Instant>,
{
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        Linux::checked_after(*timeout)
    }

    unsafe fn wait_until(&self, mutex: &M, guard: &mut M::Guard, timeout: &Instant) -> bool {
        // SAFETY: what this function's contract says.
        unsafe { self.wait_by(mutex, guard, Some(Linux::deadline(timeout))) }
    }
}
