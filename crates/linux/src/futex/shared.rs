//! The futex of words that several processes map: core's count of waiters, in the shared
//! memory itself, and the kernel's queues.

use std::{num::NonZeroU32, sync::atomic::AtomicU32, time::Instant};

use lockyard_core::{Clock, Deadline, KernelFutex};
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
    let waited = match region::find(word) {
        Some((control, offset)) => {
            let waiters = &control.waiters;
            waiters.wait(offset, word, expected, bitset, deadline)
        }
        None => Linux::futex_wait(word, expected, bitset, deadline),
    };
    waited.unwrap_or_else(|error| misused("waited for", word, error))
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
    type Refused = Errno;

    fn futex_wait(
        word: &AtomicU32,
        expected: u32,
        bitset: NonZeroU32,
        deadline: Option<Deadline>,
    ) -> Result<Waited, Errno> {
        let timeout = deadline.map(clock::timespec);
        let flags = match deadline.is_some_and(clock::is_realtime) {
            true => SHARED | Flags::CLOCK_REALTIME,
            false => SHARED,
        };
        loop {
            match futex::wait_bitset(word, flags, expected, timeout.as_ref(), bitset) {
                Ok(()) => return Ok(Waited::Woken),
                Err(Errno::AGAIN) => return Ok(Waited::Changed),
                Err(Errno::TIMEDOUT) => return Ok(Waited::TimedOut),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
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
        robust::own(slot).then(Self::number_of_owner)
    }

    fn number_of_owner() -> u32 {
        tasks::tid()
    }

    fn disown() {
        robust::disown();
    }

    fn look_again(deadline: Option<Deadline>) -> Option<Deadline> {
        const PERIOD_NS: u64 = 1_000_000_000;
        Some(clock::sooner(deadline, PERIOD_NS))
    }
}

#[cold]
fn misused(what: &str, word: &AtomicU32, error: Errno) -> ! {
    panic!("the shared futex at {word:p} cannot be {what}: {error}");
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed},
        thread,
    };

    use lockyard_core::Platform;

    use super::*;

    /// A second is how long a waiter sleeps at most before it looks again.
    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn deadlines_of_both_clocks_end_a_wait() {
        let region = Region::open(Region::file(1).unwrap()).unwrap();
        let outside = AtomicU32::new(0);
        for word in [&region.words()[0], &outside] {
            let wait = |deadline| match region::find(word) {
                Some((control, offset)) => {
                    (control.waiters).wait(offset, word, 0, EVERY_BIT, Some(deadline))
                }
                None => Linux::futex_wait(word, 0, EVERY_BIT, Some(deadline)),
            };
            let soon = clock::realtime(clock::realtime_ns() + 1_000_000);
            assert_eq!(wait(soon), Ok(Waited::TimedOut));
            assert!(clock::passed(soon));
            assert_eq!(wait(Linux::after(1_000_000)), Ok(Waited::TimedOut));
        }
    }

    /// A thread forks in a signal handler that interrupts its wait. The child's wait ends
    /// first, and the parent's is counted still.
    #[test]
    fn a_childs_wait_does_not_uncount_the_parents() {
        const WAITS: i32 = -1;
        static FORKED: AtomicBool = AtomicBool::new(false);
        static STATUS: AtomicI32 = AtomicI32::new(WAITS);
        static THREAD: AtomicU64 = AtomicU64::new(0);
        extern "C" fn fork_and_wait(_: libc::c_int) {
            let mut status = 0;
            // SAFETY: the child only waits for a word and ends; `status` is writable.
            let child = unsafe { libc::fork() };
            if child != 0 {
                FORKED.store(true, Relaxed);
                // SAFETY: as above.
                let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
                STATUS.store(if ended == child { status } else { i32::MAX }, Relaxed);
            }
        }
        let handler = fork_and_wait as extern "C" fn(libc::c_int);
        // SAFETY: nothing else in these tests uses this signal.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        let region = Region::open(Region::file(1).unwrap()).unwrap();
        let word = &region.words()[0];
        let (control, offset) = region::find(word).unwrap();
        let parent = std::process::id();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                // SAFETY: it only returns the thread's handle.
                THREAD.store(unsafe { libc::pthread_self() }, Relaxed);
                let waited = wait(word, 0, None);
                if std::process::id() != parent {
                    // SAFETY: ending a process has no conditions.
                    unsafe { libc::_exit(i32::from(waited != Waited::Woken)) };
                }
                waited
            });
            while control.waiters.is_empty(offset) {
                thread::yield_now();
            }
            // SAFETY: the thread is there, for it waits.
            unsafe { libc::pthread_kill(THREAD.load(Relaxed), libc::SIGUSR2) };
            while STATUS.load(Relaxed) == WAITS {
                if FORKED.load(Relaxed) {
                    Linux::futex_wake(word, 1, EVERY_BIT); // the parent is in the handler
                }
                thread::yield_now();
            }
            let counted = !control.waiters.is_empty(offset);
            while !waiter.is_finished() {
                Linux::futex_wake(word, 1, EVERY_BIT);
                thread::yield_now();
            }
            assert_eq!(STATUS.load(Relaxed), 0);
            assert!(counted, "the child has uncounted its parent");
            assert_eq!(waiter.join().unwrap(), Waited::Woken);
        });
    }

    #[test]
    fn the_sooner_deadline_is_found_on_either_clock() {
        type Clock = (fn() -> u64, fn(u64) -> Deadline);
        let clocks: [Clock; 2] = [
            (clock::monotonic_ns, clock::monotonic),
            (clock::realtime_ns, clock::realtime),
        ];
        for (now, at) in clocks {
            let (past, far) = (at(now()), at(now() + 3600 * SECOND_NS));
            for sooner in [past, far] {
                assert_eq!(Linux::sooner(Some(sooner), 7200 * SECOND_NS), sooner);
            }
            let until = Linux::sooner(Some(far), SECOND_NS);
            assert!(!clock::is_realtime(until) && until.0 <= Linux::after(SECOND_NS).0);
        }
        assert!(Linux::sooner(None, SECOND_NS).0 <= Linux::after(SECOND_NS).0);
    }

    /// The file is made shorter while a thread sleeps, which panics when it looks again.
    #[test]
    fn who_panics_is_not_counted() {
        const PAGES: usize = 16;
        const WORDS: usize = PAGES * 4096 / size_of::<AtomicU32>();
        let path = std::env::temp_dir().join(format!("lockyard-short-{}", std::process::id()));
        let mut how = std::fs::File::options();
        let file = how
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let bytes = Region::CONTROL + WORDS * size_of::<AtomicU32>();
        file.set_len(bytes as u64).unwrap();
        let region = Region::open(&file).unwrap();
        let word = &region.words()[WORDS - 1];
        let (control, offset) = region::find(word).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let panicked = std::panic::catch_unwind(|| wait(word, 0, None)).is_err();
                (panicked, control.waiters.is_empty(offset))
            });
            while control.waiters.is_empty(offset) {
                thread::yield_now();
            }
            file.set_len(Region::CONTROL as u64).unwrap();
            assert_eq!(waiter.join().unwrap(), (true, true));
        });
    }
}
