//! A queue by priority, first come first served among equals: a pairing heap
//! (Fredman, Sedgewick, Sleator and Tarjan, 1986), linked by task number.
//!
//! A heap's owner guards it with a gate. The root is a word that others may read
//! at any time: the task at the top, 0 for none.
//!
//! A task in a heap points to the first of its children and to the next of its
//! siblings. `prev` is its previous sibling, or for a first child its parent.
//! Insertion takes one comparison, removal O(log n) amortised.

#[cfg(test)]
mod tests;

use crate::platform::{Ordering::*, Prio, TaskId, Word};

/// A task's place in a heap, and its key there. The key does not change while
/// the task is in the heap.
pub(crate) struct Place<W> {
    child: W,
    next: W,
    prev: W,
    high: W,
    low: W,
    arrival: W,
}

impl<W: Word> Place<W> {
    pub(super) const fn new() -> Self {
        Self {
            child: W::ZERO,
            next: W::ZERO,
            prev: W::ZERO,
            high: W::ZERO,
            low: W::ZERO,
            arrival: W::ZERO,
        }
    }

    // Relaxed throughout this file: the gate of the heap's owner orders it.
    pub(super) fn key(&self) -> Key {
        Key {
            prio: Prio::from_halves(self.high.load(Relaxed), self.low.load(Relaxed)),
            arrival: self.arrival.load(Relaxed),
        }
    }

    fn set_key(&self, key: Key) {
        let (high, low) = key.prio.halves();
        self.high.store(high, Relaxed);
        self.low.store(low, Relaxed);
        self.arrival.store(key.arrival, Relaxed);
    }
}

/// What a heap is ordered by.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) prio: Prio,
    /// A number that wraps: a task that 2^31 others came after while it waited
    /// may find itself behind one of its own priority.
    pub(super) arrival: u32,
}

impl Key {
    fn is_before(self, other: Self) -> bool {
        let earlier = (self.arrival.wrapping_sub(other.arrival)).cast_signed() < 0;
        self.prio > other.prio || self.prio == other.prio && earlier
    }
}

/// A heap, while its gate is held.
pub(super) struct Heap<'a, W, F> {
    pub(super) root: &'a W,
    /// The place of a task in heaps of this kind.
    pub(super) place: F,
}

impl<'a, W: Word, F: Fn(TaskId) -> &'a Place<W>> Heap<'a, W, F> {
    /// The task of the highest priority.
    pub(super) fn top(&self) -> Option<TaskId> {
        TaskId::new(self.root.load(Relaxed))
    }

    pub(super) fn insert(&self, task: TaskId, key: Key) {
        let place = self.at(task);
        place.set_key(key);
        place.child.store(0, Relaxed);
        let root = self.meld(self.top(), task);
        self.set_root(Some(root));
    }

    /// Takes `task`, which is in the heap, out of it.
    pub(super) fn remove(&self, task: TaskId) {
        let below = self.merge(TaskId::new(self.at(task).child.load(Relaxed)));
        if self.top() == Some(task) {
            self.set_root(below);
            return;
        }
        self.cut(task);
        if let Some(below) = below {
            let root = self.meld(self.top(), below);
            self.set_root(Some(root));
        }
    }

    fn at(&self, task: TaskId) -> &'a Place<W> {
        (self.place)(task)
    }

    /// Stores the root if it has changed, so that who watches it is left alone.
    fn set_root(&self, root: Option<TaskId>) {
        if self.top() != root {
            self.root.store(TaskId::encode(root), Relaxed);
        }
    }

    /// Takes `task`, which is not the root, out of its siblings.
    fn cut(&self, task: TaskId) {
        let place = self.at(task);
        let next = place.next.load(Relaxed);
        let prev = place.prev.load(Relaxed);
        let before = TaskId::new(prev).expect("below the root everything hangs on something");
        let before = self.at(before);
        let link = if before.child.load(Relaxed) == task.number() {
            &before.child
        } else {
            &before.next
        };
        link.store(next, Relaxed);
        if let Some(next) = TaskId::new(next) {
            self.at(next).prev.store(prev, Relaxed);
        }
    }

    /// Makes one of two roots, of which there may be no first, the first child
    /// of the other. Returns that.
    fn meld(&self, root: Option<TaskId>, other: TaskId) -> TaskId {
        let Some(root) = root else { return other };
        let first = self.at(other).key().is_before(self.at(root).key());
        let (top, sub) = if first { (other, root) } else { (root, other) };
        let child = self.at(top).child.load(Relaxed);
        self.at(sub).next.store(child, Relaxed);
        self.at(sub).prev.store(top.number(), Relaxed);
        if let Some(child) = TaskId::new(child) {
            self.at(child).prev.store(sub.number(), Relaxed);
        }
        self.at(top).child.store(sub.number(), Relaxed);
        top
    }

    /// Makes one heap of siblings: melds them in pairs, then the last pair with
    /// the one before it, and so on.
    fn merge(&self, first: Option<TaskId>) -> Option<TaskId> {
        let mut rest = first;
        let mut pairs = 0; // linked by `next`, the last on top
        while let Some(one) = rest {
            let two = self.next(one);
            rest = two.and_then(|two| self.next(two));
            let pair = two.map_or(one, |two| self.meld(Some(one), two));
            self.at(pair).next.store(pairs, Relaxed);
            pairs = pair.number();
        }
        let mut root = None;
        while let Some(pair) = TaskId::new(pairs) {
            pairs = self.at(pair).next.load(Relaxed);
            root = Some(self.meld(root, pair));
        }
        root
    }

    fn next(&self, task: TaskId) -> Option<TaskId> {
        TaskId::new(self.at(task).next.load(Relaxed))
    }
}
