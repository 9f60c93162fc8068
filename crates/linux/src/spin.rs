//! Spinning, and knowing when to stop.

use std::{
    cell::Cell,
    hint,
    num::NonZero,
    sync::atomic::{AtomicU32, Ordering},
};

use lockyard_core::{FOREVER, Look, Running, TaskId};
use once_cell::race::OnceNonZeroUsize;
use rustix::thread::{Pid, sched_getaffinity};

use crate::{arch, clock, errno, pace, park, tasks};

/// How long a thread spins at a stretch. Longer than an overdue waiter waits
/// for its turn, so that it seldom sleeps just before; and some thirty times
/// what it costs to sleep and be woken.
const BUDGET_NS: u64 = 600_000;

/// Of so many looks that poll, one asks whether to stop: what that takes, some 50 ns, is
/// time in which a release is not seen, nor the lock taken before its owner is back.
const ASKED: u32 = 8;

/// A gap between two looks that says that the spinner was descheduled.
const JUMP_NS: u64 = 50_000;

/// When the owner's CPU clock is sampled: first, and then again and again. A
/// sample costs a system call, and takes the lock of the owner's run queue.
const FIRST_SAMPLE_NS: u64 = 2_000;
const NEXT_SAMPLE_NS: u64 = 4_000;
/// Between the first two, for a thread whose priority the owner may lack.
const HURRIED_NS: u64 = 500;

/// How long an owner may take from its wake-up to its CPU.
const ARRIVAL_NS: u64 = 15_000;

/// What a thread remembers of its spin. Times are in cycles.
struct Spin {
    began: Cell<u64>,
    looked: Cell<u64>,
    /// The task whose CPU clock is sampled.
    target: Cell<u32>,
    /// When to sample it next.
    sample_at: Cell<u64>,
    /// When it should have arrived, if it was just woken.
    arrived_by: Cell<u64>,
    /// The last sample, in nanoseconds of its CPU time.
    sample: Cell<Option<u64>>,
}

thread_local! {
    static SPIN: Spin = const {
        Spin {
            began: Cell::new(0),
            looked: Cell::new(0),
            target: Cell::new(0),
            sample_at: Cell::new(0),
            arrived_by: Cell::new(0),
            sample: Cell::new(None),
        }
    };
}

/// How many CPUs the process has to run on: its first thread, that is, for the one that asks
/// may be bound to a single one.
pub fn cpus() -> usize {
    static CPUS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let count = || {
        let process = Pid::from_raw(std::process::id().cast_signed());
        let cpus = sched_getaffinity(process).map_or(1, |cpus| cpus.count() as usize);
        NonZero::new(cpus).unwrap_or(NonZero::<usize>::MIN)
    };
    CPUS.get_or_init(count).get()
}

pub fn begin() {
    SPIN.with(|spin| {
        let now = arch::cycles();
        spin.began.set(now);
        spin.looked.set(now);
        spin.target.set(0);
    });
}

pub fn need_resched() -> bool {
    SPIN.with(|spin| {
        let now = arch::cycles();
        let jump = now.wrapping_sub(spin.looked.replace(now));
        let spent = now.wrapping_sub(spin.began.get());
        cpus() == 1 || jump > clock::cycles_in_ns(JUMP_NS) || spent > clock::cycles_in_ns(BUDGET_NS)
    })
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

#[inline]
pub fn until(
    word: &AtomicU32,
    order: Ordering,
    look: Look,
    looks: u32,
    mut done: impl FnMut(u32) -> bool,
    mut stop: impl FnMut() -> bool,
) -> Option<u32> {
    let timed = pace::is_timed(look);
    let mut before = None;
    let mut taken = 0;
    loop {
        let value = match before {
            Some(before) if timed => pace::load(word, order, before),
            _ => word.load(order),
        };
        before = Some(value);
        if done(value) {
            return Some(value);
        }
        let asks = look != Look::Poll || taken % ASKED == 0;
        taken = taken.wrapping_add(1);
        if looks != FOREVER && taken >= looks || asks && stop() {
            return None;
        }
        if look == Look::Event && arch::wait_for_event(word, value) {
            continue;
        }
        if let Look::Every(ns) = look {
            pause_for(ns);
        } else {
            hint::spin_loop();
        }
    }
}

/// Pauses by the clock, so that one that was descheduled meanwhile looks at once.
#[cold]
fn pause_for(ns: u32) {
    let (began, length) = (arch::cycles(), clock::cycles_in_ns(u64::from(ns)));
    while arch::cycles().wrapping_sub(began) < length {
        hint::spin_loop();
    }
}

/// A thread that was last on the caller's CPU does not run. Of one elsewhere, two samples
/// of its CPU clock that agree say that it did not run in between. Before there are two,
/// nothing is known; who is `hurried` takes them at once.
pub fn running(task: TaskId, hurried: bool) -> Running {
    let record = tasks::record(task);
    let tid = record.entry.thread.load(Ordering::Relaxed); // a hint
    if tid == 0 {
        return Running::No;
    }
    SPIN.with(|spin| {
        let now = arch::cycles();
        let before = spin.target.replace(task.number());
        let first = before != task.number();
        if first {
            let wait = if hurried { 0 } else { FIRST_SAMPLE_NS };
            spin.sample.set(None);
            spin.sample_at.set(now + clock::cycles_in_ns(wait));
            spin.arrived_by.set(now + clock::cycles_in_ns(ARRIVAL_NS));
        }
        // Who took another's place while I ran is not on my CPU, nor need be asked for.
        let due = if first {
            before == 0
        } else {
            now >= spin.sample_at.get()
        };
        let arriving = || now < spin.arrived_by.get() && park::is_arriving(&record.parker);
        if !due || arriving() {
            return Running::Unknown;
        }
        if record.whereabouts.is_here() {
            return Running::No;
        }
        if first {
            return Running::Unknown;
        }
        let Some(sample) = cpu_time_ns(tid) else {
            return Running::No; // the thread has ended
        };
        let before = spin.sample.replace(Some(sample));
        let wait = match before {
            None if hurried => HURRIED_NS,
            None => FIRST_SAMPLE_NS,
            Some(_) => NEXT_SAMPLE_NS,
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
    let failed = errno::kept(|| unsafe { libc::clock_gettime(clock, &raw mut time) }) != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
