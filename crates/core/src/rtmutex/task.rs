//! What the real-time mutexes keep for each task: what it waits for, and who
//! waits for what it owns.

use core::marker::PhantomData;

use super::{
    Body,
    heap::{Heap, Key, Place},
};
use crate::{
    gate::Gate,
    platform::{Event, Ordering::*, Platform, Pointer, Prio, Priority, TaskId, Word},
};

/// The part of a task's record.
///
/// | field | changed by the holder of |
/// |---|---|
/// | `waits`, `lock`, the key in `queued` | the task's own gate and the gate of the lock it waits for; read under either |
/// | the links in `queued` | the gate of the lock that the task waits for |
/// | `lending` | the gate of that lock's owner, and of the lock |
/// | `lenders` | the task's own gate |
pub(crate) struct Node<P: Platform> {
    gate: Gate<P>,
    /// Whether the task waits for a lock ([`WAITS`]), and above that how often it has.
    waits: P::U32,
    /// Which, if it does.
    lock: Pointer<Body<P>>,
    /// Its place among those that wait for the lock.
    pub(super) queued: Place<P::U32>,
    /// Its place among the lenders of the lock's owner, if it is the lock's top
    /// waiter. The key is a copy: the one in `queued` changes while the task is
    /// in this heap, and would put it out of order.
    lending: Place<P::U32>,
    /// The top: of the top waiters of all the locks that the task owns.
    lenders: P::U32,
}

/// The mark of a task that waits.
const WAITS: u32 = 1;

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            gate: Gate::new(),
            waits: P::U32::ZERO,
            lock: Pointer::new(),
            queued: Place::new(),
            lending: Place::new(),
            lenders: P::U32::ZERO,
        }
    }
}

pub(super) fn node<P: Platform>(task: TaskId) -> &'static Node<P> {
    &P::task(task).rtmutex
}

/// A task, while its gate is held.
#[must_use = "the gate must be left"]
pub(super) struct Task<P> {
    task: TaskId,
    world: PhantomData<P>,
}

// Relaxed throughout: the gate orders it.
impl<P: Priority> Task<P> {
    pub(super) fn enter(task: TaskId) -> Self {
        node::<P>(task).gate.lock();
        Self {
            task,
            world: PhantomData,
        }
    }

    /// The task, unless its gate is closed. Nobody may take a step while this is used.
    pub(super) fn look(task: TaskId) -> Option<Self> {
        (!node::<P>(task).gate.is_closed()).then_some(Self {
            task,
            world: PhantomData,
        })
    }

    pub(super) fn leave(self) {
        self.node().gate.unlock();
    }

    pub(super) fn id(&self) -> TaskId {
        self.task
    }

    fn node(&self) -> &'static Node<P> {
        node(self.task)
    }

    /// The priority at which the task runs, or should.
    pub(super) fn prio(&self) -> Prio {
        P::own(self.task).max(self.lent())
    }

    /// The priority at which it is queued.
    pub(super) fn queued_prio(&self) -> Prio {
        self.node().queued.key().prio
    }

    /// Which of its waits this is: a number that wraps.
    pub(super) fn wait(&self) -> u32 {
        self.node().waits.load(Relaxed)
    }

    /// The lock that it waits for.
    pub(super) fn lock(&self) -> Option<*const Body<P>> {
        (self.wait() & WAITS != 0).then(|| self.node().lock.get())
    }

    /// It waits for `lock` from now on.
    pub(super) fn wait_for(&self, lock: &Body<P>) {
        self.node().lock.set(lock);
        let next = (self.wait() | WAITS).wrapping_add(2 * WAITS);
        self.node().waits.store(next, Relaxed);
    }

    pub(super) fn stop_waiting(&self) {
        self.node().waits.store(self.wait() & !WAITS, Relaxed);
    }

    fn lenders<'h>(&'h self) -> Heap<'h, P::U32, impl Fn(TaskId) -> &'h Place<P::U32>> {
        Heap {
            root: &self.node().lenders,
            place: |task| &node::<P>(task).lending,
        }
    }

    /// Of those that wait for what it owns, the one of the highest priority.
    pub(super) fn lender(&self) -> Option<TaskId> {
        self.lenders().top()
    }

    fn lent(&self) -> Prio {
        let prio = |lender| node::<P>(lender).lending.key().prio;
        self.lender().map_or(Prio::FAIR, prio)
    }

    /// The top waiter of a lock that it owns was one task and is another, or the
    /// same with another key. The caller holds the lock's gate.
    pub(super) fn change_lender(&self, from: Option<TaskId>, to: Option<TaskId>) {
        let before = self.lent();
        if let Some(from) = from {
            self.lenders().remove(from);
        }
        if let Some(to) = to {
            let key: Key = node::<P>(to).queued.key();
            self.lenders().insert(to, key);
        }
        let lent = self.lent();
        if lent != before {
            P::event(Event::Lent);
            P::lend(self.task, lent);
        }
    }
}
