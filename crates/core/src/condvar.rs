//! The condition variable: eight bytes, a queue of waiters.
//!
//! Notified waiters are not woken to fight for the mutex: they are moved from
//! this queue to the mutex's, asleep, and wake when it is theirs to take. Only
//! when nobody holds the mutex is its first waiter woken.
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
        mutex.body().wait(me, None);
        true
    }

    /// Leaves the queue; `false` when a notification came first.
    fn give_up(&self, me: TaskId) -> bool {
        self.queue.enter(|queue| {
            let waiting = P::task(me).wait.moved.load(Relaxed) == 0; // the gate orders it
            if waiting {
                queue.remove(me);
                P::event(Event::Cancelled);
            }
            waiting
        })
    }

    /// Moves the first waiter to its mutex; returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.queue.front().first().is_some() && self.queue.enter(|queue| Self::move_on(&queue))
    }

    /// Moves all waiters to their mutexes; returns how many there were.
    pub fn notify_all(&self) -> usize {
        if self.queue.front().first().is_none() {
            return 0;
        }
        self.queue.enter(|queue| {
            let mut moved = 0;
            while Self::move_on(&queue) {
                moved += 1;
            }
            moved
        })
    }

    /// Moves the first waiter that a fork has not left behind.
    fn move_on(queue: &Entered<'_, P>) -> bool {
        let first = loop {
            let Some(first) = queue.first() else {
                return false;
            };
            queue.remove(first);
            if P::exists(first) {
                break first;
            }
        };
        move_to_mutex::<P>(first, |_| true, || {})
    }
}

/// The caller is about to wait, and to be moved to the mutex. Published by the gate of
/// the queue that it waits in.
pub(crate) fn want<P: Platform>(me: TaskId, mutex: &Body<P>) {
    let node = &P::task(me).wait;
    node.moved.store(0, Relaxed); // the gate orders it
    node.mutex.set(mutex);
}

/// Whether the caller was moved: then [`Body::wait`] goes on with the wait.
pub(crate) fn was_moved<P: Platform>(me: TaskId) -> bool {
    // (C1) Acquire pairs with move_to_mutex's Release: my place is the mutex's.
    P::task(me).wait.moved.load(Acquire) != 0
}

/// Moves a waiter to the mutex that it wants if that is `fit`, and tells it. Returns whether
/// it did. Whoever calls this keeps the waiter from leaving before that: it stands in a queue
/// whose gate the caller holds, or was taken out of one by the caller, who has not told it.
pub(crate) fn move_to_mutex<P: Platform>(
    task: TaskId,
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
        node.moved.store(1, Release); // (C1)
        tell();
        P::event(Event::Requeued);
        mutex.adopt(task);
    }
    moves
}
