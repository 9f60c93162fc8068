//! How a lock was taken where as little as possible is to be done for that.

use core::hint;

/// The outcome of a quick try.
///
/// What is left to do now and then is left to the caller, who ends with it: so nothing has to be
/// saved for it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Quick {
    /// The lock was taken.
    Took,
    /// The lock was taken, and the caller is to call its `see`.
    TookToSee,
    /// It was not.
    Not,
}

impl Quick {
    /// It was taken, and is to be seen, be it now and then or as one that was waited for.
    #[inline(always)]
    pub(crate) const fn took(now: bool, waited: bool) -> Self {
        if now {
            hint::cold_path(); // each a branch: neither is to be had by the other
            return Self::TookToSee;
        }
        match waited {
            true => Self::TookToSee,
            false => Self::Took,
        }
    }

    /// Whether the lock was taken, after `see` if it is to be.
    #[inline(always)]
    pub fn seen(self, see: impl FnOnce()) -> bool {
        if self == Self::TookToSee {
            see();
        }
        self != Self::Not
    }
}
