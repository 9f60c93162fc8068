//! What a core does on its own or with its siblings.

use std::{
    hint::{self, black_box},
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
    thread,
};

use lockyard_torture::{Host as _, Native};

use super::{
    Group,
    file::{Parameter, Value},
    samples::{Samples, short},
    threads::{each, on, pair},
    topology::Host,
};
use crate::measure;

// Short, so that little else happens in a sample.
const TIMES: u32 = 1_000;
const REPEATS: usize = 100;

/// The times of group `cpu`.
#[derive(Default)]
pub struct Cpu {
    work_unit: Samples,
    locked: Samples,
    poll: Samples,
    clock: Samples,
    siblings: Siblings,
}

impl Group for Cpu {
    fn name(&self) -> &'static str {
        "cores"
    }

    fn round(&mut self, host: &Host, round: usize) {
        on(host.cpu(round), || {
            self.work_unit.push(measure::work_unit_ns());
            for _ in 0..REPEATS {
                self.locked.push(locked());
                self.poll.push(poll());
                self.clock.push(clock());
            }
        });
        self.siblings.round(&host.siblings());
    }

    fn parameters(&self, host: &Host) -> Vec<Parameter> {
        let mut all = vec![
            Parameter::time(
                "cpu.work_unit",
                &self.work_unit,
                "the least of five times a million units, on a core of its own",
            ),
            Parameter::time(
                "cpu.locked",
                &self.locked,
                "atomic exchanges of a line of one's own, each of the value that the one before \
                 found",
            ),
            Parameter::time(
                "cpu.poll",
                &self.poll,
                "a load, a comparison and std::hint::spin_loop()",
            ),
            Parameter::time(
                "cpu.clock",
                &self.clock,
                "readings of the monotonic clock, one after the other",
            ),
        ];
        all.extend(self.siblings.parameters(host.threads_per_core() as usize));
        all
    }
}

/// Each exchange waits for the one before.
fn locked() -> f64 {
    let word = AtomicU32::new(0);
    let mut value = 1;
    let time = each(TIMES, || value = word.swap(value, AcqRel));
    black_box(value);
    time
}

fn poll() -> f64 {
    let word = AtomicU32::new(0);
    let seen = black_box(1);
    each(TIMES, || {
        if word.load(Acquire) != seen {
            hint::spin_loop();
        }
    })
}

fn clock() -> f64 {
    each(TIMES, || {
        black_box(Native::now_ns());
    })
}

/// Less speed lost than this may be noise.
const VISIBLE: f64 = 0.02;

/// How much the threads of a core slow each other down.
#[derive(Default)]
struct Siblings {
    /// The speed of one while 2, 3, ... compute.
    computing: Vec<Samples>,
    /// Its speed beside one that polls.
    polling: Samples,
}

impl Siblings {
    fn round(&mut self, cpus: &[usize]) {
        if cpus.len() < 2 {
            return;
        }
        self.computing.resize(cpus.len() - 1, Samples::default());
        let alone = beside(&cpus[..1], compute);
        for (others, samples) in self.computing.iter_mut().enumerate() {
            samples.push(alone / beside(&cpus[..others + 2], compute));
        }
        self.polling.push(alone / beside(&cpus[..2], look));
    }

    fn parameters(&self, threads: usize) -> [Parameter; 2] {
        if threads < 2 {
            let why = "a core has one hardware thread that this process may use";
            let speeds = vec![1.0];
            return [
                Parameter::given("cpu.poll_share", Value::Number(1.0), why),
                Parameter::given("cpu.smt_speed", Value::Numbers(speeds), why),
            ];
        }
        let speeds = self.speeds(threads);
        let lost = 1.0 - speeds[1];
        let share = if lost > VISIBLE {
            ((1.0 - self.polling.median()) / lost).clamp(0.0, 1.0)
        } else {
            1.0
        };
        let spreads: Vec<_> = self.computing.iter().map(Samples::spread).collect();
        [
            Parameter::given(
                "cpu.poll_share",
                Value::Number(short(share)),
                &format!(
                    "measured: the speed that work units lose beside a sibling that polls, over \
                     what they lose beside one that computes, 1 where that is next to nothing; speed beside one that polls {}, {}",
                    short(self.polling.median()),
                    self.polling.spread()
                ),
            ),
            Parameter::given(
                "cpu.smt_speed",
                Value::Numbers(speeds),
                &format!(
                    "measured: work units while 1, 2, ... threads of the core compute them; from 2 \
                     on {}",
                    spreads.join("; ")
                ),
            ),
        ]
    }

    /// A speed for each number of threads, none above the one before.
    fn speeds(&self, threads: usize) -> Vec<f64> {
        let mut speeds = vec![1.0];
        for samples in self.computing.iter().take(threads - 1) {
            let before = *speeds.last().expect("one alone has a speed");
            speeds.push(short(samples.median()).clamp(0.01, before));
        }
        speeds
    }
}

const UNITS: u32 = 500_000;

/// Nanoseconds of work on the first of these CPUs while `other` goes on at the
/// others.
fn beside(cpus: &[usize], other: fn(&AtomicBool)) -> f64 {
    let stop = &AtomicBool::new(false);
    let work = || {
        let time = each(1, || {
            black_box(Native::work(UNITS, 1));
        });
        stop.store(true, Relaxed);
        time
    };
    match *cpus {
        [here] => on(here, work),
        [here, there] => pair((here, there), work, || other(stop)).0,
        [here, there, ref rest @ ..] => thread::scope(|scope| {
            for &cpu in rest {
                scope.spawn(move || on(cpu, || other(stop)));
            }
            pair((here, there), work, || other(stop)).0
        }),
        [] => unreachable!("a core has threads"),
    }
}

fn compute(stop: &AtomicBool) {
    let mut chain = 1;
    while !stop.load(Relaxed) {
        chain = Native::work(100, chain);
    }
    black_box(chain);
}

fn look(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        hint::spin_loop();
    }
}
