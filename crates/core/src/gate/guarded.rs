//! A gate that opens by a plain store, as long as nobody sleeps at it.
//!
//! An exchange that opens a gate takes longer than most sections. It is there for who pushes
//! itself between a look at the stack and a store. Here who is about to push says so before, and
//! pays for it, for it is about to sleep anyway:
//!
//! | who opens (G4) | who is about to sleep (G4) |
//! |---|---|
//! | test: nobody is about to sleep, nor sleeps | count itself |
//! | word: store 0 | quiesce; push |
//!
//! [`Platform::try_store_if`] makes the test and the store one step towards
//! [`Platform::quiesce`]. So either the test fails, and the gate is opened by an exchange, as
//! others are; or the store comes before the push, which finds the gate free, or closed once more.
//! Who was pushed stays counted until it is popped.

use super::Gate;
use crate::platform::{Ordering::*, Platform, Word};

pub(crate) struct GuardedGate<P: Platform> {
    gate: Gate<P>,
    /// How many sleep, or are about to.
    sleepers: P::U32,
}

impl<P: Platform> GuardedGate<P> {
    pub(crate) const fn new() -> Self {
        Self {
            gate: Gate::new(),
            sleepers: P::U32::ZERO,
        }
    }

    /// As [`Gate::is_untouched`].
    pub(crate) fn is_untouched(&self) -> bool {
        self.gate.is_untouched() && self.sleepers.load(Relaxed) == 0 // a hint
    }

    /// As [`Gate::forget`].
    pub(crate) fn forget(&self) {
        self.gate.forget();
        self.sleepers.store(0, Relaxed); // there is one task
    }

    /// As [`Gate::is_open`].
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.gate.is_open()
    }

    /// Enters; the caller must call [`GuardedGate::unlock`].
    #[inline]
    pub(crate) fn lock(&self) {
        if P::OWN_GATES {
            self.gate.lock();
        } else if !self.gate.try_lock() {
            self.wait();
        }
    }

    /// [`GuardedGate::lock`], and then a full barrier.
    #[inline]
    pub(crate) fn lock_fenced(&self) {
        if !self.gate.try_lock_fenced() {
            self.lock();
            P::fence();
        }
    }

    #[cold]
    fn wait(&self) {
        self.gate.wait_or(|| {
            self.sleepers.fetch_add(1, Relaxed); // (G4) by the quiesce
            P::quiesce(); // (G4)
            self.gate.sleep();
            self.sleepers.fetch_add(1u32.wrapping_neg(), Relaxed); // popped, if it was pushed
        });
    }

    /// Leaves, as [`Gate::unlock`].
    #[inline]
    pub(crate) fn unlock(&self) {
        // (G1), (G4) Release pairs with try_lock's Acquire: my section.
        if P::OWN_GATES || !P::try_store_if(&self.gate.word, 0, &self.sleepers, 0) {
            self.gate.unlock();
        }
    }
}
