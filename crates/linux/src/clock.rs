//! Time: the monotonic clock for deadlines, or that of the calendar, and the cycle counter
//! for spinning.

use std::hint;

use lockyard_core::Deadline;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::{arch, errno};

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

/// The deadline at so many nanoseconds of `CLOCK_MONOTONIC`; 292 years at most.
pub fn monotonic(ns: u64) -> Deadline {
    Deadline(ns.min(REALTIME - 1))
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
    deadline.filter(|&at| at <= same_clock).unwrap_or(soon)
}

/// A deadline as the kernel has it, on its clock.
pub(crate) fn timespec(Deadline(ns): Deadline) -> Timespec {
    let ns = ns & !REALTIME;
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// What was measured when the process first spun.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Cycles of the counter in 1,024 ns.
    cycles_per_1024_ns: u64,
    /// 2^32 / cycles per microsecond, to divide by multiplying.
    micros_per_cycle: u64,
    /// Picoseconds that one pause of a spin loop takes.
    pause_ps: u64,
    /// Cycles between two ordered readings of the counter, one after the other.
    reading: u64,
}

/// The rates of this machine: the pause of a spin loop takes 10 to 140 cycles,
/// depending on the processor.
#[inline]
fn rates() -> Rates {
    static RATES: errno::Lazy<Rates> = errno::Lazy::new(measure);
    *RATES
}

/// The shortest of a few tries: an interrupt only makes a try longer.
fn measure() -> Rates {
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
    let (ns, cycles) = (ns.max(1), cycles.max(1));
    let cycles_per_1024_ns = (cycles * 1024 / ns).max(1);
    Rates {
        cycles_per_1024_ns,
        micros_per_cycle: ((1u64 << 32) * 1024 / 1000 / cycles_per_1024_ns).max(1),
        pause_ps: (ns * 1000 / PAUSES).max(1),
        reading: reading.unwrap_or(0),
    }
}

/// Cycles of the counter in so many nanoseconds.
#[inline]
pub(crate) fn cycles_in_ns(ns: u64) -> u64 {
    (ns * rates().cycles_per_1024_ns) >> 10
}

/// Pauses of a spin loop in so many nanoseconds, at least 1.
pub(crate) fn pauses_in_ns(ns: u32) -> u64 {
    (u64::from(ns) * 1000 / rates().pause_ps).max(1)
}

/// The cycle counter, for short times: it costs a few nanoseconds, and each CPU has its
/// own, a little ahead of others or behind.
#[inline]
pub fn cycles() -> u64 {
    arch::cycles()
}

/// Nanoseconds in so many cycles of the counter.
pub fn ns_in_cycles(cycles: u64) -> u64 {
    cycles.saturating_mul(1024) / rates().cycles_per_1024_ns
}

/// The result of a load, and the cycles that it took to come.
pub(crate) fn timed(load: impl FnOnce() -> u32) -> (u32, u64) {
    let began = arch::ordered_cycles();
    let value = load();
    let took = arch::ordered_cycles().saturating_sub(began);
    (value, took.saturating_sub(rates().reading))
}

/// Cycles of the counter in so many microseconds.
pub(crate) fn cycles_in_micros(micros: u32) -> u64 {
    cycles_in_ns(u64::from(micros) * 1000)
}

/// Microseconds by the cycle counter, wrapping.
pub(crate) fn stamp() -> u32 {
    let wide = u128::from(arch::cycles()) * u128::from(rates().micros_per_cycle);
    (wide >> 32) as u32
}
