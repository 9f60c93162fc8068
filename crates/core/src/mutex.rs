//! The mutex: sixteen bytes. One compare-exchange locks it, or, where a task
//! takes it again and again, a plain store; a plain store unlocks it.
//!
//! After the Linux kernel's mutex (an owner word, spinning on a running owner
//! through an OSQ, FIFO sleepers, hand-off against starvation), cut for user
//! space: here a sleeper costs far more to wake, nobody can switch preemption
//! off, and an unlocked mutex may be freed at once.
//!
//! # The words
//!
//! The owner word holds the owner's task number, or 0: the mutex is free. With
//! `KEPT` beside the number it is free as well, and reserved for that task, its
//! *keeper*. Who finds 0 there takes the mutex, by compare-exchange; who finds it
//! reserved for himself, by a store; who finds it reserved for another revokes
//! that. But for these only the owner stores to it: that it is free, or the
//! waiter it hands the mutex to. Whom it has left the mutex to stores himself, inside the
//! gate (`take_over`). Marks above the number are those of a kernel that lends priorities
//! (`pimutex.rs`); no other mutex has them.
//!
//! The front word holds the first waiter, or 0, and three marks:
//!
//! | mark | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `AWAKE` | the first waiter is awake, or whoever set this wakes it | who wakes it; itself | itself, before it sleeps and when it leaves |
//! | `HANDOFF` | the first waiter, overdue, asks for the mutex | itself; a spinner, while it sleeps | the owner, which hands it over, or wakes who sleeps; itself, when it leaves |
//! | `RECALL` | the owner is asked not to keep the mutex, and to let a first waiter run that is late | who waits; the owner | the owner, before it unlocks |
//! | `BOOST` | the kernel may know the owner, and have waiters of its own (`pimutex.rs`) | who is about to wait there | the owner |
//! | `SPINNER` | a spinner will look at the owner again | the spinner, when there are waiters | itself, when it takes the mutex or leaves; the last waiter, when it leaves |
//!
//! The front is *covered* when nobody waits, or when somebody promises by a
//! mark to come, and nobody asks for the mutex. Illegal: a mark without a first
//! waiter; a free mutex with a front that is not covered and nobody about to
//! cover it, for then nobody would come. `RECALL` alone may stand without a first
//! waiter, and be lost: who wants it asks again.
//!
//! # Why no wake-up is lost
//!
//! An unlock leaves a covered front alone, for a promise is kept before it ends:
//!
//! | unlock (M1) | who ends a promise (M2) |
//! |---|---|
//! | test: the front is still the covered one | front: clear the mark |
//! | owner word: store 0 | quiesce; read the owner word |
//!
//! [`Platform::store_if`] makes the test and the store one step towards
//! [`Platform::quiesce`]. So either the unlock sees the mark gone, and wakes
//! the first waiter; or whoever cleared the mark sees the mutex free, and takes
//! it or wakes the first waiter itself. The price stands where a task is about
//! to sleep anyway; the unlock has neither a read-modify-write nor a barrier.
//!
//! Where the first waiter sleeps because the owner is off its CPU, it need not pay: who is
//! interrupted between the test and the store starts over with the test, and sees that the
//! mark is gone. But that the owner does not run is a hint. So it does not sleep for good
//! at first: it *naps*, and if nobody has woken it by then, quiesces before it sleeps again.
//!
//! Where others want the mutex, their looks often take the line away again before that store:
//! a world that can replaces both words by one instruction ([`Platform::replace_pair`]). That
//! is one step towards everybody, so that what is said here holds without the quiesce.
//!
//! An owner may leave the mutex reserved for itself (`mutex/keep.rs`); what is true
//! of a free mutex here is true of a reserved one.
//!
//! # Who is woken
//!
//! The mutex may be freed as soon as it is released, so an unlock that has to
//! wake the first waiter sets `AWAKE` before, exchanging the front word that
//! names it. If that waiter leaves, its marks go with it and the front differs.
//! Those that a condition variable has moved here together are woken a few at a
//! time (`mutex/batch.rs`).
//!
//! # Who waits how
//!
//! 1. A glance: a microsecond of looks at the owner. Most waits are that short.
//! 2. The spin queue: in line, and as its lead looking at the owner, while the
//!    owner runs, the spinner is not descheduled and its budget lasts.
//! 3. The wait queue: the first waiter spins whenever it wakes; the others sleep.
//!
//! Who finds the owner off its CPU sleeps. To let others run instead, and look again, spares
//! two switches where the owner comes back at once; but where other tasks are busy with
//! something else, their slices come first: milliseconds, with the mutex long free.
//!
//! # Fairness
//!
//! Running tasks overtake sleeping ones: that is where the throughput comes
//! from. It is bounded in time: a waiter that has waited for
//! [`PATIENCE_MICROS`], and has been the first for [`TURN_MICROS`], is overdue.
//! It, or a spinner on its behalf, asks for the mutex with `HANDOFF`, and gets
//! it from the next unlock. If it sleeps, that unlock wakes it and lets it run, to ask
//! itself: others go on with the mutex until then, which nobody could have while its owner
//! woke up. An overdue waiter that was woken but does not get a
//! CPU would gain nothing from the mutex; for it, spinners let others run, and take
//! a place in the queue when that took them their CPU: one comes, one goes, and no
//! more are awake than before. They do so outside the spin queue, for who lets others
//! run as its lead is the lead of spinners that run, and has them all go to sleep. Those
//! that look seldom ask the owner to let it run, and go to sleep at once. Where nobody spins,
//! the waiter may stand in line for the owner's own CPU while another idles, until the owner's
//! slice ends. So an owner looks itself, once in many acquisitions: each waiter of a long queue
//! may cost those behind it that long.

mod batch;
mod codes;
mod keep;
mod leaving;
mod left;
mod spin;
mod wait;

pub(crate) use batch::Call;
pub(crate) use keep::{is_free, named};
pub(crate) use leaving::Leaving;
pub use left::Unlocks;
pub(crate) use spin::{GONE_LOOKS, Promise, Spun, TURN};

use crate::{
    condvar,
    osq::{self, Osq},
    platform::{Deadline, Event, Look, Ordering::*, Platform, TaskId, Word},
    quick::Quick,
    wait_queue::{AWAKE, Front, SPINNER, WaitQueue},
};

/// How long a waiter may be overtaken, in microseconds.
pub const PATIENCE_MICROS: u32 = 4_000;

/// Half transfers of a cache line until a lock has changed hands: to whom looks, and to take it.
/// What else changing hands costs, shows in the period of who polls.
pub(crate) const HAND_OVER: u32 = 4;

/// How long a waiter that was overtaken for long enough is the first before it
/// asks for the mutex, in microseconds: a hand-over costs tens, and a long
/// queue of overdue waiters must not become a convoy.
pub const TURN_MICROS: u32 = 350;

/// How long a spinner lets an overdue first waiter run, in microseconds, before it takes
/// a place in the queue: some switches of threads.
pub(crate) const EXCHANGE_MICROS: u32 = 100;

/// A mutual-exclusion lock. `W` is how spinners in its queue wait:
/// [`osq::Event`] (after seed 001) or [`osq::Poll`] (before it).
///
/// Aligned so that the owner and the front share a cache line.
#[repr(C, align(8))]
pub struct RawMutex<P: Platform, W = osq::Event> {
    body: Body<P>,
    osq: Osq<P, W>,
}

/// The part of a mutex that does not depend on how its spinners wait.
#[repr(C)]
pub(crate) struct Body<P: Platform> {
    pub(crate) owner: P::U32,
    pub(crate) queue: WaitQueue<P>,
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
        self.body.retake() || self.body.take_or_owner(P::me()).is_ok()
    }

    /// Takes the mutex, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller holds it already.
    #[inline]
    pub fn lock(&self) {
        self.lock_by(None);
    }

    /// Takes the mutex, waiting until `deadline` at the latest; returns whether
    /// it was taken. A free mutex is taken even when the deadline has passed.
    #[inline]
    pub fn lock_until(&self, deadline: Deadline) -> bool {
        self.lock_by(Some(deadline))
    }

    #[inline(always)]
    fn lock_by(&self, deadline: Option<Deadline>) -> bool {
        match P::keeps(self.body.address()) {
            true => self.body.retake_and_see() || self.lock_revoked(deadline),
            false => self.lock_unreserved(deadline),
        }
    }

    /// The caller has lost its reservation.
    #[cold]
    #[inline(never)]
    fn lock_revoked(&self, deadline: Option<Deadline>) -> bool {
        self.body.take(P::me()) || self.lock_contended(deadline)
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn lock_unreserved(&self, deadline: Option<Deadline>) -> bool {
        self.body.take_unkept().seen(|| self.body.see()) || self.lock_contended(deadline)
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
    /// As [`RawMutex::unlock`].
    ///
    /// # Panics
    /// As [`RawMutex::unlock`].
    pub unsafe fn unlock_fair(&self) {
        self.body.check_owner(P::me());
        P::gives_up(self.body.address());
        if !self.body.hand_over() {
            self.body.unlock();
        }
    }

    /// Whether anybody holds the mutex.
    pub fn is_locked(&self) -> bool {
        self.body.owner().is_some()
    }

    /// Whether the calling task holds the mutex.
    pub fn is_mine(&self) -> bool {
        self.body.owner() == Some(P::me())
    }

    /// Waits as one that was moved here, and takes the mutex.
    pub(crate) fn wait_moved(&self, me: TaskId) {
        let took = self.body.wait(me, None);
        condvar::want_no_more::<P>(me);
        if !(took || self.body.take(me)) {
            self.lock_sent(me);
        }
    }

    /// The caller was woken together with others, to spin with them: whoever spins already.
    fn lock_sent(&self, me: TaskId) {
        P::waits(self.body.address());
        let look = P::pace(HAND_OVER);
        let spun = self.spin_in_line(me, look, Promise::None, None, || false);
        self.lock_spun(me, look, spun, None);
    }

    pub(crate) fn body(&self) -> &Body<P> {
        &self.body
    }

    /// A glance, in a small function of its own: what comes between the end of
    /// a short wait and the critical section makes every hand-over longer.
    #[inline(never)]
    fn lock_contended(&self, deadline: Option<Deadline>) -> bool {
        let was_known = P::number() != 0; // else the caller has not tried to take it yet
        let me = P::me();
        if !was_known && self.body.take(me) {
            return true;
        }
        if self.is_mine() {
            return self.wait_for_myself(me, deadline);
        }
        P::waits(self.body.address());
        let look = P::pace(HAND_OVER);
        let mut promise = Promise::None;
        look == Look::Poll && self.body.glance(me, &mut promise)
            || self.lock_slow(me, look, promise, deadline)
    }

    #[cold]
    fn lock_slow(
        &self,
        me: TaskId,
        look: Look,
        promise: Promise,
        deadline: Option<Deadline>,
    ) -> bool {
        let spun = self.spin(me, look, promise, deadline, || false);
        self.lock_spun(me, look, spun, deadline)
    }

    /// Goes on waiting after a spin that ended so.
    pub(crate) fn lock_spun(
        &self,
        me: TaskId,
        look: Look,
        mut spun: Spun,
        deadline: Option<Deadline>,
    ) -> bool {
        let mut gives_way = None;
        while let Spun::FirstOff(first, promise) = spun
            && !matches!(look, Look::Every(_))
        {
            let since = *gives_way.get_or_insert_with(P::stamp);
            P::yield_to(first);
            if P::elapsed(since, EXCHANGE_MICROS) {
                P::event(Event::SpinGaveWay);
                break;
            }
            spun = self.spin(me, look, promise, deadline, || false);
        }
        let took = match spun {
            Spun::Took => true,
            Spun::Stop => false,
            Spun::FirstOff(_, promise) => {
                if matches!(look, Look::Every(_)) {
                    self.body.recall(); // it may wait for the owner's CPU
                }
                self.body.take_or_retract(me, promise)
            }
        };
        took || self.body.queue_up(me, deadline)
    }

    /// The owner locks again: that ends at the deadline, or is a deadlock.
    #[cold]
    pub(crate) fn wait_for_myself(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        assert!(
            deadline.is_some(),
            "deadlock: task {} locks the mutex at {self:p}, which it holds already",
            me.number()
        );
        while !deadline.is_some_and(P::passed) {
            P::park(deadline);
        }
        false
    }
}

impl<P: Platform> Body<P> {
    /// The owner: a snapshot.
    #[inline]
    pub(crate) fn owner(&self) -> Option<TaskId> {
        let owner = self.owner.load(Relaxed); // `take` acquires
        if is_free(owner) { None } else { named(owner) }
    }

    /// What a world knows the mutex by.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the mutex if it is free and reserved for nobody.
    #[inline]
    pub(crate) fn take(&self, me: TaskId) -> bool {
        self.take_from(0, me).is_ok()
    }

    /// The same, if [`Platform::keeps`] says that it is not reserved for the caller, whose number is
    /// known.
    #[inline(always)]
    fn take_unkept(&self) -> Quick {
        let me = TaskId::new(P::number());
        match me.is_some_and(|me| self.exchange_from(0, me).is_ok()) {
            true => self.took_unkept(),
            false => Quick::Not,
        }
    }

    /// Takes the mutex if the owner word holds `free`.
    ///
    /// # Errors
    /// What it holds.
    #[inline]
    fn take_from(&self, free: u32, me: TaskId) -> Result<u32, u32> {
        self.exchange_from(free, me).inspect(|_| self.took())
    }

    #[inline(always)]
    fn exchange_from(&self, free: u32, me: TaskId) -> Result<u32, u32> {
        // (M3) Acquire pairs with the Release of the unlock before.
        self.owner
            .compare_exchange(free, me.number(), Acquire, Relaxed)
    }

    #[inline(always)]
    pub(crate) fn unlock(&self) {
        if !(P::keeps(self.address()) && self.release_kept()) {
            P::about_to_write(&self.owner); // who waits may have fetched the line
            self.unlock_unkept();
        }
    }

    /// Releases the mutex if the front is covered.
    #[inline(always)]
    pub(crate) fn release_unkept(&self) -> bool {
        let me = P::number();
        let words = [&self.owner, &self.queue.front];
        let mut front = Front(0); // mostly so: to look would fetch the line once more
        while me != 0 && Self::is_covered(front) {
            // (M1), (M3) the store releases, for the Acquire of who takes it next.
            match P::replace_pair(words, [me, front.0], || [0, front.0]) {
                Some(found) if found == [me, front.0] => return true,
                Some([owner, now]) if owner == me => front = Front(now),
                Some(_) => return false,
                None => return self.release_in_two_steps(me),
            }
        }
        false
    }

    /// The same, if nobody waits.
    #[inline(always)]
    fn release_alone(&self) -> bool {
        let me = P::number();
        me != 0 && self.release_from(me, Front(0))
    }

    /// The same where a world cannot do it in one step.
    #[inline(always)]
    fn release_in_two_steps(&self, me: u32) -> bool {
        let front = self.queue.front();
        Self::is_covered(front) && self.release_from(me, front)
    }

    /// Releases the mutex if the caller has it, and this front is covered and still there.
    #[inline(always)]
    fn release_from(&self, me: u32, front: Front) -> bool {
        self.owner.load(Relaxed) == me // the caller's own store, or misuse
            // (M1), (M3) as in `release_unkept`.
            && P::try_store_if(&self.owner, 0, &self.queue.front, front.0)
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn unlock_unkept(&self) {
        let left = match P::waited(self.address()) {
            true => self.release_unkept(),
            false => self.release_alone(),
        };
        if !left {
            self.unlock_unalone();
        }
    }

    /// Likewise.
    #[inline(never)]
    fn unlock_unalone(&self) {
        if !(self.release_unkept() || self.unlock_slow()) {
            self.check_owner(P::me());
        }
    }

    /// Whether the mutex may just be released: nobody waits, or somebody has
    /// promised to come; and nobody asks for it.
    #[inline(always)]
    fn is_covered(front: Front) -> bool {
        /// Of the combinations of marks, those that cover a first waiter.
        const COVERING: u32 = 1 << AWAKE | 1 << SPINNER | 1 << (AWAKE | SPINNER);
        front.0 == 0 || COVERING >> front.marks() & 1 != 0
    }

    /// Releases the mutex if the front is still `front`.
    pub(crate) fn release(&self, front: Front) -> bool {
        P::store_if(&self.owner, 0, &self.queue.front, front.0) // (M1), (M3)
    }

    /// Returns whether the caller had it.
    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) -> bool {
        if self.owner() != Some(P::me()) {
            return false;
        }
        P::gives_up(self.address());
        let mut leaving = Leaving::default();
        while !self.leave(self.queue.front(), &mut leaving) {}
        leaving.see_to::<P>();
        true
    }

    pub(crate) fn check_owner(&self, me: TaskId) {
        let owner = self.owner();
        assert!(
            owner == Some(me),
            "task {} unlocks the mutex at {self:p}, which is held by {owner:?}",
            me.number()
        );
    }
}
