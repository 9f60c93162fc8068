//! The look before a waiter sleeps.
//!
//! It saves two system calls and a wake-up where the answer comes within a microsecond, and
//! where it comes later it is in vain each time. So a task that has looked in vain twice on
//! end goes without a look in its next wait, and if that is in vain again in the next 3, 7,
//! and so on to 63; when a look was worth it, it looks in each wait again.

use crate::platform::{Look, Ordering::Relaxed, Platform, Word};

/// Looks before a waiter sleeps: a microsecond, or three where the processor pauses for long;
/// less than it takes to be woken. Of 40, which take 0.6 microseconds where a pause takes 10 ns,
/// up to a quarter were in vain for waiters that came 0.3 microseconds before their waker
/// (`looks.jsonl` in benches/runs/futex-2cpu-xeon-480mib).
const LOOKS: u32 = 64;

/// So many times a task goes without at most.
const MOST: u32 = 63;

/// What a task remembers of its looks; it alone uses this.
pub(crate) struct Glances<P: Platform> {
    /// In so many of its next waits it does not look.
    left_out: P::U32,
    /// In so many, when the next look is in vain.
    to_leave_out: P::U32,
}

impl<P: Platform> Glances<P> {
    pub(crate) const fn new() -> Self {
        Self {
            left_out: P::U32::ZERO,
            to_leave_out: P::U32::ZERO,
        }
    }
}

impl<P: Platform> Glances<P> {
    /// Whether the task's next [`glance`] is to look.
    #[inline(always)]
    pub(super) fn will_look(&self) -> bool {
        self.left_out.load(Relaxed) == 0 // the task's own
    }
}

/// Looks at the word whether it is `done`, if that may be worth it. A hint: what was seen is
/// not acquired.
#[inline]
pub(super) fn glance<P: Platform>(
    mine: &Glances<P>,
    word: &P::U32,
    done: impl FnMut(u32) -> bool,
) -> bool {
    let left = mine.left_out.load(Relaxed); // the task's own
    if left == 0 {
        return look(mine, word, done);
    }
    mine.left_out.store(left - 1, Relaxed); // likewise
    false
}

fn look<P: Platform>(mine: &Glances<P>, word: &P::U32, done: impl FnMut(u32) -> bool) -> bool {
    // Relaxed: they are the task's own.
    let Glances {
        left_out,
        to_leave_out,
    } = mine;
    P::spin_begin();
    let seen = P::spin_until(word, Relaxed, Look::Poll, LOOKS, done, P::need_resched);
    if seen.is_some() {
        to_leave_out.store(0, Relaxed);
    } else {
        let leave_out = to_leave_out.load(Relaxed);
        left_out.store(leave_out, Relaxed);
        to_leave_out.store((2 * leave_out + 1).min(MOST), Relaxed);
    }
    seen.is_some()
}
