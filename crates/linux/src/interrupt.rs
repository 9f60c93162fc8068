//! Waits that another thread ends: by its `pthread_t`, which is how one thread cancels
//! another.
//!
//! | who waits | who interrupts |
//! |---|---|
//! | (I1) stores its handle | (I2) makes known why (its caller did) |
//! | full barrier | full barrier |
//! | looks why it may not wait (its caller does) | reads the handles: none? then go |
//! | waits | (I3) says so in the record, unparks |
//!
//! So either the waiter sees the reason and does not wait, or who interrupts sees the
//! waiter. An interruption that is late may meet a later wait of the thread: who was
//! interrupted looks again why.

use std::sync::atomic::{
    Ordering::{Relaxed, SeqCst},
    fence,
};

use crate::{park, tasks};

/// From now on, until [`end`], [`interrupt`] of the calling thread ends its waits of
/// [`futex::wait_after`](crate::futex::wait_after).
pub fn begin() {
    let record = tasks::record(tasks::me());
    record.interrupted.store(false, Relaxed); // one that comes now is seen by the caller
    // SAFETY: it only returns the thread's handle.
    let thread = unsafe { libc::pthread_self() };
    record.interruptible.store(thread as usize, Relaxed); // (I1)
    fence(SeqCst); // (I1) full barrier, pairs with interrupt's
}

/// From now on the calling thread's waits are not interrupted.
pub fn end() {
    tasks::record(tasks::me()).interruptible.store(0, Relaxed); // a late one does no harm
}

/// Whether an interruption has come since [`begin`], and before [`end`].
pub fn came() -> bool {
    let record = tasks::record(tasks::me());
    // (I3) the park has acquired it
    record.interruptible.load(Relaxed) != 0 && record.interrupted.load(Relaxed)
}

/// Ends the wait of that thread if it can be interrupted.
pub fn interrupt(thread: libc::pthread_t) {
    fence(SeqCst); // (I2) full barrier, pairs with begin's
    for record in tasks::records() {
        if record.interruptible.load(Relaxed) == thread as usize {
            record.interrupted.store(true, Relaxed); // (I3) the unpark publishes it
            park::unpark(&record.parker);
        }
    }
}
