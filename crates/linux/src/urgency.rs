//! Whether a thread has a priority to lend, and how it waits for that.

use std::cell::Cell;

use crate::{clock, errno, tasks};

thread_local! {
    /// No destructor: it can be read as long as the thread runs.
    pub static URGENCY: Urgency = const { Urgency::new() };
}

/// What a thread knows of its own priority.
pub struct Urgency {
    /// Whether it was scheduled by a real-time policy when it last asked, if it has.
    urgent: Cell<Option<bool>>,
    /// How many times it will not spin, and has not after it last did in vain.
    unspun: Cell<u32>,
    pause: Cell<u32>,
    /// Its rank among those that wait, and until when it need not ask for that again: for so
    /// many cycles from the first number on, the second.
    rank: Cell<(u64, u64, u32)>,
}

/// How many times a thread with a priority to lend does not spin, at first and after it has
/// in vain, twice as many each time, up to the second: to know that the owner does not run
/// takes longer than to go to the kernel.
const UNSPUN: u32 = 15;
const UNSPUN_AT_MOST: u32 = 1023;

impl Urgency {
    const fn new() -> Self {
        Self {
            urgent: Cell::new(None),
            unspun: Cell::new(UNSPUN),
            pause: Cell::new(UNSPUN),
            rank: Cell::new((0, 0, 0)),
        }
    }

    /// Whether the thread was scheduled by a real-time policy when it last asked: now, if it
    /// never has.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.urgent.get().unwrap_or_else(|| self.ask())
    }

    /// Whether the thread is scheduled by a real-time policy. While it is, no lock stays
    /// reserved for it: to revoke that would take another such thread a `membarrier`.
    pub fn ask(&self) -> bool {
        const DEADLINE: i32 = 6;
        // SAFETY: it reads the calling thread's policy, and touches no memory.
        let policy = errno::kept(|| unsafe { libc::sched_getscheduler(0) });
        let urgent = matches!(
            policy & !libc::SCHED_RESET_ON_FORK,
            libc::SCHED_FIFO | libc::SCHED_RR | DEADLINE
        );
        if self.urgent.replace(Some(urgent)).unwrap_or(false) != urgent {
            if urgent {
                tasks::keeper().begin(false);
            } else {
                tasks::begin_to_keep();
            }
        }
        urgent
    }

    /// A spin of the thread ended, with the lock or with an owner that did not run.
    pub fn spun(&self, well: bool) {
        let pause = match well {
            true => 0,
            false => (2 * self.pause.get() + 1).clamp(UNSPUN, UNSPUN_AT_MOST),
        };
        self.pause.set(pause);
        self.unspun.set(pause);
    }

    /// Whether a spin would likely be in vain.
    pub fn expects_nothing(&self) -> bool {
        let left = self.unspun.get();
        self.unspun.set(left.saturating_sub(1));
        left > 0
    }

    #[cold]
    fn ask_rank(&self) -> u32 {
        const FRESH_MICROS: u32 = 10_000;
        let rank = if self.ask() { Self::priority() } else { 0 };
        let fresh = clock::cycles_in_micros(FRESH_MICROS);
        self.rank.set((clock::cycles(), fresh, rank));
        rank
    }

    /// That of the calling thread, which is scheduled by a real-time policy.
    fn priority() -> u32 {
        const BEYOND: u32 = 100;
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: it writes the calling thread's parameters to `parameters`, which is a
        // valid `sched_param`, and keeps no pointer to it.
        errno::kept(|| unsafe { libc::sched_getparam(0, &raw mut parameters) });
        match parameters.sched_priority {
            priority @ 1.. => priority.cast_unsigned(),
            _ => BEYOND,
        }
    }
}

/// The calling thread's rank among those that wait: its real-time priority, 0 if it has
/// none, and beyond all for who has a deadline to keep. As it was 10 ms ago or later: to
/// ask takes a system call.
#[inline]
pub fn rank() -> u32 {
    let (asked, fresh, rank) = URGENCY.with(|mine| mine.rank.get());
    // A CPU whose counter is a little behind the one on which it asked has it ask again.
    if clock::cycles().wrapping_sub(asked) < fresh {
        return rank;
    }
    URGENCY.with(Urgency::ask_rank)
}
