//! How a thread's spinners look at a lock: at every chance, or seldom.
//!
//! A lock whose owner comes back sooner than the lock could change hands does
//! more while it stays with that owner: its waiters had better leave the cache
//! line alone. A thread's own period, from taking a lock to coming back for it,
//! tells that of threads like it.

use std::cell::Cell;

use lockyard_core::Look;

use crate::{arch, clock, tasks::keeper};

/// A period shorter than this is too short to change hands in. It is that of an
/// owner whose cache line others look at, several transfers of it: 90 ns, about
/// three where a transfer is quick, kept virtual machines with slow ones polling.
const SHORT_NS: u64 = 300;

/// How spinners look when the period is short: a batch of the owner's comings
/// and goings apart.
const SELDOM: Look = Look::Every(3_000);

/// While polling, one spin in so many is measured. Spins that look seldom all
/// are: they are long, and a change of the period should not go unnoticed.
const MEASURED: u32 = 16;

/// No period counts as longer, lest an interruption weigh for long.
const LONGEST_NS: u64 = 5_000;

struct Pace {
    /// When the last measured spin took its lock, in cycles, and how many locks the
    /// thread had taken then.
    since: Cell<Option<(u64, u32)>>,
    /// The mean period, in nanoseconds.
    period: Cell<u64>,
}

// What every spin uses stands alone, so that a hand-over pays for no more than
// a load and a store.
thread_local! {
    /// How to look.
    static LOOK: Cell<Look> = const { Cell::new(Look::Poll) };
    /// Spins until the next one that is measured.
    static LEFT: Cell<u32> = const { Cell::new(MEASURED) };
    /// Whether this spin is measured.
    static MEASURE: Cell<bool> = const { Cell::new(false) };
    static PACE: Pace = const {
        Pace {
            since: Cell::new(None),
            period: Cell::new(LONGEST_NS),
        }
    };
}

/// Nanoseconds, from some moment on; now and then, after weeks, from another. Seldom
/// asked, and of its own, so that what stands in the code of who locks is small.
#[cold]
#[inline(never)]
pub fn now() -> u64 {
    const CONVERTIBLE: u64 = u64::MAX >> 10;
    clock::ns_in_cycles(arch::cycles() & CONVERTIBLE)
}

/// The thread is about to spin: how it should look.
#[inline(always)]
pub fn look() -> Look {
    match LEFT.get() {
        0 => PACE.with(Pace::measure),
        left => LEFT.set(left - 1),
    }
    LOOK.get()
}

/// A spinner took its lock.
#[inline(always)]
pub fn acquired() {
    if MEASURE.get() {
        PACE.with(Pace::begin);
    }
}

impl Pace {
    /// Ends a measurement, or has this spin measured.
    #[cold]
    #[inline(never)]
    fn measure(&self) {
        let Some((since, took)) = self.since.take() else {
            MEASURE.set(true);
            return;
        };
        let away = arch::cycles().wrapping_sub(since);
        let times = keeper().took().wrapping_sub(took) + 1;
        self.learn(clock::ns_in_cycles(away) / u64::from(times));
    }

    /// The measured spin has taken its lock.
    #[cold]
    #[inline(never)]
    fn begin(&self) {
        MEASURE.set(false);
        self.since.set(Some((arch::cycles(), keeper().took())));
    }

    fn learn(&self, period: u64) {
        let mean = (3 * self.period.get() + period.min(LONGEST_NS)) / 4;
        self.period.set(mean);
        let short = mean < SHORT_NS;
        LOOK.set(if short { SELDOM } else { Look::Poll });
        LEFT.set(if short { 0 } else { MEASURED });
    }
}
