//! The semaphore for callers that must be told what is wrong, for they cannot be unwound: C.

use super::{Kind, OVERFLOW, RawRwLock, WakeCheck};
use crate::{osq, platform::Platform};

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Whether it has as many readers as can be counted, 2^24 - 1: another does not get it,
    /// and panics if it would wait. A snapshot.
    pub fn is_full(&self) -> bool {
        self.count().entered(Kind::Read).has(OVERFLOW)
    }
}
