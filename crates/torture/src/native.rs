//! The host that runs workloads on this machine's threads.

use std::{
    hint, io,
    panic::resume_unwind,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use rustix::thread::{
    CpuSet, Pid,
    futex::{self, Flags},
    gettid, sched_getaffinity, sched_setaffinity, sched_yield,
};

use crate::{Host, Policy, interrupted};

/// This machine's threads and clock.
pub struct Native;

/// What a workload panics with when this machine cannot start another thread.
pub struct NoThread(pub io::Error);

impl Host for Native {
    const NAME: &'static str = "native";

    type Word = AtomicU32;

    /// A thread, as the kernel numbers them.
    type Task = Pid;

    fn run(
        tasks: usize,
        duration: Duration,
        stop: &AtomicBool,
        body: &(dyn Fn(usize) + Sync),
    ) -> u64 {
        let start = Start(AtomicU32::new(tasks as u32));
        // With more tasks than CPUs this thread may not run for a while, so
        // the tasks themselves say when they began.
        let begin = OnceLock::new();
        thread::scope(|scope| {
            let threads = (0..tasks).map(|task| {
                let (start, begin) = (&start, &begin);
                thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, move || {
                        if start.together() {
                            begin.get_or_init(Instant::now);
                            body(task);
                        }
                    })
                    .unwrap_or_else(|why| {
                        start.call_off();
                        resume_unwind(Box::new(NoThread(why)))
                    })
            });
            let threads: Vec<_> = threads.collect();
            let begin = begin.wait();
            let over = || interrupted() || threads.iter().all(ScopedJoinHandle::is_finished);
            while begin.elapsed() < duration && !over() {
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

    fn busy(duration: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            hint::spin_loop();
        }
    }

    fn sleep(duration: Duration) {
        thread::sleep(duration);
    }

    fn yield_now() {
        sched_yield();
    }

    fn schedule(policy: Policy) -> Result<(), String> {
        let (number, priority) = match policy {
            Policy::Fair => (libc::SCHED_OTHER, 0),
            Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
            Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
        };
        let scheduled = schedule(number, priority.into());
        lockyard_linux::prepare_thread();
        scheduled.map_err(|why| {
            format!(
                "this user may not use {} ({why}): grant CAP_SYS_NICE, or an rtprio limit of \
                 {priority} or more (`ulimit -r`)",
                match policy {
                    Policy::Fair => "SCHED_OTHER",
                    Policy::Fifo(_) => "SCHED_FIFO",
                    Policy::RoundRobin(_) => "SCHED_RR",
                }
            )
        })
    }

    fn wait(word: &AtomicU32, value: u32) {
        // It may have another value already, and a signal may interrupt it.
        let _ = futex::wait(word, Flags::PRIVATE, value, None);
    }

    fn wake(word: &AtomicU32) {
        const ALL: u32 = i32::MAX.cast_unsigned();
        futex::wake(word, Flags::PRIVATE, ALL).expect("a futex wake on a mapped word cannot fail");
    }

    fn me() -> Pid {
        gettid()
    }

    fn cpus() -> Vec<usize> {
        let set = sched_getaffinity(None).expect("a thread may ask about itself");
        let all = 0..CpuSet::MAX_CPU;
        all.filter(|&cpu| set.is_set(cpu)).collect()
    }

    fn confine(task: Pid, cpus: &[usize]) {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        // A CPU may have been taken away meanwhile: then the task stays.
        let _ = sched_setaffinity(Some(task), &set);
    }

    fn watched<R>(look: &(dyn Fn() + Sync), work: impl FnOnce() -> R) -> R {
        const EVERY: Duration = Duration::from_secs(1);
        thread::scope(|scope| {
            // The end of the work, also by a panic, ends the sender.
            let (working, ended) = mpsc::channel::<()>();
            let watch = move || {
                while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                    look();
                }
            };
            thread::Builder::new()
                .spawn_scoped(scope, watch)
                .unwrap_or_else(|why| resume_unwind(Box::new(NoThread(why))));
            let result = work();
            drop(working);
            result
        })
    }
}

/// How many are still to come before all start together.
struct Start(AtomicU32);

impl Start {
    /// More than ever come.
    const OFF: u32 = 1 << 31;

    /// Waits for all; whether they start.
    fn together(&self) -> bool {
        let mut left = self.0.fetch_sub(1, Ordering::AcqRel) - 1;
        if left == 0 {
            Native::wake(&self.0);
        }
        while (1..Self::OFF).contains(&left) {
            Native::wait(&self.0, left);
            left = self.0.load(Ordering::Acquire);
        }
        left == 0
    }

    /// Not all can come.
    fn call_off(&self) {
        self.0.fetch_add(Self::OFF, Ordering::Release);
        Native::wake(&self.0);
    }
}

/// Gives the calling thread a policy.
fn schedule(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: 0 names the calling thread; `parameters` is a valid `sched_param`
    // for as long as the call reads it, and the kernel keeps no pointer to it.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_start_together_or_not_at_all() {
        let start = Start(AtomicU32::new(3));
        thread::scope(|scope| {
            let tasks = [0; 3].map(|_| scope.spawn(|| start.together()));
            assert!(tasks.into_iter().all(|task| task.join().unwrap()));
        });
        let start = Start(AtomicU32::new(3));
        thread::scope(|scope| {
            let tasks = [0; 2].map(|_| scope.spawn(|| start.together()));
            start.call_off();
            assert!(tasks.into_iter().all(|task| !task.join().unwrap()));
        });
    }
}
