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
    /// How one knows that threads wait.
    pub waiters: Waiters,
}

/// How one knows that threads wait.
#[derive(Clone, Copy)]
pub enum Waiters {
    /// By having so many at most wait for the second word; says how many those are.
    Requeued(fn(&AtomicU32, &AtomicU32, u32) -> u32),
    /// By counting them; the futex cannot requeue.
    Counted(fn(&AtomicU32) -> u32),
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
///
/// # Panics
/// The futex cannot do that.
pub fn run(futex: Futex, act: Act, threads: u32, words: &[AtomicU32]) -> Duration {
    /// Those that have come may be about to go to sleep.
    const SETTLE: Duration = Duration::from_millis(10);
    let cpus = Native::cpus();
    let elapsed = OnceLock::new();
    let stop = AtomicBool::new(false);
    let (door, rest) = words.split_first().expect("there are words");
    // Where a thread is to block.
    let place = |thread: u32| match act {
        Act::WakeEach => &rest[thread as usize],
        _ => &rest[0],
    };
    let block = |thread: usize| {
        Native::confine(Native::me(), &[cpus[thread % cpus.len()]]);
        (futex.wait)(match futex.waiters {
            Waiters::Requeued(_) => door,
            Waiters::Counted(_) => place(thread as u32),
        });
    };
    let body = |task: usize| {
        if task > 0 {
            return block(task - 1);
        }
        match futex.waiters {
            // Moves the threads to where they are to block.
            Waiters::Requeued(requeue) => all(threads, |come| match act {
                Act::WakeEach => requeue(door, place(come), 1),
                _ => requeue(door, place(come), u32::MAX),
            }),
            Waiters::Counted(count) => {
                let here = if act == Act::WakeEach { 1 } else { threads };
                for thread in (0..threads).step_by(here as usize) {
                    while count(place(thread)) < here {
                        Native::yield_now();
                    }
                }
            }
        }
        thread::sleep(SETTLE);
        let begin = Instant::now();
        let mut done = 0;
        while done < threads {
            let met = match (act, futex.waiters) {
                (Act::Wake(most), _) => (futex.wake)(place(0), most),
                (Act::WakeEach, _) => (futex.wake)(place(done), 1),
                (Act::Requeue(most), Waiters::Requeued(requeue)) => requeue(place(0), door, most),
                (Act::Requeue(_), Waiters::Counted(_)) => panic!("this futex cannot requeue"),
            };
            done += met;
            if met > 0 {
                continue;
            }
            // Whom a stray wake-up meets, the kernel has wait at its first word again.
            match (act, futex.waiters) {
                (Act::Requeue(_), _) => break, // the rest have gone there by themselves
                (_, Waiters::Requeued(requeue)) => _ = requeue(door, place(done), 1),
                _ => Native::yield_now(),
            }
        }
        elapsed.get_or_init(|| begin.elapsed());
        if let Act::Requeue(_) = act {
            all(threads, |_| (futex.wake)(door, u32::MAX));
        }
    };
    Native::run(threads as usize + 1, Duration::MAX, &stop, &body);
    elapsed.into_inner().expect("the first task has said it")
}

/// Does it until that many threads were met, who may not have come yet. It is told how many
/// were.
fn all(threads: u32, mut act: impl FnMut(u32) -> u32) {
    let mut done = 0;
    while done < threads {
        match act(done) {
            0 => Native::yield_now(),
            met => done += met,
        }
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
        waiters: Waiters::Requeued(requeue),
    };

    /// Between a word and itself it counts.
    const COUNTS: Futex = Futex {
        waiters: Waiters::Counted(|word| requeue(word, word, u32::MAX)),
        ..KERNEL
    };

    fn requeue(from: &AtomicU32, to: &AtomicU32, most: u32) -> u32 {
        let most = most.min(i32::MAX.cast_unsigned());
        let moved = futex::cmp_requeue(from, Flags::PRIVATE, 0, most, to, 0);
        moved.expect("the word does not change") as u32
    }

    #[test]
    fn all_threads_are_met_and_end() {
        let words: Vec<_> = (0..6).map(|_| AtomicU32::new(0)).collect();
        for act in [Act::Wake(2), Act::WakeEach, Act::Requeue(3)] {
            assert!(run(KERNEL, act, 5, &words) > Duration::ZERO);
        }
        for act in [Act::Wake(2), Act::WakeEach] {
            assert!(run(COUNTS, act, 5, &words) > Duration::ZERO);
        }
    }
}
