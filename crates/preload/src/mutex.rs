//! The mutex: ours in the first bytes of a `pthread_mutex_t`.
//!
//! | word | a mutex of ours | with priority inheritance | the C library's |
//! |---|---|---|---|
//! | 0..4 | the mutex | the mutex | its own |
//! | 4 | its kind, as a static initialiser has it, and [`SEEN`] once watched | its kind and [`PI`] | its kind, with other flags |
//! | 5 | 0 | the mutex's count of boosters | its own |
//! | 6 | locks of a recursive one beyond the first | likewise | its own |
//! | 7 | where its owner waits for another to unlock it | 0 | its own |
//! | 8 | its number, if the order validator is on | likewise | its own |
//! | 9 | who waits for a condition variable, and is to have it afterwards | likewise | its own |
//!
//! So a static initialiser is a mutex of ours, and who makes one by attributes decides
//! whose it is: what is robust, shared with other processes or has a ceiling is the C
//! library's, each call anew.

mod fast;
mod lock;
mod seen;

use std::{
    ffi::c_int,
    ptr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

pub use fast::{pthread_mutex_lock, pthread_mutex_unlock};
use libc::{
    EAGAIN, EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT, PTHREAD_MUTEX_ERRORCHECK,
    PTHREAD_MUTEX_RECURSIVE, clockid_t, pthread_mutexattr_t, timespec,
};
use lock::Lock;
use lockyard_core::{RawMutex, RawPiMutex, Unlocks};
use lockyard_linux::{Linux, LinuxPi};
use lockyard_order as order;

use crate::{next, policy, result, time::Until, watch};

/// The word of a `pthread_mutex_t` that has its kind.
pub const KIND: usize = 4;
/// The largest kind that is no flag: normal, recursive, errorcheck, adaptive.
pub const LAST_KIND: u32 = 3;
/// The kind of one that was destroyed: the C library answers for it.
const DESTROYED: u32 = u32::MAX;
/// With the kind of one with priority inheritance. The C library's flags are the lowest
/// ten bits.
const PI: u32 = 0x5049_0000;
/// With the kind of a plain one that was taken while it was watched.
const SEEN: u32 = 0x5345_0000;

/// What lies in a `pthread_mutex_t`.
#[repr(C)]
pub struct Mutex {
    lock: RawMutex<Linux>,
    kind: AtomicU32,
    boosters: AtomicU32,
    more: AtomicU32,
    unlocks: Unlocks<Linux>,
    tag: order::Tag,
    /// Written by who has the mutex.
    users: AtomicU32,
}

type PiLock = RawPiMutex<LinuxPi>;

const _: () = {
    assert!(std::mem::offset_of!(Mutex, kind) == KIND * 4);
    assert!(size_of::<Mutex>() <= size_of::<libc::pthread_mutex_t>());
    assert!(PiLock::UNUSED == std::mem::offset_of!(Mutex, kind));
    assert!(size_of::<PiLock>() == std::mem::offset_of!(Mutex, more));
    assert!(align_of::<Mutex>() <= align_of::<libc::pthread_mutex_t>());
};

/// How a mutex treats its owner that locks it again, and others that unlock it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Normal or adaptive: the first waits, the second is let.
    Normal,
    Recursive,
    Errorcheck,
}

impl Kind {
    const fn of(kind: u32) -> Self {
        match kind as c_int {
            PTHREAD_MUTEX_RECURSIVE => Self::Recursive,
            PTHREAD_MUTEX_ERRORCHECK => Self::Errorcheck,
            _ => Self::Normal,
        }
    }
}

/// Whose a mutex is.
enum Whose<'a> {
    Ours(Held<'a, RawMutex<Linux>>),
    OursPi(Held<'a, PiLock>),
    Libcs,
}

/// A mutex of ours, with what belongs to it.
struct Held<'a, L> {
    lock: &'a L,
    kind: Kind,
    /// Of a recursive mutex, in its owner's hands.
    more: &'a AtomicU32,
    /// Where the owner of a normal mutex waits for another to unlock it.
    unlocks: &'a Unlocks<Linux>,
    /// What it lies in.
    mutex: &'a Mutex,
}

impl Mutex {
    /// Its kind and what else is in that word. From its first use on only its owner changes
    /// it, once, to say that it is watched.
    #[inline(always)]
    fn kind(&self) -> u32 {
        self.kind.load(Relaxed) // one word, of which each value means the same to all
    }

    /// Whether it is nobody's but ours, of any kind, without priority inheritance, and
    /// was never watched.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.kind() & !LAST_KIND == 0
    }

    /// Whether somebody who waits for a condition variable is to have it afterwards.
    fn is_awaited(&self) -> bool {
        self.users.load(Relaxed) != 0 // who asks has heard that nobody uses it, or does wrong
    }

    /// Whether its owner has locked it once.
    #[inline(always)]
    fn is_once(&self) -> bool {
        self.more.load(Relaxed) == 0 // the owner's own, or 0
    }

    /// The lock, if it is ours with priority inheritance.
    #[inline(always)]
    fn pi(&self) -> Option<&PiLock> {
        // SAFETY: `pthread_mutex_init` has put such a lock there, or it is one of zeros, as it
        // stands there; and the object is valid as long as this reference, which the caller has.
        (self.kind() & !LAST_KIND == PI).then(|| unsafe { &*ptr::from_ref(self).cast::<PiLock>() })
    }

    /// What it is known by to who watches.
    #[inline(always)]
    fn key(&self) -> watch::Key {
        watch::Key::new(ptr::from_ref(self).addr(), watch::Mode::Mutex)
    }

    #[inline(always)]
    fn whose(&self) -> Whose<'_> {
        if !policy::mutexes() {
            return Whose::Libcs;
        }
        if policy::inherit() {
            self.adopt();
        }
        let kind = self.kind();
        let flags = kind & !LAST_KIND;
        let kind = Kind::of(kind & LAST_KIND);
        let (more, unlocks) = (&self.more, &self.unlocks);
        if let Some(lock) = self.pi() {
            Whose::OursPi(Held {
                lock,
                kind,
                more,
                unlocks,
                mutex: self,
            })
        } else if flags == 0 || flags == SEEN {
            Whose::Ours(Held {
                lock: &self.lock,
                kind,
                more,
                unlocks,
                mutex: self,
            })
        } else {
            Whose::Libcs
        }
    }

    /// Makes what a static initialiser has made one with priority inheritance, before the caller
    /// uses it: to do so is to exchange one word, and all others are zero.
    fn adopt(&self) {
        let kind = self.kind();
        if kind <= LAST_KIND {
            // Who fails finds that another has done it.
            let _ = self
                .kind
                .compare_exchange(kind, PI | kind, Relaxed, Relaxed);
        }
    }
}

impl<L: Lock> Held<'_, L> {
    /// What it is known by to who watches.
    #[inline(always)]
    fn key(&self) -> watch::Key {
        watch::Key::new(ptr::from_ref(self.lock).addr(), watch::Mode::Mutex)
    }

    #[inline(always)]
    fn lock(&self) -> c_int {
        match policy::watched() {
            true => self.lock_seen(),
            false => self.take(),
        }
    }

    #[inline(always)]
    fn take(&self) -> c_int {
        match watch::is_on() {
            true => self.lock_watched(),
            false => self.lock_unwatched(),
        }
    }

    #[inline(never)]
    fn lock_watched(&self) -> c_int {
        if self.lock.try_lock() {
            watch::took(self.key());
            0
        } else if self.kind != Kind::Normal && self.lock.is_mine() {
            self.lock_again(EDEADLK)
        } else {
            watch::waiting(self.key(), || self.lock_unwatched())
        }
    }

    #[inline(always)]
    fn lock_unwatched(&self) -> c_int {
        if self.lock.lock_unless_mine() {
            0
        } else if self.kind == Kind::Normal {
            result(self.lock.lock_after_another(self.unlocks, None), ETIMEDOUT)
        } else {
            self.lock_again(EDEADLK)
        }
    }

    fn try_lock(&self) -> c_int {
        self.seen_to(|| self.try_take())
    }

    fn try_take(&self) -> c_int {
        if self.lock.try_lock() {
            watch::took(self.key());
            0
        } else if self.lock.is_mine() {
            self.lock_again(EBUSY)
        } else {
            EBUSY
        }
    }

    /// # Safety
    /// As [`Until::deadline`].
    unsafe fn lock_until(&self, until: Until) -> c_int {
        // SAFETY: the caller's.
        self.seen_to(|| unsafe { self.take_until(until) })
    }

    /// # Safety
    /// As [`Until::deadline`].
    unsafe fn take_until(&self, until: Until) -> c_int {
        if !until.has_clock() {
            return EINVAL;
        }
        if self.lock.is_mine() && self.kind != Kind::Normal {
            return self.lock_again(EDEADLK);
        }
        if self.lock.try_lock() {
            watch::took(self.key());
            return 0;
        }
        // SAFETY: the caller's.
        match unsafe { until.deadline() } {
            Ok(deadline) => watch::waiting(self.key(), || {
                result(
                    self.lock.lock_after_another(self.unlocks, Some(deadline)),
                    ETIMEDOUT,
                )
            }),
            Err(error) => error,
        }
    }

    /// Its owner locks it again; `error` unless it is recursive.
    fn lock_again(&self, error: c_int) -> c_int {
        if self.kind != Kind::Recursive {
            return error;
        }
        let more = self.more.load(Relaxed).checked_add(1); // the owner's own
        if let Some(more) = more {
            self.more.store(more, Relaxed); // likewise
        }
        result(more.is_some(), EAGAIN)
    }

    #[inline(always)]
    fn unlock(&self) -> c_int {
        let more = self.more.load(Relaxed); // the owner's own, or checked
        if more > 0 && self.lock.is_mine() {
            self.more.store(more - 1, Relaxed); // likewise
            return 0;
        }
        match policy::watched() {
            true => self.unlock_seen(),
            false => self.release(),
        }
    }

    #[inline(always)]
    fn release(&self) -> c_int {
        watch::releases(self.key());
        if self.lock.unlock_if_mine() {
            0
        } else if self.kind == Kind::Normal {
            result(self.lock.unlock_for_another(self.unlocks), EPERM)
        } else {
            EPERM
        }
    }
}

/// A mutex that the caller wants to wait with.
#[derive(Clone, Copy)]
pub struct Partner<'a> {
    /// Whether it may: the mutex must be one that knows its owner.
    pub may_wait: bool,
    /// The lock, if the wait releases it, and who has it may make others wait for it, unseen by
    /// who watches.
    pub lock: Option<&'a RawMutex<Linux>>,
    mutex: &'a Mutex,
}

impl Partner<'_> {
    /// The caller, who has the mutex, is about to wait.
    pub fn waits(&self) {
        if policy::watched() {
            self.mutex.wants_back();
        }
    }

    /// The caller is about to release the mutex for its wait.
    pub fn leaves(&self) {
        let users = self.mutex.users.load(Relaxed); // the owner's own
        self.mutex.users.store(users.wrapping_add(1), Relaxed); // likewise
    }

    /// The caller has it again.
    pub fn is_back(&self) {
        let users = self.mutex.users.load(Relaxed); // likewise
        self.mutex.users.store(users.wrapping_sub(1), Relaxed); // likewise
    }
}

/// What there is to know of a mutex before a wait. `None` when that is for the C library.
///
/// # Safety
/// As for `pthread_mutex_unlock`, as long as the lock is used.
pub unsafe fn partner<'a>(mutex: *mut Mutex) -> Option<Partner<'a>> {
    // SAFETY: it points to a mutex, as the caller says.
    let mutex = unsafe { &*mutex };
    let (may_wait, lock) = match mutex.whose() {
        Whose::Ours(held) => (
            held.kind == Kind::Normal || held.lock.is_mine(),
            (policy::unwatched() && mutex.is_once()).then_some(held.lock),
        ),
        Whose::OursPi(held) => (held.lock.is_mine(), None),
        Whose::Libcs => return None,
    };
    Some(Partner {
        may_wait,
        lock,
        mutex,
    })
}

unsafe extern "C" {
    fn pthread_mutexattr_gettype(attributes: *const pthread_mutexattr_t, kind: *mut c_int)
    -> c_int;
}

/// What the attributes ask for: whether the C library must do it, whether it inherits
/// priority, and the kind.
///
/// # Safety
/// They are null or initialised.
unsafe fn asked(attributes: *const pthread_mutexattr_t) -> (bool, bool, u32) {
    let (mut kind, mut protocol, mut shared, mut robust): (c_int, _, _, _) = (0, 0, 0, 0);
    if !attributes.is_null() {
        // SAFETY: they are initialised, as the caller says; the numbers are writable.
        unsafe {
            pthread_mutexattr_gettype(attributes, &raw mut kind);
            libc::pthread_mutexattr_getprotocol(attributes, &raw mut protocol);
            libc::pthread_mutexattr_getpshared(attributes, &raw mut shared);
            libc::pthread_mutexattr_getrobust(attributes.cast_mut(), &raw mut robust);
        }
    }
    let libcs = protocol == libc::PTHREAD_PRIO_PROTECT || shared != 0 || robust != 0;
    let kind = kind.cast_unsigned();
    let inherits = protocol == libc::PTHREAD_PRIO_INHERIT;
    (libcs || kind > LAST_KIND, inherits, kind)
}

/// # Safety
/// As POSIX has it, here and for all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut Mutex,
    attributes: *const pthread_mutexattr_t,
) -> c_int {
    // SAFETY: the caller's.
    let (libcs, inherits, kind) = unsafe { asked(attributes) };
    if libcs || !policy::mutexes() {
        // SAFETY: the caller's.
        return unsafe { next::pthread_mutex_init(mutex, attributes) };
    }
    // SAFETY: the caller's.
    unsafe { init(mutex, kind, inherits) };
    0
}

/// Makes an unlocked mutex of ours.
///
/// # Safety
/// As for `pthread_mutex_init`.
pub unsafe fn init(mutex: *mut Mutex, kind: u32, inherits: bool) {
    let flags = if inherits || policy::inherit() { PI } else { 0 };
    let unlocked = Mutex {
        lock: RawMutex::new(),
        kind: AtomicU32::new(flags | kind),
        boosters: AtomicU32::new(0),
        more: AtomicU32::new(0),
        unlocks: Unlocks::new(),
        tag: order::Tag::new(),
        users: AtomicU32::new(0),
    };
    // SAFETY: it is writable, of a pthread_mutex_t's size, and nobody uses it yet.
    unsafe { mutex.write(unlocked) };
    watch::made(watch::Key::new(mutex.addr(), watch::Mode::Mutex));
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    let object = unsafe { &*mutex };
    let locked = match object.whose() {
        Whose::Ours(held) => held.lock.is_locked(),
        Whose::OursPi(held) => held.lock.is_locked(),
        // SAFETY: the caller's.
        Whose::Libcs => return unsafe { next::pthread_mutex_destroy(mutex) },
    };
    let used = locked || object.is_awaited();
    if policy::watched() && locked == used {
        order::destroyed(object.seen(), locked);
    }
    if !used {
        watch::destroyed(watch::Key::new(mutex.addr(), watch::Mode::Mutex));
        object.kind.store(DESTROYED, Relaxed); // nobody uses it any more
    }
    result(!used, EBUSY)
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    match unsafe { &*mutex }.whose() {
        Whose::Ours(held) => held.try_lock(),
        Whose::OursPi(held) => held.try_lock(),
        // SAFETY: the caller's.
        Whose::Libcs => unsafe { next::pthread_mutex_trylock(mutex) },
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(mutex: *mut Mutex, at: *const timespec) -> c_int {
    let until = Until::realtime(at);
    // SAFETY: the caller's.
    unsafe {
        match (*mutex).whose() {
            Whose::Ours(held) => held.lock_until(until),
            Whose::OursPi(held) => held.lock_until(until),
            Whose::Libcs => next::pthread_mutex_timedlock(mutex, at),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_clocklock(
    mutex: *mut Mutex,
    clock: clockid_t,
    at: *const timespec,
) -> c_int {
    let until = Until { clock, at };
    // SAFETY: the caller's.
    unsafe {
        match (*mutex).whose() {
            Whose::Ours(held) => held.lock_until(until),
            Whose::OursPi(held) => held.lock_until(until),
            Whose::Libcs => next::pthread_mutex_clocklock(mutex, clock, at),
        }
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_consistent(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's.
    match unsafe { &*mutex }.whose() {
        // SAFETY: the caller's.
        Whose::Libcs => unsafe { next::pthread_mutex_consistent(mutex) },
        _ => EINVAL,
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_getprioceiling(
    mutex: *const Mutex,
    ceiling: *mut c_int,
) -> c_int {
    // SAFETY: the caller's.
    match unsafe { &*mutex }.whose() {
        // SAFETY: the caller's.
        Whose::Libcs => unsafe { next::pthread_mutex_getprioceiling(mutex, ceiling) },
        _ => EINVAL,
    }
}

/// # Safety
/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_setprioceiling(
    mutex: *mut Mutex,
    ceiling: c_int,
    old: *mut c_int,
) -> c_int {
    // SAFETY: the caller's.
    match unsafe { &*mutex }.whose() {
        // SAFETY: the caller's.
        Whose::Libcs => unsafe { next::pthread_mutex_setprioceiling(mutex, ceiling, old) },
        _ => EINVAL,
    }
}
