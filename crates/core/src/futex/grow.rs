//! A table that grows while it is used.
//!
//! After extendible hashing (Fagin, Nievergelt, Pippenger and Strong, 1979). A key's
//! bucket is numbered by the lowest bits of its hash; how many of them, the *depth* says:
//! that of the bucket, in one word with the number of its waiters. When a table of `n`
//! buckets doubles, its own depth rises first, and then one bucket after the other is
//! *split*: the waiters of bucket `s` go on in `s` and `s + n`, and both are deeper. The
//! table's depth is only where to look first:
//!
//! | inside a bucket's gate its depth is | so |
//! |---|---|
//! | what one took it for | it is the key's bucket, and stays that as long as one is inside |
//! | less | it is not in use yet: look one depth lower |
//! | more | it was split meanwhile: look at the depth that the table has by now |
//!
//! # Nobody is missed
//!
//! A waker that stays outside looks at a gate, and then at one word. It goes away only if
//! the gate is open, and the word says both that the bucket is as deep as the waker took it
//! to be and that nobody is counted. Let that depth be `d`, and let a waiter have closed the
//! gate of a bucket of depth `e`, and compared the word before the waker's user changed it.
//! By (A) and (B) the waker sees what that waiter had seen or done before it compared.
//!
//! | | why the waker did not find nobody |
//! |---|---|
//! | `d = e` | It read the gate that the waiter had closed: closed, or open again, and then it read the word in which the waiter was counted, as it was then or later. |
//! | `d < e` | The bucket was split before the waiter came to its own, by whoever split that one off. The gate has ordered the split before the waiter, so the waker sees a greater depth. |
//! | `d > e` | The waiter's bucket was split after it came, and was counted. (D) The word said `d` from the moment on that it counted those who were moved, the waiter among them. |
//!
//! In each case a count without the waiter is a later one: it has left, or was woken. No
//! ordering is needed but the gates' and the two barriers.
//!
//! # Who grows it, and when
//!
//! A waiter that is about to sleep splits [`BATCH`] buckets, if the table is growing or
//! ought to: so no waiter pays for all, and a waiter that has been woken pays nothing.
//! When no more waiters come, the rest of the buckets stay as they are, and who looks for
//! one of them looks twice.

use super::{Node, Queue, TAKEN, Table, WOKEN};
use crate::{
    gate::Gate,
    platform::{Ordering::*, Platform, Word},
};

/// How many buckets a waiter splits: microseconds.
const BATCH: u32 = 64;

/// A queue with more waiters than this is long.
const LONG: u32 = 4;

/// How many buckets beside a long queue are asked whether theirs are long, too: many may
/// wait for one word.
const NEIGHBOURS: usize = 16;

/// How far a table has grown.
#[repr(align(64))]
pub(super) struct Growth<P: Platform> {
    /// The number of times that the table has doubled, the last time included: a hint.
    depth: P::U32,
    /// How many buckets are still to be split, from the first one on.
    left: P::U32,
    /// For who splits buckets.
    gate: Gate<P>,
}

impl<P: Platform> Growth<P> {
    pub(super) const fn new() -> Self {
        Self {
            depth: P::U32::ZERO,
            left: P::U32::ZERO,
            gate: Gate::new(),
        }
    }

    /// Stops, with all buckets as deep as the table.
    pub(super) fn forget(&self) {
        self.left.store(0, Relaxed); // there is one task
        self.gate.forget();
    }
}

impl<P: Platform, const FIRST: usize, const MOST: usize> Table<P, FIRST, MOST> {
    /// The greatest depth.
    pub(super) const LAST: u32 = (MOST / FIRST).ilog2();

    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        match Self::LAST {
            0 => 0,
            _ => self.growth.depth.load(Relaxed), // a hint, looked at again inside the gate
        }
    }

    /// How many buckets are in use, or are about to be.
    pub fn buckets(&self) -> usize {
        FIRST << self.depth()
    }

    /// Whoever has this node, and is about to sleep, splits some buckets if it should.
    #[inline]
    pub(super) fn make_room(&self, node: &Node<P>) {
        if Self::LAST == 0 {
            return;
        }
        let state = node.state.load(Relaxed); // a hint
        let stands = state != WOKEN && state != TAKEN;
        if stands && (self.is_growing() || self.is_crowded(state as usize - 1)) {
            self.grow();
        }
    }

    /// Whoever is alone, and is about to sleep, does its part if the table is growing.
    #[inline]
    pub(super) fn lend_a_hand(&self) {
        if Self::LAST != 0 && self.is_growing() {
            self.grow();
        }
    }

    #[inline(always)]
    fn is_growing(&self) -> bool {
        self.growth.left.load(Relaxed) > 0 // a hint
    }

    /// Whether the queue is one of many long ones, and something can be done about it: a
    /// hint.
    #[inline]
    fn is_crowded(&self, slot: usize) -> bool {
        let waiters = |slot: usize| Queue::new(&self.buckets, slot, 0).look().1;
        let depth = self.depth();
        if depth == Self::LAST || waiters(slot) <= LONG {
            return false;
        }
        // A queue counts for no more than twice a long one: it may be one word's.
        let beside = (1..=NEIGHBOURS).map(|n| (slot + n) & ((FIRST << depth) - 1));
        let all: u32 = beside.map(|slot| waiters(slot).min(2 * LONG)).sum();
        all > NEIGHBOURS as u32 * LONG / 2
    }

    /// Goes on with doubling the number of buckets, or begins to, if it is not the
    /// greatest and no other task is about it: splits some buckets. Waiters do that by
    /// themselves when queues are long; this is for who knows that many will come.
    #[cold]
    pub fn grow(&self) {
        let Growth { depth, left, gate } = &self.growth;
        // Relaxed: the gate orders it all; others take it for a hint.
        gate.try_with(|| {
            if left.load(Relaxed) == 0 {
                let buckets = self.buckets();
                if buckets == MOST || !self.provide(buckets) {
                    return;
                }
                depth.store(depth.load(Relaxed) + 1, Relaxed);
                left.store(buckets as u32, Relaxed);
            }
            let end = left.load(Relaxed);
            let begin = end.saturating_sub(BATCH);
            (begin..end).for_each(|slot| self.split(slot as usize));
            left.store(begin, Relaxed);
        });
    }

    /// Whether there is memory for as many buckets more as there are.
    pub(super) fn provide(&self, buckets: usize) -> bool {
        let more = &self.buckets[buckets..2 * buckets];
        P::provide(more.as_ptr().cast(), size_of_val(more))
    }

    /// Splits a bucket, from the depth before the table's.
    fn split(&self, slot: usize) {
        let depth = self.depth();
        let half = FIRST << (depth - 1);
        let source = Queue::new(&self.buckets, slot, depth - 1);
        let target = Queue::new(&self.buckets, slot + half, depth);
        source.lock();
        target.lock();
        source.split(&target, |key| Self::slot_at(key, depth) != slot);
        target.unlock();
        source.unlock();
    }
}
