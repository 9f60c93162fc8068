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
    platform::{FOREVER, Look, Ordering::*, Platform, Pointer, TaskId, Word},
};

/// A task's place in a queue. Its fields belong to the holder of the gate of
/// the queue that the task stands in.
pub(crate) struct Node<P: Platform> {
    pub(crate) next: P::U32,
    prev: P::U32,
    /// When the task came.
    pub(crate) since: P::U32,
    /// When it became the first.
    pub(crate) first: P::U32,
    /// For a waiter of a condition variable: whether it was moved on, and what then.
    pub(crate) moved: P::U32,
    /// For a waiter of a condition variable: the mutex it wants back.
    pub(crate) mutex: Pointer<Body<P>>,
    /// The queues whose gates the task holds, or is about to take or has just opened: what
    /// a fork's child knows it by. With [`MENDED`], if somebody sees to it there. In that of
    /// a condition variable it comes into that of a mutex.
    inside: [P::U32; 2],
    /// The task's own number, for that.
    number: P::U32,
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
            inside: [P::U32::ZERO, P::U32::ZERO],
            number: P::U32::ZERO,
        }
    }
}

/// A mark of `inside`.
const MENDED: u32 = 1;

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
        self.come();
        let result = self.gate.try_with(|| section(Entered(self)));
        Self::go();
        result
    }

    /// Runs `section` inside the gate.
    pub(crate) fn enter<R>(&self, section: impl FnOnce(Entered<'_, P>) -> R) -> R {
        self.come();
        let result = self.gate.with(|| section(Entered(self)));
        Self::go();
        result
    }

    /// The caller is about to enter: says so for a fork's child in which it may be gone,
    /// and mends in a fork's child what others have left.
    fn come(&self) {
        if P::FORKS {
            if P::is_fork() {
                self.mend();
            }
            let (me, name) = (P::me(), self.name());
            let node = &P::task(me).wait;
            if node.number.load(Relaxed) != me.number() {
                node.number.store(me.number(), Relaxed); // a copy of the memory has both
            }
            let outer = node.inside[0].load(Relaxed) == 0; // its task's own
            let inside = &node.inside[usize::from(!outer)];
            inside.store(name, Relaxed); // before the gate, by the fence
            P::fence();
        }
    }

    /// The caller has left, and the queue may be gone.
    fn go() {
        if P::FORKS {
            let node = &P::task(P::me()).wait;
            let inner = node.inside[1].load(Relaxed) != 0; // its task's own
            // (W1) Release: not before the gate is open, in a copy of the memory: as `mend` reads it.
            node.inside[usize::from(inner)].store(0, Release);
        }
    }

    fn name(&self) -> u32 {
        core::ptr::from_ref(self).addr() as u32 & !MENDED | 2 // not 0
    }

    /// In a fork's child, opens the gate if a task that is gone has left it closed. Nobody
    /// here takes the gate before none of those says any more that it is inside: so it is
    /// one of them that has it. The queue is then in no order; that task alone is put into
    /// it, for whoever enters takes those that are gone out, before it puts another in: the
    /// task may be in two queues so.
    #[cold]
    fn mend(&self) {
        P::each_task(|task| {
            let node = &task.wait;
            let number = node.number.load(Relaxed); // of who is gone, as it was copied
            if let Some(gone) = TaskId::new(number).filter(|&task| !P::exists(task)) {
                for inside in &node.inside {
                    self.mend_after(gone, node, inside);
                }
            }
        });
    }

    /// The same if it is that task which has left the gate closed, and says so there. Relaxed
    /// throughout: what is mended is published by the gate.
    fn mend_after(&self, gone: TaskId, node: &Node<P>, inside: &P::U32) {
        let name = self.name();
        // (W1) relaxed: the copy is behind both.
        while inside.load(Relaxed) | MENDED == name | MENDED {
            // One task mends, and the others wait for that.
            let mends = inside.compare_exchange(name, name | MENDED, Relaxed, Relaxed);
            if mends.is_err() {
                let is_mended = |inside| inside != name | MENDED;
                let never = || {
                    P::yield_to(gone); // whoever it is that mends
                    false
                };
                P::spin_until(inside, Relaxed, Look::Poll, FOREVER, is_mended, never);
                continue;
            }
            if self.gate.is_closed() {
                node.next.store(gone.number(), Relaxed);
                node.prev.store(gone.number(), Relaxed);
                Entered(self).replace_first(gone.number() << TASK_SHIFT, 0);
                self.gate.abandon();
            }
            inside.store(0, Relaxed);
        }
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
