//! Spinning, and knowing when to stop.

use std::{
    cell::Cell,
    hint,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use lockyard_core::{Look, Running, TaskId};

use crate::{arch, clock, park, tasks};

/// How long a thread spins for one lock at most: a few times what it costs to
/// sleep and be woken (about 20 µs), so that spinning in vain at most
/// multiplies the price of the wait.
const BUDGET_NS: u64 = 600_000;
/// A gap between two looks that says that the spinner was descheduled.
const JUMP_NS: u64 = 50_000;
/// When the owner's CPU clock is sampled: first, and then again and again. A
/// sample costs a system call, and takes the lock of the owner's run queue.
const FIRST_SAMPLE_NS: u64 = 2_000;
const NEXT_SAMPLE_NS: u64 = 4_000;

/// What a thread remembers of its spin.
struct Spin {
    began: Cell<u64>,
    looked: Cell<u64>,
    /// `TOOK` when the period was measured.
    took: Cell<u32>,
    spins: Cell<u32>,
    pace: Cell<Look>,
    stage: Cell<Stage>,
    stamp: Cell<u64>,
    handover: Cell<u64>,
    period: Cell<u64>,
    /// The task whose CPU clock is sampled.
    target: Cell<u32>,
    /// When to sample it next, in cycles.
    sample_at: Cell<u64>,
    /// When it should have arrived, if it was just woken, in cycles.
    arrived_by: Cell<u64>,
    /// The last sample, in nanoseconds of its CPU time.
    sample: Cell<Option<u64>>,
}

/// How long an owner may take from its wake-up to its CPU.
const ARRIVAL_NS: u64 = 15_000;
const SAMPLED_SPINS: u32 = 16;
const HANDOVER_MAX_NS: u64 = 200;
const PERIOD_MAX_NS: u64 = 5_000;
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Off,
    Waiting,
    Holding,
}
/// How long they keep off, in comings and goings of such a thread, and at least.
const BATCH: u64 = 30;
const BATCH_MIN_NS: u64 = 3_000;

thread_local! {
    /// Locks taken.
    static TOOK: Cell<u32> = const { Cell::new(0) };
    static SPIN: Spin = const {
        Spin {
            began: Cell::new(0),
            looked: Cell::new(0),
            took: Cell::new(0),
            spins: Cell::new(0),
            pace: Cell::new(Look::Poll),
            stage: Cell::new(Stage::Off),
            stamp: Cell::new(0),
            handover: Cell::new(0),
            period: Cell::new(0),
            target: Cell::new(0),
            sample_at: Cell::new(0),
            arrived_by: Cell::new(0),
            sample: Cell::new(None),
        }
    };
}

/// Whether there is more than one CPU to run on.
static PARALLEL: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1));

pub fn begin() {
    SPIN.with(|spin| {
        let now = arch::cycles();
        spin.began.set(now);
        spin.looked.set(now);
        spin.target.set(0);
    });
    tasks::record(tasks::me())
        .cpu
        .store(here(), Ordering::Relaxed); // a hint
}

#[inline(always)]
pub fn took() {
    TOOK.set(TOOK.get().wrapping_add(1));
}

pub fn pace() -> Look {
    SPIN.with(|spin| {
        if spin.stage.get() == Stage::Holding {
            learn(spin);
        }
        let spins = spin.spins.get().wrapping_add(1);
        spin.spins.set(spins);
        if spin.pace.get() != Look::Poll || spins.is_multiple_of(SAMPLED_SPINS) {
            spin.stage.set(Stage::Waiting);
            spin.stamp.set(arch::cycles());
        }
        spin.pace.get()
    })
}

/// A spinner took its lock.
pub fn acquired() {
    SPIN.with(|spin| {
        if spin.stage.get() == Stage::Waiting {
            let now = arch::cycles();
            let wait = now.wrapping_sub(spin.stamp.replace(now));
            if spin.pace.get() == Look::Poll {
                smooth(&spin.handover, wait, HANDOVER_MAX_NS);
            }
            spin.took.set(TOOK.get());
            spin.stage.set(Stage::Holding);
        }
    });
}

/// The thread is back: from its period and the time that a hand-over takes,
/// chooses how its next spins look.
#[cold]
fn learn(spin: &Spin) {
    spin.stage.set(Stage::Off);
    let away = arch::cycles().wrapping_sub(spin.stamp.get());
    let times = TOOK.get().wrapping_sub(spin.took.get()) + 1;
    let period = smooth(&spin.period, away / u64::from(times), PERIOD_MAX_NS);
    let handover = spin.handover.get();
    let batch = match spin.pace.get() {
        // While it polls, each period contains a hand-over.
        Look::Poll => period < handover,
        _ => 2 * period < handover,
    };
    spin.pace.set(if batch {
        let batch = clock::ns_in_cycles(period) * BATCH;
        Look::Every(batch.max(BATCH_MIN_NS) as u32)
    } else {
        Look::Poll
    });
}

/// A running mean over about four samples, none of them counted as longer than
/// `max_ns`: a sample may contain an interruption.
fn smooth(mean: &Cell<u64>, sample: u64, max_ns: u64) -> u64 {
    let sample = sample.min(clock::cycles_in_ns(max_ns));
    mean.set((3 * mean.get() + sample) / 4);
    mean.get()
}

/// Lets other threads run. What that takes is no sign that the caller should
/// stop spinning.
pub fn let_run() {
    std::thread::yield_now();
    SPIN.with(|spin| {
        spin.looked.set(arch::cycles());
        spin.target.set(0);
    });
}

pub fn need_resched() -> bool {
    SPIN.with(|spin| {
        let now = arch::cycles();
        let jump = now.wrapping_sub(spin.looked.replace(now));
        let spent = now.wrapping_sub(spin.began.get());
        !*PARALLEL || jump > clock::cycles_in_ns(JUMP_NS) || spent > clock::cycles_in_ns(BUDGET_NS)
    })
}

pub fn until(
    word: &AtomicU32,
    order: Ordering,
    look: Look,
    mut done: impl FnMut(u32) -> bool,
    mut stop: impl FnMut() -> bool,
) -> Option<u32> {
    let pauses = match look {
        Look::Every(ns) => (u64::from(ns) * 1000 / clock::rates().pause_ps).max(1),
        Look::Poll | Look::Event => 1,
    };
    loop {
        let value = word.load(order);
        if done(value) {
            return Some(value);
        }
        if stop() {
            return None;
        }
        if look == Look::Event && arch::wait_for_event(word, value) {
            continue;
        }
        for _ in 0..pauses {
            hint::spin_loop();
        }
    }
}

/// Two samples of a thread's CPU clock that agree say that it did not run in
/// between. Before there are two, nothing is known.
pub fn running(task: TaskId) -> Running {
    let record = tasks::record(task);
    let tid = record.tid.load(Ordering::Relaxed); // a hint
    if tid == 0 {
        return Running::No;
    }
    SPIN.with(|spin| {
        let now = arch::cycles();
        if spin.target.replace(task.number()) != task.number() {
            let shares_my_cpu = record.cpu.load(Ordering::Relaxed) == here(); // a hint
            let wait = if shares_my_cpu { 0 } else { FIRST_SAMPLE_NS };
            spin.sample.set(None);
            spin.arrived_by.set(now + clock::cycles_in_ns(ARRIVAL_NS));
            spin.sample_at.set(now + clock::cycles_in_ns(wait));
            return Running::Unknown;
        }
        if now < spin.sample_at.get() {
            return Running::Unknown;
        }
        if park::is_arriving(&record.parker) && now < spin.arrived_by.get() {
            return Running::Unknown;
        }
        let Some(sample) = cpu_time_ns(tid) else {
            return Running::No; // the thread has ended
        };
        let before = spin.sample.replace(Some(sample));
        let wait = if before.is_none() {
            FIRST_SAMPLE_NS
        } else {
            NEXT_SAMPLE_NS
        };
        spin.sample_at
            .set(arch::cycles() + clock::cycles_in_ns(wait));
        match before {
            None => Running::Unknown,
            Some(before) if before == sample => Running::No,
            Some(_) => Running::Yes,
        }
    })
}

/// The CPU time of a thread of this process, or `None` if there is no such
/// thread. Needs no privilege.
fn cpu_time_ns(tid: u32) -> Option<u64> {
    /// The kernel's encoding: a thread's clock (4) of scheduled time (2).
    const THREAD_SCHED: i32 = 4 | 2;
    let clock = (!(tid as i32)) << 3 | THREAD_SCHED;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable for the duration of the call.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The CPU that the caller is on, plus 1.
fn here() -> u32 {
    // SAFETY: sched_getcpu has no conditions.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu + 1).unwrap_or(0)
}
