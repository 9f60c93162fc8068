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
mod others;
mod policy;
mod rwlock;
mod sanitizer;
mod time;
mod versions;
mod watch;

use std::ffi::c_int;

use lockyard_core::Platform;
use lockyard_linux::Linux;

use crate::{cond::Cond, mutex::Mutex, rwlock::Rwlock};

/// Does before the program begins what must not be done later: where a thread is loading
/// a library, is about to fork, or has a lock of the C library's.
extern "C" fn prepare() {
    next::find_all();
    if policy::mutexes() || policy::rwlocks() {
        Linux::me();
        Linux::stamp();
        watch::start();
    }
    if policy::watched() {
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
