//! Readers that join readers past those that wait.
//!
//! A recursive reader may be reading already, or be what a reader waits for. So none may
//! sleep while readers have the lock. It goes to sleep only behind a writer that has it;
//! whoever reads next was granted the lock together with all recursive readers of the
//! queue, or is the first of the readers to steal it, and then lets them in. Writers may
//! starve.

use super::{Kind, RawRwLock, WakeCheck};
use crate::{
    osq,
    platform::{Deadline, Platform},
};

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// As [`RawRwLock::try_read`], also with waiters behind the readers.
    #[inline]
    pub fn try_read_recursive(&self) -> bool {
        self.fast_read(Kind::Recursive) || self.take(Kind::Recursive)
    }

    /// As [`RawRwLock::read`], past those that wait: the caller may be a reader
    /// already. Writers may wait for ever while such readers come. Whoever reads a
    /// lock so that others read recursively must do so, too.
    ///
    /// # Panics
    /// As [`RawRwLock::read`].
    #[inline]
    pub fn read_recursive(&self) {
        self.read_by(Kind::Recursive, None);
    }

    /// [`RawRwLock::read_recursive`] until `deadline` at the latest, as
    /// [`RawRwLock::read_until`].
    ///
    /// # Panics
    /// As [`RawRwLock::read_until`].
    #[inline]
    pub fn read_recursive_until(&self, deadline: Deadline) -> bool {
        self.read_by(Kind::Recursive, Some(deadline))
    }
}
