//! A mutex that its owner has left to another to unlock: POSIX lets anybody unlock one of
//! the normal kind, and has its owner who locks it again wait for that. Programs
//! use the two as a semaphore.
//!
//! # Why no unlock is missed
//!
//! The owner that waits sleeps on a word of its own, which has a mark, `WAITS`, and a count:
//!
//! | who unlocks (L1) | the owner |
//! |---|---|
//! | finds the mark: counts and clears it, and has given the mutex back | reads the word (L1) |
//! | or takes the mutex over; counts and clears the mark; releases the mutex | has the mutex still: sets the mark in the word that it read, and sleeps while that is there |
//! | wakes who had set the mark | at the deadline clears it itself, if it is there |
//!
//! Between the owner's two looks nobody counts unseen: to set the mark or to fall asleep
//! fails then. With the mark gone the owner has it back, or sees who took it over. And since
//! none but an owner that waits has a mark there, nothing is given to who does not come; but
//! in a fork's child, without its owner, a mutex is taken over.

use super::{Body, RawMutex, is_free};
use crate::{
    osq,
    platform::{
        Deadline,
        Ordering::{self, *},
        Platform, TaskId, Woken, Word,
    },
};

/// The owner waits for another to unlock.
const WAITS: u32 = 1;
/// One unlock.
const ONE: u32 = 2;

/// Where the owner of a mutex waits until another task unlocks it: all zero bytes at first.
#[repr(transparent)]
pub struct Unlocks<P: Platform> {
    word: P::U32,
}

impl<P: Platform> Default for Unlocks<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Unlocks<P> {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { word: P::U32::ZERO }
    }

    /// Sleeps while the mutex is the caller's, until another task unlocks it: `false` when
    /// the deadline has passed. It may be the caller's again afterwards.
    pub fn wait(&self, is_mine: impl Fn() -> bool, deadline: Option<Deadline>) -> bool {
        let mut waits = None;
        loop {
            // (L1) Acquire pairs with the Release of who unlocks.
            let now = self.word.load(Acquire);
            if waits.is_some_and(|waits| now != waits) || !is_mine() {
                return true;
            }
            let marked = now | WAITS;
            if self.set(now, marked, Relaxed) {
                waits = Some(marked);
                let woken = P::park_on(&self.word, marked, deadline);
                if woken == Woken::TimedOut && self.set(marked, now & !WAITS, Relaxed) {
                    return false;
                }
            }
        }
    }

    /// Gives the mutex back to its owner if that waits here: it is as if the caller had
    /// unlocked it, and the owner had locked it again.
    fn give_back(&self, owner: TaskId) -> bool {
        let word = &raw const self.word;
        let now = self.word.load(Relaxed); // checked by the exchange
        // (L1) Release pairs with `wait`'s Acquire.
        let given = now & WAITS != 0 && self.set(now, counted(now), Release);
        if given {
            P::unpark_on(word, owner);
        }
        given
    }

    /// Counts an unlock before it is made; returns whether the owner waits.
    fn count(&self) -> bool {
        let mut now = self.word.load(Relaxed); // checked by the exchange
        // (L1) Release pairs with `wait`'s Acquire: the owner sees that it is the owner no more.
        while !self.set(now, counted(now), Release) {
            now = self.word.load(Relaxed); // likewise
        }
        now & WAITS != 0
    }

    fn set(&self, now: u32, then: u32, order: Ordering) -> bool {
        let set = self.word.compare_exchange(now, then, order, Relaxed);
        set.is_ok()
    }
}

/// One unlock more, and nobody waits.
const fn counted(now: u32) -> u32 {
    (now & !WAITS).wrapping_add(ONE)
}

impl<P: Platform, W: osq::Wait<P>> RawMutex<P, W> {
    /// Takes the mutex, waiting until `deadline` at the latest; if it is the caller's, until
    /// another has unlocked it by [`RawMutex::unlock_for_another`] with the same `unlocks`.
    /// Returns whether it was taken.
    #[cold]
    pub fn lock_after_another(&self, unlocks: &Unlocks<P>, deadline: Option<Deadline>) -> bool {
        unlocks.wait(|| self.is_mine(), deadline) && (self.is_mine() || self.lock_by(deadline))
    }

    /// Releases a mutex that another has left to the caller to unlock, or that nobody has. Its
    /// owner has it back at once if it waits in [`RawMutex::lock_after_another`], and nobody
    /// else waits.
    ///
    /// # Safety
    /// As [`RawMutex::take_over`].
    #[cold]
    pub unsafe fn unlock_for_another(&self, unlocks: &Unlocks<P>) {
        let Some(owner) = self.body.owner() else {
            return;
        };
        let nobody_waits = self.body.queue.front().0 == 0; // a hint
        // Who is gone from a fork's child may have its mark there.
        if nobody_waits && P::exists(owner) && unlocks.give_back(owner) {
            return;
        }
        if self.body.take_left() {
            let word = &raw const unlocks.word;
            let waits = unlocks.count();
            // If the caller was not to unlock it, it may be another's by now.
            let _ = self.body.release_at_once() || self.body.unlock_slow();
            if waits {
                P::unpark_on(word, owner); // an address: the mutex may be gone
            }
        }
    }

    /// Makes the calling task the owner of a mutex that another locked and has left to
    /// it to unlock. Returns whether it is: there may be no owner.
    ///
    /// # Safety
    /// The owner, if there is one, does not use the mutex as its owner any more, and has
    /// told the caller so.
    pub unsafe fn take_over(&self) -> bool {
        self.body.take_left()
    }
}

impl<P: Platform> Body<P> {
    /// The calling task becomes the owner in another's place.
    #[cold]
    fn take_left(&self) -> bool {
        let owner = self.owner.load(Relaxed); // checked by the exchange
        // Relaxed: what the owner did happened before it told the caller. Inside the gate: the
        // owner may notify yet, and who puts a waiter into the queue there leaves it to its own
        // unlock if it finds itself the owner (`adopt`); the unlock that comes sees the waiter.
        let taken =
            |owner| (self.owner).compare_exchange(owner, P::me().number(), Relaxed, Relaxed);
        !is_free(owner) && self.queue.enter(|_| taken(owner).is_ok())
    }
}
