//! Counts of the locks' rare paths, for the whole process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lockyard_core::Event;

static ON: AtomicBool = AtomicBool::new(false);
static COUNTS: [AtomicU64; Event::ALL.len()] = [const { AtomicU64::new(0) }; Event::ALL.len()];

/// Starts or stops counting. While off, a rare path pays for one load of a
/// word that nobody writes, and a fast path for nothing.
pub fn enable(on: bool) {
    ON.store(on, Relaxed);
}

/// The counts since the last call.
pub fn take() -> impl Iterator<Item = (Event, u64)> {
    Event::ALL
        .into_iter()
        .map(|event| (event, COUNTS[event as usize].swap(0, Relaxed)))
}

#[inline(always)]
pub(crate) fn count(event: Event) {
    if ON.load(Relaxed) {
        COUNTS[event as usize].fetch_add(1, Relaxed);
    }
}
