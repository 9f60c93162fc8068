//! The futex of words that several processes map: core's count of waiters, in the shared
//! memory itself, and the kernel's queues.

use std::{num::NonZeroU32, sync::atomic::AtomicU32, time::Instant};

use lockyard_core::{Clock, Deadline, KernelFutex, Platform};
use rustix::{
    io::Errno,
    thread::futex::{self, Flags},
};

pub use super::region::Region;
use super::{EVERY_BIT, Waited, region};
use crate::{Linux, clock, robust, tasks};

/// If the word holds `expected`, waits until the calling thread is woken, or until
/// `deadline`. Whoever is told [`Waited::Changed`] reads the word again.
///
/// A word in a [`Region`] of this process is known in all mappings of it. Any other one
/// is left to the kernel's futex, which knows it in all mappings as well.
///
/// # Panics
/// The kernel cannot wait for the word: its page is gone, for its file was made shorter.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> Waited {
    wait_bitset(word, expected, EVERY_BIT, deadline)
}

/// [`wait`] for wakers that pass a set with a bit in common with `bitset`.
///
/// # Panics
/// As [`wait`].
pub fn wait_bitset(
    word: &AtomicU32,
    expected: u32,
    bitset: NonZeroU32,
    deadline: Option<Instant>,
) -> Waited {
    let deadline = deadline.map(|at| Linux::deadline(&at));
    match region::find(word) {
        Some((control, offset)) => {
            let waiters = &control.waiters;
            waiters.wait(offset, word, expected, bitset, deadline)
        }
        None => Linux::futex_wait(word, expected, bitset, deadline),
    }
}

/// Wakes `most` threads at most that wait for the word, in any process; returns how many
/// it woke.
///
/// # Panics
/// As [`wait`].
#[inline]
pub fn wake(word: &AtomicU32, most: u32) -> u32 {
    wake_bitset(word, most, EVERY_BIT)
}

/// [`wake`] of those that wait with a set that has a bit in common with `bitset`.
///
/// # Panics
/// As [`wait`].
#[inline]
pub fn wake_bitset(word: &AtomicU32, most: u32, bitset: NonZeroU32) -> u32 {
    match region::find(word) {
        Some((control, offset)) => control.waiters.wake(offset, word, most, bitset),
        None => Linux::futex_wake(word, most, bitset),
    }
}

/// Not private: the kernel looks what is mapped there.
const SHARED: Flags = Flags::empty();

impl KernelFutex for Linux {
    fn futex_wait(
        word: &AtomicU32,
        expected: u32,
        bitset: NonZeroU32,
        deadline: Option<Deadline>,
    ) -> Waited {
        let timeout = deadline.map(clock::timespec);
        loop {
            match futex::wait_bitset(word, SHARED, expected, timeout.as_ref(), bitset) {
                Ok(()) => return Waited::Woken,
                Err(Errno::AGAIN) => return Waited::Changed,
                Err(Errno::TIMEDOUT) => return Waited::TimedOut,
                Err(Errno::INTR) => {}
                Err(error) => misused("waited for", word, error),
            }
        }
    }

    fn futex_wake(word: &AtomicU32, most: u32, bitset: NonZeroU32) -> u32 {
        // The kernel takes the number for a signed one, and 0 for 1.
        let most = most.min(i32::MAX as u32);
        if most == 0 {
            return 0;
        }
        match futex::wake_bitset(word, SHARED, most, bitset) {
            Ok(woken) => woken as u32,
            Err(error) => misused("woken", word, error),
        }
    }

    fn own(slot: &AtomicU32) -> Option<u32> {
        robust::own(slot).then(tasks::tid)
    }

    fn disown() {
        robust::disown();
    }

    fn look_again() -> Option<Deadline> {
        const PERIOD_NS: u64 = 1_000_000_000;
        Some(Self::after(PERIOD_NS))
    }
}

#[cold]
fn misused(what: &str, word: &AtomicU32, error: Errno) -> ! {
    panic!("the shared futex at {word:p} cannot be {what}: {error}");
}
