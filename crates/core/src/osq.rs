//! The optimistic spin queue: an MCS queue that a spinner can leave.
//!
//! Spinners line up, each watching a word of its own; the lead, and it alone,
//! looks at what they all want. After the Linux kernel's OSQ (M. Stultz, the
//! kernel's mutex; the lock of Mellor-Crummey and Scott, 1991), with a node per
//! task instead of one per CPU.
//!
//! The queue's word is the number of the task at its tail, 0 when empty. A
//! node's `locked` is set once, by the predecessor, and makes its task the
//! lead.
//!
//! Leaving takes three steps. (A) the leaver cuts its predecessor's `next`,
//! after which the predecessor cannot give it the lead; (B) it finds its own
//! successor, or puts the tail back to the predecessor; (C) it links the two.
//! Both are stable then: the predecessor cannot go before it has a `next`, nor
//! the successor pass its own step A before its predecessor points to it.

use core::marker::PhantomData;

use crate::platform::{self, FOREVER, Look, Ordering::*, Platform, Running, TaskId, Word};

/// How spinners in the queue wait: the policy of seed 001.
pub trait Wait<P: Platform>: Send + Sync + 'static {
    /// How they look at their own word.
    const LOOK: Look;
    /// Whether there is no queue: who finds another spinning does not spin.
    const ALONE: bool = false;
}

/// Before seed 001: poll.
pub struct Poll;

/// After seed 001: sleep lightly until the word changes.
pub struct Event;

/// One at a time, and nobody waits in line: no step of another task is ever waited
/// for, not even to leave.
pub struct Alone;

impl<P: Platform> Wait<P> for Alone {
    const LOOK: Look = Look::Poll;
    const ALONE: bool = true;
}

impl<P: Platform> Wait<P> for Poll {
    const LOOK: Look = Look::Poll;
}

impl<P: Platform> Wait<P> for Event {
    const LOOK: Look = {
        assert!(
            P::EVENT_SEES_RUNNING,
            "in this world a wait for an event would not see the predecessor stop running: use Poll"
        );
        Look::Event
    };
}

/// A task's place in a queue.
pub(crate) struct Node<P: Platform> {
    next: P::U32,
    prev: P::U32,
    locked: P::U32,
}

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            next: P::U32::ZERO,
            prev: P::U32::ZERO,
            locked: P::U32::ZERO,
        }
    }
}

/// A queue of spinners.
pub struct Osq<P: Platform, W> {
    tail: P::U32,
    wait: PhantomData<W>,
}

impl<P: Platform, W: Wait<P>> Default for Osq<P, W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, W: Wait<P>> Osq<P, W> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            tail: P::U32::ZERO,
            wait: PhantomData,
        }
    }

    /// Queues up. `true` makes the caller the lead until it calls
    /// [`Osq::unlock`]; `false` says that it should not spin: it must
    /// reschedule, or its predecessor is off its CPU.
    pub fn lock(&self) -> bool {
        let me = P::me();
        if W::ALONE {
            // (A4) Acquire pairs with unlock's Release: the lead before.
            let alone = self.tail.compare_exchange(0, me.number(), Acquire, Relaxed);
            return alone.is_ok();
        }
        let node = &P::task(me).osq;
        node.next.store(0, Relaxed); // published by the swap
        node.locked.store(0, Relaxed); // published by the swap
        // (A1) Release pairs with A1's Acquire in my successor: it writes my
        // `next` after I cleared it. Acquire orders me after my predecessor's.
        let Some(prev) = TaskId::new(self.tail.swap(me.number(), AcqRel)) else {
            return true;
        };
        node.prev.store(prev.number(), Relaxed); // published by (A2)
        // (A2) Release pairs with take_next's Acquire: a predecessor that
        // leaves overwrites my `prev` (step C) after my own store to it.
        P::task(prev).osq.next.store(me.number(), Release);
        let lead = P::spin_until(
            &node.locked,
            Acquire, // (A3) pairs with give's Release
            W::LOOK,
            FOREVER,
            |locked| locked != 0,
            || {
                let prev = TaskId::new(node.prev.load(Relaxed)); // a hint
                P::need_resched() || prev.is_some_and(|prev| P::running(prev) == Running::No)
            },
        );
        lead.is_some() || self.unqueue(me)
    }

    /// Gives the lead to the next in line.
    pub fn unlock(&self) {
        let me = P::me();
        // (A4) Release pairs with A1's Acquire: the lead before a newcomer's. (A6) Acquire.
        if self
            .tail
            .compare_exchange(me.number(), 0, AcqRel, Relaxed)
            .is_ok()
            || W::ALONE
        {
            return;
        }
        if let Some(next) = Self::take_next(me).or_else(|| self.wait_next(me, None)) {
            // (A3) Release pairs with lock's Acquire: the lead before it.
            P::task(next).osq.locked.store(1, Release);
        }
    }

    /// Leaves the queue. `true` when the lead arrived first.
    fn unqueue(&self, me: TaskId) -> bool {
        let node = &P::task(me).osq;
        // Step A: cut me off my predecessor.
        let prev = loop {
            let prev = TaskId::new(node.prev.load(Relaxed)) // (A5) orders it
                .expect("a queued spinner has a predecessor");
            let prev_next = &P::task(prev).osq.next;
            if prev_next
                // (A5) Acquire pairs with step C's Release: the predecessor
                // that I got from a leaver is linked to me.
                .compare_exchange(me.number(), 0, Acquire, Relaxed)
                .is_ok()
            {
                break prev;
            }
            // (A3) Acquire pairs with unlock's Release.
            if node.locked.load(Acquire) != 0 {
                P::event(platform::Event::OsqUnqueueRaced);
                return true;
            }
            // My predecessor holds my link: it gives me the lead, or it is
            // leaving too and gives me another predecessor.
            platform::settle::<P>(
                &node.prev,
                |now| now != prev.number(),
                || node.locked.load(Relaxed) != 0 || prev_next.load(Relaxed) == me.number(),
            );
        };
        P::event(platform::Event::OsqUnqueueA);
        // Step B: find my successor.
        let Some(next) = self.wait_next(me, Some(prev)) else {
            P::event(platform::Event::OsqUnqueueB);
            return false;
        };
        // Step C: link the two.
        P::event(platform::Event::OsqUnqueueC);
        P::task(next).osq.prev.store(prev.number(), Relaxed); // published below
        // (A5) Release pairs with A5's Acquire in the successor, and with
        // take_next's in the predecessor.
        P::task(prev).osq.next.store(next.number(), Release);
        false
    }

    /// My successor, cut off from me; or `None` once the tail, which was me,
    /// is `back` again.
    fn wait_next(&self, me: TaskId, back: Option<TaskId>) -> Option<TaskId> {
        let node = &P::task(me).osq;
        loop {
            if self.tail.load(Relaxed) == me.number()
                && self
                    .tail
                    // (A4) Release pairs with A1's Acquire, as in unlock. (A6) Acquire pairs with
                    // the Release here of who stood behind me: it has written to my `next`, and
                    // then I shall again, for another queue.
                    .compare_exchange(me.number(), TaskId::encode(back), AcqRel, Relaxed)
                    .is_ok()
            {
                return None;
            }
            if node.next.load(Relaxed) != 0
                && let Some(next) = Self::take_next(me)
            {
                return Some(next);
            }
            // The successor is between its swap and its link, or it is leaving
            // and puts the tail back to me or links its own successor.
            platform::settle::<P>(
                &node.next,
                |next| next != 0,
                || self.tail.load(Relaxed) == me.number(),
            );
        }
    }

    fn take_next(me: TaskId) -> Option<TaskId> {
        // (A2) Acquire pairs with lock's and step C's Release.
        TaskId::new(P::task(me).osq.next.swap(0, Acquire))
    }
}
