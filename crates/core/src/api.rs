//! The locks behind `lock_api`'s traits: guards, mapped guards and timed forms
//! come from there.

use core::time::Duration;

use lock_api::{GuardNoSend, RawCondvar, RawCondvarTimed, RawMutexFair, RawMutexTimed};

use crate::{
    condvar::Condvar,
    mutex::RawMutex,
    osq,
    pimutex::{self, RawPiMutex},
    platform::{Clock, Deadline, KernelPi, Platform, Priority},
    rtmutex::{self, RawRtMutex},
};

/// A mutex whose methods are the trait's, but for guards.
macro_rules! mutex_api {
    ($mutex:ty, $($bounds:tt)+) => {
        // SAFETY: one task at a time makes itself the owner in the owner word, with
        // Acquire; the unlock that takes it out releases. Forgetting a guard leaves the
        // mutex locked. It may be moved or dropped while it is locked by whoever owns
        // it: then nobody is in its queues. `lock` unwinds only before it takes
        // anything, and `unlock` only when the caller holds nothing.
        unsafe impl<$($bounds)+> lock_api::RawMutex for $mutex {
            const INIT: Self = Self::new();
            type Guard = GuardNoSend;

            #[inline]
            fn lock(&self) -> GuardNoSend {
                self.lock();
                GuardNoSend::new()
            }

            #[inline]
            fn try_lock(&self) -> Option<GuardNoSend> {
                self.try_lock().then(GuardNoSend::new)
            }

            #[inline]
            unsafe fn unlock(&self, _: GuardNoSend) {
                // SAFETY: the caller holds the mutex, as this function's own contract says.
                unsafe { self.unlock() };
            }

            fn is_locked(&self) -> bool {
                self.is_locked()
            }
        }
    };
}

/// A mutex with deadlines.
macro_rules! timed_mutex_api {
    ($mutex:ty, $($bounds:tt)+) => {
        // SAFETY: as of the trait it builds on; a lock that timed out took nothing.
        unsafe impl<$($bounds)+> RawMutexTimed for $mutex {
            type Duration = Duration;
            type Instant = P::Instant;

            fn try_lock_for(&self, timeout: Duration) -> Option<GuardNoSend> {
                self.lock_until(after::<P>(timeout)).then(GuardNoSend::new)
            }

            fn try_lock_until(&self, timeout: P::Instant) -> Option<GuardNoSend> {
                self.lock_until(P::deadline(&timeout))
                    .then(GuardNoSend::new)
            }
        }
    };
}

mutex_api!(RawMutex<P, W>, P: Platform, W: osq::Wait<P>);
timed_mutex_api!(RawMutex<P, W>, P: Clock, W: osq::Wait<P>);
mutex_api!(RawPiMutex<P, S>, P: KernelPi, S: pimutex::Policy);
timed_mutex_api!(RawPiMutex<P, S>, P: Clock + KernelPi, S: pimutex::Policy);
mutex_api!(RawRtMutex<P, W>, P: Priority, W: rtmutex::Policy);

// SAFETY: as of the trait it builds on; `unlock_fair` differs in who is next.
unsafe impl<P: Platform, W: osq::Wait<P>> RawMutexFair for RawMutex<P, W> {
    unsafe fn unlock_fair(&self, _: GuardNoSend) {
        // SAFETY: the caller holds the mutex, as this function's own contract says.
        unsafe { self.unlock_fair() };
    }
}

pub(crate) fn after<P: Platform>(timeout: Duration) -> Deadline {
    P::after(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}

// SAFETY: `wait` and `wait_until` return, or unwind, with the mutex held by
// the caller as it was before: the guard's state says nothing else.
unsafe impl<P: Platform> RawCondvar for Condvar<P> {
    const INIT: Self = Self::new();
    type RawMutex = RawMutex<P>;

    unsafe fn wait(&self, mutex: &RawMutex<P>, _: &mut GuardNoSend) {
        // SAFETY: the caller holds `mutex`, as this function's own contract says.
        unsafe { self.wait_until(mutex, None) };
    }

    fn notify_one(&self) -> bool {
        self.notify_one()
    }

    fn notify_all(&self) -> usize {
        self.notify_all()
    }
}

// SAFETY: as above.
unsafe impl<P: Clock> RawCondvarTimed for Condvar<P> {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<P::Instant> {
        P::checked_after(*timeout)
    }

    unsafe fn wait_until(
        &self,
        mutex: &RawMutex<P>,
        _: &mut GuardNoSend,
        timeout: &P::Instant,
    ) -> bool {
        let deadline = P::deadline(timeout);
        // SAFETY: the caller holds `mutex`, as this function's own contract says.
        let notified = unsafe { self.wait_until(mutex, Some(deadline)) };
        !notified
    }
}
