//! The microbenchmark of seeds 001 and 003: tasks loop lock, work, unlock, work.

use std::{
    hint::black_box,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use lockyard_core::Word;

use crate::{Host, Lock};

/// What a run does.
#[derive(Clone, Debug)]
pub struct Config {
    /// Tasks that contend.
    pub threads: usize,
    /// How long, in the world's time.
    pub duration: Duration,
    /// Work units inside the critical section.
    pub load: u32,
    /// Work units between an unlock and the next lock.
    pub gap: u32,
    /// One acquisition in so many, on average, has its wait measured.
    pub sample: u32,
    /// Seed of the sampling.
    pub seed: u64,
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// Nanoseconds from the start to the stop.
    pub elapsed_ns: u64,
    /// Lock operations of each task.
    pub ops: Vec<u64>,
    /// Sampled waits for the lock, in nanoseconds.
    pub waits: Histogram<u64>,
}

impl Report {
    /// Lock operations of all tasks together.
    pub fn total(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// Lock operations per second, all tasks together.
    pub fn rate(&self) -> f64 {
        self.total() as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// Jain's index of fairness over the tasks' operations: 1 when all made
    /// the same number, 1/n when one of n made all of them.
    pub fn jain(&self) -> f64 {
        let sum: f64 = self.ops.iter().map(|&n| n as f64).sum();
        let squares: f64 = self.ops.iter().map(|&n| (n as f64).powi(2)).sum();
        if squares == 0.0 {
            return 1.0;
        }
        sum * sum / (self.ops.len() as f64 * squares)
    }
}

/// The lock and, on a line of its own, what it protects.
#[repr(align(128))]
struct Contended<L, W> {
    lock: L,
    payload: Padded<W>,
}

#[repr(align(128))]
struct Padded<W>(W);

/// Runs the benchmark.
///
/// # Panics
/// When the lock let two tasks in at once: the payload lost an update.
pub fn run<H: Host, L: Lock>(config: &Config) -> Report {
    let shared = Contended {
        lock: L::new(),
        payload: Padded(H::Word::ZERO),
    };
    let stop = AtomicBool::new(false);
    let results = Mutex::new((vec![0; config.threads], waits()));
    let elapsed_ns = H::run(config.threads, config.duration, &stop, &|task| {
        let (ops, sampled) = contend::<H, L>(&shared, config, task, &stop);
        let mut all = results.lock().expect("no task panics while it reports");
        all.0[task] = ops;
        all.1.add(sampled).expect("both histograms grow");
    });
    let (ops, waits) = results.into_inner().expect("no task panicked");
    let report = Report {
        elapsed_ns,
        ops,
        waits,
    };
    assert_eq!(
        shared.payload.0.load(Ordering::Relaxed), // all tasks have ended
        report.total() as u32,
        "the lock let two tasks in at once"
    );
    report
}

fn waits() -> Histogram<u64> {
    Histogram::new(3).expect("3 significant digits are valid")
}

fn contend<H: Host, L: Lock>(
    shared: &Contended<L, H::Word>,
    config: &Config,
    task: usize,
    stop: &AtomicBool,
) -> (u64, Histogram<u64>) {
    let Config { load, gap, .. } = *config;
    let Contended { lock, payload } = shared;
    let mut waits = waits();
    let mut dice = Dice::new(config.seed, task);
    let mut ops = 0;
    let mut chain = 1;
    // The update is not atomic on purpose: the lock must make it so.
    let section = |chain| {
        let n = payload.0.load(Ordering::Relaxed);
        let chain = H::work(load, chain);
        payload.0.store(n.wrapping_add(1), Ordering::Relaxed);
        chain
    };
    'run: loop {
        for _ in 0..dice.below(2 * config.sample.max(1) - 1) {
            if stop.load(Ordering::Relaxed) {
                break 'run;
            }
            chain = lock.with(|| section(chain));
            ops += 1;
            chain = H::work(gap, chain);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let begin = H::now_ns();
        let (end, result) = lock.with(|| (H::now_ns(), section(chain)));
        ops += 1;
        waits
            .record(end.saturating_sub(begin))
            .expect("the histogram grows");
        chain = H::work(gap, result);
    }
    black_box(chain);
    (ops, waits)
}

/// A small generator for the sampling, so that it never beats in time with
/// what it samples.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, task: usize) -> Self {
        Self((seed ^ (task as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}
