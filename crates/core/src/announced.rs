//! Guarded stores of tasks that nobody can have start over: the way of a world without
//! restartable sequences to [`Platform::store_if`] and [`Platform::quiesce`].
//!
//! A task announces, by a count of its own, that it is between a guard's test and its store:
//!
//! | a task | who quiesces, having changed the guard |
//! |---|---|
//! | its count becomes odd | |
//! | full barrier (A1) | full barrier (A1) |
//! | tests the guard, and stores if that is as expected | reads the count: |
//! | its count becomes even (A2) | odd? then waits until it changes (A2) |
//!
//! One of the two is seen (A1): either the task sees the guard changed, and does not store; or
//! who quiesces sees the count odd, and has the store once it has changed (A2). A count that he
//! finds even is of a task whose store he has, or that is yet to test the guard.
//!
//! Tasks of one address space may go different ways, each by what its C library gave it. Which
//! ways there are is known before the first of them is gone:
//!
//! | a task, before its first test of a guard | who quiesces, having changed the guard |
//! |---|---|
//! | says which way it goes | |
//! | full barrier (A3) | full barrier (A3) |
//! | tests the guard | asks all who go a way of which somebody has said so |

use crate::{Ordering::*, Platform, Word};

/// How a task makes a test and a store one step towards who quiesces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It starts over if it is interrupted between the two, and the world can interrupt it.
    Restarting,
    /// By its [`Announcement`].
    Announcing,
}

/// A task's count: even while it is between no test and its store. All zero bytes at first.
#[repr(transparent)]
pub struct Announcement<P: Platform> {
    count: P::U32,
}

impl<P: Platform> Default for Announcement<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Announcement<P> {
    /// Of a task that is at none.
    pub const fn new() -> Self {
        Self {
            count: P::U32::ZERO,
        }
    }

    /// Runs `store` if `guard` holds `expected`, which is read with `Acquire`; returns whether it
    /// does. Only the count's own task calls this. To have others see what came before the store
    /// is for `store` itself.
    pub fn store_if(&self, guard: &P::U32, expected: u32, store: impl FnOnce()) -> bool {
        self.count.fetch_add(1, Relaxed); // ordered by the barrier
        P::fence(); // (A1)
        let passed = guard.load(Acquire) == expected; // (A1) the caller's pair
        if passed {
            store();
        }
        self.count.fetch_add(1, Release); // (A2) pairs with the Acquire of `quiesce`
        passed
    }

    /// Whether its task is at one.
    pub fn is_inside(&self) -> bool {
        !self.count.load(Relaxed).is_multiple_of(2) // who must know orders it
    }

    /// The task is gone, without an end of what it was at.
    pub fn forget(&self) {
        self.count.store(0, Relaxed); // nobody else is there
    }
}

/// Which ways the tasks of an address space go. All zero bytes at first.
pub struct Ways<P: Platform> {
    restarting: P::U32,
    announcing: P::U32,
}

impl<P: Platform> Default for Ways<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Ways<P> {
    /// None: there are no tasks.
    pub const fn new() -> Self {
        Self {
            restarting: P::U32::ZERO,
            announcing: P::U32::ZERO,
        }
    }

    fn word(&self, way: Way) -> &P::U32 {
        match way {
            Way::Restarting => &self.restarting,
            Way::Announcing => &self.announcing,
        }
    }

    /// The calling task goes this way, from its next test of a guard on.
    pub fn go(&self, way: Way) {
        self.word(way).store(1, Relaxed); // ordered by the barrier
        P::fence(); // (A3)
    }

    /// Whether somebody has said that he goes this way.
    pub fn has(&self, way: Way) -> bool {
        self.word(way).load(Relaxed) != 0 // who must know has a barrier before
    }

    /// As at first, but for tasks that announce: in a fork's child, which has one task.
    pub fn forget_restarting(&self) {
        self.restarting.store(0, Relaxed); // nobody else is there
    }

    /// [`Platform::quiesce`]. `restart` interrupts all that are between a test and a store, and is
    /// a barrier between what they did before and what the caller does next; `announcements`
    /// looks which tasks there are. `pause` is called while a count that has the value is to
    /// change.
    pub fn quiesce<'a, I: IntoIterator<Item = &'a Announcement<P>>>(
        &self,
        restart: impl FnOnce(),
        announcements: impl FnOnce() -> I,
        mut pause: impl FnMut(&P::U32, u32),
    ) where
        P: 'a,
    {
        P::fence(); // (A1), (A3)
        if self.has(Way::Restarting) {
            restart();
        }
        if self.has(Way::Announcing) {
            for Announcement { count } in announcements() {
                let mut first = None;
                loop {
                    let now = count.load(Acquire); // (A2) pairs with the Release of `store_if`
                    let seen = *first.get_or_insert(now);
                    if now.is_multiple_of(2) || now != seen {
                        break;
                    }
                    pause(count, seen);
                }
            }
        }
    }
}
