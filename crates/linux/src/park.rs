//! Sleeping in the kernel: on one word of each task's record, or on a word of the caller's.

use std::{
    num::NonZeroU32,
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use lockyard_core::{Deadline, Woken};
use rustix::{
    io::{self, Errno},
    thread::futex::{self, Flags},
};

use crate::{clock, errno, rseq};

const EMPTY: u32 = 0;
const TOKEN: u32 = 1;
const PARKED: u32 = 2;

/// Sleeps until a token arrives, and takes it.
pub(crate) fn park(parker: &AtomicU32, deadline: Option<Deadline>) -> Woken {
    // (P1) Acquire, here and below, pairs with unpark's Release.
    if parker
        .compare_exchange(EMPTY, PARKED, Acquire, Acquire)
        .is_err()
    {
        parker.swap(EMPTY, Acquire);
        return Woken::Unparked;
    }
    let woken = sleep(parker, deadline);
    match parker.swap(EMPTY, Acquire) {
        TOKEN => Woken::Unparked,
        _ => woken,
    }
}

fn sleep(parker: &AtomicU32, deadline: Option<Deadline>) -> Woken {
    while parker.load(Relaxed) == PARKED {
        if park_on(parker, PARKED, deadline) == Woken::TimedOut {
            return Woken::TimedOut;
        }
    }
    Woken::Unparked
}

/// Sleeps in the kernel if our own word holds `expected`; may return at any time. The kernel
/// has a full barrier before it compares: it counts who is about to sleep, for its wakers.
///
/// # Panics
/// If the kernel cannot read the word.
#[inline]
pub(crate) fn park_on(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) -> Woken {
    match wait(word, expected, deadline) {
        Err(Errno::TIMEDOUT) => Woken::TimedOut,
        Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Woken::Unparked,
        Err(error) => unreachable!("a futex wait on our own word failed: {error}"),
    }
}

/// Wakes all that sleep in the kernel on our own word.
///
/// # Panics
/// If the kernel refuses to.
fn unpark_on(word: &AtomicU32) {
    futex::wake(word, Flags::PRIVATE, i32::MAX as u32)
        .expect("a futex wake on a mapped word cannot fail");
}

/// [`unpark_on`] of the word at that address, which may be gone: then it may wake who sleeps on
/// another one there.
pub(crate) fn unpark_at(word: *const AtomicU32) {
    errno::kept(|| {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel looks for sleepers by the address, and does not read there.
        unsafe { libc::syscall(libc::SYS_futex, word.addr(), operation, i32::MAX) };
    });
}

/// Sleeps in the kernel if the word holds `expected`.
#[inline]
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) -> io::Result<()> {
    let clock = match deadline.is_some_and(clock::is_realtime) {
        true => Flags::CLOCK_REALTIME,
        false => Flags::empty(),
    };
    let timeout = clock::awaited(deadline).map(clock::timespec);
    let flags = Flags::PRIVATE | clock;
    rseq::end();
    futex::wait_bitset(word, flags, expected, timeout.as_ref(), NonZeroU32::MAX)
}

/// Leaves a token and wakes the sleeper if there is one.
pub(crate) fn unpark(parker: &AtomicU32) {
    // (P1) Release pairs with park's Acquire.
    if parker.swap(TOKEN, Release) == PARKED {
        unpark_on(parker);
    }
}

/// Whether the task was woken and has not come back yet.
pub(crate) fn is_arriving(parker: &AtomicU32) -> bool {
    parker.load(Relaxed) == TOKEN // a hint
}
