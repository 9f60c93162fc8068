//! Which tasks may read by a slot.
//!
//! Who revokes a bias looks at slots: of tasks by the hundred, of which most sleep, that would take
//! longer than what it does then. So a task that has no slot bound is not on the list, and it
//! unbinds those that it has before it sleeps, unless it reads.
//!
//! | task (B6) | who revokes (B6) |
//! |---|---|
//! | list: itself; then its slot, as in (B1) or (F1) | count, and the quiesce or the fence, as there; then the list |
//! | slots: unbound, with a fence; list: itself no more | list, Acquire: it is not there: what it did as a reader is done |
//!
//! So who does not find a task that is about to read is found by it: in the count. Each change of
//! the list is a read-modify-write: who acquires one acquires those before.

use crate::platform::{Ordering::*, Platform, TaskRecord, Word};

/// The list: a bit each, for tasks by numbers from 0 on. Those beyond it are always on it.
pub struct Readers<W, const WORDS: usize>([W; WORDS]);

impl<W: Word, const WORDS: usize> Default for Readers<W, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Word, const WORDS: usize> Readers<W, WORDS> {
    /// How many tasks have a bit.
    pub const TASKS: u32 = u32::BITS * WORDS as u32;

    /// The list with nobody on it.
    pub const fn new() -> Self {
        Self([const { W::ZERO }; WORDS])
    }

    fn place(&self, task: u32) -> Option<(&W, u32)> {
        let word = self.0.get((task / u32::BITS) as usize)?;
        Some((word, 1 << (task % u32::BITS)))
    }

    /// Whether the task may be on it: it is, or was a moment ago.
    #[inline]
    pub fn lists(&self, task: u32) -> bool {
        self.place(task)
            .is_none_or(|(word, bit)| word.load(Relaxed) & bit != 0) // a hint, but for the task itself
    }

    /// Puts the task on it, for [`Platform::lists_reader`].
    pub fn list(&self, task: u32) {
        if let Some((word, bit)) = self.place(task) {
            word.fetch_or(bit, Relaxed); // (B6) by the fence, or the test, that comes with the slot
        }
    }

    /// Takes the task off, whose slots are unbound: [`TaskRecord::unbinds_slots`].
    pub fn unlist(&self, task: u32) {
        if let Some((word, bit)) = self.place(task) {
            word.fetch_and(!bit, Relaxed); // (B6) by the fences with which they were
        }
    }

    /// Those below `end` that are on it.
    pub fn each(&self, end: u32) -> impl Iterator<Item = u32> {
        let words = (0..end.min(Self::TASKS))
            .step_by(u32::BITS as usize)
            .zip(&self.0);
        // (B6) Acquire
        let listed =
            words.flat_map(|(first, word)| Bits(word.load(Acquire)).map(move |bit| first + bit));
        listed.chain(Self::TASKS..end)
    }
}

/// The numbers of the bits that are set.
struct Bits(u32);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit)
    }
}

impl<P: Platform> TaskRecord<P> {
    /// Unbinds the slots of the task, for the task itself or for one that knows it is gone.
    /// Returns whether none is bound then: not if it reads by one, or somebody visits them.
    pub fn unbinds_slots(&self) -> bool {
        self.slots.unbind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::NativeWord;

    #[test]
    fn those_that_are_listed_and_those_beyond_are_shown() {
        let all = Readers::<NativeWord, 2>::new();
        for task in [0, 31, 32, 63, 64] {
            all.list(task);
        }
        all.unlist(31);
        all.unlist(64);
        assert!(all.each(66).eq([0, 32, 63, 64, 65]));
        assert!(all.each(32).eq([0]));
        assert_eq!(all.each(0).count(), 0);
        let lists = [0, 31, 32, 64, u32::MAX].map(|task| all.lists(task));
        assert_eq!(lists, [true, false, true, true, true]);
    }
}
