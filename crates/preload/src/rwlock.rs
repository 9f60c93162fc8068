//! The reader-writer lock: ours in the first bytes of a `pthread_rwlock_t`.
//!
//! | word | a lock of ours | the C library's |
//! |---|---|---|
//! | 0..7 | the lock | its own |
//! | 7 | 0 | not 0: processes share it |
//! | 8 | which lock it is, where there is a choice (`lock.rs`) | its own |
//! | 9 | its number, if it is watched | its own |
//! | 12 | what it prefers, as a static initialiser has it | likewise |
//!
//! By default a thread that reads may read again while a writer waits, and what a reader
//! waits for may want to read: readers pass waiting writers, as with the C library. Where
//! the program prefers writers, and promises not to read twice, they do not for long: as those
//! of `lockyard::RwLock`. Of locks with per-CPU counters readers pass nobody, but there writers
//! give way to them after a while, unless the program prefers writers.

mod fast;
mod lock;

use std::{
    ffi::c_int,
    mem, ptr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use libc::{EAGAIN, EBUSY, EDEADLK, EPERM, ETIMEDOUT, clockid_t, pthread_rwlockattr_t, timespec};
use lockyard_core::{Deadline, RawPercpuRwLock, RawRwLock};
use lockyard_linux::Linux;
use lockyard_order::{
    self as order,
    Mode::{Exclusive, Shared, SharedRecursive},
};

pub use fast::{pthread_rwlock_rdlock, pthread_rwlock_unlock, pthread_rwlock_wrlock};
pub use lock::{PERCPU, make_room};

use self::lock::{Lock, UNUSED, decide, gave_back};
use crate::{
    next, policy, result,
    time::Until,
    watch::{self, Mode},
};

/// The word that says whether processes share it.
pub const SHARED: usize = 7;
/// The word that says whom it prefers.
pub const PREFERENCE: usize = 12;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`: readers do not pass waiting writers for long.
pub const WRITERS_FIRST: u32 = 2;

/// What lies in a `pthread_rwlock_t`.
#[repr(C)]
pub struct Rwlock {
    /// The rwsem, or the first words of a lock with per-CPU counters, of which `more` is the last.
    rwsem: RawRwLock<Linux>,
    more: AtomicU32,
    shared: AtomicU32,
    which: AtomicU32,
    tag: order::Tag,
    rest: [u32; 2],
    preference: AtomicU32,
}

const _: () = {
    assert!(mem::offset_of!(Rwlock, shared) == SHARED * 4);
    assert!(mem::offset_of!(Rwlock, preference) == PREFERENCE * 4);
    assert!(RawPercpuRwLock::<Linux>::USED <= SHARED * 4);
    assert!(size_of::<RawPercpuRwLock<Linux>>() <= size_of::<Rwlock>());
    assert!(align_of::<RawPercpuRwLock<Linux>>() <= align_of::<Rwlock>());
    assert!(size_of::<Rwlock>() == size_of::<libc::pthread_rwlock_t>());
    assert!(align_of::<Rwlock>() <= align_of::<libc::pthread_rwlock_t>());
};

impl Rwlock {
    const fn new(preference: u32) -> Self {
        Self {
            rwsem: RawRwLock::new(),
            more: AtomicU32::new(0),
            shared: AtomicU32::new(0),
            which: AtomicU32::new(UNUSED),
            tag: order::Tag::new(),
            rest: [0; 2],
            preference: AtomicU32::new(preference),
        }
    }

    /// The lock that it has.
    #[inline(always)]
    fn lock(&self) -> Lock<'_> {
        match policy::percpu() && self.which() == PERCPU {
            true => Lock::Percpu(self.percpu()),
            false => Lock::Rwsem(&self.rwsem),
        }
    }

    #[inline(always)]
    fn which(&self) -> u32 {
        match self.which.load(Relaxed) {
            UNUSED => decide(&self.which), // it tells no more than itself
            which => which,
        }
    }

    /// The lock with per-CPU counters, if it is that.
    #[inline(always)]
    fn percpu(&self) -> &RawPercpuRwLock<Linux> {
        // SAFETY: its words are the first of this object, `rwsem` and `more`: atomics, all zero
        // at first, which is such a lock unlocked. What it does not use of its size is padding,
        // and shared references do not write to that. It is not used as a rwsem.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    #[inline(always)]
    fn is_ours(&self) -> bool {
        self.shared.load(Relaxed) == 0 && policy::rwlocks() // constant since it was initialised
    }

    /// Whether readers pass waiting writers.
    #[inline(always)]
    fn is_recursive(&self) -> bool {
        self.preference.load(Relaxed) != WRITERS_FIRST // likewise
    }

    /// What it is known by to who watches.
    #[inline(always)]
    fn key(&self, mode: Mode) -> watch::Key {
        watch::Key::new(ptr::from_ref(self).addr(), mode)
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        let taken = self.lock().try_read(self.is_recursive());
        if taken {
            watch::took(self.key(Mode::Read));
        }
        taken
    }

    #[inline(always)]
    fn try_write(&self) -> bool {
        let taken = self.lock().try_write();
        if taken {
            watch::took(self.key(Mode::Write));
        }
        taken
    }

    #[inline(always)]
    fn read(&self) -> c_int {
        match policy::watched() {
            true => self.read_seen(),
            false => self.take_to_read(),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_seen(&self) -> c_int {
        self.seen_to(self.reader(), true, || self.take_to_read())
    }

    #[inline(always)]
    fn take_to_read(&self) -> c_int {
        // Not before it waits, if nobody wants to know whether it does: a try takes a
        // reservation away at once, who waits does not.
        if watch::is_on() && self.try_read() {
            return 0;
        }
        self.wait_to_read()
    }

    #[inline(always)]
    fn wait_to_read(&self) -> c_int {
        let lock = self.lock();
        if lock.is_mine() {
            return EDEADLK;
        }
        if lock.is_full() {
            return EAGAIN;
        }
        watch::waiting(self.key(Mode::Read), || {
            lock.read(self.is_recursive());
            0
        })
    }

    #[inline(always)]
    fn write(&self) -> c_int {
        match policy::watched() {
            true => self.write_seen(),
            false => self.take_to_write(),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_seen(&self) -> c_int {
        self.seen_to(Exclusive, true, || self.take_to_write())
    }

    #[inline(always)]
    fn take_to_write(&self) -> c_int {
        if watch::is_on() && self.try_write() {
            return 0; // likewise
        }
        let lock = self.lock();
        if lock.is_mine() {
            return EDEADLK;
        }
        watch::waiting(self.key(Mode::Write), || {
            lock.write(self.is_recursive());
            0
        })
    }

    /// # Safety
    /// As [`Until::deadline`].
    unsafe fn read_until(&self, until: Until) -> c_int {
        let read = |deadline| self.lock().read_until(self.is_recursive(), deadline);
        // SAFETY: the caller's.
        self.seen_to(self.reader(), false, || unsafe {
            self.wait_until(until, Mode::Read, read)
        })
    }

    /// # Safety
    /// As [`Until::deadline`].
    unsafe fn write_until(&self, until: Until) -> c_int {
        let write = |deadline| self.lock().write_until(self.is_recursive(), deadline);
        // SAFETY: the caller's.
        self.seen_to(Exclusive, false, || unsafe {
            self.wait_until(until, Mode::Write, write)
        })
    }

    /// A malformed deadline is refused even where it would not be waited for, as the C
    /// library does.
    ///
    /// # Safety
    /// As [`Until::deadline`].
    unsafe fn wait_until(
        &self,
        until: Until,
        mode: Mode,
        wait: impl FnOnce(Deadline) -> bool,
    ) -> c_int {
        // SAFETY: the caller's.
        match unsafe { until.deadline() } {
            Err(error) => error,
            Ok(_) if self.lock().is_mine() => EDEADLK,
            Ok(_) if mode == Mode::Read && self.lock().is_full() => EAGAIN,
            Ok(_) if watch::is_on() && self.try_in(mode) => 0,
            Ok(deadline) => watch::waiting(self.key(mode), || result(wait(deadline), ETIMEDOUT)),
        }
    }

    fn try_in(&self, mode: Mode) -> bool {
        match mode {
            Mode::Write => self.try_write(),
            _ => self.try_read(),
        }
    }

    /// As the order validator sees it.
    fn seen(&self) -> order::Lock<'_> {
        order::Lock {
            address: ptr::from_ref(self).addr(),
            kind: order::Kind::Rwlock,
            tag: &self.tag,
        }
    }

    fn reader(&self) -> order::Mode {
        if self.is_recursive() {
            SharedRecursive
        } else {
            Shared
        }
    }

    /// Takes it by `take`, which `waits` for as long as it takes, seen by the order
    /// validator if that is on.
    fn seen_to(&self, mode: order::Mode, waits: bool, take: impl FnOnce() -> c_int) -> c_int {
        if waits && !self.lock().is_mine() {
            order::wants(self.seen(), mode);
        }
        let code = take();
        if code == 0 && policy::watched() {
            order::took(self.seen(), mode);
        }
        code
    }

    /// It is about to be unlocked, or not: by one who must not.
    #[cold]
    #[inline(never)]
    fn unlock_seen(&self) -> c_int {
        // As `release` finds it.
        if self.lock().is_mine() || self.lock().may_be_read_by_me() {
            order::released(self.seen(), None);
        } else {
            order::refused(self.seen());
        }
        self.release()
    }

    fn read_if_free(&self) -> c_int {
        self.seen_to(self.reader(), false, || match self.try_read() {
            true => 0,
            false if self.lock().is_full() => EAGAIN,
            false => EBUSY,
        })
    }

    fn write_if_free(&self) -> c_int {
        self.seen_to(Exclusive, false, || result(self.try_write(), EBUSY))
    }

    fn destroy(&mut self) -> c_int {
        if policy::watched() {
            order::destroyed(self.seen(), self.lock().is_locked());
        }
        watch::destroyed(self.key(Mode::Read));
        watch::destroyed(self.key(Mode::Write));
        if policy::percpu() {
            self.give_back();
        }
        0
    }

    /// Gives its counter back, if it has one; not if somebody still counts on it.
    fn give_back(&mut self) {
        let percpu = self.which.load(Relaxed) == PERCPU; // likewise
        if percpu && !self.percpu().is_locked() {
            // SAFETY: it is that lock, and nobody uses it any more, nor from here on: all of
            // it is new below.
            unsafe { ptr::drop_in_place(ptr::from_mut(self).cast::<RawPercpuRwLock<Linux>>()) };
            *self = Self::new(self.preference.load(Relaxed)); // likewise
            gave_back();
        }
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        match policy::watched() {
            true => self.unlock_seen(),
            false => self.release(),
        }
    }

    #[inline(always)]
    fn release(&self) -> c_int {
        let lock = self.lock();
        if lock.is_mine() {
            watch::releases(self.key(Mode::Write));
            // SAFETY: the caller is the writer.
            unsafe { lock.unlock_write() };
        } else if lock.may_be_read_by_me() {
            watch::releases(self.key(Mode::Read));
            // SAFETY: the caller is one of the readers, or POSIX leaves open what happens.
            unsafe { lock.unlock_read() };
        } else {
            return EPERM;
        }
        0
    }
}

/// # Safety
/// As POSIX has it, here and for all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(
    rwlock: *mut Rwlock,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    let (mut shared, mut preference) = (0, 0);
    if !attributes.is_null() {
        // SAFETY: they are initialised, as the caller says; the numbers are writable.
        unsafe {
            libc::pthread_rwlockattr_getpshared(attributes, &raw mut shared);
            libc::pthread_rwlockattr_getkind_np(attributes, &raw mut preference);
        }
    }
    if shared != 0 || !policy::rwlocks() {
        // SAFETY: the caller's.
        return unsafe { next::pthread_rwlock_init(rwlock, attributes) };
    }
    // SAFETY: it is writable, of a pthread_rwlock_t's size, and nobody uses it yet.
    unsafe { rwlock.write(Rwlock::new(preference.cast_unsigned())) };
    for mode in [Mode::Read, Mode::Write] {
        watch::made(watch::Key::new(rwlock.addr(), mode));
    }
    0
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(rwlock: *mut Rwlock) -> c_int {
    // SAFETY: the caller's: nobody else uses it any more.
    let lock = unsafe { &mut *rwlock };
    match lock.is_ours() {
        true => lock.destroy(),
        // SAFETY: it is the C library's, and initialised.
        false => unsafe { next::pthread_rwlock_destroy(rwlock) },
    }
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) = |$lock:ident| $done:expr;)*) => {
        $(
            /// # Safety
            /// See above.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(rwlock: *mut Rwlock, $($argument: $type),*) -> c_int {
                // SAFETY: the caller's, for the lock and for what else it passes.
                unsafe {
                    let $lock = &*rwlock;
                    match $lock.is_ours() {
                        true => $done,
                        false => next::$name(rwlock, $($argument),*),
                    }
                }
            }
        )*
    };
}

functions! {
    pthread_rwlock_tryrdlock() = |lock| lock.read_if_free();
    pthread_rwlock_timedrdlock(at: *const timespec) = |lock| lock.read_until(Until::realtime(at));
    pthread_rwlock_clockrdlock(clock: clockid_t, at: *const timespec) =
        |lock| lock.read_until(Until { clock, at });
    pthread_rwlock_trywrlock() = |lock| lock.write_if_free();
    pthread_rwlock_timedwrlock(at: *const timespec) = |lock| lock.write_until(Until::realtime(at));
    pthread_rwlock_clockwrlock(clock: clockid_t, at: *const timespec) =
        |lock| lock.write_until(Until { clock, at });
}
