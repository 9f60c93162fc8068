//! Waiting for a writer: the queue, whom its release calls, and what it does for
//! them.

use super::{RawPercpuRwLock, SLOW, State, WAITERS};
use crate::{
    platform::{Deadline, Event, Ordering::*, PerCpu, Platform, TaskId, Word, settle},
    wait_queue::Entered,
};

/// How long the first waiter may be overtaken before the lock is handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Not at all.
    None,
    /// For so many microseconds.
    Micros(u32),
    /// For ever.
    Endless,
}

/// Who gets the lock from a writer when others wait: the policy of seed 002.
pub trait Grant: Send + Sync + 'static {
    /// How long the first waiter may be overtaken.
    const PATIENCE: Patience;
}

/// Before seed 002: the release takes the lock for those that it wakes. First come,
/// first served; and the lock waits for them to get a CPU.
pub struct Handoff;

/// After seed 002: the release only wakes, and who comes first gets the lock. A waiter
/// may be overtaken without bound, which [`Event::Bypassed`] counts.
pub struct Barging;

/// [`Barging`] with a bound in time, in microseconds. Where first come, first served
/// would let everybody wait for longer than the bound, it is just that; so it should
/// be longer where readers or writers stay inside for long.
pub struct Bounded<const MICROS: u32 = { super::PATIENCE_MICROS }>;

impl Grant for Handoff {
    const PATIENCE: Patience = Patience::None;
}

impl Grant for Barging {
    const PATIENCE: Patience = Patience::Endless;
}

impl<const MICROS: u32> Grant for Bounded<MICROS> {
    const PATIENCE: Patience = Patience::Micros(MICROS);
}

/// In the queue.
const QUEUED: u32 = 0;
/// Taken off it: it will be told what for.
const CALLED: u32 = 1;
/// To try again.
const WOKEN: u32 = 2;
/// With the lock.
const GRANTED: u32 = 3;

/// What a task is told while it waits.
pub(crate) struct Node<P: Platform> {
    /// Whether it wants to write.
    writes: P::U32,
    /// What it was told.
    told: P::U32,
    /// Whom the same release has called after it, 0 for nobody.
    then: P::U32,
}

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            writes: P::U32::ZERO,
            told: P::U32::ZERO,
            then: P::U32::ZERO,
        }
    }
}

/// Those that a release has called, in their order.
struct Called {
    first: TaskId,
    last: TaskId,
    readers: u32,
    writer: Option<TaskId>,
}

impl<P: PerCpu, G: Grant> RawPercpuRwLock<P, G> {
    /// Lets the caller in as a reader, or makes it the writer, unless there is one.
    fn take(&self, me: TaskId, writes: bool) -> bool {
        if writes {
            self.become_writer(me)
        } else {
            self.enter()
        }
    }

    /// Waits for the writer to go. Returns whether the caller is in as a reader, or
    /// is the writer.
    pub(super) fn queue_up(&self, me: TaskId, writes: bool, deadline: Option<Deadline>) -> bool {
        assert!(
            deadline.is_some() || self.state().writer() != Some(me),
            "deadlock: task {} locks the lock at {self:p}, which it holds for writing already",
            me.number()
        );
        let mut came_before = false;
        loop {
            if self.enqueue(me, writes, came_before) {
                return true;
            }
            match self.wait(me, deadline) {
                GRANTED => return true,
                WOKEN if self.take(me, writes) => return true,
                WOKEN => P::event(Event::Bypassed),
                _ => return false,
            }
            // There is a writer, whose release calls those that are left.
            if deadline.is_some_and(P::passed) {
                P::event(Event::Cancelled);
                return false;
            }
            came_before = true;
        }
    }

    /// Puts the caller into the queue, in front if it has been there before; or
    /// returns that there is no writer to wait for, and the caller has the lock.
    fn enqueue(&self, me: TaskId, writes: bool, came_before: bool) -> bool {
        self.queue.enter(|queue| {
            loop {
                if self.take(me, writes) {
                    return true;
                }
                let state = self.state();
                let marked = || {
                    self.state
                        // The gate orders it: the release comes here.
                        .compare_exchange(state.0, state.0 | WAITERS, Relaxed, Relaxed)
                };
                if state.writer().is_some() && marked().is_ok() {
                    break;
                }
            }
            let node = &P::task(me).percpu;
            node.writes.store(writes.into(), Relaxed); // the gate orders it
            node.told.store(QUEUED, Relaxed); // the gate orders it
            if came_before {
                let since = &P::task(me).wait.since;
                let came = since.load(Relaxed); // a hint
                queue.push_front(me);
                since.store(came, Relaxed); // a hint
            } else {
                queue.push(me, 0);
            }
            false
        })
    }

    /// Waits in the queue; returns what the caller was told, [`QUEUED`] when it left
    /// at its deadline.
    fn wait(&self, me: TaskId, deadline: Option<Deadline>) -> u32 {
        let node = &P::task(me).percpu;
        loop {
            // (P7) Acquire pairs with tell's Release: the lock, and my node.
            let told = node.told.load(Acquire);
            if told > CALLED {
                return told;
            }
            if !deadline.is_some_and(P::passed) {
                P::event(Event::Parked);
                P::park(deadline);
            } else if self.leave_queue(me) {
                P::event(Event::Cancelled);
                return QUEUED;
            } else {
                P::event(Event::CancelGranted);
                let is_told = || node.told.load(Relaxed) > CALLED; // (P7) is above
                settle::<P>(&node.told, |told| told > CALLED, is_told);
            }
        }
    }

    /// Leaves the queue; `false` when the caller was called.
    fn leave_queue(&self, me: TaskId) -> bool {
        self.queue.enter(|queue| {
            let queued = P::task(me).percpu.told.load(Relaxed) == QUEUED; // the gate orders it
            if queued {
                queue.remove(me);
                self.forget_waiters_if_none(&queue);
            }
            queued
        })
    }

    fn forget_waiters_if_none(&self, queue: &Entered<'_, P>) {
        if queue.first().is_none() {
            self.state.fetch_and(!WAITERS, Relaxed); // a release exchanges the state
        }
    }

    /// The writer goes and calls waiters. `false`, and it is still the writer, when
    /// none are left.
    pub(super) fn release_to_waiters(&self, fair: bool) -> bool {
        let called = self.queue.enter(|queue| {
            let Some(first) = Self::first_alive(&queue) else {
                self.forget_waiters_if_none(&queue);
                return None;
            };
            let hand_over = fair || Self::is_out_of_patience(first);
            let called = Self::call(&queue, first);
            let waiters = if queue.first().is_some() { WAITERS } else { 0 };
            let next = if hand_over {
                if called.readers > 0 {
                    self.count(i64::from(called.readers));
                }
                called.writer.map(|writer| State::of(writer, waiters))
            } else {
                None
            };
            // (P4) Release pairs with the Acquire of who comes next. A store will
            // do: only the writer changes a state with a writer outside the gate.
            self.state.store(next.unwrap_or(waiters | SLOW), Release);
            Some((called.first, hand_over))
        });
        // From here on the lock may be gone as soon as the last one is told.
        if let Some((first, hand_over)) = called {
            Self::tell(first, hand_over);
        }
        called.is_some()
    }

    fn is_out_of_patience(first: TaskId) -> bool {
        match G::PATIENCE {
            Patience::None => true,
            Patience::Endless => false,
            Patience::Micros(most) => {
                let since = P::task(first).wait.since.load(Relaxed); // a hint
                P::elapsed(since, most)
            }
        }
    }

    /// The first waiter, but for those that a fork has left behind: these go.
    fn first_alive(queue: &Entered<'_, P>) -> Option<TaskId> {
        loop {
            let first = queue.first()?;
            if P::exists(first) {
                return Some(first);
            }
            queue.remove(first);
        }
    }

    /// Takes waiters off the queue from the first on: readers, up to and including
    /// one writer.
    fn call(queue: &Entered<'_, P>, first: TaskId) -> Called {
        let mut called = Called {
            first,
            last: first,
            readers: 0,
            writer: None,
        };
        while let Some(task) = Self::first_alive(queue) {
            queue.remove(task);
            let node = &P::task(task).percpu;
            node.told.store(CALLED, Relaxed); // the gate orders it
            node.then.store(0, Relaxed); // only `tell` reads it
            if task != first {
                let before = &P::task(called.last).percpu;
                before.then.store(task.number(), Relaxed); // only `tell` reads it
            }
            called.last = task;
            // The gate orders it.
            if node.writes.load(Relaxed) != 0 {
                called.writer = Some(task);
                break;
            }
            called.readers += 1;
        }
        called
    }

    /// Wakes those that were called, with the lock or to try again.
    fn tell(first: TaskId, hand_over: bool) {
        let (event, told) = if hand_over {
            (Event::HandedOff, GRANTED)
        } else {
            (Event::WokeFirst, WOKEN)
        };
        P::event(event);
        let mut next = Some(first);
        while let Some(task) = next {
            let node = &P::task(task).percpu;
            // Before it is told, for then its node is its own again.
            next = TaskId::new(node.then.load(Relaxed));
            // (P7) Release pairs with wait's Acquire.
            node.told.store(told, Release);
            P::unpark(task);
        }
    }
}
