//! A mutex of ours, with priority inheritance or without.

use lockyard_core::{Deadline, RawMutex};
use lockyard_linux::{Linux, clock};

use super::PiLock;

/// What both locks do.
pub trait Lock {
    /// Whether another may unlock it for its owner, if it is of the normal kind.
    const TAKEN_OVER: bool;
    fn is_locked(&self) -> bool;
    fn is_mine(&self) -> bool;
    fn try_lock(&self) -> bool;
    /// `false` when the caller has it.
    fn lock_unless_mine(&self) -> bool;
    fn lock_until(&self, deadline: Deadline) -> bool;
    /// `false` when the caller does not have it.
    fn unlock_if_mine(&self) -> bool;
    /// Whether the caller has it now, which another has left to it to unlock.
    fn take_over(&self) -> bool;
}

impl Lock for RawMutex<Linux> {
    const TAKEN_OVER: bool = true;
    fn is_locked(&self) -> bool {
        self.is_locked()
    }
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
    fn lock_until(&self, deadline: Deadline) -> bool {
        self.lock_until(deadline)
    }
    #[inline(always)]
    fn unlock_if_mine(&self) -> bool {
        // SAFETY: C has no guards.
        unsafe { self.unlock_if_mine() }
    }
    fn take_over(&self) -> bool {
        // SAFETY: who unlocks a normal mutex for another says that it was told to; a
        // program that was not has two owners, as with the C library's.
        unsafe { self.take_over() }
    }
}

impl Lock for PiLock {
    /// The kernel lends to the thread that the word names, and lets none but that unlock.
    const TAKEN_OVER: bool = false;
    fn is_locked(&self) -> bool {
        self.is_locked()
    }
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
    fn lock_until(&self, deadline: Deadline) -> bool {
        self.lock_until(deadline)
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
    fn take_over(&self) -> bool {
        false
    }
}
