//! The ticket lock (after the sequencers of D. Reed and R. Kanodia, 1979).
//!
//! A task draws the next ticket and waits until it is served: first come,
//! first served. All waiters watch one word, and when the one whose turn it is
//! does not run, nobody gets in.

use lockyard_core::{FOREVER, Look, Ordering::*, Platform, Word};
use lockyard_torture::Lock;

use crate::unlocking;

/// A ticket lock.
pub struct Ticket<P: Platform> {
    next: P::U32,
    serving: P::U32,
}

impl<P: Platform> Ticket<P> {
    /// An unlocked lock.
    pub const fn new() -> Self {
        Self {
            next: <P::U32 as Word>::ZERO,
            serving: <P::U32 as Word>::ZERO,
        }
    }

    /// Returns the ticket that `unlock` needs.
    #[inline]
    fn lock(&self) -> u32 {
        // Relaxed: no two tasks draw the same number, in any order; the lock is
        // taken by seeing it served.
        let ticket = self.next.fetch_add(1, Relaxed);
        // Acquire: pairs with the store in `unlock`.
        P::spin_until(
            &self.serving,
            Acquire,
            Look::Poll,
            FOREVER,
            |serving| serving == ticket,
            || false,
        );
        ticket
    }

    #[inline]
    fn unlock(&self, ticket: u32) {
        // Release: pairs with the spin in `lock`.
        self.serving.store(ticket.wrapping_add(1), Release);
    }
}

impl<P: Platform> Default for Ticket<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Lock for Ticket<P> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let ticket = self.lock();
        unlocking(|| self.unlock(ticket), section)
    }
}
