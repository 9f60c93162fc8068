//! Waiting in the queue of a real-time mutex: coming in, staying, going out.

use super::{
    Body, Inside, Policy, Refused,
    task::Task,
    walk::{Deadlock, Detect, Walk, adjust},
};
use crate::platform::{Deadline, Event, Priority, TaskId};

/// What became of a task that wanted the lock.
pub(super) enum Queued {
    /// It has it.
    Took,
    /// It waits in the queue.
    Waits,
    /// It waits in the queue, and for itself; and to whom a change of priorities is still due.
    Deadlock(Option<TaskId>),
    /// It owns the lock, and so was not let in: in the queue it would be others
    /// that find the deadlock, and get the blame.
    Owns,
}

impl<P: Priority> Body<P> {
    #[cold]
    pub(super) fn lock_slow<W: Policy>(
        &self,
        me: TaskId,
        detect: Detect,
        deadline: Option<Deadline>,
    ) -> Result<(), Refused> {
        let due = match self.queue_up(me, detect) {
            Queued::Took => return Ok(()),
            Queued::Owns => return Err(Refused::Deadlock),
            Queued::Deadlock(due) if detect == Detect::Full || deadline.is_none() => {
                let taken = self.refuse(me, due);
                return taken.then_some(()).ok_or(Refused::Deadlock);
            }
            Queued::Deadlock(due) => due,
            Queued::Waits => None,
        };
        if let Some(due) = due {
            adjust::<P>(due);
        }
        // It may have become free since the deadline.
        let taken = self.wait::<W>(me, deadline) || self.leave(me);
        taken.then_some(()).ok_or(Refused::TimedOut)
    }

    /// Takes `task`, which waits for itself, out of the queue; returns whether it got the lock
    /// at the last moment.
    pub(super) fn refuse(&self, task: TaskId, due: Option<TaskId>) -> bool {
        let taken = self.leave(task);
        if let Some(due) = due {
            adjust::<P>(due);
        }
        taken
    }

    /// Takes the lock for `task`, or puts the task into the queue.
    pub(super) fn queue_up(&self, task: TaskId, detect: Detect) -> Queued {
        let inside = self.enter();
        if inside.try_to_take(task, false) {
            inside.leave();
            return Queued::Took;
        }
        if inside.owner() == Some(task) {
            inside.clear_idle_bit();
            inside.leave();
            P::event(Event::DeadlockFound);
            return Queued::Owns;
        }
        let walk = inside.enqueue(task, detect);
        inside.leave();
        match walk.map_or(Ok(()), Walk::run) {
            Ok(()) => Queued::Waits,
            Err(Deadlock(due)) => Queued::Deadlock(due),
        }
    }

    /// Waits in the queue until the caller has the lock, and is out of the queue;
    /// or until the deadline, and it is still in.
    pub(super) fn wait<W: Policy>(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        let mut spun = false;
        loop {
            let inside = self.enter();
            if inside.try_to_take(me, true) {
                inside.leave();
                if spun {
                    P::event(Event::SpinAcquired);
                }
                return true;
            }
            let owner = inside.owner().filter(|_| inside.top() == Some(me));
            inside.leave();
            if deadline.is_some_and(P::passed) {
                return false;
            }
            spun = W::SPINS && owner.is_some_and(|owner| self.spin(me, owner, deadline));
            if !spun {
                P::event(Event::Parked);
                P::park(deadline);
            }
        }
    }

    /// Takes `task` out of the queue; returns whether it got the lock at the last
    /// moment.
    pub(super) fn leave(&self, task: TaskId) -> bool {
        let inside = self.enter();
        // Who leaves a free lock as its top waiter would take along the wake-up.
        if inside.try_to_take(task, true) {
            inside.leave();
            P::event(Event::CancelGranted);
            return true;
        }
        let walk = inside.dequeue(task);
        inside.clear_idle_bit();
        inside.leave();
        P::event(Event::Cancelled);
        if let Some(walk) = walk {
            walk.run().ok(); // nobody is to blame: nobody has come
        }
        false
    }
}

impl<'a, P: Priority> Inside<'a, P> {
    /// Puts `task` into the queue, lends its priority to the owner, and says how
    /// to pass that on.
    fn enqueue(&self, task: TaskId, detect: Detect) -> Option<Walk<'a, P>> {
        let before = self.top();
        let waiter = Task::enter(task);
        waiter.wait_for(self.0);
        self.insert(&waiter);
        waiter.leave();
        let is_top = self.top() == Some(task);
        let owner = Task::enter(self.owner()?);
        if is_top {
            owner.change_lender(before, Some(task));
        }
        let walk = Walk::from(&owner);
        owner.leave();
        walk.filter(|_| is_top || detect == Detect::Full)
            .map(|walk| walk.because(task, self.0, detect))
    }

    /// Takes `task`, which is not entitled to the lock, out of the queue; if it had
    /// lent its priority to the owner, takes that back and says how to pass this on.
    fn dequeue(&self, task: TaskId) -> Option<Walk<'a, P>> {
        let before = self.top();
        self.waiters().remove(task);
        let waiter = Task::<P>::enter(task);
        waiter.stop_waiting();
        waiter.leave();
        let owner = self.owner().filter(|_| before == Some(task))?;
        let owner = Task::enter(owner);
        owner.change_lender(Some(task), self.top());
        let walk = Walk::from(&owner);
        owner.leave();
        walk
    }
}
