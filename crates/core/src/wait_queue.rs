//! The queue of sleeping waiters: first in, first out, linked by task number.
//!
//! A ring in both directions; the queue holds its head, and the tail stands
//! before the head. Links change under the gate alone. The head is also read
//! without it, as a number to wake: such a reader must know by other means
//! that the head it read is still there (see `mutex.rs`).

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
    /// When the task became the first.
    pub(crate) since: P::U32,
    /// For a waiter of a condition variable: whether it was moved on.
    pub(crate) moved: P::U32,
    /// For a waiter of a condition variable: the mutex it wants back.
    pub(crate) mutex: Pointer<Body<P>>,
}

impl<P: Platform> Node<P> {
    pub(crate) const ZERO: Self = Self {
        next: P::U32::ZERO,
        prev: P::U32::ZERO,
        since: P::U32::ZERO,
        moved: P::U32::ZERO,
        mutex: Pointer::NULL,
    };
}

pub(crate) struct WaitQueue<P: Platform> {
    gate: Gate<P>,
    head: P::U32,
}

/// The queue, while its gate is held.
pub(crate) struct Entered<'a, P: Platform>(&'a WaitQueue<P>);

impl<P: Platform> WaitQueue<P> {
    pub(crate) const fn new() -> Self {
        Self {
            gate: Gate::new(),
            head: P::U32::ZERO,
        }
    }

    /// The first waiter, read without the gate.
    pub(crate) fn first(&self) -> Option<TaskId> {
        TaskId::new(self.head.load(Relaxed)) // ordered by the caller's words
    }

    /// Runs `section` inside the gate.
    pub(crate) fn enter<R>(&self, section: impl FnOnce(Entered<'_, P>) -> R) -> R {
        self.gate.with(|| section(Entered(self)))
    }
}

// Relaxed throughout: the gate orders these accesses.
impl<P: Platform> Entered<'_, P> {
    pub(crate) fn first(&self) -> Option<TaskId> {
        self.0.first()
    }

    /// Appends `task`; returns whether it is the first.
    pub(crate) fn push(&self, task: TaskId) -> bool {
        let node = &P::task(task).wait;
        let Some(head) = self.first() else {
            node.next.store(task.number(), Relaxed);
            node.prev.store(task.number(), Relaxed);
            self.set_first(task);
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

    /// Takes `task`, which is in the queue, out of it.
    pub(crate) fn remove(&self, task: TaskId) {
        let node = &P::task(task).wait;
        let next = node.next.load(Relaxed);
        let prev = node.prev.load(Relaxed);
        if next == task.number() {
            self.0.head.store(0, Relaxed);
            return;
        }
        Self::linked(prev).next.store(next, Relaxed);
        Self::linked(next).prev.store(prev, Relaxed);
        if self.first() == Some(task)
            && let Some(next) = TaskId::new(next)
        {
            self.set_first(next);
        }
    }

    fn set_first(&self, task: TaskId) {
        P::task(task).wait.since.store(P::stamp(), Relaxed);
        self.0.head.store(task.number(), Relaxed);
    }

    fn linked(number: u32) -> &'static Node<P> {
        let task = TaskId::new(number).expect("a queued node has two neighbours");
        &P::task(task).wait
    }
}
