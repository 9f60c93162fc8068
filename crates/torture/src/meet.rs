//! How tasks wait for each other, asleep: a real-time task that spun for one of
//! lower priority on its CPU would spin for ever.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lockyard_core::Word;

use crate::Host;

/// The low half of a barrier's word counts who has come.
const ROUND: u32 = 1 << 16;

/// Where so many tasks meet, again and again.
#[repr(align(128))]
pub(crate) struct Barrier<H: Host> {
    /// Who has come; above that, how often all have met, modulo 2^16. Nobody is
    /// so far behind: all must come each time.
    word: H::Word,
    tasks: u32,
}

impl<H: Host> Barrier<H> {
    /// One for so many tasks, fewer than 65,536.
    pub(crate) fn new(tasks: usize) -> Self {
        let word = Word::ZERO;
        let tasks = tasks as u32;
        assert!((1..ROUND).contains(&tasks), "{tasks} tasks cannot meet");
        Self { word, tasks }
    }

    /// Waits for the others. What each did before happens before what any does
    /// after.
    pub(crate) fn meet(&self) {
        // (B) Each acquires what those before it released, and so the last one
        // everything; the others acquire that from its store.
        let mut seen = self.word.fetch_add(1, AcqRel) + 1;
        let round = seen / ROUND;
        if seen % ROUND == self.tasks {
            self.word.store((round + 1).wrapping_mul(ROUND), Release); // (B)
            H::wake(&self.word);
            return;
        }
        while seen / ROUND == round {
            H::wait(&self.word, seen);
            seen = self.word.load(Acquire); // (B)
        }
    }
}

/// A token that one task leaves for another.
#[repr(align(128))]
pub(crate) struct Token<H: Host>(H::Word);

impl<H: Host> Token<H> {
    /// One that nobody has left.
    pub(crate) fn new() -> Self {
        Self(Word::ZERO)
    }

    /// Leaves it.
    pub(crate) fn leave(&self) {
        self.0.store(1, Release); // (T)
        H::wake(&self.0);
    }

    /// Waits for it and takes it.
    pub(crate) fn take(&self) {
        // (T) What who left it did before happens before what the taker does.
        while self.0.load(Acquire) == 0 {
            H::wait(&self.0, 0);
        }
        // Nobody else takes it, and nobody leaves it again before it is taken.
        self.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::Native;

    /// Tasks that meet at a barrier of so many.
    fn rounds(tasks: u32, barrier: &Barrier<Native>, rounds: u32) {
        let came = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..tasks {
                scope.spawn(|| {
                    for round in 1..=rounds {
                        came.fetch_add(1, Relaxed);
                        barrier.meet();
                        assert_eq!(came.load(Relaxed), round * tasks, "one was not waited for");
                        barrier.meet();
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_passes_a_barrier_before_all_have_come() {
        for tasks in [1, 2, 5] {
            rounds(tasks, &Barrier::new(tasks as usize), 500);
        }
    }

    #[test]
    fn a_barrier_lasts_for_ever() {
        let barrier = Barrier::<Native>::new(2);
        barrier.word.store(u32::MAX / ROUND * ROUND, Relaxed);
        rounds(2, &barrier, 3);
    }

    #[test]
    fn a_token_is_taken_once_for_each_time_it_is_left() {
        let [there, back] = &[const { Token::<Native>(AtomicU32::new(0)) }; 2];
        let count = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=500 {
                    there.take();
                    assert_eq!(count.fetch_add(1, Relaxed), i - 1);
                    back.leave();
                }
            });
            for i in 1..=500 {
                there.leave();
                back.take();
                assert_eq!(count.load(Relaxed), i);
            }
        });
    }
}
