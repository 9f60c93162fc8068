//! The lock behind `lock_api`'s traits.

use core::time::Duration;

use lock_api::{
    GuardNoSend, GuardSend, RawRwLock, RawRwLockDowngrade, RawRwLockFair, RawRwLockTimed,
};

use super::{Grant, RawPercpuRwLock};
use crate::{
    api::after,
    platform::{Clock, PerCpu},
};

// SAFETY: a writer is in when its number is in the state word, where one task at a
// time puts it, and the readers sum up to 0; a reader is in when its count is in the
// sum and it has seen no writer ((P1) and (P2) say why not both). Who comes acquires
// what who went released. Nothing names a reader, so any task may release a read
// lock: its guard may be sent. A writer's may not. Forgetting a guard leaves the lock
// locked. It may be moved or dropped while it is locked by whoever owns it: then
// nobody is in its queue. Locking unwinds only before it takes anything, and
// `unlock_exclusive` only when the caller holds nothing.
unsafe impl<P: PerCpu, G: Grant> RawRwLock for RawPercpuRwLock<P, G> {
    const INIT: Self = Self::new();
    type SharedGuard = GuardSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    fn lock_shared(&self) -> GuardSend {
        self.read();
        GuardSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardSend> {
        self.try_read().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _: GuardSend) {
        // SAFETY: the caller owns a read lock, as this function's own contract says.
        unsafe { self.unlock_read() };
    }

    fn lock_exclusive(&self) -> GuardNoSend {
        self.write();
        GuardNoSend::new()
    }

    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.try_write().then(GuardNoSend::new)
    }

    unsafe fn unlock_exclusive(&self, _: GuardNoSend) {
        // SAFETY: the caller is the writer, as this function's own contract says.
        unsafe { self.unlock_write() };
    }

    fn is_locked(&self) -> bool {
        self.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.is_write_locked()
    }
}

// SAFETY: as above; `unlock_write_fair` differs in who is next. A reader that goes
// lets nobody overtake a writer that waits for it.
unsafe impl<P: PerCpu, G: Grant> RawRwLockFair for RawPercpuRwLock<P, G> {
    unsafe fn unlock_shared_fair(&self, _: GuardSend) {
        // SAFETY: the caller owns a read lock, as this function's own contract says.
        unsafe { self.unlock_read() };
    }

    unsafe fn unlock_exclusive_fair(&self, _: GuardNoSend) {
        // SAFETY: the caller is the writer, as this function's own contract says.
        unsafe { self.unlock_write_fair() };
    }
}

// SAFETY: as above; the writer counts itself as a reader before it lets others in,
// and the release of its state is what they acquire.
unsafe impl<P: PerCpu, G: Grant> RawRwLockDowngrade for RawPercpuRwLock<P, G> {
    unsafe fn downgrade(&self, _: GuardNoSend) -> GuardSend {
        // SAFETY: the caller is the writer, as this function's own contract says.
        unsafe { self.downgrade() };
        GuardSend::new()
    }
}

// SAFETY: as above; a lock that timed out took nothing.
unsafe impl<P: Clock + PerCpu, G: Grant> RawRwLockTimed for RawPercpuRwLock<P, G> {
    type Duration = Duration;
    type Instant = P::Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.read_until(after::<P>(timeout)).then(GuardSend::new)
    }

    fn try_lock_shared_until(&self, timeout: P::Instant) -> Option<GuardSend> {
        self.read_until(P::deadline(&timeout)).then(GuardSend::new)
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        self.write_until(after::<P>(timeout)).then(GuardNoSend::new)
    }

    fn try_lock_exclusive_until(&self, timeout: P::Instant) -> Option<GuardNoSend> {
        self.write_until(P::deadline(&timeout))
            .then(GuardNoSend::new)
    }
}
