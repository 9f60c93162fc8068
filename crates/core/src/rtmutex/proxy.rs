//! Locking on behalf of others: what a futex with priority inheritance is made
//! of. Who calls says for whom, and puts its calls in an order of its own.

use super::{Policy, RawRtMutex, owned_by, wait::Queued, walk::Detect};
use crate::platform::{Deadline, Ordering::*, Priority, TaskId, Word};

/// What became of a wait that was started for another task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The task has the lock.
    Took,
    /// The task waits: it must call [`RawRtMutex::finish`].
    Waits,
    /// The task would wait for itself, and does not.
    Deadlock,
}

impl<P: Priority, W: Policy> RawRtMutex<P, W> {
    /// Makes `owner` the owner of a lock that nobody has used yet.
    pub fn lock_new_for(&self, owner: TaskId) {
        self.body.owner.store(owned_by(owner), Relaxed); // the caller publishes the lock
    }

    /// Takes the lock for `task`, or lets it wait: from now on it lends its
    /// priority to the owner.
    ///
    /// # Safety
    /// The task waits for no lock of this kind, and until it has called
    /// [`RawRtMutex::finish`], or the caller has called [`RawRtMutex::cancel_for`],
    /// the lock is there.
    pub unsafe fn start_for(&self, task: TaskId) -> Start {
        match self.body.queue_up(task, Detect::Full) {
            Queued::Took => Start::Took,
            Queued::Waits => Start::Waits,
            Queued::Owns => Start::Deadlock,
            Queued::Deadlock(due) if self.body.refuse(task, due) => Start::Took,
            Queued::Deadlock(_) => Start::Deadlock,
        }
    }

    /// Waits for the lock, for which a wait of the caller was started, until
    /// `deadline` at the latest; returns whether the caller has it. If not, it
    /// still waits, and must call this again or [`RawRtMutex::cancel_for`].
    ///
    /// # Safety
    /// A wait was started for the caller by [`RawRtMutex::start_for`].
    pub unsafe fn finish(&self, deadline: Option<Deadline>) -> bool {
        self.body.wait::<W>(P::me(), deadline)
    }

    /// Ends the wait of `task`; returns whether it got the lock at the last moment.
    ///
    /// # Safety
    /// A wait was started for the task by [`RawRtMutex::start_for`], and has not
    /// ended.
    pub unsafe fn cancel_for(&self, task: TaskId) -> bool {
        self.body.leave(task)
    }

    /// Releases the lock on behalf of `owner`.
    ///
    /// # Safety
    /// That task holds it, and does not release it itself.
    ///
    /// # Panics
    /// As [`RawRtMutex::unlock`].
    pub unsafe fn unlock_for(&self, owner: TaskId) {
        self.body.unlock(owner);
    }
}
