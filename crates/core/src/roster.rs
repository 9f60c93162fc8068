//! Which thread goes by which number.
//!
//! Numbers are small, and reused: a thread takes one at its first lock, and gives it back when it
//! is told that it ends. As C libraries tell it (a destructor of a thread-specific value), that
//! has two holes:
//!
//! - A thread may lock when it has been told for the last time, and takes a number then. That is
//!   *lost*, until somebody who needs one finds the thread gone.
//! - The value may be an earlier thread's, which stood in the stack that the thread was given. So
//!   a thread leaves by the number that it has, and by no other ([`Membership::leave`]).
//!
//! | | one | another |
//! |---|---|---|
//! | (N1) | gives a number back: sets its bit with `Release` | clears the bit, with `Acquire`, and finds it set: has all that the one did |
//! | (N2) | says which thread it is, then a stamp, with `Release` | reads the stamp with `Acquire`, asks for the thread, takes the stamp away |
//!
//! (N2) That the thread is gone shows the other all that it did: the world promises that. Of many
//! who find it gone, one takes the stamp away, and has the number. A stamp is given once: who
//! takes it away asked for the thread that gave it, even if the number, and the world's number of
//! the thread, had another thread in the meantime.
//!
//! To look costs a question for each thread. So that is done each time that the numbers have
//! doubled, until it finds nothing: there are at most twice as many as are needed, or than were
//! needed once.

use core::cell::Cell;

use crate::{
    Ordering::{Acquire, Relaxed, Release},
    Word,
};

/// Numbers that are free: a bit each.
pub struct FreeNumbers<W, const WORDS: usize> {
    /// How many there are, or a few more.
    count: W,
    bits: [W; WORDS],
}

impl<W: Word, const WORDS: usize> FreeNumbers<W, WORDS> {
    /// None, of `32 * WORDS`.
    pub const fn new() -> Self {
        Self {
            count: W::ZERO,
            bits: [const { W::ZERO }; WORDS],
        }
    }

    /// Takes the lowest one, if any is free. It may miss one that is given back meanwhile.
    pub fn take(&self) -> Option<u32> {
        if self.count.load(Relaxed) == 0 {
            return None; // at most a number more
        }
        let taken = (0..).zip(&self.bits).find_map(|(index, word)| {
            let mut bits = word.load(Relaxed); // checked below
            while bits != 0 {
                let lowest = bits & bits.wrapping_neg();
                bits = word.fetch_and(!lowest, Acquire); // (N1)
                if bits & lowest != 0 {
                    return Some(index * u32::BITS + lowest.trailing_zeros());
                }
            }
            None
        })?;
        self.count.fetch_add(1_u32.wrapping_neg(), Relaxed); // a hint
        Some(taken)
    }

    /// Gives one back.
    ///
    /// # Panics
    /// Where it is not below `32 * WORDS`.
    pub fn put(&self, number: u32) {
        self.count.fetch_add(1, Relaxed); // a hint; before the bit, so that it is not too low
        self.bits[(number / u32::BITS) as usize].fetch_or(1 << (number % u32::BITS), Release); // (N1)
    }
}

impl<W: Word, const WORDS: usize> Default for FreeNumbers<W, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// What others can read of a number's thread.
pub struct Entry<W> {
    /// The world's number of the thread, 0 where there is none.
    pub thread: W,
    /// That it has the number: another each time.
    stamp: W,
}

impl<W: Word> Entry<W> {
    /// Nobody's.
    pub const fn new() -> Self {
        Self {
            thread: W::ZERO,
            stamp: W::ZERO,
        }
    }

    /// The thread, which is the caller or is gone, does not go by the number any more; whose it
    /// is now the caller knows.
    pub fn leave(&self) {
        self.thread.store(0, Relaxed); // (N1) publishes it
        // Likewise. An exchange: who would take it away as well finds it gone.
        self.stamp.swap(0, Relaxed);
    }

    fn takes_away(&self, stamp: u32) -> bool {
        // (N2) The world has shown what a thread that is gone did.
        (self.stamp.compare_exchange(stamp, 0, Relaxed, Relaxed)).is_ok()
    }
}

impl<W: Word> Default for Entry<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// The numbers, from 0 on and below `32 * WORDS`.
pub struct Roster<W, const WORDS: usize> {
    free: FreeNumbers<W, WORDS>,
    /// The next number that nobody has had.
    fresh: W,
    /// How many stamps were given.
    stamps: W,
}

impl<W: Word, const WORDS: usize> Roster<W, WORDS> {
    /// Nobody has a number.
    pub const fn new() -> Self {
        Self {
            free: FreeNumbers::new(),
            fresh: W::ZERO,
            stamps: W::ZERO,
        }
    }

    /// How many numbers somebody has had: all below this.
    pub fn ever_taken(&self) -> u32 {
        self.fresh.load(Relaxed) // a number is known by way of what its thread published
    }

    /// Takes a number that was given back.
    pub fn take_free(&self) -> Option<u32> {
        self.free.take()
    }

    /// Takes a lost number, whose thread `is_gone`, as the world knows it: where that is said,
    /// all that the thread did is seen. It looks for one now and then.
    pub fn take_lost<'a>(
        &self,
        entry: impl Fn(u32) -> Option<&'a Entry<W>>,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let end = self.ever_taken();
        if !end.is_power_of_two() {
            return None;
        }
        (0..end).find(|&number| {
            entry(number).is_some_and(|entry| {
                let stamp = entry.stamp.load(Acquire); // (N2)
                stamp != 0 && is_gone(entry.thread.load(Relaxed)) && entry.takes_away(stamp)
            })
        })
    }

    /// Takes a number that nobody has had. If it is not below `32 * WORDS`, it cannot be given
    /// back.
    pub fn take_fresh(&self) -> u32 {
        self.fresh.fetch_add(1, Relaxed) // each is given once
    }

    /// The caller has this number: `thread` goes by it from now on.
    pub fn enter(&self, entry: &Entry<W>, thread: u32) {
        // One of 2^32 is 0: then it is not found.
        let stamp = self.stamps.fetch_add(1, Relaxed).wrapping_add(1); // each is given once
        entry.thread.store(thread, Relaxed); // others read it by (N2), or as a hint
        entry.stamp.store(stamp, Release); // (N2)
    }

    /// The caller, which has this number, gives it back.
    pub fn give_back(&self, number: u32) {
        self.free.put(number);
    }
}

impl<W: Word, const WORDS: usize> Default for Roster<W, WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a thread knows of its own number.
#[derive(Default)]
pub struct Membership {
    number: Cell<u32>,
    was_another: Cell<bool>,
}

impl Membership {
    /// A thread without a number.
    pub const fn new() -> Self {
        Self {
            number: Cell::new(0),
            was_another: Cell::new(false),
        }
    }

    /// The number it goes by, which is not 0; or 0.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// It goes by this number.
    pub fn join(&self, number: u32) {
        self.number.set(number);
    }

    /// Whether it has ended once, with another number.
    #[inline]
    pub fn was_another(&self) -> bool {
        self.was_another.get()
    }

    /// The thread is told that it ends, by this number. Returns whether it does: if it is its
    /// own, it has none any more.
    pub fn leave(&self, told: u32) -> bool {
        let leaves = told != 0 && self.number.get() == told;
        if leaves {
            self.number.set(0);
            self.was_another.set(true);
        }
        leaves
    }
}
