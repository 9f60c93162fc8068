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

use core::mem;

use crate::{
    mutex::{Body, Call, RawMutex},
    osq,
    platform::{Deadline, Event, Ordering::*, Platform, TaskId, Woken, Word},
    wait_queue::{Entered, WaitQueue},
};

/// A waiter that stands in the condition variable's queue, or waits for none.
const NOT_MOVED: u32 = 0;
/// One that stands in the mutex's queue.
const MOVED: u32 = 1;
/// One that stands there with others that were moved at the same time.
pub(crate) const TOGETHER: u32 = 2;
/// One that was moved, stands in no queue any more, and is to lock the mutex.
pub(crate) const SENT: u32 = 3;

/// Whether a waiter is moved to its mutex alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// It is.
    None,
    /// Another one to the same mutex is moved right after it, by the same task.
    Follows,
    /// Others were moved before it, and it is the last.
    Before,
}

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
            Self::first(&queue); // those that a fork has left behind are gone
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
        if self.queue.front().first().is_none() {
            return false;
        }
        let call = self.queue.enter(|queue| {
            let first = Self::first(&queue);
            first.and_then(|first| {
                queue.remove(first);
                move_to_mutex::<P>(first, Company::None, |_| true, || {})
            })
        });
        let moved = call.is_some();
        call.unwrap_or_default().make::<P>();
        moved
    }

    /// Moves all waiters to their mutexes; returns how many there were.
    pub fn notify_all(&self) -> usize {
        if self.queue.front().first().is_none() {
            return 0;
        }
        let (moved, call) = self.queue.enter(|queue| {
            let mut call = Call::default();
            let mutex = |waiter| P::task(waiter).wait.mutex.get();
            let mut moved = 0;
            let mut company = Company::None;
            let mut next = Self::first(&queue);
            while let Some(waiter) = next {
                queue.remove(waiter);
                next = Self::first(&queue);
                company = match company {
                    _ if next.is_some_and(|next| mutex(next) == mutex(waiter)) => Company::Follows,
                    Company::Follows => Company::Before,
                    _ => Company::None,
                };
                let others = move_to_mutex::<P>(waiter, company, |_| true, || {});
                if company != Company::Follows {
                    mem::replace(&mut call, others.unwrap_or_default()).make::<P>();
                }
                moved += 1;
            }
            (moved, call)
        });
        call.make::<P>(); // outside: who is woken may come back to wait
        moved
    }

    /// The first waiter of those that a fork has not left behind.
    fn first(queue: &Entered<'_, P>) -> Option<TaskId> {
        loop {
            let first = queue.first()?;
            if P::exists(first) {
                return Some(first);
            }
            queue.remove(first);
        }
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

/// Moves a waiter to the mutex that it wants if that is `fit`, and tells it. Returns whom
/// to wake then. Whoever calls this keeps the waiter from leaving before that: it stands in a queue
/// whose gate the caller holds, or was taken out of one by the caller, who has not told it.
pub(crate) fn move_to_mutex<P: Platform>(
    task: TaskId,
    company: Company,
    fit: impl FnOnce(&Body<P>) -> bool,
    tell: impl FnOnce(),
) -> Option<Call> {
    let node = &P::task(task).wait;
    // SAFETY: the waiter has set it by `want`, from a reference that lives as long as its
    // wait. That has not ended: the caller keeps the task from giving up; and once it was
    // told it finds itself moved and leaves through the mutex's queue, which `adopt` puts it
    // into, and where it, or who sends it, needs the mutex's gate to have it leave. `adopt` is
    // done with the mutex when it opens that gate.
    let mutex = unsafe { &*node.mutex.get() };
    fit(mutex).then(|| {
        // Before it can be woken in the mutex's queue: a waiter that woke up
        // and found itself not moved would sleep on.
        let how = if company == Company::None {
            MOVED
        } else {
            TOGETHER
        };
        node.moved.store(how, Release); // (C1)
        tell();
        P::event(Event::Requeued);
        mutex.adopt(task, company)
    })
}
