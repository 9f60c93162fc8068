//! The reader-writer semaphore behind `lock_api`'s traits. Their unsafe
//! functions ask what those of the semaphore ask.

use core::time::Duration;

use lock_api::{
    GuardNoSend, RawRwLockDowngrade, RawRwLockFair, RawRwLockTimed, RawRwLockUpgrade,
    RawRwLockUpgradeDowngrade, RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};

use super::{Kind, RawRwLock, WakeCheck};
use crate::{
    api::after,
    osq,
    platform::{Clock, Platform},
};

// SAFETY: the count word holds readers or a writer, and never both: who enters
// exchanges a count that it may enter by, with Acquire; who leaves releases. Readers
// that are not in it have one there in their place, until each of them is.
// Forgetting a guard leaves the lock locked. It may be moved or dropped while
// it is locked by whoever owns it: then nobody is in its queues. Locking
// unwinds only before it takes anything, and unlocking only when the caller
// holds nothing.
unsafe impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> lock_api::RawRwLock for RawRwLock<P, C, W> {
    const INIT: Self = Self::new();
    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline(always)]
    fn lock_shared(&self) -> GuardNoSend {
        self.read();
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        self.try_read().then(GuardNoSend::new)
    }

    #[inline(always)]
    unsafe fn unlock_shared(&self, _: GuardNoSend) {
        self.release_read(false);
    }

    #[inline(always)]
    fn lock_exclusive(&self) -> GuardNoSend {
        self.write();
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        self.try_write().then(GuardNoSend::new)
    }

    #[inline(always)]
    unsafe fn unlock_exclusive(&self, _: GuardNoSend) {
        self.release_write(false);
    }

    fn is_locked(&self) -> bool {
        self.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.is_write_locked()
    }
}

// SAFETY: as above; a fair unlock differs in who is next.
unsafe impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLockFair for RawRwLock<P, C, W> {
    unsafe fn unlock_shared_fair(&self, _: GuardNoSend) {
        self.release_read(true);
    }

    unsafe fn unlock_exclusive_fair(&self, _: GuardNoSend) {
        self.release_write(true);
    }
}

// SAFETY: as above; the exchange that makes a reader of the writer releases.
unsafe impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLockDowngrade for RawRwLock<P, C, W> {
    unsafe fn downgrade(&self, _: GuardNoSend) -> GuardNoSend {
        self.relax(Kind::Write, Kind::Read);
        GuardNoSend::new()
    }
}

// SAFETY: as above; a lock that timed out took nothing.
unsafe impl<P: Clock, C: WakeCheck, W: osq::Wait<P>> RawRwLockTimed for RawRwLock<P, C, W> {
    type Duration = Duration;
    type Instant = P::Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        self.read_until(after::<P>(timeout)).then(GuardNoSend::new)
    }

    fn try_lock_shared_until(&self, timeout: P::Instant) -> Option<GuardNoSend> {
        self.read_until(P::deadline(&timeout))
            .then(GuardNoSend::new)
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        self.write_until(after::<P>(timeout)).then(GuardNoSend::new)
    }

    fn try_lock_exclusive_until(&self, timeout: P::Instant) -> Option<GuardNoSend> {
        self.write_until(P::deadline(&timeout))
            .then(GuardNoSend::new)
    }
}

// SAFETY: as above; one reader at a time has the count's mark of the upgradable
// one, and only as the only reader becomes the writer, by an exchange with
// Acquire, or of who releases on its behalf. If it does not, it is what it was.
unsafe impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLockUpgrade for RawRwLock<P, C, W> {
    type UpgradableGuard = GuardNoSend;

    fn lock_upgradable(&self) -> GuardNoSend {
        self.upgradable();
        GuardNoSend::new()
    }

    fn try_lock_upgradable(&self) -> Option<GuardNoSend> {
        self.try_upgradable().then(GuardNoSend::new)
    }

    unsafe fn unlock_upgradable(&self, _: GuardNoSend) {
        self.release(Kind::Upgradable, false);
    }

    unsafe fn upgrade(&self, _: GuardNoSend) -> GuardNoSend {
        self.obtain(Kind::Upgrade, None);
        GuardNoSend::new()
    }

    unsafe fn try_upgrade(&self, guard: GuardNoSend) -> Result<GuardNoSend, GuardNoSend> {
        either(self.take(Kind::Upgrade), guard)
    }
}

/// The guard of what the caller has become, or of what it still is.
fn either(upgraded: bool, guard: GuardNoSend) -> Result<GuardNoSend, GuardNoSend> {
    if upgraded { Ok(guard) } else { Err(guard) }
}

// SAFETY: as above; a fair unlock differs in who is next.
unsafe impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLockUpgradeFair
    for RawRwLock<P, C, W>
{
    unsafe fn unlock_upgradable_fair(&self, _: GuardNoSend) {
        self.release(Kind::Upgradable, true);
    }
}

// SAFETY: as above; who has become less keeps out fewer.
unsafe impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLockUpgradeDowngrade
    for RawRwLock<P, C, W>
{
    unsafe fn downgrade_upgradable(&self, _: GuardNoSend) -> GuardNoSend {
        self.relax(Kind::Upgradable, Kind::Read);
        GuardNoSend::new()
    }

    unsafe fn downgrade_to_upgradable(&self, _: GuardNoSend) -> GuardNoSend {
        self.relax(Kind::Write, Kind::Upgradable);
        GuardNoSend::new()
    }
}

// SAFETY: as above; who timed out is what it was.
unsafe impl<P: Clock, C: WakeCheck, W: osq::Wait<P>> RawRwLockUpgradeTimed for RawRwLock<P, C, W> {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<GuardNoSend> {
        self.upgradable_until(after::<P>(timeout))
            .then(GuardNoSend::new)
    }

    fn try_lock_upgradable_until(&self, timeout: P::Instant) -> Option<GuardNoSend> {
        self.upgradable_until(P::deadline(&timeout))
            .then(GuardNoSend::new)
    }

    unsafe fn try_upgrade_for(
        &self,
        guard: GuardNoSend,
        timeout: Duration,
    ) -> Result<GuardNoSend, GuardNoSend> {
        let deadline = after::<P>(timeout);
        either(self.obtain(Kind::Upgrade, Some(deadline)), guard)
    }

    unsafe fn try_upgrade_until(
        &self,
        guard: GuardNoSend,
        timeout: P::Instant,
    ) -> Result<GuardNoSend, GuardNoSend> {
        let deadline = P::deadline(&timeout);
        either(self.obtain(Kind::Upgrade, Some(deadline)), guard)
    }
}
