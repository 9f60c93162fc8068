//! Read sections and grace periods: a word for each task, odd while it is inside one.
//! A kernel has them for nothing; here a section costs two stores to a line of the
//! task's own, and a barrier.
//!
//! | who reads | who waits for a grace period |
//! |---|---|
//! | make the word odd | end what leads to the object |
//! | (A) full barrier | (B) full barrier |
//! | find the object, or not | (D) read each word; wait for the odd ones to change |
//! | (D) make the word even | free the object |

use lockyard_core::{
    FOREVER, Look,
    Ordering::{Acquire, Relaxed, Release},
    Platform, Word,
};

/// The readers of a world.
pub(crate) struct Readers<P: Platform>(Box<[Reader<P>]>);

/// A task's word, on a line of its own.
#[repr(align(64))]
struct Reader<P: Platform>(P::U32);

impl<P: Platform> Readers<P> {
    /// Of so many tasks, from 1 on.
    pub(crate) fn new(tasks: u32) -> Self {
        Self(super::zeroed(tasks, || Reader(P::U32::ZERO)))
    }

    /// Nobody is inside a section.
    pub(crate) fn clear(&self) {
        for Reader(word) in &self.0 {
            word.store(0, Relaxed); // there are no readers
        }
    }

    pub(crate) fn read_section<R>(&self, section: impl FnOnce() -> R) -> R {
        let Reader(word) = &self.0[P::me().number() as usize - 1];
        let outside = word.load(Relaxed); // the task's own
        word.store(outside + 1, Relaxed); // the barrier orders it
        P::fence(); // (A) pairs with grace_period's
        let result = section();
        word.store(outside + 2, Release); // (D) pairs with grace_period's Acquire
        result
    }

    /// Waits until all sections have ended that may have begun before.
    pub(crate) fn grace_period(&self) {
        P::fence(); // (B) pairs with read_section's
        for Reader(word) in &self.0 {
            let began = word.load(Acquire); // (D) pairs with read_section's Release
            let ended = |now| now != began;
            if began % 2 == 1 {
                // (D) as above
                P::spin_until(word, Acquire, Look::Poll, FOREVER, ended, || false);
            }
        }
    }
}
