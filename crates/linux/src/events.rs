//! The locks' rare paths: how often the whole process came to each, and which the calling
//! thread did.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use lockyard_core::Event;

use crate::tasks;

/// Counts are wanted.
const COUNTS_ON: u32 = 1;
/// Marks are wanted.
const MARKS_ON: u32 = 2;

/// As many rows of counts, which threads share by their numbers. With one, two writers of an rwsem
/// that count their spins do 0.75 of what they do uncounted, with these 0.96 (`events.jsonl` in
/// benches/runs/mutex-2cpu-zen4).
const ROWS: usize = 64;

static ON: Apart<AtomicU32> = Apart(AtomicU32::new(0));
static COUNTS: [Apart<[AtomicU64; Event::ALL.len()]>; ROWS] =
    [const { Apart([const { AtomicU64::new(0) }; Event::ALL.len()]) }; ROWS];

/// On cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

thread_local! {
    /// No destructor: it can be marked as long as the thread runs.
    static MARKS: Cell<Marks> = const { Cell::new(Marks(0)) };
}

/// The rare paths that a thread has come to.
#[derive(Clone, Copy, Debug)]
pub struct Marks(u64);

const _: () = assert!(Event::ALL.len() <= u64::BITS as usize);

impl Marks {
    /// Whether this is one.
    pub const fn has(self, event: Event) -> bool {
        self.0 >> event as usize & 1 != 0
    }
}

/// Starts or stops counting. While off, a rare path pays for one load of a
/// word that nobody writes, and a fast path for nothing.
pub fn enable(on: bool) {
    switch(COUNTS_ON, on);
}

/// Starts or stops marking, for all threads.
pub fn enable_marks(on: bool) {
    switch(MARKS_ON, on);
}

fn switch(which: u32, on: bool) {
    let Apart(is_on) = &ON;
    match on {
        true => is_on.fetch_or(which, Relaxed),
        false => is_on.fetch_and(!which, Relaxed),
    };
}

/// The counts since the last call.
pub fn take() -> impl Iterator<Item = (Event, u64)> {
    Event::ALL.into_iter().map(|event| {
        let of = |Apart(row): &Apart<[AtomicU64; _]>| row[event as usize].swap(0, Relaxed);
        (event, COUNTS.iter().map(of).sum())
    })
}

/// The marks of the calling thread since its last call.
pub fn take_marks() -> Marks {
    MARKS.replace(Marks(0))
}

#[inline(always)]
pub(crate) fn count(event: Event) {
    let on = ON.0.load(Relaxed);
    if on != 0 {
        note(event, on);
    }
}

#[cold]
fn note(event: Event, on: u32) {
    if on & COUNTS_ON != 0 {
        let Apart(row) = &COUNTS[tasks::number() as usize % ROWS];
        row[event as usize].fetch_add(1, Relaxed);
    }
    if on & MARKS_ON != 0 {
        MARKS.set(Marks(MARKS.get().0 | 1 << event as usize));
    }
}
