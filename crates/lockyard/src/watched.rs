//! The locks as the order validator watches them: each beside its tag, which tells
//! `lockyard_order` what is done with it.

use lock_api::{
    GuardNoSend, GuardSend, RawCondvar, RawCondvarTimed, RawMutex, RawMutexFair, RawMutexTimed,
    RawRwLock, RawRwLockDowngrade, RawRwLockFair, RawRwLockTimed, RawRwLockUpgrade,
    RawRwLockUpgradeDowngrade, RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};
use lockyard_order::{
    Kind, Lock,
    Mode::{self, Exclusive, Shared, SharedPassable, Upgradable, Upgrade},
    Tag, changed, destroyed, released, took, wants, wants_back,
};

/// A watched mutex. It has the trait's methods alone, and is four bytes larger than `R`.
pub struct Mutex<R: RawMutex> {
    raw: R,
    tag: Tag,
}

impl<R: RawMutex> Mutex<R> {
    fn lock(&self) -> Lock<'_> {
        lock(self, Kind::Mutex, &self.tag)
    }
}

fn lock<'a, L>(lock: &'a L, kind: Kind, tag: &'a Tag) -> Lock<'a> {
    Lock {
        address: std::ptr::from_ref(lock).addr(),
        kind,
        tag,
    }
}

/// What was taken without a wait, or with one that has an end.
fn tried<G>(lock: Lock, mode: Mode, guard: Option<G>) -> Option<G> {
    guard.inspect(|_| took(lock, mode))
}

impl<R: RawMutex> Drop for Mutex<R> {
    fn drop(&mut self) {
        destroyed(self.lock(), self.raw.is_locked());
    }
}

// SAFETY: it is the lock that it is around. What the validator is told changes nothing of it.
unsafe impl<R: RawMutex> RawMutex for Mutex<R> {
    const INIT: Self = Self {
        raw: R::INIT,
        tag: Tag::new(),
    };
    type Guard = R::Guard;

    fn lock(&self) -> R::Guard {
        wants(self.lock(), Exclusive);
        let guard = self.raw.lock();
        took(self.lock(), Exclusive);
        guard
    }
    fn try_lock(&self) -> Option<R::Guard> {
        tried(self.lock(), Exclusive, self.raw.try_lock())
    }
    unsafe fn unlock(&self, guard: R::Guard) {
        released(self.lock(), None);
        // SAFETY: the caller's.
        unsafe { self.raw.unlock(guard) };
    }
    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
}

// SAFETY: as above.
unsafe impl<R: RawMutexFair> RawMutexFair for Mutex<R> {
    unsafe fn unlock_fair(&self, guard: R::Guard) {
        released(self.lock(), None);
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_fair(guard) };
    }
}

// SAFETY: as above.
unsafe impl<R: RawMutexTimed> RawMutexTimed for Mutex<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    fn try_lock_for(&self, timeout: R::Duration) -> Option<R::Guard> {
        tried(self.lock(), Exclusive, self.raw.try_lock_for(timeout))
    }
    fn try_lock_until(&self, timeout: R::Instant) -> Option<R::Guard> {
        tried(self.lock(), Exclusive, self.raw.try_lock_until(timeout))
    }
}

/// A condition variable for a watched mutex.
pub struct Condvar<C>(C);

/// To wait is to release the mutex, and to wait for it with all else that is held.
fn wait<R: RawMutex, T>(mutex: &Mutex<R>, wait: impl FnOnce(&R) -> T) -> T {
    wants_back(mutex.lock(), Exclusive);
    released(mutex.lock(), None);
    let woken = wait(&mutex.raw);
    took(mutex.lock(), Exclusive);
    woken
}

// SAFETY: as above.
unsafe impl<C: RawCondvar> RawCondvar for Condvar<C> {
    const INIT: Self = Self(C::INIT);
    type RawMutex = Mutex<C::RawMutex>;

    unsafe fn wait(&self, mutex: &Self::RawMutex, guard: &mut <C::RawMutex as RawMutex>::Guard) {
        // SAFETY: the caller's.
        wait(mutex, |mutex| unsafe { self.0.wait(mutex, guard) });
    }
    fn notify_one(&self) -> bool {
        self.0.notify_one()
    }
    fn notify_all(&self) -> usize {
        self.0.notify_all()
    }
}

// SAFETY: as above.
unsafe impl<C: RawCondvarTimed> RawCondvarTimed for Condvar<C>
where
    C::RawMutex: RawMutexTimed,
{
    fn checked_duration_to_instant(
        timeout: &<C::RawMutex as RawMutexTimed>::Duration,
    ) -> Option<<C::RawMutex as RawMutexTimed>::Instant> {
        C::checked_duration_to_instant(timeout)
    }
    unsafe fn wait_until(
        &self,
        mutex: &Self::RawMutex,
        guard: &mut <C::RawMutex as RawMutex>::Guard,
        timeout: &<C::RawMutex as RawMutexTimed>::Instant,
    ) -> bool {
        // SAFETY: the caller's.
        wait(mutex, |mutex| unsafe {
            self.0.wait_until(mutex, guard, timeout)
        })
    }
}

/// A watched reader-writer lock. It has the traits' methods alone, and is larger than `R` by
/// four bytes, and what those are padded to.
pub struct RwLock<R: RawRwLock> {
    raw: R,
    tag: Tag,
}

impl<R: RawRwLock> RwLock<R> {
    fn lock(&self) -> Lock<'_> {
        lock(self, Kind::Rwlock, &self.tag)
    }
    fn takes<G>(&self, mode: Mode, take: impl FnOnce(&R) -> G) -> G {
        wants(self.lock(), mode);
        let guard = take(&self.raw);
        took(self.lock(), mode);
        guard
    }
    fn changes<G>(&self, before: Mode, now: Mode, guard: G) -> G {
        changed(self.lock(), before, now);
        guard
    }
}

/// How who has such a guard reads.
pub trait Reads {
    const MODE: Mode;
}

impl Reads for GuardNoSend {
    const MODE: Mode = Shared;
}

impl Reads for GuardSend {
    const MODE: Mode = SharedPassable;
}

impl<R: RawRwLock<SharedGuard: Reads>> RwLock<R> {
    const SHARED: Mode = R::SharedGuard::MODE;
}

impl<R: RawRwLock> Drop for RwLock<R> {
    fn drop(&mut self) {
        destroyed(self.lock(), self.raw.is_locked());
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLock<SharedGuard: Reads>> RawRwLock for RwLock<R> {
    const INIT: Self = Self {
        raw: R::INIT,
        tag: Tag::new(),
    };
    type SharedGuard = R::SharedGuard;
    type ExclusiveGuard = R::ExclusiveGuard;

    fn lock_shared(&self) -> R::SharedGuard {
        self.takes(Self::SHARED, R::lock_shared)
    }
    fn try_lock_shared(&self) -> Option<R::SharedGuard> {
        tried(self.lock(), Self::SHARED, self.raw.try_lock_shared())
    }
    unsafe fn unlock_shared(&self, guard: R::SharedGuard) {
        released(self.lock(), Some(Self::SHARED));
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_shared(guard) };
    }
    fn lock_exclusive(&self) -> R::ExclusiveGuard {
        self.takes(Exclusive, R::lock_exclusive)
    }
    fn try_lock_exclusive(&self) -> Option<R::ExclusiveGuard> {
        tried(self.lock(), Exclusive, self.raw.try_lock_exclusive())
    }
    unsafe fn unlock_exclusive(&self, guard: R::ExclusiveGuard) {
        released(self.lock(), Some(Exclusive));
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_exclusive(guard) };
    }
    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockFair<SharedGuard: Reads>> RawRwLockFair for RwLock<R> {
    unsafe fn unlock_shared_fair(&self, guard: R::SharedGuard) {
        released(self.lock(), Some(Self::SHARED));
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_shared_fair(guard) };
    }
    unsafe fn unlock_exclusive_fair(&self, guard: R::ExclusiveGuard) {
        released(self.lock(), Some(Exclusive));
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_exclusive_fair(guard) };
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockDowngrade<SharedGuard: Reads>> RawRwLockDowngrade for RwLock<R> {
    unsafe fn downgrade(&self, guard: R::ExclusiveGuard) -> R::SharedGuard {
        // SAFETY: the caller's.
        self.changes(Exclusive, Self::SHARED, unsafe {
            self.raw.downgrade(guard)
        })
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockTimed<SharedGuard: Reads>> RawRwLockTimed for RwLock<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    fn try_lock_shared_for(&self, timeout: R::Duration) -> Option<R::SharedGuard> {
        tried(
            self.lock(),
            Self::SHARED,
            self.raw.try_lock_shared_for(timeout),
        )
    }
    fn try_lock_shared_until(&self, timeout: R::Instant) -> Option<R::SharedGuard> {
        tried(
            self.lock(),
            Self::SHARED,
            self.raw.try_lock_shared_until(timeout),
        )
    }
    fn try_lock_exclusive_for(&self, timeout: R::Duration) -> Option<R::ExclusiveGuard> {
        tried(
            self.lock(),
            Exclusive,
            self.raw.try_lock_exclusive_for(timeout),
        )
    }
    fn try_lock_exclusive_until(&self, timeout: R::Instant) -> Option<R::ExclusiveGuard> {
        tried(
            self.lock(),
            Exclusive,
            self.raw.try_lock_exclusive_until(timeout),
        )
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgrade<SharedGuard: Reads>> RawRwLockUpgrade for RwLock<R> {
    type UpgradableGuard = R::UpgradableGuard;

    fn lock_upgradable(&self) -> R::UpgradableGuard {
        self.takes(Upgradable, R::lock_upgradable)
    }
    fn try_lock_upgradable(&self) -> Option<R::UpgradableGuard> {
        tried(self.lock(), Upgradable, self.raw.try_lock_upgradable())
    }
    unsafe fn unlock_upgradable(&self, guard: R::UpgradableGuard) {
        released(self.lock(), Some(Upgradable));
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_upgradable(guard) };
    }
    unsafe fn upgrade(&self, guard: R::UpgradableGuard) -> R::ExclusiveGuard {
        wants(self.lock(), Upgrade);
        // SAFETY: the caller's.
        self.changes(Upgradable, Exclusive, unsafe { self.raw.upgrade(guard) })
    }
    unsafe fn try_upgrade(
        &self,
        guard: R::UpgradableGuard,
    ) -> Result<R::ExclusiveGuard, R::UpgradableGuard> {
        // SAFETY: the caller's.
        unsafe { self.raw.try_upgrade(guard) }
            .map(|guard| self.changes(Upgradable, Exclusive, guard))
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeFair<SharedGuard: Reads>> RawRwLockUpgradeFair for RwLock<R> {
    unsafe fn unlock_upgradable_fair(&self, guard: R::UpgradableGuard) {
        released(self.lock(), Some(Upgradable));
        // SAFETY: the caller's.
        unsafe { self.raw.unlock_upgradable_fair(guard) };
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeDowngrade<SharedGuard: Reads>> RawRwLockUpgradeDowngrade
    for RwLock<R>
{
    unsafe fn downgrade_upgradable(&self, guard: R::UpgradableGuard) -> R::SharedGuard {
        // SAFETY: the caller's.
        self.changes(Upgradable, Self::SHARED, unsafe {
            self.raw.downgrade_upgradable(guard)
        })
    }
    unsafe fn downgrade_to_upgradable(&self, guard: R::ExclusiveGuard) -> R::UpgradableGuard {
        // SAFETY: the caller's.
        self.changes(Exclusive, Upgradable, unsafe {
            self.raw.downgrade_to_upgradable(guard)
        })
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeTimed<SharedGuard: Reads>> RawRwLockUpgradeTimed for RwLock<R> {
    fn try_lock_upgradable_for(&self, timeout: R::Duration) -> Option<R::UpgradableGuard> {
        tried(
            self.lock(),
            Upgradable,
            self.raw.try_lock_upgradable_for(timeout),
        )
    }
    fn try_lock_upgradable_until(&self, timeout: R::Instant) -> Option<R::UpgradableGuard> {
        tried(
            self.lock(),
            Upgradable,
            self.raw.try_lock_upgradable_until(timeout),
        )
    }
    unsafe fn try_upgrade_for(
        &self,
        guard: R::UpgradableGuard,
        timeout: R::Duration,
    ) -> Result<R::ExclusiveGuard, R::UpgradableGuard> {
        // SAFETY: the caller's.
        unsafe { self.raw.try_upgrade_for(guard, timeout) }
            .map(|guard| self.changes(Upgradable, Exclusive, guard))
    }
    unsafe fn try_upgrade_until(
        &self,
        guard: R::UpgradableGuard,
        timeout: R::Instant,
    ) -> Result<R::ExclusiveGuard, R::UpgradableGuard> {
        // SAFETY: the caller's.
        unsafe { self.raw.try_upgrade_until(guard, timeout) }
            .map(|guard| self.changes(Upgradable, Exclusive, guard))
    }
}
