//! Test-and-test-and-set (L. Rudolph, Z. Segall, 1984).
//!
//! Whoever turns the word from 0 to 1 owns the lock. A waiter only reads until
//! it sees 0, so that the line can rest in its cache; each unlock sends all
//! waiters after it at once, and whoever is nearest wins.

use lockyard_core::{FOREVER, Look, Ordering::*, Platform, Word};
use lockyard_torture::Lock;

use crate::unlocking;

const FREE: u32 = 0;
const HELD: u32 = 1;

/// A test-and-test-and-set lock.
pub struct Tas<P: Platform> {
    word: P::U32,
}

impl<P: Platform> Tas<P> {
    /// An unlocked lock.
    pub const fn new() -> Self {
        Self {
            word: <P::U32 as Word>::ZERO,
        }
    }

    #[inline]
    fn lock(&self) {
        // Acquire: pairs with the store in `unlock`.
        while self.word.swap(HELD, Acquire) != FREE {
            // Relaxed: only the swap takes the lock.
            P::spin_until(
                &self.word,
                Relaxed,
                Look::Poll,
                FOREVER,
                |w| w == FREE,
                || false,
            );
        }
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with the swap in `lock`.
        self.word.store(FREE, Release);
    }
}

impl<P: Platform> Default for Tas<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Lock for Tas<P> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock();
        unlocking(|| self.unlock(), section)
    }
}
