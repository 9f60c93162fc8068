//! Waiting for words that several address spaces map, in the kernel's queues.
//!
//! The kernel knows such a word by what is mapped there, and keeps its queue, so that
//! who dies leaves none behind. What stands here is the test for an empty bucket, which
//! spares a waker the system call where nobody waits. It is in the shared memory itself,
//! and is the parent module's, without a gate:
//!
//! | | the waiter | the waker |
//! |---|---|---|
//! | (S) | count itself | (T) write the word (its user did) |
//! | | full barrier | full barrier |
//! | | the kernel reads the word: changed? then go | nobody counted? then go |
//! | | the kernel queues it; it sleeps | the kernel searches the queue |
//! | | uncount itself | |
//!
//! To compare and to queue is one step towards the kernel's search.
//!
//! # Who dies is uncounted
//!
//! A number that waiters add to and take from stays too high when one is killed, and no
//! waker can mend it: whom it does not find may be on his way. So a waiter writes its
//! number to a free slot of its bucket, having told the kernel, which wipes it there
//! should the task end. A task that is killed waits for one word, so one such slot is
//! enough, and the kernel of Linux can do that: it is how robust locks work.
//!
//! | step | the slot holds | announced | if it is killed now |
//! |---|---|---|---|
//! | [`KernelFutex::own`] | not mine | yes | the kernel leaves it alone |
//! | exchange it | mine | yes | the kernel wipes it |
//! | the barrier, the kernel's wait | mine | yes | the kernel wipes it |
//! | free it | not mine | yes | the kernel leaves it alone |
//! | [`KernelFutex::disown`] | not mine | | nothing to do |
//!
//! Who finds no free slot, or has a kernel that does not wipe, adds to the bucket's
//! crowd. If it is killed that stays too high: wakes of this bucket enter the kernel in
//! vain, and none is lost.
//!
//! # Who scribbles
//!
//! No value of these words leads anywhere but to a system call more or less: none is an
//! index, a pointer or a number of rounds. Who lowers a count takes wake-ups from others,
//! so a sleeper looks again from time to time ([`KernelFutex::look_again`]), and counts
//! itself anew.

use core::num::NonZeroU32;

use super::{Key, Waited, glance};
use crate::platform::{
    Deadline, Event, KernelFutex, Ordering::Relaxed, Platform, SLOT_OWNER, Word,
};

/// Those who wait for the words of a bucket, on a cache line of their own.
#[repr(C, align(64))]
struct Bucket<P: Platform, const SLOTS: usize> {
    /// Each has in the bits [`SLOT_OWNER`] a waiter's number, or 0.
    slots: [P::U32; SLOTS],
    /// How many wait without a slot.
    crowd: P::U32,
}

/// Where a waiter is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// In this slot.
    Slot(usize),
    /// Among those without a slot.
    Crowd,
}

impl<P: KernelFutex, const SLOTS: usize> Bucket<P, SLOTS> {
    const fn new() -> Self {
        Self {
            slots: [const { P::U32::ZERO }; SLOTS],
            crowd: P::U32::ZERO,
        }
    }

    // Relaxed throughout: what a waker sees of it the barriers order.

    fn is_empty(&self) -> bool {
        let slots = self
            .slots
            .iter()
            .fold(0, |all, slot| all | slot.load(Relaxed));
        slots & SLOT_OWNER == 0 && self.crowd.load(Relaxed) == 0
    }

    fn count(&self) -> Counted {
        let first = P::me().number() as usize; // tasks begin at different slots
        for index in (first..first + SLOTS).map(|index| index % SLOTS) {
            let slot = &self.slots[index];
            let free = slot.load(Relaxed);
            if free & SLOT_OWNER != 0 {
                continue;
            }
            let Some(number) = P::own(slot) else { break };
            let taken = slot.compare_exchange(free, number, Relaxed, Relaxed);
            if taken.is_ok() {
                return Counted::Slot(index);
            }
            P::disown();
        }
        self.crowd.fetch_add(1, Relaxed);
        Counted::Crowd
    }

    fn uncount(&self, counted: Counted) {
        match counted {
            Counted::Slot(index) => {
                self.slots[index].store(0, Relaxed);
                P::disown();
            }
            // It is 0 only if somebody scribbled: then it is not to become 2^32 - 1, which
            // the next to come would make 0 again.
            Counted::Crowd if self.crowd.load(Relaxed) == 0 => {}
            Counted::Crowd => {
                self.crowd.fetch_add(u32::MAX, Relaxed); // one less
            }
        }
    }
}

/// The buckets of a piece of shared memory, which lie in that memory, with `SLOTS` slots
/// each. Zero bytes are buckets that nobody waits in.
#[repr(C)]
pub struct Shared<P: Platform, const N: usize, const SLOTS: usize> {
    buckets: [Bucket<P, SLOTS>; N],
}

impl<P: KernelFutex, const N: usize, const SLOTS: usize> Default for Shared<P, N, SLOTS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: KernelFutex, const N: usize, const SLOTS: usize> Shared<P, N, SLOTS> {
    /// Buckets that nobody waits in.
    pub const fn new() -> Self {
        const { assert!(N > 0 && SLOTS > 0) };
        Self {
            buckets: [const { Bucket::new() }; N],
        }
    }

    /// Of the word that lies so many bytes into the memory, wherever that is mapped.
    #[inline]
    fn bucket(&self, offset: u64) -> &Bucket<P, SLOTS> {
        let hash = Key::shared(0, offset).hash();
        &self.buckets[((u64::from(hash) * N as u64) >> 32) as usize]
    }

    /// If the word, which lies `offset` bytes into the memory, holds `expected`, waits
    /// until a waker wakes the caller, or until `deadline`.
    ///
    /// Whoever is told [`Waited::Changed`] has not read the word with `Acquire`.
    ///
    /// # Errors
    /// As [`KernelFutex::futex_wait`]. The caller is counted no more.
    pub fn wait(
        &self,
        offset: u64,
        word: &P::U32,
        expected: u32,
        bitset: NonZeroU32,
        deadline: Option<Deadline>,
    ) -> Result<Waited, P::Refused> {
        let changed = |value| value != expected;
        if changed(word.load(Relaxed)) || glance(&P::mine().glances, word, changed) {
            return Ok(Waited::Changed);
        }
        loop {
            let until = P::look_again(deadline);
            let (me, counted) = (P::number_of_owner(), self.count(offset));
            P::fence(); // (S) full barrier, pairs with wake's
            P::event(Event::Parked);
            let waited = P::futex_wait(word, expected, bitset, until);
            if P::number_of_owner() == me {
                self.uncount(offset, counted);
            } else {
                P::disown(); // it is the parent that is counted there, and waits still
            }
            if !matches!(waited, Ok(Waited::TimedOut)) || until == deadline {
                return waited;
            }
        }
    }

    /// Wakes `most` waiters of the word at most, of those whose bit set has a bit in
    /// common with `bitset`. Returns how many.
    #[inline]
    pub fn wake(&self, offset: u64, word: &P::U32, most: u32, bitset: NonZeroU32) -> u32 {
        P::fence(); // (T) full barrier, pairs with wait's
        if self.is_empty(offset) {
            return 0;
        }
        P::futex_wake(word, most, bitset)
    }

    /// Whether a waker of a word there finds nobody counted.
    #[inline]
    pub fn is_empty(&self, offset: u64) -> bool {
        self.bucket(offset).is_empty()
    }

    /// Counts the caller among those who wait for a word there.
    pub fn count(&self, offset: u64) -> Counted {
        self.bucket(offset).count()
    }

    /// The caller, which is counted there, is no longer.
    pub fn uncount(&self, offset: u64, counted: Counted) {
        self.bucket(offset).uncount(counted);
    }
}
