//! By what a task earns a reservation: a *streak*, of acquisitions of a lock with none of another of
//! the same slot between.
//!
//! To note each acquisition costs a task that goes round over many locks, and earns nothing by it,
//! a sixth of what the locks cost. So one in 61 is *seen*, and counts for as many. That is no proof:
//! of two locks of a slot that a task takes at random, one may be seen again and again, and a
//! reservation that only every second acquisition finds costs more than none. So before a streak
//! ends all are seen, for a while, and the time is taken; as are those of the lock that the task
//! has waited for last, at first, as that one is likely lost soon.

use core::cell::Cell;

use super::{INSPECTS, Keeper, SAMPLED, slot};

/// A reservation saves some nanoseconds an acquisition: only a task that comes
/// back sooner than this, in nanoseconds and on average, gains by one.
pub(super) const SOON: u64 = 500;

/// Acquisitions in a row that earn a reservation of a lock that the task has waited for, at first
/// and at most. The last are all seen.
pub(super) const EARNS: u32 = 64;
const EARNS_AT_MOST: u32 = 1 << 16;
pub(super) const LAST: u32 = 56;

/// Another must have been seen so many times in a row before the last, after the first time. Of two
/// locks of one slot that a task takes at random, that happens seldom.
pub(super) const SEEN: u32 = 4;

/// With the acquisitions that are left until the last.
const EARLY: u32 = 1 << 31;

/// So many in a row are all seen at most: enough for the last of one of sixteen locks that a task goes
/// round over.
pub(super) const ALL_AT_MOST: u32 = 1 << 10;

/// Acquisitions that pay for a revocation: some microseconds, at some
/// nanoseconds each.
pub(super) const PAYS: u32 = 1 << 10;

/// Aligned so that it lies in one cache line.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Streak {
    /// 0 when there is none, or when it has earned the reservation.
    pub(super) lock: Cell<usize>,
    /// Acquisitions until the last, with [`EARLY`], or until it has earned a reservation.
    left: Cell<u32>,
    /// What `took` was when it had earned one.
    earned: Cell<u32>,
    /// When the last began, in nanoseconds.
    began: Cell<u64>,
    /// How long it must be to earn a reservation, less [`EARNS`].
    more: Cell<u32>,
}

impl Streak {
    pub(super) const fn new() -> Self {
        Self {
            lock: Cell::new(0),
            left: Cell::new(0),
            earned: Cell::new(0),
            began: Cell::new(0),
            more: Cell::new(0),
        }
    }

    /// Whether all of its acquisitions are seen from now on.
    fn is_last(&self) -> bool {
        self.lock.get() != 0 && self.left.get() & EARLY == 0
    }
}

impl Keeper {
    /// [`Platform::took`](crate::Platform::took), at a time in nanoseconds.
    #[inline(always)]
    pub fn takes(&self, lock: Option<usize>, now: impl Fn() -> u64) {
        match lock {
            Some(lock) if self.keeps(lock) => self.lost(lock),
            Some(lock) if self.takes_one() || self.waited(lock) => self.saw(lock, now),
            None if self.takes_one() => self.sees_none(),
            _ => (),
        }
    }

    /// The task has taken the lock another way than by the reservation that it had.
    #[cold]
    #[inline(never)]
    fn lost(&self, lock: usize) {
        self.takes_one();
        self.revoked(slot(lock));
        self.begins(lock, SEEN * SAMPLED);
    }

    /// [`Platform::sees`](crate::Platform::sees), at a time in nanoseconds.
    #[inline(always)]
    pub fn sees(&self, lock: usize, now: impl Fn() -> u64) -> bool {
        let (is_due, all) = (self.is_due(), self.is_all());
        if self.keeps(lock) {
            self.goes_on(INSPECTS);
            return is_due;
        }
        let many = if all || self.waited(lock) { 1 } else { SAMPLED };
        self.notes(lock, many, now);
        self.goes_on(SAMPLED);
        is_due && !all && (self.took() / SAMPLED).is_multiple_of(INSPECTS / SAMPLED)
    }

    /// Of its own, so that what stands in the code of who locks is small.
    #[cold]
    #[inline(never)]
    fn saw(&self, lock: usize, now: impl Fn() -> u64) {
        self.sees(lock, now);
    }

    /// The task has taken the lock, once or so many times.
    #[inline(always)]
    fn notes(&self, lock: usize, many: u32, now: impl Fn() -> u64) {
        let Streak {
            lock: last, left, ..
        } = &self.streaks[slot(lock)];
        if last.get() != lock {
            self.begins(lock, SEEN * SAMPLED);
        } else if left.get() & EARLY != 0 {
            self.lasts(lock, many, now);
        } else if left.get() > many {
            left.set(left.get() - many);
        } else {
            self.ends(lock, many, now());
        }
    }

    /// The task has taken a lock that it never has reserved, and that is seen.
    #[cold]
    fn sees_none(&self) {
        self.is_all();
        self.goes_on(SAMPLED);
    }

    /// Whether this acquisition is one of those that are all seen.
    #[inline(always)]
    fn is_all(&self) -> bool {
        let all = self.all.get();
        all > 0 && {
            self.one_less(all);
            true
        }
    }

    /// Of those that are all seen so many are left with this one; the streaks end that have lasted
    /// longer.
    #[cold]
    #[inline(never)]
    fn one_less(&self, all: u32) {
        self.all.set(all - 1);
        if all == 1 {
            let last = self.streaks.iter().filter(|streak| streak.is_last());
            last.for_each(|streak| streak.lock.set(0));
        }
    }

    /// The next that is seen is after so many, if not all are.
    #[inline(always)]
    fn goes_on(&self, after: u32) {
        let all = self.all.get() > 0;
        if all || self.is_due() {
            let (left, took) = (if all { 0 } else { after - 1 }, self.took());
            self.left.set(left.cast_signed());
            self.until.set(took.wrapping_add(left));
        }
    }

    /// A streak of the lock begins, with so many early acquisitions at least, and ends another.
    #[cold]
    #[inline(never)]
    fn begins(&self, lock: usize, early: u32) {
        let streak = &self.streaks[slot(lock)];
        let was_last = streak.is_last();
        streak.lock.set(lock);
        streak.left.set(EARLY | (early + streak.more.get()));
        if was_last {
            self.ends_all();
        }
    }

    /// So many more of the early acquisitions.
    fn lasts(&self, lock: usize, many: u32, now: impl Fn() -> u64) {
        let Streak {
            left, began, more, ..
        } = &self.streaks[slot(lock)];
        let fewer = (left.get() & !EARLY).saturating_sub(many);
        if self.waited(lock) && fewer <= more.get() {
            self.waited.set(0);
        }
        if fewer > 0 {
            left.set(EARLY | fewer);
        } else if self.keeps.get() {
            left.set(LAST);
            began.set(now());
            if self.all.get() == 0 {
                self.all.set(ALL_AT_MOST);
            }
        } else {
            self.begins(lock, SEEN * SAMPLED);
        }
    }

    /// The last one: it earns a reservation if all were seen, and they were quick enough.
    #[cold]
    #[inline(never)]
    fn ends(&self, lock: usize, many: u32, now: u64) {
        let slot = slot(lock);
        let streak = &self.streaks[slot];
        let took = now.saturating_sub(streak.began.get());
        if many == 1 && took <= u64::from(LAST) * SOON {
            self.count(slot);
            self.forget(slot);
            self.kept[slot].set(lock);
            streak.earned.set(self.took());
            self.ends_all();
        } else {
            self.begins(lock, SEEN * SAMPLED);
        }
    }

    /// All acquisitions need not be seen any more, unless another streak is to end.
    fn ends_all(&self) {
        if !self.streaks.iter().any(Streak::is_last) {
            self.all.set(0);
        }
    }

    /// [`Platform::waits`](crate::Platform::waits).
    #[inline]
    pub fn waits(&self, lock: usize) {
        self.waited.set(lock);
        let slot = slot(lock);
        if self.keeps(lock) {
            self.revoked(slot);
        } else if self.streaks[slot].lock.get() == lock {
            // Else what is dearer than a turn is long would never be earned again. A
            // streak that is shorter than any that earns one says that another comes often.
            let Streak { left, more, .. } = &self.streaks[slot];
            let early = EARNS - LAST + more.get();
            let whole = match left.get() & EARLY {
                0 => early + LAST,
                _ => early,
            };
            let length = whole.saturating_sub(left.get() & !EARLY);
            more.set(more.get().saturating_sub(length / EARNS));
        }
        self.begins(lock, EARNS - LAST + 1); // the acquisition that it waits for
    }

    /// Another task has taken the lock that was reserved.
    #[cold]
    pub(super) fn revoked(&self, slot: usize) {
        let Streak { earned, more, .. } = &self.streaks[slot];
        let paid = self.took().wrapping_sub(earned.get()) >= PAYS;
        more.set(match paid {
            true => 0,
            false => (8 * more.get() + 7 * EARNS).min(EARNS_AT_MOST),
        });
        self.forget(slot);
    }
}
