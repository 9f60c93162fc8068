//! The walk along a chain: a task waits for a lock, whose owner waits for the
//! next. A change of the first one's priority is passed on from lock to lock,
//! and a chain that comes back is found.
//!
//! A step holds the gates of the task and of the lock that it waits for, then
//! those of the lock and of its owner. In between two steps nothing is held, so
//! each begins by asking whether the chain is still what the step before saw.

use core::ptr;

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

/// The chain comes back to where it began.
pub(super) struct Deadlock;

/// A walk, and its next step.
pub(super) struct Walk<'a, P: Platform> {
    /// Who waits.
    task: TaskId,
    /// For what, when the chain was last looked at. Only compared, until a task
    /// whose gate is held is found to wait for it.
    lock: *const Body<P>,
    /// Whom the task owes a change to: the top waiter of the lock before.
    lender: Option<TaskId>,
    detect: Detect,
    /// If a waiter has come: for which lock, and who. The caller is in a call on
    /// that lock.
    came: Option<(&'a Body<P>, TaskId)>,
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
    /// A walk from `owner`, if that waits.
    pub(super) fn from(
        owner: &Task<P>,
        detect: Detect,
        came: Option<(&'a Body<P>, TaskId)>,
    ) -> Option<Self> {
        owner.lock().map(|lock| Self {
            task: owner.id(),
            lock,
            lender: None,
            detect,
            came,
        })
    }

    pub(super) fn for_lender(self, lender: TaskId) -> Self {
        let lender = Some(lender);
        Self { lender, ..self }
    }

    /// # Errors
    /// It comes back, or does not end.
    pub(super) fn run(mut self) -> Result<(), Deadlock> {
        for _ in 0..LONGEST {
            match self.step() {
                Ok(Some(next)) => self = next,
                Ok(None) => return Ok(()),
                Err(Deadlock) => break,
            }
        }
        P::event(Event::DeadlockFound);
        Err(Deadlock)
    }

    /// From the task to the owner of the lock that it waits for: the walk to go on
    /// with, or none at the end.
    fn step(self) -> Result<Option<Self>, Deadlock> {
        let Some((task, lock, step)) = self.enter() else {
            return Ok(None);
        };
        if self.comes_back(&lock) {
            lock.leave();
            task.leave();
            return Err(Deadlock);
        }
        let before = lock.top();
        if step == Step::Requeue {
            P::event(Event::ChainWalked);
            lock.waiters().remove(task.id());
            lock.insert(&task);
        }
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
        let next = Self::from(&owner, self.detect, self.came);
        owner.leave();
        lock.leave();
        Ok(next
            .filter(|_| changed || self.detect == Detect::Full)
            .map(|next| Self {
                lender: after,
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
        let is_there = task.lock() == Some(self.lock)
            // A lock that was released meanwhile waits for who came: no deadlock.
            && self.came.is_none_or(|(lock, _)| lock.owner().is_some());
        if !is_there {
            P::event(Event::ChainChanged);
            return None;
        }
        let owes = self.lender.is_none() || task.lender() == self.lender;
        if owes && task.prio() != task.queued_prio() {
            return Some(Step::Requeue);
        }
        let follows =
            self.detect == Detect::Full && (self.lender.is_none() || task.lender().is_some());
        follows.then_some(Step::Follow)
    }

    /// Whether the lock closes a circle. Who only stands before one is told so if it asks: the
    /// circle may be about to be opened, by one of those in it that is told, too.
    fn comes_back(&self, lock: &Inside<'_, P>) -> bool {
        let asks = self.detect == Detect::Full;
        self.came
            .is_some_and(|(first, who)| asks && ptr::eq(lock.0, first) || lock.owner() == Some(who))
    }
}

/// To be called when the own priority of `task` has changed: if it waits, it gets
/// its new place, and those that it waits for their new priorities.
pub fn adjust<P: Priority>(task: TaskId) {
    let waiter = Task::<P>::enter(task);
    let walk = Walk::from(&waiter, Detect::Minimal, None);
    waiter.leave();
    if let Some(walk) = walk {
        walk.run().ok(); // nobody is to blame: nobody has come
    }
}
