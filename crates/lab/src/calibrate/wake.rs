//! Threads on different CPUs: wake-ups, barriers, and what one can know of the
//! other.

use std::{
    cmp::Reverse,
    hint::{self, black_box},
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use lockyard_core::{Platform, Running, TaskId};
use lockyard_linux::Linux;
use lockyard_torture::{Host as _, Native};

use super::{
    Group,
    file::Parameter,
    samples::Samples,
    threads::{each, pair},
    topology::Host,
};
use crate::machine::{line, numbered};

/// How long a CPU has been idle before a wake-up.
const SHORT_IDLE: Duration = Duration::from_micros(30);
const LONG_IDLE: Duration = Duration::from_millis(5);
const SHORT_WAKES: usize = 100;
const LONG_WAKES: usize = 10;

/// The times of group `scheduler` that need two CPUs.
#[derive(Default)]
pub struct Wake {
    unpark: Samples,
    wake: Samples,
    deep_wake: Samples,
    quiesce: Samples,
    off_cpu_seen: Samples,
    /// What a look takes longer that asks for that.
    ask: Samples,
}

impl Group for Wake {
    fn name(&self) -> &'static str {
        "wake-ups"
    }

    fn round(&mut self, host: &Host, round: usize) {
        let cpus = host.neighbours(round);
        for (unpark, wake) in wakes(cpus, SHORT_IDLE, SHORT_WAKES) {
            self.unpark.push(unpark);
            self.wake.push(wake);
        }
        let deep = wakes(cpus, LONG_IDLE, LONG_WAKES);
        self.deep_wake
            .extend(deep.into_iter().map(|(_, wake)| wake));
        self.quiesce.extend(quiesce(cpus));
        for (seen, ask) in off_cpu_seen(cpus) {
            self.off_cpu_seen.push(seen);
            self.ask.push(ask);
        }
    }

    fn parameters(&self, _: &Host) -> Vec<Parameter> {
        vec![
            Parameter::time(
                "scheduler.unpark",
                &self.unpark,
                "Platform::unpark of a thread that sleeps on another CPU, and one reading of the \
                 clock",
            ),
            Parameter::time(
                "scheduler.wake",
                &self.wake,
                "from the end of Platform::unpark to the end of the sleeper's Platform::park, on a \
                 CPU that has been idle for 30 µs",
            ),
            deep_after(),
            Parameter::time(
                "scheduler.deep_wake",
                &self.deep_wake,
                "as wake, after 5 ms",
            ),
            Parameter::time(
                "scheduler.quiesce",
                &self.quiesce,
                "Platform::quiesce while another thread of the process computes on another CPU",
            ),
            Parameter::time(
                "user_space.off_cpu_seen",
                &self.off_cpu_seen,
                "from the first Platform::running of a thread that sleeps to the one that says \
                 that it does not run: two samples of its CPU clock, after 2 and 4 µs",
            ),
            Parameter::time(
                "user_space.ask",
                &self.ask,
                "Platform::need_resched and Platform::running, before it is time for a sample",
            ),
            Parameter::given_time(
                "user_space.spin_budget",
                600_000.0,
                "crates/linux/src/spin.rs, BUDGET_NS: how long a thread spins at a stretch",
            ),
        ]
    }
}

/// A thread that sleeps until it is woken, again and again.
#[derive(Default)]
struct Sleeper {
    task: OnceLock<TaskId>,
    /// When it last called park, and when it last came back; 0 before it does.
    called: AtomicU64,
    back: AtomicU64,
    stop: AtomicBool,
}

impl Sleeper {
    fn run(&self) {
        Linux::spin_begin(); // says which CPU the thread is on
        let _ = self.task.set(Linux::me());
        while !self.stop.load(Acquire) {
            self.called.store(Native::now_ns(), Release);
            Linux::park(None);
            self.back.store(Native::now_ns(), Release);
        }
    }

    /// Waits until it has slept for so long.
    fn asleep_for(&self, idle: Duration) -> TaskId {
        let task = *self.task.wait();
        let wait = idle.as_nanos() as u64;
        let called = set(&self.called);
        while Native::now_ns() < called + wait {
            hint::spin_loop();
        }
        task
    }

    /// Wakes it for good.
    fn end(&self) {
        let task = self.asleep_for(SHORT_IDLE);
        self.stop.store(true, Release);
        Linux::unpark(task);
    }
}

/// Waits until the moment is known.
fn set(moment: &AtomicU64) -> u64 {
    loop {
        match moment.load(Acquire) {
            0 => hint::spin_loop(),
            known => return known,
        }
    }
}

/// Pairs of how long the wake call took, and from its end to the sleeper's
/// first instruction.
fn wakes(cpus: (usize, usize), idle: Duration, times: usize) -> Vec<(f64, f64)> {
    let sleeper = Sleeper::default();
    let waker = || {
        let mut all = Vec::with_capacity(times);
        for _ in 0..times {
            let task = sleeper.asleep_for(idle);
            sleeper.called.store(0, Relaxed);
            sleeper.back.store(0, Relaxed); // unpark publishes both
            let begin = Native::now_ns();
            Linux::unpark(task);
            let end = Native::now_ns();
            let back = set(&sleeper.back);
            // It may be there before the waker is out of the kernel.
            all.push(((end - begin) as f64, back as f64 - end as f64));
        }
        sleeper.end();
        all
    };
    pair(cpus, waker, || sleeper.run()).0
}

fn quiesce(cpus: (usize, usize)) -> Vec<f64> {
    let stop = AtomicBool::new(false);
    let caller = || {
        Linux::me();
        let times = (0..10).map(|_| each(10, Linux::quiesce)).collect();
        stop.store(true, Relaxed);
        times
    };
    let other = || {
        Linux::me();
        while !stop.load(Relaxed) {
            black_box(Native::work(100, 1));
        }
    };
    pair(cpus, caller, other).0
}

/// Pairs of how long a spinner takes to find out that a thread sleeps, and how
/// long it takes to ask before it is time for a sample.
fn off_cpu_seen(cpus: (usize, usize)) -> Vec<(f64, f64)> {
    const ASKS: u32 = 10;
    let sleeper = Sleeper::default();
    let ask = |task| black_box(Linux::need_resched() || Linux::running(task) == Running::No);
    let spinner = || {
        let task = sleeper.asleep_for(SHORT_IDLE);
        let spin = |_| {
            Linux::spin_begin(); // it forgets what it knew
            let begin = Native::now_ns();
            ask(task);
            let one = each(ASKS, || {
                ask(task);
            });
            while Linux::running(task) != Running::No {
                hint::spin_loop();
            }
            ((Native::now_ns() - begin) as f64, one)
        };
        let times = (0..30).map(spin).collect();
        sleeper.end();
        times
    };
    pair(cpus, spinner, || sleeper.run()).0
}

/// When the deepest idle state begins to pay, if the system says.
fn deep_after() -> Parameter {
    const KEY: &str = "scheduler.deep_after";
    let states = numbered("/sys/devices/system/cpu/cpu0/cpuidle", "state");
    let residency = |state: &String| line(&format!("{state}/residency"))?.parse::<u32>().ok();
    let deepest = states
        .iter()
        .filter_map(|state| Some((residency(state)?, state)))
        .min_by_key(|&(micros, _)| Reverse(micros));
    if let Some((micros, state)) = deepest {
        let source = format!("the kernel's: {state}/residency, the deepest idle state's");
        return Parameter::given_time(KEY, f64::from(micros) * 1e3, &source);
    }
    let source = "estimate: the system names no idle states; KVM's default halt_poll_ns, for which \
                  a hypervisor waits before it gives an idle CPU away";
    Parameter::given_time(KEY, 200_000.0, source)
}
