//! The real-time mutex: sixteen bytes. Its owner runs at the priority of its
//! highest waiter at least, and that waiter gets it next.
//!
//! After the Linux kernel's rtmutex: waiters by priority, inheritance along
//! chains of locks, and a top waiter that spins while the owner runs (seed 000).
//!
//! # The words
//!
//! | owner word | meaning | who may change it |
//! |---|---|---|
//! | 0 | free | anybody takes it by compare-exchange |
//! | task | held | its owner releases it by compare-exchange |
//! | `WAITERS` | free, and only for who is entitled | the holder of the gate |
//! | task, `WAITERS` | held | the holder of the gate |
//!
//! The bit locks the word: while it is set only the holder of the gate changes
//! the word. It is set whenever anybody waits, and while the gate is held also
//! when nobody does; it may be cleared only where it is known to be set, for
//! without it the word may change at any moment and a clearing store would bring
//! back an owner that is gone.
//!
//! The top word is the root of the waiters' heap: the waiter of the highest
//! priority, the first come among equals. It changes under the gate alone, and is
//! read by a spinner without.
//!
//! # The pairing
//!
//! | who releases (R1) | who takes (R1) |
//! |---|---|
//! | what it did under the lock | compare-exchange, or set the bit: Acquire |
//! | owner word: store 0, or the bit alone: Release | what it does under the lock |
//!
//! Bits are set and cleared by read-modify-writes, which carry a release on. All
//! else is ordered by gates.
//!
//! # The gates
//!
//! A lock has a gate, and so has each task. Order: lock, then task; at most one
//! of each. A walk along a chain goes the other way, from a task that waits to the
//! lock that it waits for; it only tries that lock's gate, and when it cannot enter
//! waits outside, as a visitor, with nothing held.
//!
//! # Who gets it
//!
//! The release leaves the lock to the top waiter, which stays in the queue until
//! it comes. Meanwhile a newcomer takes the lock if its priority is higher, and
//! queues up if it is equal or lower.
//!
//! # Why nobody touches a lock that was freed
//!
//! A lock may be freed when nobody holds it or is in a call on it.
//!
//! - A release without waiters ends with its exchange. One with waiters is over
//!   when the gate opens: the top waiter, noted before, must pass the gate to
//!   take the lock, and so must any newcomer, for the bit is set.
//! - A walk reaches a lock through a task that waits for it. While the walk
//!   holds the task's gate the task cannot stop waiting (that needs both gates), so
//!   the lock is there; before it lets go of the task it either has entered the
//!   lock's gate, and the task cannot get out of the queue before it leaves; or it
//!   has put itself on the gate's stack, whence the holder takes it without a
//!   further step of its own. Opening the gate is the last access.
//! - Between two locks of a chain a walk holds nothing, and carries two things: the
//!   number of a task, whose record is always there; and the address of a lock,
//!   which it only compares until a task that it holds is found to wait there. A
//!   number or an address that was used again makes it walk on elsewhere, where it
//!   brings what it finds up to date as it would anyway.
//!
//! # What it does not do
//!
//! A waiter that a fork has left behind stays in the child's queue, and keeps the
//! lock from those that are not above it. A task that ends as an owner leaves the
//! lock, and what it was lent, to the task that gets its number.

mod heap;
mod link;
mod proxy;
mod spin;
mod task;
mod wait;
mod walk;

use core::marker::PhantomData;

pub use link::Link;
pub use proxy::Start;
pub use spin::{Block, Policy, Spin};
pub(crate) use task::Node;
pub use walk::{LONGEST, adjust};

use crate::{
    gate::Gate,
    platform::{Deadline, Event, Ordering::*, Platform, Priority, TaskId, Word},
};
use heap::{Heap, Key, Place};
use task::{Task, node};
use walk::Detect;

/// Somebody waits, or the holder of the gate is at the word.
const WAITERS: u32 = 1;

const fn owner_of(word: u32) -> Option<TaskId> {
    TaskId::new(word >> 1)
}

const fn owned_by(task: TaskId) -> u32 {
    task.number() << 1
}

/// Why a lock was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The deadline has passed.
    TimedOut,
    /// The caller would wait for itself, or for tasks that wait for each other.
    Deadlock,
}

/// A mutual-exclusion lock with priority inheritance. `W` is how its top waiter
/// waits: [`Spin`] (after seed 000) or [`Block`] (before it).
#[repr(C)]
pub struct RawRtMutex<P: Platform, W = Spin> {
    body: Body<P>,
    policy: PhantomData<W>,
}

/// The part of the lock that does not depend on how the top waiter waits.
#[repr(C)]
pub(crate) struct Body<P: Platform> {
    owner: P::U32,
    top: P::U32,
    /// How many times a task came into the queue.
    arrivals: P::U32,
    gate: Gate<P>,
}

/// The lock, while its gate is held.
#[must_use = "the gate must be left"]
struct Inside<'a, P: Platform>(&'a Body<P>);

impl<P: Priority, W: Policy> Default for RawRtMutex<P, W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Priority, W: Policy> RawRtMutex<P, W> {
    /// An unlocked lock: all its bytes are zero.
    pub const fn new() -> Self {
        Self {
            body: Body {
                owner: P::U32::ZERO,
                top: P::U32::ZERO,
                arrivals: P::U32::ZERO,
                gate: Gate::new(),
            },
            policy: PhantomData,
        }
    }

    /// Takes the lock if it is free, and nobody of the caller's priority or a
    /// higher one waits for it.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.body.take(P::me()) || self.body.try_slow(P::me())
    }

    /// Takes the lock, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller holds it already, or a change of priorities that it makes
    /// leads back to it: it would wait for ever. The lock is as before.
    #[inline]
    pub fn lock(&self) {
        let me = P::me();
        if !self.body.take(me) {
            let taken = self.body.lock_slow::<W>(me, Detect::Minimal, None);
            assert!(
                taken.is_ok(),
                "deadlock: task {} locks the real-time mutex at {self:p}, whose owner {:?} waits \
                 for it, or is it",
                me.number(),
                self.body.owner()
            );
        }
    }

    /// Takes the lock, waiting until `deadline` at the latest; returns whether it
    /// was taken. A deadlock ends at the deadline.
    pub fn lock_until(&self, deadline: Deadline) -> bool {
        let me = P::me();
        if self.body.take(me) {
            return true;
        }
        let taken = self
            .body
            .lock_slow::<W>(me, Detect::Minimal, Some(deadline));
        while taken == Err(Refused::Deadlock) && !P::passed(deadline) {
            P::park(Some(deadline));
        }
        taken.is_ok()
    }

    /// Takes the lock, unless the caller would wait for itself: the chain of
    /// owners is followed to its end.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn lock_checked(&self, deadline: Option<Deadline>) -> Result<(), Refused> {
        let me = P::me();
        if self.body.take(me) {
            return Ok(());
        }
        self.body.lock_slow::<W>(me, Detect::Full, deadline)
    }

    /// Releases the lock. What its waiters lent the caller is gone before the top
    /// waiter is woken.
    ///
    /// # Safety
    /// The caller holds it.
    ///
    /// # Panics
    /// When the caller does not hold it after all. The lock is as before.
    #[inline]
    pub unsafe fn unlock(&self) {
        self.body.unlock(P::me());
    }

    /// Whether anybody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.body.owner().is_some()
    }

    /// Whether the calling task holds the lock.
    pub fn is_mine(&self) -> bool {
        self.body.owner() == Some(P::me())
    }

    /// Whether anybody waits for the lock.
    pub fn is_contended(&self) -> bool {
        self.body.top.load(Relaxed) != 0 // a hint
    }
}

impl<P: Priority> Body<P> {
    /// The owner: a snapshot.
    fn owner(&self) -> Option<TaskId> {
        owner_of(self.owner.load(Relaxed)) // who takes the lock acquires
    }

    #[inline]
    fn take(&self, task: TaskId) -> bool {
        let taken = self
            .owner
            .compare_exchange(0, owned_by(task), Acquire, Relaxed); // (R1)
        taken.inspect(|_| P::took(None)).is_ok()
    }

    #[inline]
    fn release(&self, task: TaskId) -> bool {
        let released = self
            .owner
            .compare_exchange(owned_by(task), 0, Release, Relaxed); // (R1)
        released.is_ok()
    }

    fn enter(&self) -> Inside<'_, P> {
        self.gate.lock();
        Inside(self)
    }

    #[cold]
    fn try_slow(&self, me: TaskId) -> bool {
        if self.owner().is_some() {
            return false;
        }
        let inside = self.enter();
        let taken = inside.try_to_take(me, false);
        inside.clear_idle_bit();
        inside.leave();
        taken
    }

    #[inline]
    fn unlock(&self, task: TaskId) {
        if !self.release(task) {
            self.unlock_slow(task);
        }
    }

    #[cold]
    fn unlock_slow(&self, task: TaskId) {
        loop {
            let inside = self.enter();
            let owner = self.owner();
            if owner != Some(task) {
                inside.leave();
                panic!(
                    "task {} unlocks the real-time mutex at {self:p}, which is held by {owner:?}",
                    task.number()
                );
            }
            if let Some(top) = inside.top() {
                return inside.release_to(top, task);
            }
            inside.clear_idle_bit();
            inside.leave();
            if self.release(task) {
                return;
            }
        }
    }
}

impl<P: Priority> Inside<'_, P> {
    fn leave(self) {
        self.0.gate.unlock();
    }

    fn owner(&self) -> Option<TaskId> {
        self.0.owner()
    }

    fn waiters<'h>(&'h self) -> Heap<'h, P::U32, impl Fn(TaskId) -> &'h Place<P::U32>> {
        Heap {
            root: &self.0.top,
            place: |task| &node::<P>(task).queued,
        }
    }

    /// The waiter of the highest priority.
    fn top(&self) -> Option<TaskId> {
        self.waiters().top()
    }

    /// Puts `task`, whose gate is held, behind those of its priority.
    fn insert(&self, task: &Task<P>) {
        let arrival = self.0.arrivals.load(Relaxed); // the gate orders it
        self.0.arrivals.store(arrival.wrapping_add(1), Relaxed);
        let prio = task.prio();
        self.waiters().insert(task.id(), Key { prio, arrival });
    }

    /// Takes the lock for `task`, if it is free and the task is entitled to it: as
    /// the top waiter, or because it is above that. A task that waits is then out
    /// of the queue. The bit is set if this fails.
    fn try_to_take(&self, task: TaskId, waits: bool) -> bool {
        // (R1) Acquire pairs with the release that left the lock free.
        let word = self.0.owner.fetch_or(WAITERS, Acquire);
        if owner_of(word).is_some() || !self.is_entitled(task, waits) {
            return false;
        }
        if waits {
            self.waiters().remove(task);
        }
        let top = self.top();
        if waits || top.is_some() {
            let owner = Task::<P>::enter(task);
            owner.stop_waiting();
            owner.change_lender(None, top);
            owner.leave();
        }
        let bit = if top.is_some() { WAITERS } else { 0 };
        self.0.owner.store(owned_by(task) | bit, Relaxed); // free with the bit: only we write it
        true
    }

    fn is_entitled(&self, task: TaskId, waits: bool) -> bool {
        let Some(top) = self.top() else { return true };
        if waits {
            return top == task;
        }
        let newcomer = Task::<P>::enter(task);
        let prio = newcomer.prio();
        newcomer.leave();
        prio > node::<P>(top).queued.key().prio
    }

    /// Clears the bit if it is set and nobody waits.
    fn clear_idle_bit(&self) {
        let word = self.0.owner.load(Relaxed); // with the bit, it stays so
        if word & WAITERS != 0 && self.top().is_none() {
            self.0.owner.fetch_and(!WAITERS, Relaxed); // (R1) carries a release on
        }
    }

    /// Releases the lock of `owner` to the top waiter, and wakes that.
    fn release_to(self, top: TaskId, owner: TaskId) {
        let task = Task::<P>::enter(owner);
        task.change_lender(Some(top), None);
        task.leave();
        // (R1) Release pairs with the Acquire of who takes it.
        self.0.owner.store(WAITERS, Release);
        self.leave();
        // From here on the lock may be gone.
        P::event(Event::WokeFirst);
        P::unpark(top);
        P::yield_to(top);
    }
}
