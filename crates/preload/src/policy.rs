//! Whose the program's locks are, and of what kind: decided once for a process.
//!
//! | in the environment | its values, the first if there is none |
//! |---|---|
//! | [`MUTEX`] | `adaptive`: ours; `pi`: ours, all with priority inheritance; `libc` |
//! | [`RWLOCK`] | `rwsem`: ours; `percpu`: ours, with per-CPU counters; `libc` |

use std::{
    ffi::CStr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{layout, mutex::LAST_KIND, ordered, others, rwlock, sanitizer, versions};

const MUTEX: &CStr = c"LOCKYARD_MUTEX";
const RWLOCK: &CStr = c"LOCKYARD_RWLOCK";

// What is decided, each for itself; 0 until it is.
const DECIDED: u32 = 1;
/// Mutexes are ours, and the condition variables that are waited for with them.
const MUTEXES: u32 = 2;
/// Reader-writer locks are ours.
const RWLOCKS: u32 = 4;
/// All mutexes of ours inherit priority.
const INHERIT: u32 = 8;
/// The order validator watches those that are ours.
const WATCHED: u32 = 16;
/// There is a profile of those that are ours.
const PROFILED: u32 = 32;
/// Reader-writer locks of ours have per-CPU counters.
const PERCPU: u32 = 64;

static LOCKS: AtomicU32 = AtomicU32::new(0);

/// What a mutex's kind is below for it to be quick, and a rwlock's word that says whether
/// processes share it: 0 where none is. So a look at the lock and one here tell all.
static QUICK_MUTEXES: AtomicU32 = AtomicU32::new(0);
static QUICK_RWLOCKS: AtomicU32 = AtomicU32::new(0);
/// Which lock a rwlock has to be for it to be quick, if that is one with per-CPU counters.
static QUICK_PERCPU: AtomicU32 = AtomicU32::new(u32::MAX);

/// Whether the program's mutexes are ours. Once it says so, it does for ever.
#[inline(always)]
pub fn mutexes() -> bool {
    let locks = LOCKS.load(Relaxed); // it tells no more than itself
    locks & MUTEXES != 0 || locks == 0 && decide() & MUTEXES != 0
}

/// Whether its reader-writer locks are, likewise.
#[inline(always)]
pub fn rwlocks() -> bool {
    let locks = LOCKS.load(Relaxed); // likewise
    locks & RWLOCKS != 0 || locks == 0 && decide() & RWLOCKS != 0
}

/// Whether a mutex of this kind is ours, without priority inheritance, was never watched, and
/// nobody wants to know what happens to it.
#[inline(always)]
pub fn is_quick_mutex(kind: u32) -> bool {
    kind < QUICK_MUTEXES.load(Relaxed) // likewise
}

/// Whether a rwlock is ours, and nobody wants to know what happens to it: `shared` says whether
/// processes share it.
#[inline(always)]
pub fn is_quick_rwlock(shared: u32) -> bool {
    shared < QUICK_RWLOCKS.load(Relaxed) // likewise
}

/// Whether a rwlock is ours, of those with per-CPU counters, and nobody wants to know what happens
/// to it: `which` says which lock it is.
#[inline(always)]
pub fn is_quick_percpu(which: u32) -> bool {
    which == QUICK_PERCPU.load(Relaxed) // likewise
}

/// Whether those that are ours have per-CPU counters.
#[inline(always)]
pub fn percpu() -> bool {
    LOCKS.load(Relaxed) & PERCPU != 0 // likewise
}

/// Whether mutexes are ours, and nobody wants to know what happens to them.
#[inline(always)]
pub fn unwatched() -> bool {
    LOCKS.load(Relaxed) & (MUTEXES | WATCHED | PROFILED) == MUTEXES // likewise
}

/// Whether there is a profile, and the order validator does not watch.
#[inline(always)]
pub fn profiled() -> bool {
    LOCKS.load(Relaxed) & (WATCHED | PROFILED) == PROFILED // likewise
}

/// There is a profile from now on, once it is decided whose the locks are.
pub fn profile() {
    set(LOCKS.load(Relaxed) | PROFILED); // likewise
}

fn set(locks: u32) {
    LOCKS.store(locks, Relaxed); // likewise
    let is_quick = |ours, but| locks & (ours | but | WATCHED | PROFILED) == ours;
    let mutexes = if is_quick(MUTEXES, INHERIT) {
        LAST_KIND + 1
    } else {
        0
    };
    QUICK_MUTEXES.store(mutexes, Relaxed); // likewise
    QUICK_RWLOCKS.store(is_quick(RWLOCKS, PERCPU).into(), Relaxed); // likewise
    let percpu = if is_quick(RWLOCKS | PERCPU, 0) {
        rwlock::PERCPU
    } else {
        u32::MAX
    };
    QUICK_PERCPU.store(percpu, Relaxed); // likewise
}

/// Whether all mutexes of ours inherit priority.
#[inline(always)]
pub fn inherit() -> bool {
    LOCKS.load(Relaxed) & INHERIT != 0 // likewise
}

/// Whether the order validator watches. Once it says so, it does for ever.
#[inline(always)]
pub fn watched() -> bool {
    LOCKS.load(Relaxed) & WATCHED != 0 // likewise
}

/// Looks at the C library and the environment, at the first call of any function here: the
/// allocator or some library's constructor may be first.
///
/// It looks at the versions first. To look further the C library may allocate, and so call
/// this again: then the version decides, and what is asked for.
#[cold]
fn decide() -> u32 {
    let mut unknown = layout::check_version();
    if unknown.is_ok() {
        let mut locks = asked();
        set(DECIDED | locks); // what is locked by that is unlocked before the next
        if versions::put_back() && locks & MUTEXES != 0 {
            locks &= !(MUTEXES | INHERIT);
            layout::say(&[
                b"mutexes stay the C library's: some object here was linked before glibc 2.3.2",
            ]);
        }
        if locks != 0 && sanitizer::is_there() {
            locks = 0;
            layout::say(&[b"the locks stay those of ThreadSanitizer, which would not see ours"]);
        }
        if locks & MUTEXES != 0 && others::are_there() {
            locks &= !(MUTEXES | INHERIT);
            layout::say(&[
                b"mutexes stay the C library's: there are other functions for condition variables",
            ]);
        }
        set(DECIDED | locks);
        unknown = layout::check_objects();
    }
    if let Err(why) = &unknown {
        set(DECIDED);
        why.say();
    }
    LOCKS.load(Relaxed)
}

/// What the environment asks for.
fn asked() -> u32 {
    let mutexes = [
        (c"adaptive", MUTEXES),
        (c"pi", MUTEXES | INHERIT),
        (c"libc", 0),
    ];
    let rwlocks = [
        (c"rwsem", RWLOCKS),
        (c"percpu", RWLOCKS | PERCPU),
        (c"libc", 0),
    ];
    let watched = if ordered::is_asked() { WATCHED } else { 0 };
    let mut locks = choice(MUTEX, &mutexes) | choice(RWLOCK, &rwlocks) | watched;
    // Before the first rwlock: it stays what it then is.
    if locks & PERCPU != 0
        && let Err(why) = rwlock::make_room()
    {
        locks &= !PERCPU;
        layout::say(&[why.as_bytes(), b": rwlocks are taken for rwsem"]);
    }
    locks
}

/// The choice that a variable names; the first if there is no such variable, or no such
/// choice, of which it says so.
fn choice(variable: &CStr, choices: &[(&CStr, u32)]) -> u32 {
    // SAFETY: the name is a C string; nobody changes the environment before the program
    // begins.
    let value = unsafe { libc::getenv(variable.as_ptr()) };
    if value.is_null() {
        return choices[0].1;
    }
    // SAFETY: a value of the environment is a C string, which is not changed, as above.
    let value = unsafe { CStr::from_ptr(value) };
    let found = choices.iter().find(|(name, _)| *name == value);
    found.map_or_else(
        || {
            let [name, value, first] = [variable, value, choices[0].0].map(CStr::to_bytes);
            layout::say(&[name, b" '", value, b"' is unknown: it is taken for ", first]);
            choices[0].1
        },
        |(_, choice)| *choice,
    )
}
