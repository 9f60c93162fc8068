//! Runs on this machine.

use std::{
    any::Any,
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    thread,
    time::Instant,
};

use lockyard_torture::{
    Host, Native,
    locktest::{Config, Report},
};

use crate::{failure::Failure, registry::Entry};

/// Nanoseconds that one work unit takes: the least of a few attempts.
pub fn work_unit_ns() -> f64 {
    const UNITS: u32 = 1_000_000;
    let attempt = || {
        let begin = Instant::now();
        black_box(Native::work(UNITS, 1));
        begin.elapsed().as_nanos() as f64 / f64::from(UNITS)
    };
    (0..5).map(|_| attempt()).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds between two readings of the clock, one after the other: every
/// measured wait includes them.
pub fn clock_ns() -> u64 {
    let pair = |_| {
        let begin = Native::now_ns();
        Native::now_ns() - begin
    };
    let mut all: Vec<u64> = (0..1001).map(pair).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

/// How seldom to sample waits: one acquisition in so many, on average.
///
/// A sample reads the clock twice, which also drains the processor's pipeline:
/// about 100 ns. An operation without contention takes about 5 ns and its work;
/// the samples may slow it by 2 %.
pub fn sampling(load: u32, gap: u32) -> u32 {
    const SAMPLE_NS: f64 = 100.0;
    const OPERATION_NS: f64 = 5.0;
    const SLOWER: f64 = 0.02;
    let operation = OPERATION_NS + f64::from(load) + f64::from(gap);
    (SAMPLE_NS / (SLOWER * operation)).ceil() as u32
}

/// Runs the microbenchmark on a lock.
///
/// # Errors
/// The lock let two threads in at once.
pub fn locktest(entry: &Entry, config: &Config) -> Result<Report, Failure> {
    catch_unwind(AssertUnwindSafe(|| entry.locktest(config))).map_err(|panic| {
        let (name, threads) = (entry.name, config.threads);
        let why = message(panic.as_ref());
        Failure::Check(format!("{name} failed with {threads} threads: {why}"))
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let first = text.and_then(|t| t.lines().next());
    first.unwrap_or("a thread panicked").into()
}

/// Makes sure that this machine can start so many threads, by starting them:
/// limits of users, groups and address spaces are too many to ask.
///
/// # Errors
/// It cannot.
pub fn can_start(threads: usize) -> Result<(), Failure> {
    let gate = Mutex::new(());
    let closed = gate.lock();
    let wait = || drop(gate.lock());
    thread::scope(|scope| {
        for started in 0..threads {
            let thread = thread::Builder::new().stack_size(128 << 10);
            if let Err(why) = thread.spawn_scoped(scope, wait) {
                drop(closed);
                return Err(Failure::Usage(format!(
                    "--threads '{threads}': this machine starts only {started} at once ({why})"
                )));
            }
        }
        drop(closed);
        Ok(())
    })
}
