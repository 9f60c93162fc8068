//! What a thread knows of itself as an owner of locks whose word the kernel reads: how
//! many it has, and whether it has a priority to lend.

use std::cell::Cell;

use lockyard_core::Platform;

use crate::{Linux, clock, spin};

thread_local! {
    /// No destructor: it can be read as long as the thread runs.
    pub static HOLDS: Holds = const { Holds::new() };
}

/// The locks of a thread, and how it waits for more.
///
/// Most threads are scheduled fairly and have one such lock at a time. What that costs
/// them is a branch that goes the same way each time; each change of a count would have
/// to wait for the one before.
pub struct Holds {
    /// For a thread that is scheduled fairly, the address of a lock that it has, or 0;
    /// for the others, [`URGENT`].
    one: Cell<usize>,
    /// How many it has besides.
    more: Cell<u32>,
    /// How many times it will not spin, having spun in vain.
    unspun: Cell<u32>,
    /// Its rank among those that wait, and when it asked for that.
    rank: Cell<Option<(u32, u32)>>,
}

/// The thread was scheduled by a real-time policy when it last asked. No lock's address.
const URGENT: usize = 1;

/// How many times a thread with a priority to lend does not spin after it has in vain: to
/// know that the owner does not run takes as long as to go to the kernel.
const UNSPUN: u32 = 15;

impl Holds {
    const fn new() -> Self {
        Self {
            one: Cell::new(0),
            more: Cell::new(0),
            unspun: Cell::new(0),
            rank: Cell::new(None),
        }
    }

    /// The thread took a lock.
    #[inline(always)]
    pub fn took(&self, lock: usize) {
        if self.one.get() == 0 {
            self.one.set(lock);
        } else {
            self.took_more();
        }
    }

    #[cold]
    #[inline(never)]
    fn took_more(&self) {
        self.more.set(self.more.get() + 1);
        if self.is_urgent() {
            spin::say_where();
        }
    }

    /// The thread released a lock.
    #[inline(always)]
    pub fn released(&self, lock: usize) {
        if self.one.get() == lock {
            self.one.set(0);
        } else {
            self.released_more();
        }
    }

    #[cold]
    #[inline(never)]
    fn released_more(&self) {
        self.more.set(self.more.get() - 1);
    }

    /// Whether the thread has any lock.
    pub fn has_any(&self) -> bool {
        self.one.get() > URGENT || self.more.get() > 0
    }

    /// The thread has no locks.
    pub fn forget(&self) {
        self.one.set(self.one.get() & URGENT);
        self.more.set(0);
    }

    /// Whether the thread was scheduled by a real-time policy when it last asked.
    pub fn is_urgent(&self) -> bool {
        self.one.get() == URGENT
    }

    /// Whether the thread is scheduled by a real-time policy.
    pub fn ask_urgent(&self) -> bool {
        const DEADLINE: i32 = 6;
        // SAFETY: it reads the calling thread's policy, and touches no memory.
        let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        let urgent = matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR | DEADLINE);
        if urgent != self.is_urgent() {
            let had_one = self.one.replace(if urgent { URGENT } else { 0 }) > URGENT;
            self.more.set(self.more.get() + u32::from(had_one));
        }
        urgent
    }

    /// A spin of the thread ended, with the lock or with an owner that did not run.
    pub fn spun(&self, well: bool) {
        self.unspun.set(if well { 0 } else { UNSPUN });
    }

    /// Whether a spin would likely be in vain.
    pub fn expects_nothing(&self) -> bool {
        let left = self.unspun.get();
        self.unspun.set(left.saturating_sub(1));
        left > 0
    }

    fn ask_rank(&self) -> u32 {
        const BEYOND: u32 = 100;
        if !self.ask_urgent() {
            return 0;
        }
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: it writes the calling thread's parameters to `parameters`, which is a
        // valid `sched_param`, and keeps no pointer to it.
        unsafe { libc::sched_getparam(0, &raw mut parameters) };
        match parameters.sched_priority {
            priority @ 1.. => priority.cast_unsigned(),
            _ => BEYOND,
        }
    }
}

/// The calling thread's rank among those that wait: its real-time priority, 0 if it has
/// none, and beyond all for who has a deadline to keep. As it was 10 ms ago or later: to
/// ask takes a system call.
pub fn rank() -> u32 {
    const FRESH_MICROS: u32 = 10_000;
    HOLDS.with(|holds| match holds.rank.get() {
        Some((asked, rank)) if !Linux::elapsed(asked, FRESH_MICROS) => rank,
        _ => {
            let rank = holds.ask_rank();
            holds.rank.set(Some((clock::stamp(), rank)));
            rank
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In whatever order, and whatever becomes of its priority meanwhile.
    #[test]
    fn a_thread_knows_whether_it_has_a_lock() {
        let holds = Holds::new();
        assert!(!holds.has_any());
        holds.took(16);
        holds.took(32);
        holds.released(16);
        assert!(holds.has_any());
        holds.took(48);
        holds.one.set(URGENT); // as if a real-time policy had come
        holds.more.set(2);
        holds.ask_urgent(); // and gone, unless the test has one
        holds.released(48);
        assert!(holds.has_any());
        holds.released(32);
        assert!(!holds.has_any());
        holds.took(16);
        holds.forget();
        assert!(!holds.has_any());
    }
}
