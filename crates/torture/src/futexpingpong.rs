//! Wait to wake: two threads hand a token to and fro, and who does not have it waits for a
//! futex. What is measured is how long after the one lets the token go the other has it. Two
//! futexes take turns, so that a ratio of theirs survives a machine that does not stay the same.

use std::{
    hint, mem,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use nix::sys::resource::{UsageWho, getrusage};

use crate::{Host, Native};

/// A futex.
#[derive(Clone, Copy)]
pub struct Futex {
    /// Waits while the word is 0; may return sooner.
    pub wait: fn(&AtomicU32),
    /// Wakes who waits.
    pub wake: fn(&AtomicU32),
}

/// How far apart the two words lie that [`run`] uses, in words.
pub const APART: usize = 64;

/// How the token is handed to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How long the waiter has been there when the token is handed over to it, on average:
    /// it is between half of this and half as much again, so that nothing is in step.
    pub after: Duration,
    /// Whether both threads are on one CPU. Else they are on one each, if there are two.
    pub one_cpu: bool,
    /// How often it is handed over by each futex.
    pub times: u32,
}

/// What was measured of a futex.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// From letting the token go to having it, in nanoseconds, on average.
    pub ns: f64,
    /// How often a thread went to sleep, per hand-over.
    pub slept: f64,
}

/// So many hand-overs in a row are by one futex: a disturbance that lasts meets both.
const BLOCK: u32 = 10;

/// By which futex the token is handed over in this turn: in the order 0 1 1 0 0 1 1 0.
fn turns_by(turn: u32, times: u32) -> usize {
    (turn / BLOCK.min(times)).div_ceil(2) as usize % 2
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
    /// What it has measured of each futex.
    sums: [Sums; 2],
}

/// Of the waits of one thread for one futex.
#[derive(Default)]
struct Sums {
    /// How many they were.
    waits: AtomicU64,
    /// What they took, in nanoseconds.
    took: AtomicU64,
    /// How often the thread slept, also while it was not waiting.
    slept: AtomicU64,
}

impl Sums {
    /// The thread that owns it is the one that adds, and is read when it has ended.
    fn add(sum: &AtomicU64, more: u64) {
        sum.store(sum.load(Relaxed).wrapping_add(more), Relaxed); // as above
    }
}

/// Hands the token over so many times by each of two futexes, which take turns, after as many
/// times to warm up: with 200 a futex has learned whether to look before it sleeps. Both use
/// the first of the words and the one [`APART`] from it, which are 0, and 0 again in the end.
///
/// # Panics
/// There are too few words, or nothing is to be handed over.
pub fn run(futexes: [Futex; 2], words: &[AtomicU32], config: Config) -> [Report; 2] {
    let words = [&words[0], &words[APART]];
    let sides = [Side::default(), Side::default()];
    let stop = AtomicBool::new(false);
    let cpus = Native::cpus();
    Native::run(2, Duration::MAX, &stop, &|thread| {
        let cpu = if config.one_cpu { 0 } else { thread };
        Native::confine(Native::me(), &[cpus[cpu % cpus.len()]]);
        play(futexes, words, config, &sides, thread);
    });
    [0, 1].map(|which| {
        let all = |of: fn(&Sums) -> &AtomicU64| {
            let sums = sides.iter().map(|side| of(&side.sums[which]).load(Relaxed)); // they have ended
            sums.fold(0, u64::wrapping_add) as f64
        };
        let waits = all(|sums| &sums.waits);
        Report {
            ns: all(|sums| &sums.took) / waits,
            slept: all(|sums| &sums.slept) / waits,
        }
    })
}

/// What each thread does. The first has the token at first.
fn play(
    futexes: [Futex; 2],
    words: [&AtomicU32; 2],
    config: Config,
    sides: &[Side; 2],
    thread: usize,
) {
    let pause = || match config.one_cpu {
        true => Native::yield_now(),
        false => hint::spin_loop(),
    };
    let (mine, other) = (&sides[thread], &sides[1 - thread]);
    // Each futex's own, so that both have the same delays: how soon a CPU wakes depends on how
    // long it has slept.
    let mut dice = [(); 2].map(|()| fastrand::Rng::with_seed(thread as u64));
    let mut slept = 0;
    for turn in 0..4 * config.times {
        let counts = turn >= 2 * config.times;
        let which = turns_by(turn, config.times);
        let futex = futexes[which];
        let sums = &mine.sums[which];
        if turn == 2 * config.times {
            slept = sleeps();
        }
        if turn as usize % 2 == thread {
            other.come.store(true, Release);
            while !other.waits.swap(false, Acquire) {
                pause();
            }
            Native::busy(config.after.mul_f64(0.5 + dice[which].f64()));
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
            if counts {
                Sums::add(&sums.waits, 1);
                Sums::add(&sums.took, since);
            }
        }
        if counts && turns_by(turn + 1, config.times) != which || turn + 1 == 4 * config.times {
            let before = mem::replace(&mut slept, sleeps());
            Sums::add(&sums.slept, slept - before);
        }
    }
}

/// Lets the token go.
fn other_has_it(futex: Futex, word: &AtomicU32, gave: &AtomicU64) {
    gave.store(Native::now_ns(), Relaxed); // published by the word
    word.store(1, Release);
    (futex.wake)(word);
}

/// How often the calling thread has gone to sleep.
fn sleeps() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("a thread may ask about itself");
    usage.voluntary_context_switches() as u64
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
        let [one, two] = [true, false].map(|one_cpu| run([KERNEL; 2], &words, config(one_cpu)));
        assert!(
            one.iter().chain(&two).all(|of| of.ns > 0.0),
            "{one:?}, {two:?}"
        );
        assert!(one.iter().all(|of| of.slept > 0.0), "{one:?}");
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn each_futex_has_as_many_turns_before_as_after_the_other() {
        let order: Vec<_> = (0..8).map(|block| turns_by(block * BLOCK, 200)).collect();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
        for times in 1..100 {
            let measured = |which| {
                let turns = 2 * times..4 * times;
                turns.filter(|&turn| turns_by(turn, times) == which).count()
            };
            assert!(measured(0) > 0 && measured(1) > 0, "{times}");
        }
    }
}
