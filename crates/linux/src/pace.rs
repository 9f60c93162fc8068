//! How a thread's spinners look at a lock: at every chance, or seldom.
//!
//! A lock whose owner comes back sooner than the lock could change hands does
//! more while it stays with that owner: its waiters had better leave the cache
//! line alone. A thread's own period, from taking a lock to coming back for it,
//! tells that of threads like it. Measured in `benches/`: with nothing to do
//! inside and between, two threads that look at every chance do a sixth of what
//! they do when they look once in 3 µs; with 67 ns each, more than then.

use std::cell::Cell;

use lockyard_core::Look;

use crate::{arch, clock};

/// A period shorter than this, of two to three transfers of a cache line, is
/// too short to change hands in.
const SHORT_NS: u64 = 90;

/// How spinners look when the period is short: a batch of the owner's comings
/// and goings apart.
const SELDOM: Look = Look::Every(3_000);

/// While polling, one spin in so many is measured. Spins that look seldom all
/// are: they are long, and a change of the period should not go unnoticed.
const MEASURED: u32 = 16;

/// No period counts as longer, lest an interruption weigh for long.
const LONGEST_NS: u64 = 5_000;

struct Pace {
    /// How to look.
    look: Cell<Look>,
    /// Spins until the next one that is measured.
    left: Cell<u32>,
    /// Whether this spin is measured.
    measure: Cell<bool>,
    /// When the last measured spin took its lock, in cycles, and `TOOK` then.
    since: Cell<Option<(u64, u32)>>,
    /// The mean period, in nanoseconds.
    period: Cell<u64>,
}

thread_local! {
    /// Locks that the thread has taken.
    static TOOK: Cell<u32> = const { Cell::new(0) };
    static PACE: Pace = const {
        Pace {
            look: Cell::new(Look::Poll),
            left: Cell::new(MEASURED),
            measure: Cell::new(false),
            since: Cell::new(None),
            period: Cell::new(LONGEST_NS),
        }
    };
}

/// The thread took a lock.
#[inline(always)]
pub fn took() {
    TOOK.set(TOOK.get().wrapping_add(1));
}

/// The thread is about to spin: how it should look.
#[inline]
pub fn look() -> Look {
    PACE.with(|pace| {
        match pace.left.get() {
            0 => pace.measure(),
            left => pace.left.set(left - 1),
        }
        pace.look.get()
    })
}

/// A spinner took its lock.
#[inline]
pub fn acquired() {
    PACE.with(|pace| {
        if pace.measure.get() {
            pace.measure.set(false);
            pace.since.set(Some((arch::cycles(), TOOK.get())));
        }
    });
}

impl Pace {
    /// Ends a measurement, or begins one with this spin.
    #[cold]
    fn measure(&self) {
        let Some((since, took)) = self.since.take() else {
            self.measure.set(true);
            return;
        };
        let away = arch::cycles().wrapping_sub(since);
        let times = TOOK.get().wrapping_sub(took) + 1;
        self.learn(clock::ns_in_cycles(away) / u64::from(times));
        let seldom = self.look.get() == SELDOM;
        self.left.set(if seldom { 0 } else { MEASURED });
    }

    fn learn(&self, period: u64) {
        let mean = (3 * self.period.get() + period.min(LONGEST_NS)) / 4;
        self.period.set(mean);
        self.look
            .set(if mean < SHORT_NS { SELDOM } else { Look::Poll });
    }
}
