//! The kernel's priority-inheriting futex.
//!
//! Its word is 0 when nobody has the lock, else the owner's TID, with marks.
//! Who finds it 0 takes it by a compare-exchange to its TID, and who finds its
//! bare TID releases it by one to 0. Everybody else calls here: the kernel queues
//! waiters by priority, lends the first one's to the owner, and to whom that one
//! waits for, and hands the lock over.
//!
//! | bits | who sets them | who clears them |
//! |---|---|---|
//! | [`TID_MASK`] | who takes it: itself, or the kernel for it | the owner, if it is alone in the word; the kernel when the owner ends, if that lists the word as its own |
//! | [`WAITERS`] | the kernel, before somebody sleeps | the kernel, at an unlock that finds nobody waiting |
//! | [`OWNER_DIED`] | the kernel, when the owner ends | who takes it next, when it has noted that; the kernel, at an unlock |

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use lockyard_core::LockPi;
use lockyard_core::{Deadline, KERNEL_OWNER_DIED, KERNEL_WAITERS};
use rustix::{
    io::{self, Errno},
    thread::futex::{self, Flags},
};

use crate::clock;

/// The owner must unlock by [`unlock_pi`].
pub const WAITERS: u32 = KERNEL_WAITERS;
/// The owner before ended while it had the lock.
pub const OWNER_DIED: u32 = KERNEL_OWNER_DIED;
/// The owner's TID.
pub const TID_MASK: u32 = OWNER_DIED - 1;

/// Who shares the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of one process: the kernel need not ask what is mapped there.
    Private,
    /// Whoever maps the memory that it lies in, in one PID namespace.
    Shared,
}

/// Takes the lock, or waits for it as one of the kernel's queue, until `deadline`
/// at the latest. A free lock is taken even when the deadline has passed.
///
/// # Panics
/// When the word is none of this protocol (the kernel has other waiters there, or
/// it names a thread that cannot wait), is not mapped for writing, or when the
/// kernel has no such futexes.
pub fn lock_pi(word: &AtomicU32, scope: Scope, deadline: Option<Deadline>) -> LockPi {
    loop {
        let tried = match clock::awaited(deadline) {
            None => futex::lock_pi(word, flags(scope), None),
            Some(at) if clock::is_realtime(at) => {
                futex::lock_pi(word, flags(scope), Some(&clock::timespec(at)))
            }
            Some(deadline) => by_monotonic_clock(word, scope, deadline),
        };
        match tried {
            Ok(()) => return LockPi::Taken,
            Err(Errno::DEADLK) => return LockPi::Deadlock,
            Err(Errno::SRCH) => return LockPi::NoOwner,
            Err(Errno::TIMEDOUT) if deadline.is_none_or(clock::passed) => return LockPi::TimedOut,
            // The realtime clock was set; the owner is just ending; a signal.
            Err(Errno::TIMEDOUT | Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOMEM) => clock::sleep_us(1000),
            Err(error) => misused("locked", word, error),
        }
    }
}

/// `FUTEX_LOCK_PI2`, of Linux 5.14.
fn by_monotonic_clock(word: &AtomicU32, scope: Scope, deadline: Deadline) -> io::Result<()> {
    match futex::lock_pi2(word, flags(scope), Some(&clock::timespec(deadline))) {
        Err(Errno::NOSYS) => by_realtime_clock(word, scope, deadline),
        done => done,
    }
}

/// `FUTEX_LOCK_PI`, which knows but the clock that may be set: when it is, this
/// may time out too early, or late by as much as it was set back.
fn by_realtime_clock(word: &AtomicU32, scope: Scope, deadline: Deadline) -> io::Result<()> {
    let left = deadline.0.saturating_sub(clock::monotonic_ns());
    let at = clock::timespec(clock::realtime(clock::realtime_ns().saturating_add(left)));
    futex::lock_pi(word, flags(scope), Some(&at))
}

/// Releases the lock, to the waiter of the highest priority if there is one. Wipes
/// [`OWNER_DIED`].
///
/// # Panics
/// When the word does not name the calling thread, or as [`lock_pi`] does.
pub fn unlock_pi(word: &AtomicU32, scope: Scope) {
    loop {
        match futex::unlock_pi(word, flags(scope)) {
            Ok(()) => return,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOMEM) => clock::sleep_us(1000),
            Err(error) => misused("unlocked", word, error),
        }
    }
}

#[cold]
fn misused(what: &str, word: &AtomicU32, error: Errno) -> ! {
    let value = word.load(Relaxed); // for the message
    panic!("the priority-inheriting futex at {word:p}, now {value:#x}, cannot be {what}: {error}");
}

fn flags(scope: Scope) -> Flags {
    match scope {
        Scope::Private => Flags::PRIVATE,
        Scope::Shared => Flags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What kernels before 5.14 do.
    #[test]
    fn the_realtime_clock_serves_as_well() {
        let word = &AtomicU32::new(0);
        let soon = || Deadline(clock::monotonic_ns() + 1_000_000);
        if by_realtime_clock(word, Scope::Private, soon()) == Err(Errno::NOSYS) {
            eprintln!("skipped: no priority-inheriting futexes");
            return;
        }
        let owner = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(word.load(Relaxed), owner);
        thread::scope(|scope| {
            scope.spawn(|| {
                let tried = by_realtime_clock(word, Scope::Private, soon());
                assert_eq!(tried, Err(Errno::TIMEDOUT));
            });
        });
        unlock_pi(word, Scope::Private);
        assert_eq!(word.load(Relaxed), 0);
    }
}
