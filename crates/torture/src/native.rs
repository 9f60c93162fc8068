//! The host that runs workloads on this machine's threads.

use std::{
    sync::{
        Barrier, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Host, interrupted};

/// This machine's threads and clock.
pub struct Native;

impl Host for Native {
    const NAME: &'static str = "native";

    type Word = AtomicU32;

    fn run(
        tasks: usize,
        duration: Duration,
        stop: &AtomicBool,
        body: &(dyn Fn(usize) + Sync),
    ) -> u64 {
        let start = Barrier::new(tasks);
        // With more tasks than CPUs this thread may not run for a while, so
        // the tasks themselves say when they began.
        let begin = OnceLock::new();
        thread::scope(|scope| {
            for task in 0..tasks {
                let (start, begin) = (&start, &begin);
                thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, move || {
                        start.wait();
                        begin.get_or_init(Instant::now);
                        body(task);
                    })
                    .expect("this machine cannot start another thread");
            }
            let begin = begin.wait();
            while begin.elapsed() < duration && !interrupted() {
                let left = duration.saturating_sub(begin.elapsed());
                thread::sleep(left.min(Duration::from_millis(50)));
            }
            stop.store(true, Ordering::Relaxed);
            nanos(begin.elapsed())
        })
    }

    fn now_ns() -> u64 {
        static ORIGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        nanos(ORIGIN.elapsed())
    }

    /// One step is a shift, an exclusive or and a multiplication that wait for
    /// each other and for the step before: five cycles.
    #[inline(always)]
    fn work(units: u32, mut chain: u64) -> u64 {
        for _ in 0..units {
            chain = (chain ^ chain >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        chain
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
