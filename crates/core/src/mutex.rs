//! The mutex: sixteen bytes, one compare-exchange when nobody contends.
//!
//! After the Linux kernel's mutex (owner word with flags, spinning on a running
//! owner through an OSQ, FIFO sleepers, hand-off against starvation), cut for
//! user space: here a sleeper costs far more to wake, nobody can switch
//! preemption off, and an unlocked mutex may be freed at once.
//!
//! # The owner word
//!
//! | bits | meaning | set by | cleared by |
//! |---|---|---|---|
//! | 0 `WAITERS` | the queue is not empty | who enqueues, inside the gate | who empties it, inside the gate |
//! | 1 `AWAKE` | the first waiter is awake, or whoever set this wakes it | who wakes it; itself | itself, before it sleeps and when it leaves the queue |
//! | 2 `SPINNER` | the lead of the OSQ will look at this word again | the lead, when there are waiters | itself, when it takes the lock or leaves |
//! | 3 `HANDOFF` | the first waiter, overdue, asks for the lock | itself | the owner that hands it over; itself, when it leaves |
//! | 4..30 | the owner's task number, 0 for none | who takes the lock; who hands it over | the owner |
//!
//! Illegal: `AWAKE` or `HANDOFF` without `WAITERS`; `HANDOFF` without an owner;
//! `WAITERS` without an owner, `AWAKE` or `SPINNER`, for then nobody would come.
//!
//! # Why no wake-up is lost
//!
//! An unlock need not wake the first waiter while somebody else is about to
//! take the lock. Who is about to says so in the owner word itself, so one
//! word's modification order decides:
//!
//! | unlock | first waiter, or lead of the spinners |
//! |---|---|
//! | (M1) owner word: clear the owner, read the flags | (M2) owner word: clear `AWAKE` or `SPINNER`, read the owner |
//! | no flag: set `AWAKE`, wake the first | no owner: take the lock; else sleep |
//!
//! Whichever comes second sees the other.
//!
//! # Who is woken
//!
//! The lock may be freed as soon as it is released, so the first waiter is
//! found before. (M3) The owner sets `AWAKE`, reads the head, and releases only
//! while `AWAKE` stands; a first waiter that leaves changes the head before it
//! clears `AWAKE`.
//!
//! # Fairness
//!
//! Running tasks overtake sleeping ones: that is where the throughput comes
//! from. It is bounded in time: a first waiter that has been first for
//! [`HANDOFF_MICROS`] is woken even when a spinner is there, asks for the lock
//! with `HANDOFF`, and gets it from the next unlock.

use crate::{
    osq::{self, Osq},
    platform::{Deadline, Event, Look, Ordering::*, Platform, Running, TaskId, Word},
    wait_queue::{Entered, WaitQueue},
};

const WAITERS: u32 = 1;
const AWAKE: u32 = 2;
const SPINNER: u32 = 4;
const HANDOFF: u32 = 8;
const FLAGS: u32 = 15;
const OWNER_SHIFT: u32 = 4;

/// How long a first waiter may be overtaken, in microseconds.
pub const HANDOFF_MICROS: u32 = 500;

/// How a spinner looks at the owner word: seldom, so that an owner that comes
/// back at once finds the line where it left it.
const PACE: Look = Look::Every(1_000);

const fn owned(me: TaskId) -> u32 {
    me.number() << OWNER_SHIFT
}

const fn owner(word: u32) -> Option<TaskId> {
    TaskId::new(word >> OWNER_SHIFT)
}

/// A mutual-exclusion lock. `W` is how spinners in its queue wait:
/// [`osq::Event`] (seed 001) or [`osq::Poll`] (before it).
#[repr(C)]
pub struct RawMutex<P: Platform, W = osq::Event> {
    body: Body<P>,
    osq: Osq<P, W>,
}

/// The part of a mutex that does not depend on how its spinners wait.
pub(crate) struct Body<P: Platform> {
    owner: P::U32,
    queue: WaitQueue<P>,
}

impl<P: Platform, W: osq::Wait<P>> Default for RawMutex<P, W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, W: osq::Wait<P>> RawMutex<P, W> {
    /// An unlocked mutex: all its bytes are zero.
    pub const fn new() -> Self {
        Self {
            body: Body {
                owner: P::U32::ZERO,
                queue: WaitQueue::new(),
            },
            osq: Osq::new(),
        }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.body.try_take(P::me())
    }

    /// Takes the mutex, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller holds it already.
    #[inline]
    pub fn lock(&self) {
        if !self.body.try_take(P::me()) {
            self.lock_slow(None);
        }
    }

    /// Takes the mutex, waiting until `deadline` at the latest; returns whether
    /// it was taken. A free mutex is taken even when the deadline has passed.
    ///
    /// # Panics
    /// When the caller holds it already.
    #[inline]
    pub fn lock_until(&self, deadline: Deadline) -> bool {
        self.body.try_take(P::me()) || self.lock_slow(Some(deadline))
    }

    /// Releases the mutex.
    ///
    /// # Safety
    /// The caller holds it.
    ///
    /// # Panics
    /// When the caller does not hold it after all. The mutex is as before.
    #[inline]
    pub unsafe fn unlock(&self) {
        self.body.unlock();
    }

    /// Releases the mutex, and to the first waiter if there is one: nobody
    /// overtakes it. Slower than [`RawMutex::unlock`].
    ///
    /// # Safety
    /// The caller holds it.
    ///
    /// # Panics
    /// When the caller does not hold it after all. The mutex is as before.
    pub unsafe fn unlock_fair(&self) {
        self.body.unlock_fair();
    }

    /// Whether anybody holds the mutex.
    pub fn is_locked(&self) -> bool {
        owner(self.body.owner.load(Relaxed)).is_some() // a snapshot
    }

    /// Whether the calling task holds the mutex.
    pub fn is_mine(&self) -> bool {
        owner(self.body.owner.load(Relaxed)) == Some(P::me()) // nobody else writes it
    }

    pub(crate) fn body(&self) -> &Body<P> {
        &self.body
    }

    #[cold]
    pub(crate) fn lock_slow(&self, deadline: Option<Deadline>) -> bool {
        let me = P::me();
        assert!(
            !self.is_mine(),
            "deadlock: task {} locks the mutex at {self:p}, which it holds already",
            me.number()
        );
        self.spin(me, deadline) || self.body.queue_up(me, deadline)
    }

    /// Spins while the owner runs; returns whether that took the mutex.
    fn spin(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        let word = self.body.owner.load(Relaxed); // a hint
        if word & AWAKE != 0 {
            P::event(Event::SpinNotFirst);
            return false;
        }
        if owner(word).is_some_and(|owner| P::running(owner) == Running::No) {
            P::event(Event::SpinOwnerOff);
            return false;
        }
        P::spin_begin();
        if !self.osq.lock() {
            return false;
        }
        let took = self.body.lead(me, deadline);
        self.osq.unlock();
        took
    }
}

impl<P: Platform> Body<P> {
    #[inline]
    fn try_take(&self, me: TaskId) -> bool {
        let mut word = self.owner.load(Relaxed); // checked by the exchange
        while owner(word).is_none() {
            // (M4) Acquire pairs with the releases in unlock and hand_over.
            match self
                .owner
                .compare_exchange(word, word | owned(me), Acquire, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the free mutex and clears `flags`; fails when the word changed.
    fn take(&self, word: u32, me: TaskId, flags: u32) -> bool {
        // (M4) Acquire pairs with the releases in unlock and hand_over.
        self.owner
            .compare_exchange(word, (word & !flags) | owned(me), Acquire, Relaxed)
            .is_ok()
    }

    /// Changes flags of the word; fails when it is no longer `word`.
    fn mark(&self, word: u32, new: u32) -> bool {
        // (M2) One word decides; (M3) AcqRel: who clears `AWAKE` has changed
        // the head before, who sets it reads the head after.
        self.owner
            .compare_exchange(word, new, AcqRel, Relaxed)
            .is_ok()
    }

    /// Spins as the lead. Returns whether that took the mutex.
    fn lead(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        let mut marked = 0;
        loop {
            let word = self.owner.load(Relaxed); // checked by the exchanges
            let Some(owner) = owner(word) else {
                if self.take(word, me, marked) {
                    P::event(Event::SpinAcquired);
                    return true;
                }
                continue;
            };
            let give_up = if word & AWAKE != 0 {
                Some(Event::SpinNotFirst)
            } else if word & WAITERS != 0 && self.first_is_overdue() {
                // Its turn: wake it and make room for it.
                if self.mark(word, (word & !marked) | AWAKE) {
                    self.wake_first();
                    P::event(Event::SpinNotFirst);
                    return false;
                }
                continue;
            } else if word & WAITERS != 0 && marked == 0 {
                if self.mark(word, word | SPINNER) {
                    marked = SPINNER;
                }
                continue;
            } else {
                self.watch(word, owner, deadline, || {
                    word & WAITERS != 0 && self.first_is_overdue()
                })
            };
            if let Some(event) = give_up
                && self.mark(word, word & !marked)
            {
                P::event(event);
                return false;
            }
        }
    }

    /// Watches a mutex that `owner` holds until its word is no longer `word`
    /// or `also` holds; or returns why to stop spinning.
    fn watch(
        &self,
        word: u32,
        owner: TaskId,
        deadline: Option<Deadline>,
        also: impl Fn() -> bool,
    ) -> Option<Event> {
        let mut why = None;
        P::spin_until(
            &self.owner,
            Relaxed, // only a hint: the exchanges order
            PACE,
            |now| now != word,
            || {
                if P::running(owner) == Running::No {
                    why = Some(Event::SpinOwnerOff);
                } else if P::need_resched() || deadline.is_some_and(P::passed) {
                    why = Some(Event::SpinResched);
                }
                why.is_some() || also()
            },
        );
        why
    }

    /// Whether the first waiter has been first for long enough. A hint: the
    /// head may change meanwhile.
    fn first_is_overdue(&self) -> bool {
        self.queue.first().is_some_and(Self::is_overdue)
    }

    fn is_overdue(first: TaskId) -> bool {
        let since = P::task(first).wait.since.load(Relaxed); // a hint
        P::elapsed(since, HANDOFF_MICROS)
    }

    /// Wakes the first waiter, for whom the caller has set `AWAKE`.
    fn wake_first(&self) {
        if let Some(first) = self.queue.first() {
            P::event(Event::WokeFirst);
            P::unpark(first);
        }
    }

    /// Enqueues the caller and waits. Returns whether that took the mutex.
    fn queue_up(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        self.queue.enter(|queue| {
            self.bury(&queue);
            // An awake waiter that finds the queue empty is an awake first one.
            let flags = if queue.push(me) { WAITERS | AWAKE } else { WAITERS };
            self.owner.fetch_or(flags, AcqRel); // (M2), (M3)
        });
        self.wait(me, deadline)
    }

    /// Enqueues `task`, which sleeps in a condition variable's queue. The
    /// caller need not hold the mutex, and `task` cannot leave before this is
    /// done: it must enter the gate to leave.
    pub(crate) fn adopt(&self, task: TaskId) {
        let wake = self.queue.enter(|queue| {
            self.bury(&queue);
            queue.push(task);
            loop {
                let word = self.owner.load(Relaxed); // checked by mark
                let asleep = owner(word).is_none() && word & (AWAKE | SPINNER) == 0;
                let flags = if asleep { WAITERS | AWAKE } else { WAITERS };
                if self.mark(word, word | flags) {
                    break if asleep { queue.first() } else { None };
                }
            }
        });
        if let Some(first) = wake {
            P::unpark(first);
        }
    }

    /// Waits in the queue. Returns whether the mutex was taken; either way the
    /// caller is out of the queue.
    pub(crate) fn wait(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        loop {
            if self.queue.first() == Some(me) && self.wait_first(me, deadline) {
                self.leave(me);
                return true;
            }
            if deadline.is_some_and(P::passed) {
                return self.cancel(me);
            }
            P::event(Event::Parked);
            P::park(deadline);
        }
    }

    /// The first waiter's turn: spins while the owner runs. Returns whether the
    /// mutex was taken; if not, `AWAKE` is clear and the caller must park.
    fn wait_first(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        P::spin_begin();
        loop {
            // (M4) Acquire pairs with hand_over's Release: it may be mine.
            let word = self.owner.load(Acquire);
            let Some(holder) = owner(word) else {
                if self.take(word, me, 0) {
                    return true;
                }
                continue;
            };
            if holder == me {
                return true;
            }
            let overdue = word & HANDOFF == 0 && Self::is_overdue(me);
            let wanted = word | AWAKE | if overdue { HANDOFF } else { 0 };
            if wanted != word {
                if self.mark(word, wanted) && overdue {
                    P::event(Event::HandoffAsked);
                }
                continue;
            }
            let give_up = self.watch(word, holder, deadline, || {
                word & HANDOFF == 0 && Self::is_overdue(me)
            });
            if let Some(event) = give_up
                && self.mark(word, word & !AWAKE)
            {
                P::event(event);
                return false;
            }
        }
    }

    /// Takes the owner, the first waiter, out of the queue.
    fn leave(&self, me: TaskId) {
        self.queue.enter(|queue| {
            queue.remove(me);
            self.settle_flags(&queue);
        });
    }

    /// Leaves the queue without the mutex; returns `true` when it was handed
    /// over at the last moment.
    fn cancel(&self, me: TaskId) -> bool {
        let (granted, wake) = self.queue.enter(|queue| {
            let first = queue.first() == Some(me);
            queue.remove(me);
            if !first {
                return (false, None);
            }
            let word = self.settle_flags(&queue);
            let stranded = owner(word).is_none() && word & (WAITERS | SPINNER) == WAITERS;
            // The unlock that woke me counted on me: another must come.
            if stranded && queue.first().is_some() && self.mark_awake() {
                return (false, queue.first());
            }
            (owner(word) == Some(me), None)
        });
        P::event(if granted {
            Event::CancelGranted
        } else {
            Event::Cancelled
        });
        if let Some(first) = wake {
            P::event(Event::WokeFirst);
            P::unpark(first);
        }
        granted
    }

    /// After the first waiter was removed: its flags go, and `WAITERS` if it
    /// was the last. Returns the word before.
    fn settle_flags(&self, queue: &Entered<'_, P>) -> u32 {
        let gone = match queue.first() {
            Some(_) => AWAKE | HANDOFF,
            None => AWAKE | HANDOFF | WAITERS,
        };
        self.owner.fetch_and(!gone, AcqRel) // (M2), (M3)
    }

    /// Sets `AWAKE` on a free mutex with waiters; `false` when somebody took it
    /// or will.
    fn mark_awake(&self) -> bool {
        loop {
            let word = self.owner.load(Relaxed); // checked by mark
            if owner(word).is_some() || word & (AWAKE | SPINNER) != 0 {
                return false;
            }
            if self.mark(word, word | AWAKE) {
                return true;
            }
        }
    }

    /// Drops from the front waiters that a fork has left behind.
    fn bury(&self, queue: &Entered<'_, P>) {
        while let Some(first) = queue.first()
            && !P::exists(first)
        {
            queue.remove(first);
            self.settle_flags(queue);
            self.owner.fetch_and(!SPINNER, Relaxed); // only tasks of this side count
        }
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        let me = P::me();
        let mut word = self.owner.load(Relaxed); // mine: only flags may change
        while owner(word) == Some(me) && Self::is_covered(word) {
            // (M1), (M4) Release pairs with the Acquire of who takes it.
            match self
                .owner
                .compare_exchange(word, word & FLAGS, Release, Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        self.unlock_slow(me);
    }

    /// Whether the mutex may just be released: nobody waits, or somebody who is
    /// awake takes it, and nobody asked for it.
    #[inline]
    fn is_covered(word: u32) -> bool {
        word & FLAGS == 0 || (word & (AWAKE | SPINNER) != 0 && word & HANDOFF == 0)
    }

    #[cold]
    fn unlock_slow(&self, me: TaskId) {
        self.check_owner(me);
        let mut woken = None;
        loop {
            let word = self.owner.load(Relaxed); // checked by the exchanges
            if word & HANDOFF != 0 {
                if self.hand_over(me) {
                    break;
                }
            } else if Self::is_covered(word) {
                // (M1), (M4) Release pairs with the Acquire of who takes it.
                if self
                    .owner
                    .compare_exchange(word, word & FLAGS, Release, Relaxed)
                    .is_ok()
                {
                    break;
                }
            } else if self.mark(word, word | AWAKE) {
                woken = self.queue.first(); // (M3)
                if woken.is_some_and(|first| !P::exists(first)) {
                    self.queue.enter(|queue| self.bury(&queue));
                }
            }
        }
        // From here on the mutex may be gone.
        if let Some(first) = woken {
            P::event(Event::WokeFirst);
            P::unpark(first);
        }
    }

    fn unlock_fair(&self) {
        let me = P::me();
        self.check_owner(me);
        let waiters = self.owner.load(Relaxed) & WAITERS != 0; // a hint
        if !(waiters && self.hand_over(me)) {
            self.unlock();
        }
    }

    /// Hands the mutex to the first waiter, if there is one. The new owner must
    /// enter the gate to leave the queue, so the gate is still there to be left.
    fn hand_over(&self, me: TaskId) -> bool {
        let heir = self.queue.enter(|queue| {
            self.bury(&queue);
            let first = queue.first()?;
            loop {
                let word = self.owner.load(Relaxed); // checked by the exchange
                debug_assert!(owner(word) == Some(me));
                let given = owned(first) | word & FLAGS & !HANDOFF;
                // (M4) Release pairs with the Acquire in wait_first and cancel.
                if self
                    .owner
                    .compare_exchange(word, given, Release, Relaxed)
                    .is_ok()
                {
                    return Some((first, word & AWAKE != 0));
                }
            }
        });
        let Some((first, awake)) = heir else {
            return false;
        };
        // From here on the mutex may be gone.
        P::event(Event::HandedOff);
        if !awake {
            P::unpark(first);
        }
        true
    }

    fn check_owner(&self, me: TaskId) {
        let owner = owner(self.owner.load(Relaxed)); // mine, or an error
        assert!(
            owner == Some(me),
            "task {} unlocks the mutex at {self:p}, which is held by {owner:?}",
            me.number()
        );
    }
}
