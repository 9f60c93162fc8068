//! The locks of unmodified programs: preloaded, this library stands in front of the C
//! library's mutexes, condition variables and reader-writer locks, and has lockyard's in
//! the bytes of the program's own objects. `docs/preload.md` says what is replaced.
//!
//! Nothing here allocates (but for a report: `heap.rs`), takes a lock of the C library's, or
//! needs a constructor to have run: allocators and constructors lock, too. What `watch` does
//! when a program begins and ends is the exception.

mod c11;
mod cond;
mod heap;
mod layout;
mod mutex;
mod names;
mod next;
mod ordered;
mod rwlock;
mod time;
mod watch;

use std::{
    ffi::c_int,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use lockyard_core::Platform;
use lockyard_linux::Linux;

use crate::{cond::Cond, mutex::Mutex, rwlock::Rwlock};

/// Not known yet.
const UNKNOWN: u32 = 0;
/// The program's objects are as this library knows them, and hold our locks.
const OURS: u32 = 1;
/// They are not: every call goes to the C library.
const LIBCS: u32 = 2;
/// They hold our locks, and the order validator watches them.
const WATCHED: u32 = 3;

static LOCKS: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Whether the program's locks are ours. Once it says so, it does for ever.
#[inline(always)]
fn ours() -> bool {
    match LOCKS.load(Relaxed) {
        OURS => true,
        LIBCS => false,
        _ => decide(),
    }
}

/// Whether they are, and nobody watches them.
#[inline(always)]
fn unwatched() -> bool {
    match LOCKS.load(Relaxed) {
        OURS => true,
        LIBCS => false,
        _ => decide() && !ordered::on(),
    }
}

/// Looks at the C library, at the first call of any function here: the allocator or some
/// library's constructor may be first.
///
/// It looks at the version first. To look further the C library may allocate, and so call
/// this again: then the version decides.
#[cold]
fn decide() -> bool {
    if ordered::on() {
        return true;
    }
    let mut unknown = layout::check_version();
    if unknown.is_ok() {
        let ours = if ordered::is_asked() { WATCHED } else { OURS };
        LOCKS.store(ours, Relaxed); // it tells no more than itself
        unknown = layout::check_objects();
    }
    if let Err(why) = &unknown {
        LOCKS.store(LIBCS, Relaxed); // likewise
        why.say();
    }
    unknown.is_ok()
}

/// Does before the program begins what must not be done later: where a thread is loading
/// a library, is about to fork, or has a lock of the C library's.
extern "C" fn prepare() {
    next::find_all();
    if ours() {
        Linux::me();
        Linux::stamp();
        watch::start();
    }
    if ordered::on() {
        ordered::prepare();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;

/// 0, or what went wrong.
#[inline(always)]
fn result(done: bool, error: c_int) -> c_int {
    if done { 0 } else { error }
}
