//! The microbenchmark of seeds 001 and 003: tasks loop lock, work, unlock, work.

use std::{
    cell::Cell,
    hint::black_box,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
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
    /// Percentage of the operations that only read, from 0 to 100.
    pub read_pct: u32,
    /// Cache lines, beside the payload's, that a section writes to, or reads.
    pub lines: u32,
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
    /// How many of all tasks' operations only read.
    pub reads: u64,
    /// Sampled waits of readers for the lock, in nanoseconds.
    pub read_waits: Histogram<u64>,
    /// Sampled waits of writers for the lock, in nanoseconds.
    pub write_waits: Histogram<u64>,
}

impl Report {
    /// Lock operations of all tasks together.
    pub fn total(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// Lock operations that changed the payload.
    pub fn writes(&self) -> u64 {
        self.total() - self.reads
    }

    /// All sampled waits for the lock, in nanoseconds.
    pub fn waits(&self) -> Histogram<u64> {
        let mut all = self.write_waits.clone();
        all.add(&self.read_waits).expect(GROWS);
        all
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
    /// Protected, too, and of no use: what it takes to have them come from another CPU.
    data: Box<[Padded<W>]>,
}

#[repr(align(128))]
struct Padded<W>(W);

/// Runs the benchmark.
///
/// # Panics
/// When the lock let a writer in beside somebody else: the payload lost an
/// update, or changed under a reader.
pub fn run<H: Host, L: Lock>(config: &Config) -> Report {
    let shared = Contended {
        lock: L::new(),
        payload: Padded(H::Word::ZERO),
        data: (0..config.lines).map(|_| Padded(H::Word::ZERO)).collect(),
    };
    let contend = match (config.read_pct, config.lines) {
        (0, 0) => contend::<H, L, Writers, false>,
        (100, 0) => contend::<H, L, Readers, false>,
        (_, 0) => contend::<H, L, Both, false>,
        (0, _) => contend::<H, L, Writers, true>,
        _ => contend::<H, L, Both, true>,
    };
    let stop = AtomicBool::new(false);
    let all = Mutex::new((vec![0; config.threads], Tally::new()));
    let elapsed_ns = H::run(config.threads, config.duration, &stop, &|task| {
        let tally = contend(&shared, config, task, &stop);
        let mut all = all.lock().expect("no task panics while it reports");
        all.0[task] = tally.ops;
        all.1.add(&tally);
    });
    let (ops, tally) = all.into_inner().expect("no task panicked");
    let report = Report {
        elapsed_ns,
        ops,
        reads: tally.reads,
        read_waits: tally.read_waits,
        write_waits: tally.write_waits,
    };
    assert_eq!(tally.torn, 0, "the lock let a writer in beside a reader");
    assert_eq!(
        shared.payload.0.load(Ordering::Relaxed), // all tasks have ended
        report.writes() as u32,
        "the lock let two tasks in at once"
    );
    report
}

/// What one task counted, or all of them.
struct Tally {
    ops: u64,
    reads: u64,
    /// Reads under which the payload changed.
    torn: u64,
    read_waits: Histogram<u64>,
    write_waits: Histogram<u64>,
}

pub(crate) const GROWS: &str = "the histogram grows";

impl Tally {
    fn new() -> Self {
        let waits = || Histogram::new(3).expect("3 significant digits are valid");
        Self {
            ops: 0,
            reads: 0,
            torn: 0,
            read_waits: waits(),
            write_waits: waits(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.reads += other.reads;
        self.torn += other.torn;
        self.read_waits.add(&other.read_waits).expect(GROWS);
        self.write_waits.add(&other.write_waits).expect(GROWS);
    }
}

/// Who reads and who writes: a type, so that a loop of writers alone, which is
/// what a mutex is measured with, is compiled as if there were no readers.
trait Mix {
    /// Whether the next operation only reads.
    fn reads(percentage: u32, dice: &mut Rng) -> bool;
}

struct Writers;
struct Readers;
struct Both;

impl Mix for Writers {
    #[inline(always)]
    fn reads(_: u32, _: &mut Rng) -> bool {
        false
    }
}

impl Mix for Readers {
    #[inline(always)]
    fn reads(_: u32, _: &mut Rng) -> bool {
        true
    }
}

impl Mix for Both {
    #[inline(always)]
    fn reads(percentage: u32, dice: &mut Rng) -> bool {
        dice.u32(0..100) < percentage
    }
}

/// With `LINES` a section has more than the payload: a type's, too, so that a loop that has not is
/// compiled as if there were none.
fn contend<H: Host, L: Lock, M: Mix, const LINES: bool>(
    shared: &Contended<L, H::Word>,
    config: &Config,
    task: usize,
    stop: &AtomicBool,
) -> Tally {
    let Config { load, gap, .. } = *config;
    let Contended {
        lock,
        payload,
        data,
    } = shared;
    let mut tally = Tally::new();
    let mut dice = dice(config.seed, task);
    // Of their own, so that they stay in registers.
    let (mut ops, mut reads, torn) = (0, 0, Cell::new(0));
    let mut chain = 1;
    // The update is not atomic on purpose: the lock must make it so.
    let write = |chain| {
        let n = payload.0.load(Ordering::Relaxed);
        if LINES {
            data.iter()
                .for_each(|line| line.0.store(n, Ordering::Relaxed));
        }
        let chain = H::work(load, chain);
        payload.0.store(n.wrapping_add(1), Ordering::Relaxed);
        chain
    };
    let read = |chain| {
        let n = payload.0.load(Ordering::Relaxed);
        if LINES {
            let each = data.iter();
            each.for_each(|line| _ = black_box(line.0.load(Ordering::Relaxed)));
        }
        let chain = H::work(load, chain);
        torn.set(torn.get() + u64::from(payload.0.load(Ordering::Relaxed) != n));
        chain
    };
    'run: loop {
        for _ in 0..dice.u32(0..2 * config.sample.max(1) - 1) {
            if stop.load(Ordering::Relaxed) {
                break 'run;
            }
            chain = if M::reads(config.read_pct, &mut dice) {
                reads += 1;
                lock.read(|| read(chain))
            } else {
                lock.with(|| write(chain))
            };
            ops += 1;
            chain = H::work(gap, chain);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let only_reads = M::reads(config.read_pct, &mut dice);
        let begin = H::now_ns();
        let (waits, (end, result)) = if only_reads {
            reads += 1;
            let timed = lock.read(|| (H::now_ns(), read(chain)));
            (&mut tally.read_waits, timed)
        } else {
            let timed = lock.with(|| (H::now_ns(), write(chain)));
            (&mut tally.write_waits, timed)
        };
        ops += 1;
        waits.record(end.saturating_sub(begin)).expect(GROWS);
        chain = H::work(gap, result);
    }
    black_box(chain);
    Tally {
        ops,
        reads,
        torn: torn.get(),
        ..tally
    }
}

/// Dice for the sampling, so that it never beats in time with what it samples, and
/// for who reads.
fn dice(seed: u64, task: usize) -> Rng {
    // Seeds that follow each other, and tasks, are far apart.
    const APART: u64 = 0x9e37_79b9_7f4a_7c15;
    Rng::with_seed(seed ^ (task as u64).wrapping_mul(APART))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn seeds_and_tasks_differ_in_their_dice() {
        let draws = |seed, task| -> [u32; 4] {
            let mut dice = dice(seed, task);
            [(); 4].map(|()| dice.u32(0..1000))
        };
        let all = (0..100).flat_map(|seed| (0..10).map(move |task| draws(seed, task)));
        let all: HashSet<_> = all.collect();
        assert_eq!(all.len(), 1000);
        let first: HashSet<_> = all.iter().map(|draws| draws[0]).collect();
        assert!(first.len() > 500, "{}", first.len());
    }
}
