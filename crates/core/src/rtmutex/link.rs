//! A look at a chain from outside, for who can stop its world: a simulator between two
//! steps, a debugger.

use super::{RawRtMutex, task::Task};
use crate::platform::{Prio, Priority, TaskId};

/// A link of a chain: a task waits for a lock that has an owner.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The owner. It runs at `queued` at least.
    pub owner: TaskId,
    /// By which priority the waiter is queued.
    pub queued: Prio,
    /// By which it should be: where that is another, somebody is about to queue it anew.
    pub prio: Prio,
}

impl<P: Priority, W> RawRtMutex<P, W> {
    /// The link from `waiter`, if that waits for the lock and somebody owns it; none while
    /// a gate is closed that guards the link, for then it is about to change.
    ///
    /// Nobody may take a step meanwhile: else what this returns never was.
    pub fn link(&self, waiter: TaskId) -> Option<Link> {
        let body = &self.body;
        let waiter = Task::<P>::look(waiter)?;
        let owner = body.owner().filter(|_| !body.gate.is_closed())?;
        let owner = Task::<P>::look(owner)?.id();
        (waiter.lock() == Some(core::ptr::from_ref(body))).then(|| Link {
            owner,
            queued: waiter.queued_prio(),
            prio: waiter.prio(),
        })
    }
}
