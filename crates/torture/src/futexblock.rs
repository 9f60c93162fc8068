//! What `perf bench futex wake` and `requeue` do: threads block for a futex, and one
//! thread wakes them or has them wait for another, some at a time.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Host, Native};

/// A futex; nobody changes its words, which are 0.
#[derive(Clone, Copy)]
pub struct Futex {
    /// Waits until it is woken.
    pub wait: fn(&AtomicU32),
    /// Wakes so many at most; returns how many.
    pub wake: fn(&AtomicU32, u32) -> u32,
    /// Has so many at most wait for the second word; returns how many.
    pub requeue: fn(&AtomicU32, &AtomicU32, u32) -> u32,
}

/// What is done to the threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// They are woken, so many at a time.
    Wake(u32),
    /// Each waits for a word of its own, and they are woken, word by word.
    WakeEach,
    /// They are moved to another word, so many at a time.
    Requeue(u32),
}

/// Blocks so many threads, kept on a CPU each in turn; returns how long it took to do
/// that to all of them. Of the words there is one for each thread, and one more.
pub fn run(futex: Futex, act: Act, threads: u32, words: &[AtomicU32]) -> Duration {
    /// Those that have come may be about to go to sleep.
    const SETTLE: Duration = Duration::from_millis(10);
    let cpus = Native::cpus();
    let elapsed = OnceLock::new();
    let stop = AtomicBool::new(false);
    let (door, rest) = words.split_first().expect("there are words");
    let block = |thread: usize| {
        Native::confine(Native::me(), &[cpus[thread % cpus.len()]]);
        (futex.wait)(door);
    };
    let body = |task: usize| {
        if task > 0 {
            return block(task - 1);
        }
        gather(futex, act, threads, door, rest);
        thread::sleep(SETTLE);
        let begin = Instant::now();
        all(threads, |done| match act {
            Act::Wake(most) => (futex.wake)(&rest[0], most),
            Act::WakeEach => (futex.wake)(&rest[done as usize], 1),
            Act::Requeue(most) => (futex.requeue)(&rest[0], door, most),
        });
        elapsed.get_or_init(|| begin.elapsed());
        if let Act::Requeue(_) = act {
            all(threads, |_| (futex.wake)(door, u32::MAX));
        }
    };
    Native::run(threads as usize + 1, Duration::MAX, &stop, &body);
    elapsed.into_inner().expect("the first task has said it")
}

/// Moves the threads to where they are to block: so it is known that all have come.
fn gather(futex: Futex, act: Act, threads: u32, door: &AtomicU32, rest: &[AtomicU32]) {
    all(threads, |come| {
        let (to, most) = match act {
            Act::WakeEach => (come as usize, 1),
            _ => (0, u32::MAX),
        };
        let moved = (futex.requeue)(door, &rest[to], most);
        if moved == 0 {
            Native::yield_now();
        }
        moved
    });
}

/// Does it until that many threads were met. It is told how many were.
fn all(threads: u32, mut act: impl FnMut(u32) -> u32) {
    let mut done = 0;
    while done < threads {
        done += act(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::futex::{self, Flags};

    const KERNEL: Futex = Futex {
        wait: |word| futex::wait(word, Flags::PRIVATE, 0, None).expect("it is woken"),
        wake: |word, most| {
            let most = most.min(i32::MAX.cast_unsigned());
            futex::wake(word, Flags::PRIVATE, most).expect("a wake cannot fail") as u32
        },
        requeue: |from, to, most| {
            let most = most.min(i32::MAX.cast_unsigned());
            let moved = futex::cmp_requeue(from, Flags::PRIVATE, 0, most, to, 0);
            moved.expect("the word does not change") as u32
        },
    };

    #[test]
    fn all_threads_are_met_and_end() {
        let words: Vec<_> = (0..6).map(|_| AtomicU32::new(0)).collect();
        for act in [Act::Wake(2), Act::WakeEach, Act::Requeue(3)] {
            assert!(run(KERNEL, act, 5, &words) > Duration::ZERO);
        }
    }
}
