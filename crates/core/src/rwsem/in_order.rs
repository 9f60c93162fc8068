//! Readers that stay behind those that wait.
//!
//! Other readers overtake who sleeps, for a time. One that comes in order does so only while nobody
//! is in the queue; else it goes to its end, also if the lock is free or readers have it. There it
//! is as any other: it may be let in with readers in front of it, before a writer between them.

use super::{Kind, RawRwLock, WAITERS, WakeCheck};
use crate::{
    osq,
    platform::{Deadline, Platform},
};

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// As [`RawRwLock::try_read`], unless somebody is in the queue.
    #[inline]
    pub fn try_read_in_order(&self) -> bool {
        !self.count().has(WAITERS) && self.try_read()
    }

    /// As [`RawRwLock::read`], behind those that sleep.
    ///
    /// # Panics
    /// As [`RawRwLock::read`].
    #[inline]
    pub fn read_in_order(&self) {
        self.read_behind(None);
    }

    /// [`RawRwLock::read_in_order`] until `deadline` at the latest, as
    /// [`RawRwLock::read_until`].
    ///
    /// # Panics
    /// As [`RawRwLock::read_until`].
    #[inline]
    pub fn read_in_order_until(&self, deadline: Deadline) -> bool {
        self.read_behind(Some(deadline))
    }

    fn read_behind(&self, deadline: Option<Deadline>) -> bool {
        match self.count().has(WAITERS) {
            true => self.queue_up_to_read(deadline),
            false => self.read_by(Kind::Read, deadline),
        }
    }
}
