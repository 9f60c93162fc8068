//! The mutex for callers that must be told what is wrong, for they cannot be unwound: C.

use super::RawMutex;
use crate::{osq, platform::Platform, quick::Quick};

impl<P: Platform, W: osq::Wait<P>> RawMutex<P, W> {
    /// Takes the mutex, waiting as long as it takes; `false` when the caller holds it
    /// already.
    #[inline]
    pub fn lock_unless_mine(&self) -> bool {
        self.body.retake_uninspected() || self.body.take(P::me()) || self.lock_not_free()
    }

    /// Takes the mutex if it is free and reserved for nobody, and the caller's number is
    /// known; after [`RawMutex::retake`] has returned `None`.
    #[inline(always)]
    pub fn take_free(&self) -> Quick {
        self.body.take_unkept()
    }

    /// [`RawMutex::lock_unless_mine`] after [`RawMutex::retake`] and [`RawMutex::take_free`].
    /// Of its own, so that what stands in the caller's code is small.
    #[cold]
    #[inline(never)]
    pub fn lock_not_free(&self) -> bool {
        !self.is_mine() && self.lock_contended(None)
    }

    /// Takes the mutex if it is reserved for the caller, who calls [`RawMutex::see`] then if
    /// [`RawMutex::is_to_see`] says so. Returns whether it did; `None` where the caller has no
    /// reservation.
    #[inline(always)]
    pub fn retake(&self) -> Option<bool> {
        P::keeps(self.body.address()).then(|| self.body.retake_kept())
    }

    /// Whether the caller, who has retaken the mutex, is to call [`RawMutex::see`].
    #[inline(always)]
    pub fn is_to_see(&self) -> bool {
        P::may_inspect()
    }

    /// Looks after a first waiter that is late, now and then: the caller has the mutex.
    #[inline(always)]
    pub fn see(&self) {
        self.body.see();
    }

    /// Releases the mutex if it is reserved for the caller and nobody waits: `false` also where
    /// the caller does not hold it.
    ///
    /// # Safety
    /// As [`RawMutex::unlock_if_mine`].
    #[inline(always)]
    pub unsafe fn unlock_kept(&self) -> bool {
        P::keeps(self.body.address()) && self.body.release_kept_alone()
    }

    /// Likewise, if it is not reserved, and the caller has not waited for it lately.
    ///
    /// # Safety
    /// As [`RawMutex::unlock_if_mine`].
    #[inline(always)]
    pub unsafe fn unlock_alone(&self) -> bool {
        !P::waited(self.body.address()) && self.body.release_alone()
    }

    /// Releases the mutex if nobody has to be seen to, likewise.
    ///
    /// # Safety
    /// As [`RawMutex::unlock_if_mine`].
    #[inline(always)]
    pub unsafe fn unlock_at_once(&self) -> bool {
        self.body.release_at_once()
    }

    /// [`RawMutex::unlock_if_mine`] after [`RawMutex::unlock_at_once`].
    ///
    /// # Safety
    /// As [`RawMutex::unlock_if_mine`].
    #[inline(always)]
    pub unsafe fn unlock_not_at_once(&self) -> bool {
        self.body.unlock_slow()
    }

    /// Releases the mutex; `false` when the caller does not hold it.
    ///
    /// # Safety
    /// If the caller holds it, it has no guard of it any more.
    #[inline]
    pub unsafe fn unlock_if_mine(&self) -> bool {
        self.body.release_at_once() || self.body.unlock_slow()
    }
}
