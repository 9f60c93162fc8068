//! What a writer of a per-CPU lock waits for when all readers are idle: about a
//! `membarrier`, which is measured beside it.

use std::{sync::Barrier, thread, time::Duration};

use lockyard_core::{
    Event,
    percpu_rwsem::{Bounded, CALM_MICROS},
};
use lockyard_linux::Linux;
use lockyard_torture::{Host, Lock, Native, interrupted};
use rustix::thread::{MembarrierCommand, membarrier};

use super::summary::median;
use crate::{events::Events, ours::PercpuRwLock};

/// How often each is measured.
const TIMES: u32 = 301;

/// Medians of many.
pub struct Idle {
    /// How long a writer waited for the lock, in nanoseconds.
    pub write_ns: f64,
    /// How long a `membarrier` took, in nanoseconds.
    pub membarrier_ns: f64,
    /// The writers.
    pub writes: u64,
    /// Those that found the lock in the state that readers leave it in when no
    /// writer comes for long: such a writer begins a grace period.
    pub grace_periods: u64,
}

/// Measures both, in turn. None after an interrupt, and where this machine has
/// no such `membarrier`.
pub fn measure(readers: usize) -> Option<Idle> {
    let lock = PercpuRwLock::<Linux, Bounded>::new(());
    let end = Barrier::new(readers + 1);
    let idle = || {
        drop(lock.read());
        end.wait();
    };
    let (pairs, events) = thread::scope(|scope| {
        (0..readers).for_each(|_| drop(scope.spawn(idle)));
        let pairs = Events::during(true, || (0..TIMES).map_while(|n| pair(&lock, n)).collect());
        end.wait();
        pairs
    });
    let pairs: Vec<(u64, u64)> = pairs;
    let grace_periods = events?.of_kind(Event::GracePeriod);
    let middle = |of: fn(&(u64, u64)) -> u64| median(pairs.iter().map(|p| of(p) as f64).collect());
    (pairs.len() == TIMES as usize).then(|| Idle {
        write_ns: middle(|pair| pair.0),
        membarrier_ns: middle(|pair| pair.1),
        writes: TIMES.into(),
        grace_periods,
    })
}

/// The nanoseconds of a write and of a `membarrier`, after a sleep: each is the
/// first every other time.
fn pair(lock: &PercpuRwLock<Linux, Bounded>, n: u32) -> Option<(u64, u64)> {
    if interrupted() {
        return None;
    }
    thread::sleep(Duration::from_micros(2 * u64::from(CALM_MICROS)));
    drop(lock.read()); // the reader that finds that no writer has come for long
    if n.is_multiple_of(2) {
        let write = write_ns(lock);
        Some((write, membarrier_ns()?))
    } else {
        let membarrier = membarrier_ns()?;
        Some((write_ns(lock), membarrier))
    }
}

fn write_ns(lock: &PercpuRwLock<Linux, Bounded>) -> u64 {
    let begin = Native::now_ns();
    lock.with(Native::now_ns) - begin
}

/// The command that the lock's grace period is.
fn membarrier_ns() -> Option<u64> {
    let begin = Native::now_ns();
    membarrier(MembarrierCommand::PrivateExpeditedRseq).ok()?;
    Some(Native::now_ns() - begin)
}
