//! The robust mutex with its value.

use std::{
    cell::UnsafeCell,
    error::Error,
    fmt,
    time::{Duration, Instant},
};

use lockyard_core::{Clock, Deadline, Platform};
use lockyard_linux::{
    Linux,
    robust::{Held, RawRobustPiMutex, is_supported},
};

/// A lock around a `T` that is passed on when its owner ends, and that may lie in
/// memory of several processes.
///
/// Every wait for it is the kernel's, by priority, and lends the waiter's priority
/// to the owner. When the thread or the process of the owner ends, however it does,
/// the next locker gets the lock and is told so, by an [`OwnerDied`] around the value,
/// which may be half changed. So are all later lockers, until one of them has mended
/// it with [`OwnerDied::recover`].
///
/// ```
/// use lockyard::RobustPiMutex;
///
/// static TOTAL: RobustPiMutex<u64> = RobustPiMutex::new(0);
///
/// if RobustPiMutex::<u64>::is_supported() {
///     let total = TOTAL.lock(|total| {
///         let total = total.unwrap_or_else(|died| died.recover(|total| *total = 0));
///         *total += 1;
///         *total
///     });
///     assert_eq!(total, 1);
/// }
/// ```
///
/// It is held while a closure runs, and has no guard: a guard could be forgotten, and
/// its thread end while others still have references to the value. A panic of the
/// closure unlocks, as with all of lockyard's locks; it is no owner's end.
///
/// # Processes
///
/// The mutex is `repr(C)`, the lock (40 bytes) before the value, and zero bytes are
/// an unlocked lock around a zero value. [`from_ptr`](Self::from_ptr) says what
/// processes that share one must keep to. The child of a fork in the closure does not
/// hold the mutex: the parent does. When the closure returns in the child, nothing is
/// unlocked.
///
/// # Limits
///
/// It needs glibc on a 64-bit processor: see [`is_supported`](Self::is_supported).
/// The kernel passes on at most 2,048 locks of a thread that ends. A signal handler
/// must not lock.
#[repr(C)]
pub struct RobustPiMutex<T> {
    raw: RawRobustPiMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex gives one thread at a time access to the value, with Acquire
// after the Release of the one before, and so sends it from thread to thread. It may be
// sent itself, for it is borrowed while anybody holds it.
unsafe impl<T: Send> Send for RobustPiMutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for RobustPiMutex<T> {}

impl<T> RobustPiMutex<T> {
    /// A mutex that nobody holds.
    pub const fn new(value: T) -> Self {
        Self {
            raw: RawRobustPiMutex::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Whether robust mutexes work here: the C library must have registered a list of
    /// robust locks with the kernel, in the layout of glibc for 64 bits. Other
    /// libraries and user-mode emulators have none; there, every lock panics.
    pub fn is_supported() -> bool {
        is_supported()
    }

    /// The mutex at an address, in memory that processes may share.
    ///
    /// # Safety
    /// - `at` is aligned, and mapped for reading and writing as long as `'a` lasts.
    /// - There is a mutex, written by [`Self::new`], or of zero bytes if those are a
    ///   valid `T`. As long as anybody uses it, its memory is accessed only as a
    ///   `RobustPiMutex<T>` of the same version and layout.
    /// - If processes share it, they are in one PID namespace, and `T` is `Send` and
    ///   means the same in each of them: it has no addresses, file descriptors or the
    ///   like. What a process left half changed when it was killed is a valid `T`.
    /// - A child of a fork in a closure does not use the value that it finds borrowed.
    /// - The memory is new since the system's start: a mutex that was held when the
    ///   machine stopped names an owner that does not exist, or is another by now.
    pub unsafe fn from_ptr<'a>(at: *mut Self) -> &'a Self {
        // SAFETY: it is aligned, mapped and initialised, as the caller says; what
        // others change is in atomics and in the cell, which the lock guards.
        unsafe { &*at }
    }

    /// Takes the mutex, waiting as long as it takes, and holds it while `holding` runs.
    ///
    /// # Panics
    /// When the calling thread holds it already, or holds what its owner waits for;
    /// when it names an owner that does not exist; and where robust mutexes are
    /// [not supported](Self::is_supported).
    #[inline]
    pub fn lock<R>(&self, holding: impl FnOnce(Result<&mut T, OwnerDied<'_, T>>) -> R) -> R {
        self.lock_by(None, holding)
            .expect("a lock without a deadline does not time out")
    }

    /// If nobody holds the mutex, takes it and holds it while `holding` runs.
    ///
    /// # Panics
    /// Where robust mutexes are [not supported](Self::is_supported).
    pub fn try_lock<R>(
        &self,
        holding: impl FnOnce(Result<&mut T, OwnerDied<'_, T>>) -> R,
    ) -> Option<R> {
        // SAFETY: `hold` unlocks before the borrow of the mutex ends.
        let held = unsafe { self.raw.try_lock() }?;
        // SAFETY: it was taken above.
        Some(unsafe { self.hold(held, holding) })
    }

    /// Takes the mutex, waiting for `timeout` at most, and holds it while `holding`
    /// runs; `None` when the time has passed.
    ///
    /// # Panics
    /// As [`Self::lock`].
    pub fn try_lock_for<R>(
        &self,
        timeout: Duration,
        holding: impl FnOnce(Result<&mut T, OwnerDied<'_, T>>) -> R,
    ) -> Option<R> {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        self.lock_by(Some(Linux::after(nanos)), holding)
    }

    /// Takes the mutex, waiting until `at` at the latest, and holds it while `holding`
    /// runs; `None` when the time has passed.
    ///
    /// # Panics
    /// As [`Self::lock`].
    pub fn try_lock_until<R>(
        &self,
        at: Instant,
        holding: impl FnOnce(Result<&mut T, OwnerDied<'_, T>>) -> R,
    ) -> Option<R> {
        self.lock_by(Some(Linux::deadline(&at)), holding)
    }

    #[inline]
    fn lock_by<R>(
        &self,
        deadline: Option<Deadline>,
        holding: impl FnOnce(Result<&mut T, OwnerDied<'_, T>>) -> R,
    ) -> Option<R> {
        // SAFETY: `hold` unlocks before the borrow of the mutex ends.
        let held = unsafe { self.raw.lock_until(deadline) }?;
        // SAFETY: it was taken above.
        Some(unsafe { self.hold(held, holding) })
    }

    /// Runs `holding`, and unlocks, also when it panics.
    ///
    /// # Safety
    /// The calling thread has just taken the mutex.
    #[inline]
    unsafe fn hold<R>(
        &self,
        held: Held,
        holding: impl FnOnce(Result<&mut T, OwnerDied<'_, T>>) -> R,
    ) -> R {
        let _unlock = Unlock(&self.raw);
        // SAFETY: this thread holds the mutex until `_unlock` is dropped, after this
        // reference's last use.
        let value = unsafe { &mut *self.value.get() };
        holding(match held {
            Held::Consistent => Ok(value),
            Held::OwnerDied => Err(OwnerDied {
                value,
                mutex: &self.raw,
            }),
        })
    }
}

impl<T> fmt::Debug for RobustPiMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RobustPiMutex").finish_non_exhaustive()
    }
}

/// Unlocks what the calling thread holds.
struct Unlock<'a>(&'a RawRobustPiMutex);

impl Drop for Unlock<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `hold` alone makes one, in the thread that took the mutex, and drops
        // it there.
        unsafe { self.0.unlock() };
    }
}

/// The value of a [`RobustPiMutex`] of which an owner ended while it held the mutex:
/// it may be half changed.
pub struct OwnerDied<'a, T> {
    value: &'a mut T,
    mutex: &'a RawRobustPiMutex,
}

impl<'a, T> OwnerDied<'a, T> {
    /// The value as it was left. Later lockers get an `OwnerDied`, too.
    pub fn into_inner(self) -> &'a mut T {
        self.value
    }

    /// Has `mend` make the value whole, and gives it back: if `mend` returns, later
    /// lockers are not told any more.
    pub fn recover(self, mend: impl FnOnce(&mut T)) -> &'a mut T {
        mend(self.value);
        self.mutex.mark_consistent();
        self.value
    }
}

impl<T> fmt::Debug for OwnerDied<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerDied").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for OwnerDied<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an owner of the mutex ended while it held it")
    }
}

impl<T> Error for OwnerDied<'_, T> {}
