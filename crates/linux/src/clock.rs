//! Time: the monotonic clock for deadlines, or that of the calendar, and the cycle counter
//! for spinning.

use std::{hint, num::NonZeroUsize};

use lockyard_core::Deadline;
use once_cell::race::OnceNonZeroUsize;
use rustix::{
    thread::nanosleep,
    time::{ClockId, Timespec, clock_gettime},
};

use crate::arch;

/// The mark of a deadline that is a moment of `CLOCK_REALTIME`. All others are moments of
/// `CLOCK_MONOTONIC`, which comes there after 292 years.
const REALTIME: u64 = 1 << 63;

/// Nanoseconds on `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    ns(ClockId::Monotonic)
}

/// Nanoseconds on `CLOCK_REALTIME`, since its epoch.
pub(crate) fn realtime_ns() -> u64 {
    ns(ClockId::Realtime)
}

fn ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The last moment of `CLOCK_MONOTONIC` that is a deadline, which nobody lives to see.
const NEVER: Deadline = Deadline(REALTIME - 1);

/// The deadline at so many nanoseconds of `CLOCK_MONOTONIC`; 292 years at most.
pub fn monotonic(ns: u64) -> Deadline {
    Deadline(ns.min(NEVER.0))
}

/// The deadline at so many nanoseconds of `CLOCK_REALTIME`, 292 years after its epoch at
/// most. When that clock is set, the deadline comes sooner or later.
pub fn realtime(ns: u64) -> Deadline {
    Deadline(ns.min(REALTIME - 1) | REALTIME)
}

pub(crate) fn is_realtime(Deadline(ns): Deadline) -> bool {
    ns & REALTIME != 0
}

pub(crate) fn passed(deadline: Deadline) -> bool {
    let Deadline(ns) = deadline;
    match is_realtime(deadline) {
        true => realtime_ns() >= ns & !REALTIME,
        false => monotonic_ns() >= ns,
    }
}

/// The deadline if it comes within so many nanoseconds from now on, by its clock; else
/// that moment.
pub(crate) fn sooner(deadline: Option<Deadline>, ns: u64) -> Deadline {
    let soon = monotonic(monotonic_ns().saturating_add(ns));
    let same_clock = match deadline.is_some_and(is_realtime) {
        true => realtime(realtime_ns().saturating_add(ns)),
        false => soon,
    };
    deadline.filter(|at| at.0 <= same_clock.0).unwrap_or(soon)
}

/// The deadline if it is to be waited for: the kernel is spared a timer that never rings.
pub(crate) fn awaited(deadline: Option<Deadline>) -> Option<Deadline> {
    deadline.filter(|&at| at != NEVER)
}

/// A deadline as the kernel has it, on its clock.
pub(crate) fn timespec(Deadline(ns): Deadline) -> Timespec {
    let ns = ns & !REALTIME;
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// The rates of this machine. None is 0.
///
/// All are measured when one is first asked for: by each thread that comes meanwhile, for
/// none waits for another, whom a fork's child might miss. What is measured first stays.
struct Rates {
    cycles_in_1024_ns: OnceNonZeroUsize,
    /// 2^32 / cycles per microsecond, to divide by multiplying.
    micros_per_cycle: OnceNonZeroUsize,
    /// Cycles between two ordered readings of the counter, one after the other, and 1.
    reading_and_1: OnceNonZeroUsize,
}

static RATES: Rates = Rates {
    cycles_in_1024_ns: OnceNonZeroUsize::new(),
    micros_per_cycle: OnceNonZeroUsize::new(),
    reading_and_1: OnceNonZeroUsize::new(),
};

#[inline]
fn get(rate: &OnceNonZeroUsize) -> u64 {
    let measured = || {
        measure();
        rate.get().expect("it was measured")
    };
    rate.get().unwrap_or_else(measured).get() as u64
}

/// The shortest of a few tries: an interrupt only makes a try longer.
#[cold]
fn measure() {
    const PAUSES: u64 = 400;
    let (ns, cycles) = (0..5)
        .map(|_| {
            let (ns, cycles) = (monotonic_ns(), arch::cycles());
            for _ in 0..PAUSES {
                hint::spin_loop();
            }
            (monotonic_ns() - ns, arch::cycles() - cycles)
        })
        .min()
        .expect("there are tries");
    let reading = (0..20)
        .map(|_| {
            let began = arch::ordered_cycles();
            arch::ordered_cycles().saturating_sub(began)
        })
        .min();
    let rate = |value: u64| NonZeroUsize::new(value as usize).unwrap_or(NonZeroUsize::MIN);
    let cycles = RATES
        .cycles_in_1024_ns
        .get_or_init(|| rate(cycles * 1024 / ns.max(1)));
    RATES
        .micros_per_cycle
        .get_or_init(|| rate((1u64 << 32) * 1024 / 1000 / cycles.get() as u64));
    RATES
        .reading_and_1
        .get_or_init(|| rate(reading.unwrap_or(0) + 1));
}

/// Cycles of the counter in so many nanoseconds.
#[inline]
pub(crate) fn cycles_in_ns(ns: u64) -> u64 {
    (ns * get(&RATES.cycles_in_1024_ns)) >> 10
}

/// The cycle counter, for short times: it costs a few nanoseconds, and each CPU has its
/// own, a little ahead of others or behind.
#[inline]
pub fn cycles() -> u64 {
    arch::cycles()
}

/// Nanoseconds in so many cycles of the counter.
pub fn ns_in_cycles(cycles: u64) -> u64 {
    cycles.saturating_mul(1024) / get(&RATES.cycles_in_1024_ns)
}

/// The result of a load, and the cycles that it took to come.
pub(crate) fn timed(load: impl FnOnce() -> u32) -> (u32, u64) {
    let began = arch::ordered_cycles();
    let value = load();
    (value, cycles_since(began))
}

/// The cycles since an ordered reading of the counter, less those of another.
pub(crate) fn cycles_since(began: u64) -> u64 {
    let took = arch::ordered_cycles().saturating_sub(began);
    took.saturating_sub(get(&RATES.reading_and_1) - 1)
}

/// Cycles of the counter in so many microseconds.
pub(crate) fn cycles_in_micros(micros: u32) -> u64 {
    cycles_in_ns(u64::from(micros) * 1000)
}

/// Microseconds by the cycle counter, wrapping.
pub(crate) fn stamp() -> u32 {
    let wide = u128::from(arch::cycles()) * u128::from(get(&RATES.micros_per_cycle));
    (wide >> 32) as u32
}

/// Sleeps for less than a second, or until a signal comes. Not as the C library does, whose
/// sleep is a cancellation point: the caller may be inside a lock.
pub fn sleep_us(us: u32) {
    let _ = nanosleep(&Timespec {
        tv_sec: 0,
        tv_nsec: (us * 1000).into(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_is_not_waited_for() {
        let last = monotonic(monotonic_ns().saturating_add(u64::MAX));
        assert_eq!(awaited(Some(last)), None);
        assert_eq!(awaited(None), None);
        // That clock can be set.
        for at in [Deadline(0), Deadline(last.0 - 1), realtime(u64::MAX)] {
            assert_eq!(awaited(Some(at)), Some(at));
        }
    }
}
