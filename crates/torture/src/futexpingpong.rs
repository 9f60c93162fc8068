//! Wait to wake: two threads hand a token to and fro, and who does not have it waits for a
//! futex. What is measured is how long after the one lets the token go the other has it.

use std::{
    fs, hint,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use crate::{Host, Native};

/// A futex.
#[derive(Clone, Copy)]
pub struct Futex {
    /// Waits while the word is 0; may return sooner.
    pub wait: fn(&AtomicU32),
    /// Wakes who waits.
    pub wake: fn(&AtomicU32),
}

/// How far apart the two words lie at least that [`run`] is given, in words.
pub const APART: usize = 64;

/// How the token is handed to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How long the waiter has been there when the token is handed over to it.
    pub after: Duration,
    /// Whether both threads are on one CPU. Else they are on one each, if there are two.
    pub one_cpu: bool,
    /// How often it is handed over.
    pub times: u32,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// From letting the token go to having it, in nanoseconds, on average.
    pub ns: f64,
    /// How often a thread went to sleep, per hand-over.
    pub slept: f64,
}

/// What a thread tells the other, on lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Side {
    /// It may come and wait.
    come: AtomicBool,
    /// It is about to wait, or does.
    waits: AtomicBool,
    /// When it let the token go.
    gave: AtomicU64,
    /// What it measured in all, in nanoseconds, and how often it slept meanwhile.
    took: AtomicU64,
    slept: AtomicU64,
}

/// Hands the token over so many times, after as many to warm up: with 200 a futex has learned
/// whether to look before it sleeps. The words are 0, the first and the one [`APART`]
/// are used, and are 0 again in the end.
///
/// # Panics
/// There are too few words.
pub fn run(futex: Futex, config: Config, words: &[AtomicU32]) -> Report {
    let words = [&words[0], &words[APART]];
    let sides = [Side::default(), Side::default()];
    let stop = AtomicBool::new(false);
    let cpus = Native::cpus();
    Native::run(2, Duration::MAX, &stop, &|thread| {
        let cpu = if config.one_cpu { 0 } else { thread };
        Native::confine(Native::me(), &[cpus[cpu % cpus.len()]]);
        play(futex, config, words, &sides, thread);
    });
    let all = |of: fn(&Side) -> &AtomicU64| {
        let sum = sides.iter().map(|side| of(side).load(Relaxed)).sum::<u64>(); // they have ended
        sum as f64 / f64::from(config.times)
    };
    Report {
        ns: all(|side| &side.took),
        slept: all(|side| &side.slept),
    }
}

/// What each thread does. The first has the token at first.
fn play(futex: Futex, config: Config, words: [&AtomicU32; 2], sides: &[Side; 2], thread: usize) {
    let pause = || match config.one_cpu {
        true => Native::yield_now(),
        false => hint::spin_loop(),
    };
    let (mine, other) = (&sides[thread], &sides[1 - thread]);
    let mut took = 0;
    let mut slept = 0;
    for turn in 0..2 * config.times {
        if turn == config.times {
            slept = sleeps();
        }
        if turn as usize % 2 == thread {
            other.come.store(true, Release);
            while !other.waits.swap(false, Acquire) {
                pause();
            }
            Native::busy(config.after);
            other_has_it(futex, words[1 - thread], &mine.gave);
        } else {
            // Who comes while the other is being woken waits longer than it should. On one CPU
            // it is its going to sleep that lets the other run: part of what is measured.
            while !config.one_cpu && !mine.come.swap(false, Acquire) {
                pause();
            }
            mine.waits.store(true, Release);
            while words[thread].load(Acquire) == 0 {
                (futex.wait)(words[thread]);
            }
            let now = Native::now_ns();
            // Of two CPUs' clocks one may be a little ahead: in both directions that is nothing.
            let since = now.wrapping_sub(other.gave.load(Relaxed)); // ordered by the word
            words[thread].store(0, Relaxed); // mine until I wait again
            took = if turn < config.times {
                0
            } else {
                since.wrapping_add(took)
            };
        }
    }
    mine.took.store(took, Relaxed); // read when the thread has ended
    mine.slept.store(sleeps() - slept, Relaxed); // likewise
}

/// Lets the token go.
fn other_has_it(futex: Futex, word: &AtomicU32, gave: &AtomicU64) {
    gave.store(Native::now_ns(), Relaxed); // published by the word
    word.store(1, Release);
    (futex.wake)(word);
}

/// How often the calling thread has gone to sleep.
fn sleeps() -> u64 {
    const FIELD: &str = "voluntary_ctxt_switches:";
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix(FIELD));
    field.map_or(0, |count| count.trim().parse().expect("the kernel counts"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::futex::{self, Flags};

    const KERNEL: Futex = Futex {
        wait: |word| {
            let _ = futex::wait(word, Flags::PRIVATE, 0, None); // it may have changed
        },
        wake: |word| {
            futex::wake(word, Flags::PRIVATE, 1).expect("a wake cannot fail");
        },
    };

    #[test]
    fn the_token_goes_to_and_fro() {
        let words: Vec<_> = (0..=APART).map(|_| AtomicU32::new(0)).collect();
        let config = |one_cpu| Config {
            after: Duration::ZERO,
            one_cpu,
            times: 50,
        };
        let [one, two] = [true, false].map(|one_cpu| run(KERNEL, config(one_cpu), &words));
        assert!(one.ns > 0.0 && two.ns > 0.0, "{one:?}, {two:?}");
        assert!(one.slept > 0.0, "{one:?}");
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    }
}
