//! The walk along a chain: a task waits for a lock, whose owner waits for the
//! next. A change of the first one's priority is passed on from lock to lock,
//! and a chain that comes back is found.
//!
//! A step holds the gates of the task and of the lock that it waits for, then
//! those of the lock and of its owner. In between two steps nothing is held, so
//! each begins by asking whether the chain is still what the step before saw.
//!
//! # Why no change is left behind
//!
//! A task's priority changes under its gate, by a walk's step (or by who comes, leaves
//! or releases), and the next step of that walk is due to the task: if it still waits
//! for the lock, it is queued anew, unless another walk was quicker, which then goes on
//! with it. So a walk may have to pass on what others began, and must not just end: who is
//! told of a deadlock leaves the queue, which opens the circle, and then passes on what is
//! left. A walk ends where a task's place is as it should be, or the task is gone: who comes
//! to a queue comes by the priority of that moment.
//!
//! # Why nobody is told of a circle that never was
//!
//! The links of a chain are seen one after another, and each may be gone when the next
//! is seen. So a circle is followed twice at least. A link is a task that waits, and which of
//! its waits that is. If all links of a round are those of the round before, each of those
//! tasks has waited from the one look to the other, and has kept what it owns, so that all
//! of them were there when the one round ended and the other began.

use core::{mem, ptr};

use super::{Body, Inside, task::Task};
use crate::platform::{Event, Platform, Priority, TaskId};

/// The most tasks of a chain that wait, before who comes; a longer one is taken for a
/// deadlock.
pub const LONGEST: usize = 1024;

/// How far a walk goes to find a deadlock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detect {
    /// As far as priorities change.
    Minimal,
    /// To the end of the chain.
    Full,
}

/// The chain comes back to where it began; and to whom a change is still due, if it is to
/// anybody: see [`adjust`].
pub(super) struct Deadlock(pub(super) Option<TaskId>);

/// A waiter that has come.
struct Came<'a, P: Platform> {
    /// For which lock. The caller of the walk is in a call on it.
    first: &'a Body<P>,
    who: TaskId,
    /// Whether it is to be told of a circle that it only stands before.
    asks: bool,
    /// The links of this round, or as good as that: a hash of 64 bits.
    seen: u64,
    /// Those of the round before.
    before: Option<u64>,
}

/// A walk, and its next step.
pub(super) struct Walk<'a, P: Platform> {
    /// Who waits.
    task: TaskId,
    /// For what, when the chain was last looked at. Only compared, until a task
    /// whose gate is held is found to wait for it.
    lock: *const Body<P>,
    detect: Detect,
    came: Option<Came<'a, P>>,
}

/// What is to be done with a waiter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It must be queued by another priority.
    Requeue,
    /// It need not; the chain is only followed.
    Follow,
}

impl<'a, P: Priority> Walk<'a, P> {
    /// A walk from `owner`, if that waits, as far as priorities change.
    pub(super) fn from(owner: &Task<P>) -> Option<Self> {
        owner.lock().map(|lock| Self {
            task: owner.id(),
            lock,
            detect: Detect::Minimal,
            came: None,
        })
    }

    /// Since `who` has come for the lock `first`.
    pub(super) fn because(self, who: TaskId, first: &'a Body<P>, detect: Detect) -> Self {
        let came = Came {
            first,
            who,
            asks: detect == Detect::Full,
            seen: 0,
            before: None,
        };
        Self {
            detect,
            came: Some(came),
            ..self
        }
    }

    /// # Errors
    /// It comes back, or does not end.
    pub(super) fn run(mut self) -> Result<(), Deadlock> {
        let mut due = None;
        for _ in 0..LONGEST {
            match self.step() {
                Ok(Some(next)) => self = next,
                Ok(None) => return Ok(()),
                Err(Deadlock(left)) => {
                    due = left;
                    break;
                }
            }
            due = Some(self.task);
        }
        P::event(Event::DeadlockFound);
        Err(Deadlock(due))
    }

    /// From the task to the owner of the lock that it waits for: the walk to go on
    /// with, or none at the end.
    fn step(mut self) -> Result<Option<Self>, Deadlock> {
        let Some((task, lock, step)) = self.enter() else {
            return Ok(None);
        };
        let before = lock.top();
        if step == Step::Requeue {
            P::event(Event::ChainWalked);
            lock.waiters().remove(task.id());
            lock.insert(&task);
        }
        let is_circle = self.closes_circle(&task, &lock);
        task.leave();
        let after = lock.top();
        // The waiter was the top, or is it now.
        let changed = step == Step::Requeue && [before, after].contains(&Some(self.task));
        let Some(owner) = lock.owner() else {
            lock.leave();
            if after != before
                && let Some(top) = after
            {
                // The release has woken the top of then, which may not take it now.
                P::event(Event::TopChanged);
                P::unpark(top);
            }
            return Ok(None);
        };
        let owner = Task::enter(owner);
        if changed {
            owner.change_lender(before, after);
        }
        let next = Self::from(&owner);
        owner.leave();
        lock.leave();
        if is_circle {
            return Err(Deadlock(next.filter(|_| changed).map(|next| next.task)));
        }
        Ok(next
            .filter(|_| changed || self.detect == Detect::Full)
            .map(|next| Self {
                detect: self.detect,
                came: self.came,
                ..next
            }))
    }

    /// Enters the task's gate and the lock's; none at the end of the chain, or
    /// where it has changed.
    fn enter(&self) -> Option<(Task<P>, Inside<'a, P>, Step)> {
        loop {
            let task = Task::enter(self.task);
            let Some(step) = self.judge(&task) else {
                task.leave();
                return None;
            };
            // SAFETY: the task waits for the lock and cannot stop while its gate is
            // held, so the lock is there, and until its gate opens if it is entered:
            // see "Why nobody touches a lock that was freed".
            let lock: &'a Body<P> = unsafe { &*self.lock };
            if lock.gate.try_lock() {
                return Some((task, Inside(lock), step));
            }
            let visit = lock.gate.visit();
            task.leave();
            if let Some(visit) = visit {
                P::event(Event::ChainVisited);
                visit.wait::<P>();
            }
        }
    }

    /// What is to be done with the task; nothing at the end of the chain.
    fn judge(&self, task: &Task<P>) -> Option<Step> {
        if task.lock() != Some(self.lock) {
            P::event(Event::ChainChanged);
            return None;
        }
        if task.prio() != task.queued_prio() {
            return Some(Step::Requeue);
        }
        let follows = self.detect == Detect::Full && task.lender().is_some();
        follows.then_some(Step::Follow)
    }

    /// Whether the link closes a circle for the second time. If it is the first, the circle
    /// is followed once more.
    fn closes_circle(&mut self, task: &Task<P>, lock: &Inside<'_, P>) -> bool {
        /// An odd number of no pattern (the golden ratio's).
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Some(came) = self.came.as_mut().filter(|came| came.who != task.id()) else {
            return false;
        };
        let link = u64::from(task.id().number()) << 32 | u64::from(task.wait());
        came.seen = (came.seen.rotate_left(5) ^ link).wrapping_mul(SPREAD);
        // Who only stands before a circle is told so if it asks: the circle may be about to be
        // opened, by one of those in it that is told, too.
        let stands_before = came.asks && ptr::eq(lock.0, came.first);
        if !stands_before && lock.owner() != Some(came.who) {
            return false;
        }
        let seen = mem::take(&mut came.seen);
        self.detect = Detect::Full;
        came.before.replace(seen) == Some(seen)
    }
}

/// To be called when the own priority of `task` has changed: if it waits, it gets
/// its new place, and those that it waits for their new priorities.
pub fn adjust<P: Priority>(task: TaskId) {
    let waiter = Task::<P>::enter(task);
    let walk = Walk::from(&waiter);
    waiter.leave();
    if let Some(walk) = walk {
        walk.run().ok(); // nobody is to blame: nobody has come
    }
}
