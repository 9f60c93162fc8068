//! The condition variable: eight bytes, a queue of waiters.
//!
//! Notified waiters are not woken to fight for the mutex: they are moved from
//! this queue to the mutex's, asleep, and wake when it is theirs to take, or a
//! few at a time where they were moved together (`mutex/batch.rs`). Only when
//! nobody holds the mutex is its first waiter woken.
//!
//! A waiter enqueues itself before it releases the mutex, so a notification
//! that follows a change made under the mutex finds it. Gates nest: this
//! queue's, then the mutex's.

use crate::{
    mutex::{Body, RawMutex},
    osq,
    platform::{Deadline, Event, Ordering::*, Platform, TaskId, Woken, Word},
    wait_queue::{Entered, WaitQueue},
};

/// A waiter that stands in the condition variable's queue, or waits for none.
const NOT_MOVED: u32 = 0;
/// One that stands in the mutex's queue.
pub(crate) const MOVED: u32 = 1;
/// One that stands there with others that were moved at the same time.
pub(crate) const TOGETHER: u32 = 2;
/// One that was moved, stands in no queue any more, and is to lock the mutex.
pub(crate) const SENT: u32 = 3;

/// A condition variable. Its waiters may wait with different mutexes.
pub struct Condvar<P: Platform> {
    queue: WaitQueue<P>,
}

impl<P: Platform> Default for Condvar<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Condvar<P> {
    /// A condition variable that nobody waits for: all its bytes are zero.
    pub const fn new() -> Self {
        Self {
            queue: WaitQueue::new(),
        }
    }

    /// Releases `mutex`, waits for a notification or until `deadline`, and
    /// takes the mutex again, however long that takes. Returns whether it was
    /// notified. There are no spurious wake-ups.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    ///
    /// # Panics
    /// When the caller does not hold `mutex` after all.
    pub unsafe fn wait_until<W: osq::Wait<P>>(
        &self,
        mutex: &RawMutex<P, W>,
        deadline: Option<Deadline>,
    ) -> bool {
        let me = P::me();
        assert!(
            mutex.is_mine(),
            "task {} waits with the mutex at {mutex:p}, which it does not hold",
            me.number()
        );
        self.queue.enter(|queue| {
            want(me, mutex.body());
            queue.push(me, 0);
        });
        mutex.body().unlock();
        while !was_moved::<P>(me) {
            P::event(Event::Parked);
            if P::park(deadline) == Woken::TimedOut && self.give_up(me) {
                mutex.lock();
                return false;
            }
        }
        mutex.wait_moved(me);
        true
    }

    /// Leaves the queue; `false` when a notification came first.
    fn give_up(&self, me: TaskId) -> bool {
        self.queue.enter(|queue| {
            let waiting = P::task(me).wait.moved.load(Relaxed) == NOT_MOVED; // the gate orders it
            if waiting {
                queue.remove(me);
                P::event(Event::Cancelled);
            }
            waiting
        })
    }

    /// Moves the first waiter to its mutex; returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.queue.front().first().is_some()
            && self.queue.enter(|queue| Self::move_on(&queue, MOVED))
    }

    /// Moves all waiters to their mutexes; returns how many there were.
    pub fn notify_all(&self) -> usize {
        if self.queue.front().first().is_none() {
            return 0;
        }
        self.queue.enter(|queue| {
            let mut moved = 0;
            let mut how = MOVED;
            while let Some(first) = queue.first() {
                if queue.after(first).is_some() {
                    how = TOGETHER;
                }
                moved += usize::from(Self::move_on(&queue, how));
            }
            moved
        })
    }

    /// Moves the first waiter that a fork has not left behind.
    fn move_on(queue: &Entered<'_, P>, how: u32) -> bool {
        let first = loop {
            let Some(first) = queue.first() else {
                return false;
            };
            queue.remove(first);
            if P::exists(first) {
                break first;
            }
        };
        move_to_mutex::<P>(first, how, |_| true, || {})
    }
}

/// The caller is about to wait, and to be moved to the mutex. Published by the gate of
/// the queue that it waits in.
pub(crate) fn want<P: Platform>(me: TaskId, mutex: &Body<P>) {
    let node = &P::task(me).wait;
    node.moved.store(NOT_MOVED, Relaxed); // the gate orders it
    node.mutex.set(mutex);
}

/// Whether the caller was moved: then [`Body::wait`] goes on with the wait.
pub(crate) fn was_moved<P: Platform>(me: TaskId) -> bool {
    // (C1) Acquire pairs with move_to_mutex's Release: my place is the mutex's.
    P::task(me).wait.moved.load(Acquire) != NOT_MOVED
}

/// The wait of the caller, which was moved, has ended: it waits as others do from now on.
pub(crate) fn want_no_more<P: Platform>(me: TaskId) {
    P::task(me).wait.moved.store(NOT_MOVED, Relaxed); // the next gate that it enters orders it
}

/// Moves a waiter to the mutex that it wants if that is `fit`, [`MOVED`] or [`TOGETHER`] with
/// others, and tells it. Returns whether it did. Whoever calls this keeps the waiter from
/// leaving before that: it stands in a queue whose gate the caller holds, or was taken out of
/// one by the caller, who has not told it.
pub(crate) fn move_to_mutex<P: Platform>(
    task: TaskId,
    how: u32,
    fit: impl FnOnce(&Body<P>) -> bool,
    tell: impl FnOnce(),
) -> bool {
    let node = &P::task(task).wait;
    // SAFETY: the waiter has set it by `want`, from a reference that lives as long as its
    // wait. That has not ended: the caller keeps the task from giving up; and once it was
    // told it finds itself moved and leaves through the mutex's queue, which `adopt` puts it
    // into and where it needs the mutex's gate to leave. `adopt` is done with the mutex when
    // it opens that gate.
    let mutex = unsafe { &*node.mutex.get() };
    let moves = fit(mutex);
    if moves {
        // Before it can be woken in the mutex's queue: a waiter that woke up
        // and found itself not moved would sleep on.
        node.moved.store(how, Release); // (C1)
        tell();
        P::event(Event::Requeued);
        mutex.adopt(task);
    }
    moves
}
