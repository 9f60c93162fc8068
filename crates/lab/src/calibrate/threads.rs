//! Threads that stay on their CPUs.

use std::{
    hint,
    sync::{
        Barrier,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
    thread,
    time::Instant,
};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const NO_PANIC: &str = "a measurement does not panic";

/// The CPUs that this process may use.
pub fn usable() -> rustix::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Runs `body` in a thread of its own on `cpu`.
pub fn on<R: Send>(cpu: usize, body: impl FnOnce() -> R + Send) -> R {
    let pinned = || {
        pin(cpu);
        body()
    };
    thread::scope(|scope| scope.spawn(pinned).join()).expect(NO_PANIC)
}

/// Runs both at the same time, each in a thread of its own on its CPU.
pub fn pair<R: Send, S: Send>(
    (here, there): (usize, usize),
    first: impl FnOnce() -> R + Send,
    second: impl FnOnce() -> S + Send,
) -> (R, S) {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            pin(here);
            start.wait();
            first()
        });
        let second = scope.spawn(|| {
            pin(there);
            start.wait();
            second()
        });
        let first = first.join().expect(NO_PANIC);
        (first, second.join().expect(NO_PANIC))
    })
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("this process may use the CPU");
}

/// Nanoseconds that each of `times` calls of `body` takes, the loop included.
#[inline(always)]
pub fn each(times: u32, mut body: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..times {
        body();
    }
    begin.elapsed().as_nanos() as f64 / f64::from(times)
}

/// A baton between threads on different CPUs, who poll for it.
#[derive(Default)]
#[repr(align(128))]
pub struct Baton(AtomicU32);

impl Baton {
    /// Hands it to `whom`; what the caller wrote before, `whom` sees.
    pub fn hand(&self, whom: u32) {
        self.0.store(whom, Release);
    }

    /// Waits until it is `mine`.
    pub fn wait(&self, mine: u32) {
        while self.0.load(Acquire) != mine {
            hint::spin_loop();
        }
    }
}
