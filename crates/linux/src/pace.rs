//! How a thread's spinners look at a lock: at every chance, or seldom.
//!
//! A lock whose owner comes back sooner than the lock could change hands does
//! more while it stays with that owner: its waiters had better leave the cache
//! line alone, for a thousand acquisitions or so. A thread's own period, from taking
//! a lock to coming back for it, tells that of threads like it. It is compared with
//! the time that a cache line takes from one CPU to another, as the thread measures it
//! when a look finds the word changed: that differs between machines, between the CPUs
//! of one, and for a virtual machine from minute to minute.

use std::{
    cell::Cell,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{self, Relaxed},
    },
};

use lockyard_core::Look;

use crate::{arch, clock, tasks::keeper};

/// A period shorter than four thirds of the transfers that a lock is said to take is too
/// short to change hands in. A mutex takes 2: half of a period is away from the lock, if no
/// more is known, and the next owner is in a transfer after the release, and a little.
/// Measured with 2 threads that hold the mutex for as long as they stay away: polling and
/// looking seldom do the same at a period of 2.8 transfers where one takes 32 ns, and at
/// 2.6 where it takes 110.
const SHORT: (u64, u64) = (4, 3);

/// How spinners look when the period is short. Each look costs the owner a transfer or two;
/// and a lock that nobody comes back to is idle until the next.
const SELDOM: Look = Look::Every(16_000);

/// While polling, one spin in so many is measured, after the first few: to read the cycle
/// counter at each look delays the hand-over, and a period that comes out too short by chance
/// has the thread look seldom. Spins that look seldom all are: they are long, and a change
/// of the period should not go unnoticed.
const MEASURED: u32 = 1024;

/// What is taken for granted before anything is measured: a period that is long, and a
/// transfer that is usual, or takes longer.
const PERIOD_NS: u64 = 5_000;
const TRANSFER_NS: u64 = 100;

/// Times are in so many parts of a nanosecond.
const PARTS: u64 = 64;

/// What a transfer took by the last measurement of any thread: where those that have none begin.
/// Else each of a program's many threads would look seldom at first, until it has learnt as much.
static TRANSFER: AtomicU64 = AtomicU64::new(TRANSFER_NS * PARTS);

struct Pace {
    /// When the last measured spin took its lock, in cycles, and how many locks the
    /// thread had taken then.
    since: Cell<Option<(u64, u32)>>,
    period: Median,
    /// A few samples are far too short, as that of who was descheduled between two looks, and
    /// finds the word changed and its line here. The least of the first would often be one of
    /// these, and stand for long: who polls is seldom measured. With a guess that is too long a
    /// thread looks seldom, and so is measured each time.
    transfer: Median,
}

/// A running median: what interrupts a thread makes some samples a thousand times too long.
struct Median {
    median: Cell<u64>,
    /// Of how many samples, at the beginning.
    of: Cell<u64>,
}

impl Median {
    /// The least of so many samples is where it begins.
    const FIRST: u64 = 7;

    /// A sample moves it by an eighth, or a nanosecond, at most.
    const STEP: u64 = 8;

    /// What it is without any: it begins where the first say.
    const fn new(ns: u64) -> Self {
        Self {
            median: Cell::new(ns * PARTS),
            of: Cell::new(0),
        }
    }

    /// A guess, which every sample moves by a step.
    const fn guessed(ns: u64) -> Self {
        Self {
            median: Cell::new(ns * PARTS),
            of: Cell::new(Self::FIRST),
        }
    }

    fn add(&self, sample: u64) {
        let (median, of) = (self.median.get(), self.of.get());
        let step = (median / Self::STEP).max(PARTS);
        self.median.set(match of {
            0 => sample,
            _ if self.begins() => median.min(sample),
            _ => sample.clamp(median.saturating_sub(step), median + step),
        });
        self.of.set((of + 1).min(Self::FIRST));
    }

    fn begins(&self) -> bool {
        self.of.get() < Self::FIRST
    }
}

// What every spin uses stands alone, so that a hand-over pays for no more than
// a load and a store.
thread_local! {
    /// Locks that take more transfers than this had better be looked at seldom.
    static ENOUGH: Cell<u32> = const { Cell::new(u32::MAX) };
    /// Spins until the next one that is measured.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// Whether this spin is measured.
    static MEASURE: Cell<bool> = const { Cell::new(false) };
    static PACE: Pace = const {
        Pace {
            since: Cell::new(None),
            period: Median::new(PERIOD_NS),
            transfer: Median::guessed(TRANSFER_NS),
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

/// The thread is about to spin for a lock that takes so many transfers to change hands: how
/// it should look.
#[inline(always)]
pub fn look(transfers: u32) -> Look {
    match LEFT.get() {
        0 => PACE.with(|pace| pace.measure(transfers <= ENOUGH.get())),
        left => LEFT.set(left - 1),
    }
    if transfers > ENOUGH.get() {
        LEFT.set(0);
        return SELDOM;
    }
    Look::Poll
}

/// A spinner took its lock.
#[inline(always)]
pub fn acquired() {
    if MEASURE.get() {
        PACE.with(Pace::begin);
    }
}

/// Whether a spin that begins is to [`load`]: it looks seldom, or is measured.
#[inline(always)]
pub fn is_timed(look: Look) -> bool {
    match look {
        Look::Every(_) => true,
        Look::Poll => MEASURE.get(),
        Look::Event => false,
    }
}

/// Loads a word that held `before` at the last look. If it does no more, its cache line
/// had to come from another CPU, and how long that took is noted.
#[cold]
#[inline(never)]
pub fn load(word: &AtomicU32, order: Ordering, before: u32) -> u32 {
    let (value, took) = clock::timed(|| word.load(order));
    if value != before {
        PACE.with(|pace| {
            pace.transfer.add(parts(took));
            TRANSFER.store(pace.transfer.median.get(), Relaxed); // a hint
        });
    }
    value
}

fn parts(cycles: u64) -> u64 {
    clock::ns_in_cycles(cycles.saturating_mul(PARTS))
}

impl Pace {
    /// Ends a measurement, or has this spin measured; `polled`: the last one did.
    #[cold]
    #[inline(never)]
    fn measure(&self, polled: bool) {
        let Some((since, took)) = self.since.take() else {
            MEASURE.set(true);
            if self.period.of.get() == 0 {
                self.transfer.median.set(TRANSFER.load(Relaxed)); // a hint
            }
            return;
        };
        let times = u64::from(keeper().took().wrapping_sub(took)) + 1;
        // That the caller spins it knows from a try, which took it a transfer. If others
        // poll, so did each release before, or the try after it.
        let transfers = if polled { times } else { 1 };
        let away = parts(arch::cycles().saturating_sub(since));
        let away = away.saturating_sub(transfers * self.transfer.median.get());
        self.period.add(away / times);
        self.learn();
    }

    /// The measured spin has taken its lock.
    #[cold]
    #[inline(never)]
    fn begin(&self) {
        MEASURE.set(false);
        self.since.set(Some((arch::cycles(), keeper().took())));
    }

    fn learn(&self) {
        let (times, of) = SHORT;
        let enough = of * self.period.median.get() / (times * self.transfer.median.get()).max(1);
        ENOUGH.set(u32::try_from(enough).unwrap_or(u32::MAX));
        LEFT.set(if self.period.begins() { 0 } else { MEASURED });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_short_in_transfers() {
        for transfer in [10, 32, 140, 1_000] {
            for (transfers, looks) in [
                (2, [SELDOM, SELDOM]),
                (3, [Look::Poll, SELDOM]),
                (5, [Look::Poll, Look::Poll]),
            ] {
                let pace = Pace {
                    since: Cell::new(None),
                    period: Median::new(transfers * transfer),
                    transfer: Median::new(transfer),
                };
                pace.learn();
                assert_eq!([2, 3].map(look), looks, "{transfers} times {transfer} ns");
            }
        }
    }

    #[test]
    fn interruptions_do_not_weigh() {
        let median = Median::new(0);
        for sample in 0..60 {
            let interrupted = sample % 3 == 0;
            median.add(if interrupted { 1_000_000 } else { 32 } * PARTS);
        }
        assert!((32..=36).contains(&(median.median.get() / PARTS)));
    }

    #[test]
    fn one_short_transfer_among_the_first_does_not_weigh() {
        let transfer = Median::guessed(TRANSFER_NS);
        for sample in [32, 5, 32, 32, 32, 32, 32, 32, 32, 32] {
            transfer.add(sample * PARTS);
        }
        assert!((28..=36).contains(&(transfer.median.get() / PARTS)));
    }

    #[test]
    fn a_median_follows() {
        for (from, to) in [(32, 140), (140, 32), (0, 32), (5_000, 100)] {
            let median = Median::new(5_000);
            (0..10).for_each(|_| median.add(from * PARTS));
            (0..50).for_each(|_| median.add(to * PARTS));
            assert_eq!(median.median.get(), to * PARTS, "from {from} to {to}");
        }
    }
}
