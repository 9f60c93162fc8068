//! Threads that share a CPU: ticks, slices, switches, and the way into sleep.

use std::{
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread::yield_now,
};

use lockyard_core::Platform;
use lockyard_linux::Linux;
use lockyard_torture::{Host as _, Native};
use rustix::time::{ClockId, clock_getres};

use super::{
    Group,
    file::Parameter,
    samples::Samples,
    threads::{each, on, pair},
    topology::Host,
};

/// How long two threads fight for a CPU in each round: some slices.
const SLICES_NS: u64 = 80_000_000;
/// A thread that reads the clock no more often than this does not run.
const GAP_NS: u64 = 100_000;
/// Yields in a sample.
const YIELDS: u32 = 200;
const REPEATS: usize = 20;

/// The times of group `scheduler` that one CPU shows.
#[derive(Default)]
pub struct Scheduling {
    yields: Samples,
    switch: Samples,
    slice: Samples,
    park: Samples,
}

impl Group for Scheduling {
    fn name(&self) -> &'static str {
        "threads that share a CPU"
    }

    fn round(&mut self, host: &Host, round: usize) {
        let cpu = host.cpu(round);
        let yields = on(cpu, yields);
        let switch = switch(cpu, yields.median());
        self.park
            .extend(parks(cpu).map(|time| time - switch.median()));
        self.yields.append(yields);
        self.switch.append(switch);
        self.slice.extend(slices(cpu));
    }

    fn parameters(&self, _: &Host) -> Vec<Parameter> {
        vec![
            tick(),
            self.slice(),
            self.switch(),
            Parameter::time(
                "scheduler.park",
                &self.park,
                "Platform::park, from its call to the next instruction of another thread of the \
                 CPU, which had yielded, less a switch",
            ),
            Parameter::time(
                "scheduler.yields",
                &self.yields,
                "sched_yield with nobody else on the CPU",
            ),
        ]
    }
}

impl Scheduling {
    fn switch(&self) -> Parameter {
        const KEY: &str = "scheduler.switch";
        if self.switch.is_empty() {
            let why = "estimate: no yield let the CPU's other thread run";
            return Parameter::given_time(KEY, 1_000.0, why);
        }
        let how = "two threads on one CPU that yield to each other, for each change from one to \
                   the other, less the yields";
        Parameter::time(KEY, &self.switch, how)
    }

    fn slice(&self) -> Parameter {
        const KEY: &str = "scheduler.slice";
        if self.slice.is_empty() {
            let why = "estimate: no thread that computes gave way to another while it was watched";
            return Parameter::given_time(KEY, SLICES_NS as f64, why);
        }
        let how = "two threads that compute on one CPU, runs without a gap of 100 µs";
        Parameter::time(KEY, &self.slice, how)
    }
}

/// The coarse clocks advance at each tick, and say so.
fn tick() -> Parameter {
    let period = clock_getres(ClockId::MonotonicCoarse);
    let ns = period.tv_sec as f64 * 1e9 + period.tv_nsec as f64;
    let source = "the kernel's: the resolution of CLOCK_MONOTONIC_COARSE, which is 1/CONFIG_HZ";
    Parameter::given_time("scheduler.tick", ns, source)
}

fn yields() -> Samples {
    let mut samples = Samples::default();
    samples.extend((0..REPEATS).map(|_| each(YIELDS, yield_now)));
    samples
}

/// Two threads of a CPU that yield to each other. Not every yield changes
/// threads: a fair scheduler may find that the caller has had less than its
/// share.
fn switch(cpu: usize, yields: f64) -> Samples {
    let (last, theirs) = (AtomicU32::new(0), AtomicU32::new(0));
    let stop = AtomicBool::new(false);
    let first = || {
        let mut samples = Samples::default();
        for _ in 0..REPEATS {
            let mut switches = 0;
            let before = theirs.load(Relaxed);
            let time = each(YIELDS, || {
                yield_now();
                if last.swap(1, Relaxed) == 2 {
                    switches += 2; // there and back
                }
            });
            let called = YIELDS + theirs.load(Relaxed).wrapping_sub(before);
            if switches > 0 {
                let all = time * f64::from(YIELDS) - yields * f64::from(called);
                samples.push(all / f64::from(switches));
            }
        }
        stop.store(true, Relaxed);
        samples
    };
    let second = || {
        while !stop.load(Relaxed) {
            last.store(2, Relaxed);
            theirs.fetch_add(1, Relaxed);
            yield_now();
        }
    };
    pair((cpu, cpu), first, second).0
}

/// How long each of two threads of a CPU runs at a stretch. What others take
/// from both does not count.
fn slices(cpu: usize) -> Vec<f64> {
    let end = Native::now_ns() + SLICES_NS;
    let run = || {
        let mut lengths = Vec::new();
        let mut begin = Native::now_ns();
        let mut last = begin;
        while last < end {
            let now = Native::now_ns();
            if now > last + GAP_NS {
                lengths.push((last - begin) as f64);
                begin = now;
            }
            last = now;
        }
        lengths
    };
    let (first, second) = pair((cpu, cpu), run, run);
    // The first run of each may have begun before the other thread did.
    [first, second]
        .into_iter()
        .flat_map(|lengths| lengths.into_iter().skip(1))
        .collect()
}

/// How long after a thread's call of park another thread of its CPU runs.
fn parks(cpu: usize) -> impl Iterator<Item = f64> {
    let sleeper = OnceLock::new();
    let (called, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let watch = || {
        let task = *sleeper.wait();
        let mut times = Vec::new();
        for turn in 0..=REPEATS {
            stop.store(turn == REPEATS, Release);
            called.store(0, Relaxed);
            Linux::unpark(task);
            while called.load(Relaxed) == 0 {
                yield_now();
            }
            times.push(Native::now_ns().saturating_sub(called.load(Relaxed)) as f64);
        }
        times.pop(); // it ended instead of sleeping
        times
    };
    let sleep = || {
        let _ = sleeper.set(Linux::me());
        while !stop.load(Acquire) {
            Linux::park(None);
            called.store(Native::now_ns(), Relaxed);
        }
        called.store(Native::now_ns(), Relaxed); // it may not have slept again
    };
    pair((cpu, cpu), watch, sleep).0.into_iter()
}
