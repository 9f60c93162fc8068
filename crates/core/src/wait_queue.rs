//! The queue of sleeping waiters: first in, first out, linked by task number.
//!
//! A ring in both directions: the queue's front word holds the first waiter,
//! and the last stands before the first. The queue changes inside its gate
//! alone. Beside the first waiter the front word holds marks, which change
//! without the gate; whoever changes one exchanges the whole word, and so knows
//! which waiter was the first.

use crate::{
    gate::Gate,
    mutex::Body,
    platform::{Ordering::*, Platform, Pointer, TaskId, Word},
};

/// A task's place in a queue. Its fields belong to the holder of the gate of
/// the queue that the task stands in.
pub(crate) struct Node<P: Platform> {
    next: P::U32,
    prev: P::U32,
    /// When the task came.
    pub(crate) since: P::U32,
    /// When it became the first.
    pub(crate) first: P::U32,
    /// For a waiter of a condition variable: whether it was moved on.
    pub(crate) moved: P::U32,
    /// For a waiter of a condition variable: the mutex it wants back.
    pub(crate) mutex: Pointer<Body<P>>,
}

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            next: P::U32::ZERO,
            prev: P::U32::ZERO,
            since: P::U32::ZERO,
            first: P::U32::ZERO,
            moved: P::U32::ZERO,
            mutex: Pointer::new(),
        }
    }
}

/// A mark of the first waiter in the front word: it is awake, or whoever set
/// this wakes it.
pub(crate) const AWAKE: u32 = 1;
/// A mark of the first waiter: overdue, it asks for the lock.
pub(crate) const HANDOFF: u32 = 2;
/// A mark of the lead of the spinners: it will look at the lock again.
pub(crate) const SPINNER: u32 = 4;
/// A mark of somebody who waits: the owner should not keep the lock.
pub(crate) const RECALL: u32 = 8;
/// A mark of the lock, whoever waits: the kernel may have waiters of its own.
pub(crate) const BOOST: u32 = 16;
const TASK_SHIFT: u32 = 5;
const _: () = assert!(TaskId::MAX << TASK_SHIFT >> TASK_SHIFT == TaskId::MAX);

/// The first waiter and the marks, as one value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Front(pub(crate) u32);

impl Front {
    pub(crate) const fn first(self) -> Option<TaskId> {
        TaskId::new(self.0 >> TASK_SHIFT)
    }

    pub(crate) const fn has(self, marks: u32) -> bool {
        self.0 & marks != 0
    }

    pub(crate) const fn with(self, marks: u32) -> Self {
        Self(self.0 | marks)
    }

    pub(crate) const fn without(self, marks: u32) -> Self {
        Self(self.0 & !marks)
    }

    pub(crate) const fn marks(self) -> u32 {
        self.0 & ((1 << TASK_SHIFT) - 1)
    }
}

/// A queue of waiters.
pub(crate) struct WaitQueue<P: Platform> {
    pub(crate) front: P::U32,
    gate: Gate<P>,
}

/// The queue, while its gate is held.
pub(crate) struct Entered<'a, P: Platform>(&'a WaitQueue<P>);

impl<P: Platform> WaitQueue<P> {
    pub(crate) const fn new() -> Self {
        Self {
            front: P::U32::ZERO,
            gate: Gate::new(),
        }
    }

    /// The first waiter and the marks.
    #[inline]
    pub(crate) fn front(&self) -> Front {
        Front(self.front.load(Relaxed)) // checked by `mark` or by a guarded store
    }

    /// Changes the marks; fails when the front is no longer `from`.
    pub(crate) fn mark(&self, from: Front, to: Front) -> bool {
        // (Q1) AcqRel: who reads a mark sees what its setter did before.
        self.front
            .compare_exchange(from.0, to.0, AcqRel, Relaxed)
            .is_ok()
    }

    /// Runs `section` inside the gate, if that is free at the first try.
    pub(crate) fn try_enter<R>(&self, section: impl FnOnce(Entered<'_, P>) -> R) -> Option<R> {
        self.gate.try_with(|| section(Entered(self)))
    }

    /// Runs `section` inside the gate.
    pub(crate) fn enter<R>(&self, section: impl FnOnce(Entered<'_, P>) -> R) -> R {
        self.gate.with(|| section(Entered(self)))
    }
}

// Relaxed throughout: the gate orders the links.
impl<P: Platform> Entered<'_, P> {
    pub(crate) fn first(&self) -> Option<TaskId> {
        self.0.front().first()
    }

    /// Appends `task`; if that makes it the first, with `marks`. Returns
    /// whether it did.
    pub(crate) fn push(&self, task: TaskId, marks: u32) -> bool {
        let node = &P::task(task).wait;
        node.since.store(P::stamp(), Relaxed); // a hint
        let Some(head) = self.first() else {
            node.next.store(task.number(), Relaxed);
            node.prev.store(task.number(), Relaxed);
            self.set_first(task, marks, 0);
            return true;
        };
        let head_node = &P::task(head).wait;
        let tail = head_node.prev.load(Relaxed);
        node.next.store(head.number(), Relaxed);
        node.prev.store(tail, Relaxed);
        head_node.prev.store(task.number(), Relaxed);
        Self::linked(tail).next.store(task.number(), Relaxed);
        false
    }

    /// Puts `task` before all others, without marks.
    pub(crate) fn push_front(&self, task: TaskId) {
        if !self.push(task, 0) {
            self.set_first(task, 0, 0); // in a ring the last is before the first
        }
    }

    /// The waiter behind `task`.
    pub(crate) fn after(&self, task: TaskId) -> Option<TaskId> {
        let next = TaskId::new(P::task(task).wait.next.load(Relaxed));
        next.filter(|_| next != self.first())
    }

    /// Takes `task`, which is in the queue, out of it. The first waiter takes
    /// its marks along, and the last of all every mark but the lock's own: a
    /// spinner's is of no use without a waiter, and may be that of a spinner that a
    /// fork has left behind. Returns whether it was the first.
    pub(crate) fn remove(&self, task: TaskId) -> bool {
        let node = &P::task(task).wait;
        let next = node.next.load(Relaxed);
        let prev = node.prev.load(Relaxed);
        let was_first = self.first() == Some(task);
        if next == task.number() {
            self.replace_first(0, 0);
            return true;
        }
        Self::linked(prev).next.store(next, Relaxed);
        Self::linked(next).prev.store(prev, Relaxed);
        if was_first && let Some(next) = TaskId::new(next) {
            self.set_first(next, 0, SPINNER);
        }
        was_first
    }

    fn set_first(&self, task: TaskId, marks: u32, keep: u32) {
        P::task(task).wait.first.store(P::stamp(), Relaxed); // a hint
        self.replace_first(task.number() << TASK_SHIFT | marks, keep);
    }

    /// Replaces the first waiter and the marks but those to `keep`.
    fn replace_first(&self, first: u32, keep: u32) {
        let mut front = self.0.front();
        while !self.0.mark(front, Front(first | front.0 & (keep | BOOST))) {
            front = self.0.front();
        }
    }

    fn linked(number: u32) -> &'static Node<P> {
        let task = TaskId::new(number).expect("a queued node has two neighbours");
        &P::task(task).wait
    }
}
