//! A mutex of ours, with priority inheritance or without.

use lockyard_core::{Deadline, RawMutex, Unlocks};
use lockyard_linux::{Linux, clock};

use super::PiLock;

/// What both locks do.
pub trait Lock {
    /// Whether another may unlock it for its owner, if it is of the normal kind.
    const TAKEN_OVER: bool;
    fn is_mine(&self) -> bool;
    fn try_lock(&self) -> bool;
    /// `false` when the caller has it.
    fn lock_unless_mine(&self) -> bool;
    /// `false` when the caller does not have it.
    fn unlock_if_mine(&self) -> bool;
    /// Takes it; if the caller has it, when another has unlocked it. `false` when the deadline
    /// has passed.
    fn lock_after_another(&self, unlocks: &Unlocks<Linux>, deadline: Option<Deadline>) -> bool;
    /// Unlocks what the caller does not have: `false` if it must not.
    fn unlock_for_another(&self, unlocks: &Unlocks<Linux>) -> bool;
}

impl Lock for RawMutex<Linux> {
    const TAKEN_OVER: bool = true;
    fn is_mine(&self) -> bool {
        self.is_mine()
    }
    fn try_lock(&self) -> bool {
        self.try_lock()
    }
    #[inline(always)]
    fn lock_unless_mine(&self) -> bool {
        self.lock_unless_mine()
    }
    #[inline(always)]
    fn unlock_if_mine(&self) -> bool {
        // SAFETY: C has no guards.
        unsafe { self.unlock_if_mine() }
    }
    fn lock_after_another(&self, unlocks: &Unlocks<Linux>, deadline: Option<Deadline>) -> bool {
        self.lock_after_another(unlocks, deadline)
    }
    fn unlock_for_another(&self, unlocks: &Unlocks<Linux>) -> bool {
        // SAFETY: who unlocks a normal mutex for another says that it was told to; a
        // program that was not has two owners, as with the C library's.
        unsafe { self.unlock_for_another(unlocks) };
        true
    }
}

impl Lock for PiLock {
    /// The kernel lends to the thread that the word names, and lets none but that unlock.
    const TAKEN_OVER: bool = false;
    fn is_mine(&self) -> bool {
        self.is_mine()
    }
    fn try_lock(&self) -> bool {
        self.try_lock()
    }
    fn lock_unless_mine(&self) -> bool {
        // With a deadline it does not end the process where the kernel finds a deadlock.
        let never = clock::monotonic(u64::MAX);
        self.try_lock() || !self.is_mine() && self.lock_until(never)
    }
    #[inline(always)]
    fn unlock_if_mine(&self) -> bool {
        let mine = self.is_mine();
        if mine {
            // SAFETY: the caller has it.
            unsafe { self.unlock() };
        }
        mine
    }
    /// Nobody can unlock it for its owner.
    fn lock_after_another(&self, unlocks: &Unlocks<Linux>, deadline: Option<Deadline>) -> bool {
        let never = clock::monotonic(u64::MAX);
        unlocks.wait(|| self.is_mine(), deadline) && self.lock_until(deadline.unwrap_or(never))
    }
    fn unlock_for_another(&self, _: &Unlocks<Linux>) -> bool {
        !self.is_locked()
    }
}
