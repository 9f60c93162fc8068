//! A wait for a step that is about to be taken.

use super::{Look, Ordering, Platform};

/// Waits until `done` accepts the word's value or `also` holds: for a step
/// that another task is about to take. It spins at first; when that task does
/// not come, it may be off its CPU, even because the caller is on it, so the
/// caller naps.
pub(crate) fn settle<P: Platform>(
    word: &P::U32,
    done: impl Fn(u32) -> bool,
    also: impl Fn() -> bool,
) {
    const LOOKS: u32 = 100;
    const NAP_NS: u64 = 50_000;
    loop {
        let seen = P::spin_until(word, Ordering::Relaxed, Look::Poll, LOOKS, &done, &also);
        if seen.is_some() || also() {
            return;
        }
        P::park(Some(P::after(NAP_NS)));
    }
}
