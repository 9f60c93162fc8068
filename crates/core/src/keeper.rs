//! Which locks a task has reserved for it: a world's answers to
//! [`Platform::keeps`](crate::Platform::keeps) and
//! [`Platform::retook`](crate::Platform::retook).
//!
//! A lock that a task takes again and again, without ever waiting for it, stays
//! reserved for the task: it then takes the lock without an atomic
//! read-modify-write. Another that wants it must revoke the reservation, at the
//! price of a [`Platform::quiesce`](crate::Platform::quiesce), or of a slow unlock
//! when it asks for the lock. So a reservation has to be earned; and when one was
//! revoked or given up before it had paid for that, the next must be earned by eight
//! times as many acquisitions.
//!
//! The answers are hints: the lock's own word says whose it is.

mod streak;

use core::cell::Cell;

use self::streak::Streak;

/// Locks that a task can have reserved at a time: it remembers them by their
/// address, and one of the same slot makes it forget another.
const SLOTS: usize = 16;

/// The multiples of this from 1 to 16 are addresses with slots of their own.
pub const GRAIN: usize = 16;

/// One in so many acquisitions is *seen* (`keeper/streak.rs`), and one in so many reads pays for a
/// look whether the lock had best be biased. A prime: of several locks that a task goes round over,
/// each has its turn.
const SAMPLED: u32 = 61;
const UNSEEN: i32 = SAMPLED.cast_signed() - 1;

/// Acquisitions after which an owner looks after the first waiter, or about that: half a millisecond
/// of a task that comes back every two microseconds, far less than a slice. Of those by a
/// reservation none is seen before. A prime, likewise.
const INSPECTS: u32 = 251;

/// What a task remembers of the locks it takes.
#[derive(Debug)]
pub struct Keeper {
    /// Acquisitions until the next that is seen, less one; negative if that is overdue.
    left: Cell<i32>,
    /// Locks that the task has taken when `left` is 0, wrapping.
    until: Cell<u32>,
    /// The locks that the task has now by which others lend it their priority, but for
    /// those in `kept`.
    held: Cell<u32>,
    /// Of the locks in `kept` those by which others would, a bit each. Whether the task has
    /// them is not noted, which would cost it something each time, but asked.
    lending: Cell<u32>,
    /// Whether the task has a lock of `lending`. Memory may be gone where there was one.
    is_mine: fn(usize) -> bool,
    /// Whether locks may be reserved for the task.
    keeps: Cell<bool>,
    /// The lock that the task waited for last, until it has taken it `EARNS - LAST` times since
    /// without waiting.
    waited: Cell<usize>,
    /// So many from now on are all seen.
    all: Cell<u32>,
    /// The addresses of the locks that are reserved.
    kept: [Cell<usize>; SLOTS],
    streaks: [Streak; SLOTS],
}

impl Keeper {
    /// That of a task that has no lock reserved, and will have none before
    /// [`Keeper::begin`]. `is_mine` is asked, of an address where a lock was by which others
    /// lend their priority, whether there is one still that the task has; `true` if that is
    /// not known.
    pub const fn new(is_mine: fn(usize) -> bool) -> Self {
        Self {
            left: Cell::new(UNSEEN),
            until: Cell::new(UNSEEN.cast_unsigned()),
            held: Cell::new(0),
            lending: Cell::new(0),
            is_mine,
            keeps: Cell::new(false),
            waited: Cell::new(0),
            all: Cell::new(0),
            kept: [const { Cell::new(0) }; SLOTS],
            streaks: [const { Streak::new() }; SLOTS],
        }
    }

    /// From now on locks may be reserved for the task, if it `keeps` any. Those that
    /// were are forgotten.
    pub fn begin(&self, keeps: bool) {
        self.keeps.set(keeps);
        for slot in 0..SLOTS {
            self.count(slot);
            self.forget(slot);
        }
    }

    /// Locks that the task has taken, wrapping.
    #[inline(always)]
    pub fn took(&self) -> u32 {
        self.until
            .get()
            .wrapping_sub(self.left.get().cast_unsigned())
    }

    /// [`Platform::took_unkept`](crate::Platform::took_unkept).
    #[inline(always)]
    pub fn takes_one(&self) -> bool {
        self.left.set(self.left.get().wrapping_sub(1));
        self.is_due()
    }

    /// [`Platform::may_inspect`](crate::Platform::may_inspect).
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.left.get() < 0
    }

    /// Whether the lock that the task has taken last is one of every 61.
    #[inline(always)]
    pub fn is_sampled(&self) -> bool {
        self.left.get() == UNSEEN
    }

    /// [`Platform::keeps`](crate::Platform::keeps).
    #[inline(always)]
    pub fn keeps(&self, lock: usize) -> bool {
        self.kept[slot(lock)].get() == lock
    }

    /// Whether the task has waited for the lock lately, so that others likely look at it now.
    #[inline(always)]
    pub fn waited(&self, lock: usize) -> bool {
        self.waited.get() == lock
    }

    /// [`Platform::retook`](crate::Platform::retook).
    #[inline(always)]
    pub fn retakes(&self) {
        self.takes_one();
    }

    /// [`KernelPi::holds`](crate::KernelPi::holds).
    #[inline]
    pub fn holds(&self, lock: usize) {
        if self.keeps(lock) {
            self.lending.set(self.lending.get() | 1 << slot(lock));
        } else {
            self.holds_unkept();
        }
    }

    /// The same, of a lock that is never reserved.
    #[inline]
    pub fn holds_unkept(&self) {
        add_one(&self.held);
    }

    /// [`KernelPi::lets_go`](crate::KernelPi::lets_go).
    #[inline]
    pub fn lets_go(&self, lock: usize) {
        if !self.keeps(lock) {
            self.lets_go_unkept();
        }
    }

    /// The same, of a lock that is never reserved.
    #[inline]
    pub fn lets_go_unkept(&self) {
        self.held.set(self.held.get().wrapping_sub(1));
    }

    /// Whether the task has a lock by which others lend it their priority.
    pub fn holds_any(&self) -> bool {
        self.held.get() != 0 || (0..SLOTS).any(|slot| self.holds_kept(slot))
    }

    /// It has none of those that it took.
    pub fn holds_none(&self) {
        self.held.set(0);
    }

    /// Whether the task has the lock of this slot, and others lend it their priority by it.
    fn holds_kept(&self, slot: usize) -> bool {
        self.lending.get() & 1 << slot != 0 && (self.is_mine)(self.kept[slot].get())
    }

    /// Before the lock of this slot is forgotten: counts it, if the task has it.
    fn count(&self, slot: usize) {
        if self.holds_kept(slot) {
            add_one(&self.held);
        }
    }

    /// [`Platform::gives_up`](crate::Platform::gives_up).
    #[inline]
    pub fn gives_up(&self, lock: usize) {
        if self.keeps(lock) {
            let slot = slot(lock);
            self.held
                .set(self.held.get() + (self.lending.get() >> slot & 1)); // it has it
            self.revoked(slot);
        }
    }

    fn forget(&self, slot: usize) {
        self.kept[slot].set(0);
        self.lending.set(self.lending.get() & !(1 << slot));
        self.streaks[slot].lock.set(0);
    }
}

#[inline(always)]
fn add_one(count: &Cell<u32>) {
    count.set(count.get().wrapping_add(1));
}

/// By the remainder by 17, a prime, of which two share a slot: of locks in a row, equally far apart,
/// sixteen have at least fifteen slots, unless 17 divides that distance. By their lowest bits those
/// with a cache line each would have four.
#[inline(always)]
const fn slot(lock: usize) -> usize {
    let part = (lock as u32).wrapping_mul(u32::MAX / 17); // of the remainder, of 2^32 for 17
    (part >> (u32::BITS - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::{
        streak::{ALL_AT_MOST, EARNS, LAST, PAYS, SEEN, SOON},
        *,
    };

    const LOCK: usize = 0x1000;
    /// As many of one lock, from the first on, and it is reserved.
    const FIRST: u32 = (1 + SEEN) * SAMPLED + LAST;

    fn keeper() -> Keeper {
        let keeper = Keeper::new(|_| false);
        keeper.begin(true);
        keeper
    }

    fn take(keeper: &Keeper, lock: usize, times: u32) {
        for _ in 0..times {
            if keeper.keeps(lock) {
                keeper.retakes();
            } else {
                keeper.takes(Some(lock), || 0);
            }
        }
    }

    #[test]
    fn a_streak_earns_a_reservation() {
        let keeper = keeper();
        take(&keeper, LOCK, FIRST - 1);
        assert!(!keeper.keeps(LOCK));
        take(&keeper, LOCK, 1);
        assert!(keeper.keeps(LOCK));
        assert!(!keeper.keeps(LOCK + 16));
    }

    #[test]
    fn who_comes_back_late_earns_nothing() {
        for (period, kept) in [(SOON, true), (SOON + 20, false)] {
            let keeper = keeper();
            for time in 0..u64::from(FIRST) {
                keeper.takes(Some(LOCK), || time * period);
            }
            assert_eq!(keeper.keeps(LOCK), kept);
        }
    }

    #[test]
    fn each_of_several_locks_taken_in_turns_is_sampled_and_inspected() {
        for locks in 2..=16 {
            let keeper = keeper();
            let (mut sampled, mut inspected) = ([false; SLOTS], [false; SLOTS]);
            for turn in 0..10 * FIRST as usize * locks {
                let (at, lock) = (turn % locks, LOCK + turn % locks * GRAIN);
                take(&keeper, lock, 1);
                inspected[at] |= keeper.is_due() && keeper.keeps(lock);
                if keeper.is_due() {
                    keeper.sees(lock, || 0);
                }
                sampled[at] |= keeper.is_sampled();
            }
            assert!(sampled[..locks].iter().all(|&is| is));
            assert!(inspected[..locks].iter().all(|&is| is));
        }
    }

    #[test]
    fn one_who_has_waited_inspects_as_often() {
        let keeper = keeper();
        let inspects = (0..10 * INSPECTS).filter(|_| {
            keeper.waits(LOCK);
            keeper.takes_one();
            keeper.sees(LOCK, || 0)
        });
        assert_eq!(inspects.count(), 10);
    }

    #[test]
    fn who_waits_begins_anew() {
        let keeper = keeper();
        take(&keeper, LOCK, FIRST - 1);
        keeper.waits(LOCK);
        take(&keeper, LOCK, EARNS);
        assert!(!keeper.keeps(LOCK));
        take(&keeper, LOCK, 1);
        assert!(keeper.keeps(LOCK), "each has been seen");
    }

    #[test]
    fn that_one_has_waited_is_soon_forgotten() {
        let keeper = keeper();
        take(&keeper, LOCK, 1);
        assert!(!keeper.waited(LOCK));
        keeper.waits(LOCK);
        take(&keeper, LOCK, EARNS - LAST);
        assert!(keeper.waited(LOCK) && !keeper.waited(LOCK + GRAIN));
        take(&keeper, LOCK, 1);
        assert!(!keeper.waited(LOCK));
    }

    #[test]
    fn several_locks_are_kept_at_a_time() {
        for several in 2..=SLOTS {
            let keeper = keeper();
            let locks = || (0..several).map(|lock| LOCK + GRAIN * lock);
            let kept = || locks().filter(|&lock| keeper.keeps(lock)).count();
            for _ in 0..EARNS {
                locks().for_each(|lock| take(&keeper, lock, 1));
            }
            assert_eq!(kept(), 0, "{several}");
            for _ in 0..2 * FIRST {
                locks().for_each(|lock| take(&keeper, lock, 1));
            }
            assert_eq!(kept(), several);
        }
    }

    #[test]
    fn of_two_locks_of_one_slot_none_is_kept() {
        let keeper = keeper();
        let other = (LOCK + GRAIN..)
            .step_by(GRAIN)
            .find(|&lock| slot(lock) == slot(LOCK));
        let mut dice = 1u32;
        for _ in 0..1_000_000 {
            for by in [dice << 13, dice >> 17, dice << 5] {
                dice ^= by;
            }
            take(
                &keeper,
                if dice.is_multiple_of(2) {
                    LOCK
                } else {
                    other.unwrap()
                },
                1,
            );
            assert!(!keeper.keeps(LOCK) && !keeper.keeps(other.unwrap()));
        }
    }

    #[test]
    fn all_are_seen_for_a_while_only() {
        let keeper = keeper();
        take(&keeper, LOCK, FIRST - 1);
        assert_eq!(keeper.left.get(), 0);
        let other = (LOCK + GRAIN..)
            .step_by(GRAIN)
            .find(|&lock| slot(lock) != slot(LOCK));
        for _ in 0..ALL_AT_MOST {
            keeper.takes(other, || u64::from(keeper.took()) * 2 * SOON);
        }
        assert!(keeper.left.get() > 0);
        assert!(!keeper.keeps(LOCK) && !keeper.keeps(other.unwrap()));
    }

    #[test]
    fn locks_in_a_row_have_slots_of_their_own() {
        for base in (0..1 << 32).step_by(0x0765_4320) {
            for distance in (8..=4096).step_by(8).filter(|distance| distance % 17 != 0) {
                let mut used = [false; SLOTS];
                (0..SLOTS).for_each(|lock| used[slot(base + lock * distance)] = true);
                let used = used.iter().filter(|&&used| used).count();
                assert!(used >= SLOTS - 1, "{base:x}, {distance}: {used}");
            }
        }
    }

    #[test]
    fn a_revocation_that_was_not_paid_for_makes_the_next_dearer() {
        let keeper = keeper();
        take(&keeper, LOCK, FIRST);
        keeper.waits(LOCK); // another has it
        take(&keeper, LOCK, EARNS + 1);
        assert!(!keeper.keeps(LOCK));
        take(&keeper, LOCK, 8 * EARNS);
        assert!(keeper.keeps(LOCK));
        take(&keeper, LOCK, PAYS);
        keeper.takes(Some(LOCK), || 0); // another had it
        assert!(!keeper.keeps(LOCK));
        take(&keeper, LOCK, FIRST);
        assert!(keeper.keeps(LOCK), "it had paid");
    }

    #[test]
    fn a_price_that_cannot_be_paid_falls() {
        let keeper = keeper();
        let mut turns = 0;
        for _ in 0..4 {
            while !keeper.keeps(LOCK) {
                take(&keeper, LOCK, 1);
            }
            keeper.waits(LOCK); // another has it
        }
        while !keeper.keeps(LOCK) {
            take(&keeper, LOCK, 8 * EARNS);
            if !keeper.keeps(LOCK) {
                keeper.waits(LOCK);
            }
            turns += 1;
        }
        assert!((1_000..10_000).contains(&turns), "{turns}");
    }

    #[test]
    fn who_waits_after_short_streaks_does_not_lower_the_price() {
        let keeper = keeper();
        take(&keeper, LOCK, FIRST);
        keeper.waits(LOCK); // another has it: eight times as dear
        for _ in 0..1_000 {
            take(&keeper, LOCK, EARNS / 2);
            keeper.waits(LOCK);
        }
        take(&keeper, LOCK, EARNS + 1);
        assert!(!keeper.keeps(LOCK));
    }

    #[test]
    fn a_lock_given_up_before_it_had_paid_is_dearer() {
        let keeper = keeper();
        take(&keeper, LOCK, EARNS + 1);
        keeper.gives_up(LOCK);
        take(&keeper, LOCK, EARNS + 1);
        assert!(!keeper.keeps(LOCK));
        take(&keeper, LOCK, 7 * EARNS);
        assert!(keeper.keeps(LOCK));
    }

    #[test]
    fn a_task_knows_whether_it_has_a_lock() {
        const OTHER: usize = LOCK + GRAIN * 17; // of the same slot
        let take_often = |keeper: &Keeper, lock| {
            for _ in 0..16 * EARNS {
                if keeper.keeps(lock) {
                    keeper.retakes();
                } else {
                    keeper.takes(Some(lock), || 0);
                    keeper.holds(lock);
                    assert!(keeper.holds_any() || keeper.keeps(lock));
                    keeper.lets_go(lock);
                }
            }
            assert!(keeper.keeps(lock));
        };
        for mine in [|_| true, |_| false] {
            let keeper = Keeper::new(mine);
            keeper.begin(true);
            take_often(&keeper, LOCK);
            assert_eq!(keeper.holds_any(), mine(LOCK));
            take_often(&keeper, OTHER);
            keeper.gives_up(OTHER);
            keeper.lets_go(OTHER);
            assert_eq!(keeper.holds_any(), mine(LOCK), "it was counted");
            if mine(LOCK) {
                keeper.lets_go(LOCK);
            }
            assert!(!keeper.holds_any());

            take_often(&keeper, LOCK);
            keeper.begin(true);
            assert_eq!(keeper.holds_any(), mine(LOCK), "it was counted");
            keeper.holds_none();
            assert!(!keeper.holds_any());
        }
    }

    #[test]
    fn a_task_without_reservations_has_none() {
        let keeper = Keeper::new(|_| false);
        take(&keeper, LOCK, 10 * EARNS);
        assert!(!keeper.keeps(LOCK));
        assert_eq!(keeper.took(), 10 * EARNS);
    }

    #[test]
    fn each_lock_counts_whether_it_is_seen_or_not() {
        let keeper = keeper();
        take(&keeper, LOCK, FIRST + 1000); // by reservations, of which nobody takes note
        assert!(keeper.is_due());
        take(&keeper, LOCK + GRAIN, 1);
        keeper.takes(None, || 0);
        assert!(!keeper.is_due());
        keeper.waits(LOCK);
        take(&keeper, LOCK, FIRST);
        keeper.sees(LOCK, || 0);
        assert_eq!(keeper.took(), 2 * FIRST + 1002);
    }
}
