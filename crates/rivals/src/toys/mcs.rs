//! The queue lock of J. Mellor-Crummey and M. Scott (1991).
//!
//! The word is the number of the last task in the queue, 0 when the lock is
//! free. A task puts itself there, tells the one before that it is next, and
//! watches its own node until that one grants it the lock: no two tasks watch
//! the same line.
//!
//! A node's words are written by two tasks, in this order:
//!
//! | | before it is in the queue | by its owner's neighbour |
//! |---|---|---|
//! | `granted` | 0, by its owner (A) | 1, by the one before (B) |
//! | `next` | 0, by its owner (A) | the successor, by the one behind (C) |
//!
//! (A) happens before (B) and (C) because both of these tasks found the owner's
//! number in a word: (C) in the tail, (B) in its own `next`.

use lockyard_core::{FOREVER, Look, Ordering::*, Platform, TaskId, Word};
use lockyard_torture::Lock;

use super::per_task::PerTask;
use crate::unlocking;

const NOBODY: u32 = 0;
const NOT_YET: u32 = 0;
const YES: u32 = 1;

/// A Mellor-Crummey and Scott lock.
pub struct Mcs<P: Platform> {
    tail: P::U32,
    nodes: PerTask<Node<P>>,
}

struct Node<P: Platform> {
    next: P::U32,
    granted: P::U32,
}

impl<P: Platform> Default for Node<P> {
    fn default() -> Self {
        Self {
            next: <P::U32 as Word>::ZERO,
            granted: <P::U32 as Word>::ZERO,
        }
    }
}

impl<P: Platform> Mcs<P> {
    /// An unlocked lock.
    pub const fn new() -> Self {
        Self {
            tail: <P::U32 as Word>::ZERO,
            nodes: PerTask::new(),
        }
    }

    #[inline]
    fn lock(&self, me: TaskId) {
        let node = self.nodes.of(me);
        // (A) Relaxed: the swap and the store to `next` below publish them.
        node.next.store(NOBODY, Relaxed);
        node.granted.store(NOT_YET, Relaxed);
        // Acquire: pairs with the exchange in `unlock`, when the lock is free,
        // and with the release of this same swap by the task before, for (A)
        // before (C). Release: makes (A) visible to the task behind.
        let before = self.tail.swap(me.number(), AcqRel);
        if let Some(before) = TaskId::new(before) {
            // (C) Release: pairs with the loads of `next` in `unlock`, for (A)
            // before (B).
            self.nodes.of(before).next.store(me.number(), Release);
            // Acquire: pairs with (B).
            P::spin_until(
                &node.granted,
                Acquire,
                Look::Poll,
                FOREVER,
                |g| g == YES,
                || false,
            );
        }
    }

    #[inline]
    fn unlock(&self, me: TaskId) {
        let node = self.nodes.of(me);
        // Acquire: pairs with (C), here and in the spin below.
        let mut next = TaskId::new(node.next.load(Acquire));
        if next.is_none() {
            // Release: pairs with the swap in `lock`. Relaxed: a failure says
            // only that somebody is about to do (C).
            let last = self
                .tail
                .compare_exchange(me.number(), NOBODY, Release, Relaxed);
            if last.is_ok() {
                return;
            }
            next = P::spin_until(
                &node.next,
                Acquire,
                Look::Poll,
                FOREVER,
                |next| next != NOBODY,
                || false,
            )
            .and_then(TaskId::new);
        }
        let next = next.expect("a spin that nothing stops ends with a successor");
        // (B) Release: pairs with the spin in `lock`.
        self.nodes.of(next).granted.store(YES, Release);
    }
}

impl<P: Platform> Default for Mcs<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Lock for Mcs<P> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let me = P::me();
        self.lock(me);
        unlocking(|| self.unlock(me), section)
    }
}
