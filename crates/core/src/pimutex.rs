//! The mutex with priority inheritance for worlds in which the kernel alone can
//! lend a priority ([`KernelPi`]): 24 bytes.
//!
//! It is [`RawMutex`], whose owner word is also the kernel's: while nobody who has
//! a priority to lend waits, the kernel knows nothing of it, and it is as fast as
//! that. What makes the kernel's own mutex slow is that each contended unlock hands
//! it to a task that sleeps; here two ideas avoid that and keep the promise.
//!
//! - *Boost only where boosting means something.* A waiter that is scheduled fairly
//!   and owns no other such mutex can lend nothing, and waits as for a plain mutex.
//! - *One waiter spins, even if it has a priority to lend* (seed 000), as long as the
//!   owner runs, for then lending would change nothing; then it boosts. Another with a
//!   priority to lend that finds it spinning boosts at once, and so does it then.
//!
//! # Boosting
//!
//! A *booster* is a waiter with a priority to lend. It waits in the kernel, which
//! marks the owner word with [`KERNEL_WAITERS`], lends the owner its priority, and at
//! the owner's request hands the mutex to the most urgent booster. The mark must not
//! be overwritten by an unlock that stores 0, so before a booster goes there it sees
//! to it that no such store comes any more:
//!
//! | a booster (B1) | who unlocks (B2) |
//! |---|---|
//! | front: set `BOOST` | test: the front has no `BOOST` |
//! | quiesce | owner word: store 0, or `KEPT` |
//! | is the mutex reserved? then revoke that | |
//! | quiesce, for another that was revoking (B7) | |
//! | say so to the boosters that come (B8); wait in the kernel | |
//!
//! Test and store are one step towards quiesce ([`store_if`](crate::Platform::store_if)). So either
//! the store is there before the booster goes on, or the unlock sees `BOOST` and takes
//! the way below; and no mutex with `BOOST` becomes reserved.
//!
//! `BOOST` stays until an owner that is no booster itself finds that there are none:
//! tasks that are all boosters pay for the quiesce once. The boosters word counts
//! them, and with `SETTLED` says that (B1) has been done.
//!
//! | an owner ends boosting (B3) | a booster (B4) |
//! |---|---|
//! | front: clear `BOOST` | boosters: add 1; was it `SETTLED`? |
//! | boosters: from none to 0; if that fails, set `BOOST` again (B6) | if not, (B1) |
//!
//! All are read-modify-writes. A booster that comes before the owner's exchange makes
//! it fail; one that comes after does not find `SETTLED`. Meanwhile nobody unlocks, for
//! that is what the owner is about to do.
//!
//! # Who is next
//!
//! The kernel hands the mutex to the most urgent booster, and knows nothing of a spinner.
//! So a spinner with a priority to lend is alone with that: it *gives way* (B9), that is,
//! boosts as well, as soon as it sees a booster counted, and begins no spin where one is.
//! Then the kernel has both, and orders them. A booster is counted before its system call,
//! and until it has returned, so the count is above 0 whenever the kernel has a waiter.
//! (`BOOST` and the kernel's mark would not do: they stay when the last booster has left,
//! and where all are boosters nobody would spin again.) What remains is the time from
//! then until the spinner, too, is in the kernel: a look, and its own way there.
//!
//! A spinner with nothing to lend stays: whoever the kernel has is more urgent, and goes
//! first.
//!
//! # Unlocking while boosting
//!
//! The owner exchanges its number for 0, or, where the kernel has marked the word,
//! asks the kernel. Neither is one step with a test of the front, so the argument of
//! `mutex.rs` that no sleeper is forgotten does not hold as it stands. Instead: the
//! owner accepts no promise but `AWAKE`. Who ends that promise sees `BOOST`, which is in
//! the same word, and naps from then on, as long as it is the first; who leaves the
//! queue wakes the next, so that it naps. An unlock and the end of a promise may miss
//! each other, and then the first waiter takes the mutex a nap later.
//!
//! # What an owner waits for
//!
//! Nothing but the queue's gate, when it was itself in the queue; and the world's
//! gates lend priorities ([`OWN_GATES`](crate::Platform::OWN_GATES)). Spinners do not line up, for the lead
//! of a line would have to wait for the next to link itself ([`osq::Alone`]).

use core::{cell::OnceCell, marker::PhantomData, mem::offset_of};

use crate::{
    mutex::{Body, HAND_OVER, Leaving, Promise, RawMutex, Spun, is_free},
    osq,
    platform::{
        Deadline, Event, KERNEL_OWNER_DIED, KERNEL_WAITERS, KernelPi, LockPi, Look, Ordering::*,
        TaskId, Word,
    },
    wait_queue::{AWAKE, BOOST, Front},
};

/// A mark of the boosters word: `BOOST` is set, and no unlock from before will store
/// to the owner word.
const SETTLED: u32 = 1 << 31;

/// How long who would wait in a circle sleeps until it looks whether that is open.
const NAP_NS: u64 = 5_000_000;

/// Who waits in the kernel.
pub trait Policy: Send + Sync + 'static {
    /// Whether it is everybody.
    const STRICT: bool;
}

/// Who has a priority to lend waits in the kernel, unless it is the one that spins.
pub struct Adaptive;

/// Whoever waits does so in the kernel, at once: for who must not rely on what this
/// library knows of priorities.
pub struct Strict;

impl Policy for Adaptive {
    const STRICT: bool = false;
}

impl Policy for Strict {
    const STRICT: bool = true;
}

/// A mutual-exclusion lock whose owner runs at the priority of the most urgent task
/// that waits for it.
#[repr(C)]
pub struct RawPiMutex<P: KernelPi, S = Adaptive> {
    mutex: RawMutex<P, osq::Alone>,
    unused: P::U32,
    boosters: P::U32,
    policy: PhantomData<S>,
}

impl<P: KernelPi, S: Policy> Default for RawPiMutex<P, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: KernelPi, S: Policy> RawPiMutex<P, S> {
    /// The offset of four bytes, an atomic word's, that no function reads or writes: for one that
    /// the mutex lies over in an object of another layout.
    pub const UNUSED: usize = offset_of!(Self, unused);

    /// An unlocked mutex: all its bytes are zero.
    pub const fn new() -> Self {
        Self {
            mutex: RawMutex::new(),
            unused: P::U32::ZERO,
            boosters: P::U32::ZERO,
            policy: PhantomData,
        }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.retake() || self.took(self.body().take_or_owner(P::me()).is_ok())
    }

    /// Takes the mutex, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller holds it already; and when it is a booster and would wait for
    /// itself, through other mutexes of this kind.
    #[inline]
    pub fn lock(&self) {
        if !self.retake() {
            self.lock_unkept(None);
        }
    }

    /// Takes the mutex, waiting as long as it takes; `false` when the caller holds it
    /// already. For callers that cannot be unwound.
    ///
    /// # Panics
    /// When the caller is a booster and would wait for itself through other mutexes.
    #[inline]
    pub fn lock_unless_mine(&self) -> bool {
        self.retake()
            || self.took(self.body().take(P::me()) || !self.is_mine() && self.lock_contended(None))
    }

    /// Takes the mutex, waiting until `deadline` at the latest; returns whether it was
    /// taken. A free mutex is taken even when the deadline has passed.
    #[inline]
    pub fn lock_until(&self, deadline: Deadline) -> bool {
        self.retake() || self.lock_unkept(Some(deadline))
    }

    #[inline(always)]
    fn retake(&self) -> bool {
        self.body().retake()
    }

    /// As [`RawMutex::retake`]: `true` if it did.
    #[inline(always)]
    pub fn retake_uninspected(&self) -> bool {
        self.body().retake_uninspected()
    }

    /// As [`RawMutex::is_to_see`].
    #[inline(always)]
    pub fn is_to_see(&self) -> bool {
        self.mutex.is_to_see()
    }

    /// As [`RawMutex::see`].
    #[inline(always)]
    pub fn see(&self) {
        self.mutex.see();
    }

    /// As [`RawMutex::unlock_kept`].
    ///
    /// # Safety
    /// If the caller holds it, it has no guard of it any more.
    #[inline(always)]
    pub unsafe fn unlock_kept(&self) -> bool {
        Self::left(P::keeps(self.body().address()) && self.body().release_kept_alone())
    }

    /// Whether it is left reserved.
    #[inline(always)]
    fn left(reserved: bool) -> bool {
        if reserved {
            P::left_reserved();
        }
        reserved
    }

    /// Whether it was taken.
    #[inline(always)]
    fn took(&self, taken: bool) -> bool {
        if taken {
            P::holds(self.body().address());
            if P::boosted() && !self.body().queue.front().has(BOOST) {
                self.expect_boosters();
            }
        }
        taken
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn lock_unkept(&self, deadline: Option<Deadline>) -> bool {
        self.took(self.body().take(P::me()) || self.lock_contended(deadline))
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
        if !Self::left(P::keeps(self.body().address()) && self.body().release_kept()) {
            self.unlock_unkept();
        }
    }

    /// Whether anybody holds the mutex.
    pub fn is_locked(&self) -> bool {
        self.mutex.is_locked()
    }

    /// Whether the calling task holds the mutex.
    pub fn is_mine(&self) -> bool {
        self.mutex.is_mine() && !self.is_nobodys()
    }

    /// Whether an owner has ended: see [`KERNEL_OWNER_DIED`].
    fn is_nobodys(&self) -> bool {
        self.body().owner.load(Relaxed) & KERNEL_OWNER_DIED != 0 // for ever
    }

    #[inline(always)]
    fn body(&self) -> &Body<P> {
        self.mutex.body()
    }

    /// As in `mutex.rs`, but for who has a priority to lend.
    #[inline(never)]
    fn lock_contended(&self, deadline: Option<Deadline>) -> bool {
        let me = P::me();
        if self.is_mine() {
            return self.mutex.wait_for_myself(me, deadline);
        }
        let body = self.body();
        P::waits(body.address());
        if self.is_nobodys() {
            return self.wait_for_nobody(deadline);
        }
        if S::STRICT || body.owner().is_some_and(P::preempted) {
            return self.boost(me, deadline);
        }
        let look = P::pace(HAND_OVER);
        let mut promise = Promise::None;
        if look == Look::Poll && !P::boosted() && body.glance(me, &mut promise) {
            return true;
        }
        let boosts = OnceCell::new();
        let boosts = || *boosts.get_or_init(P::boosts); // asks once
        let gives_way = || self.has_boosters() && boosts(); // (B9)
        match self.mutex.spin(me, look, promise, deadline, gives_way) {
            Spun::Took => true,
            spun if !boosts() => self.mutex.lock_spun(me, look, spun, deadline),
            Spun::FirstOff(_, promise) if body.take_or_retract(me, promise) => true,
            _ => self.boost(me, deadline),
        }
    }

    /// Whether anybody waits in the kernel, or is on its way there: a snapshot.
    fn has_boosters(&self) -> bool {
        self.boosters.load(Relaxed) & !SETTLED != 0 // a spinner looks again and again
    }

    /// Waits as a booster. Returns whether the mutex was taken.
    #[cold]
    fn boost(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        loop {
            match self.boost_once(me, deadline) {
                LockPi::Taken => return true,
                LockPi::TimedOut => return false,
                LockPi::NoOwner => return self.wait_for_nobody(deadline),
                LockPi::Deadlock => assert!(
                    deadline.is_some(),
                    "deadlock: task {} locks the mutex at {self:p}, whose owner waits for it",
                    me.number()
                ),
            }
            // The circle opens when another of it gives up.
            P::park(Some(P::sooner(deadline, NAP_NS)));
            if deadline.is_some_and(P::passed) {
                return false;
            }
        }
    }

    fn boost_once(&self, me: TaskId, deadline: Option<Deadline>) -> LockPi {
        // (B4) Acquire pairs with stop_boosting's Release: its `BOOST` is cleared before mine
        // is set; and with settle's (B8): what it has waited for is over.
        let settled = self.boosters.fetch_add(1, Acquire) & SETTLED != 0;
        let ended = if !settled && self.settle(me) {
            LockPi::Taken
        } else {
            P::event(Event::Boosted);
            P::lock_pi(&self.body().owner, deadline)
        };
        // (B5) Release pairs with stop_boosting's Acquire: an owner that finds nobody sees the
        // mark that I have left.
        self.boosters.fetch_add(1u32.wrapping_neg(), Release);
        ended
    }

    /// (B1) for an owner with a priority to lend, whose rivals likely have one, too: before
    /// they wait, and without a quiesce. For no unlock from before the owner's lock is
    /// still to store, nor a keeper.
    #[cold]
    fn expect_boosters(&self) {
        self.body().queue.front.fetch_or(BOOST, AcqRel); // (B1), (Q1)
        self.boosters.fetch_or(SETTLED, Release); // (B8)
    }

    /// (B1). Returns whether that took the mutex.
    fn settle(&self, me: TaskId) -> bool {
        let body = self.body();
        body.queue.front.fetch_or(BOOST, AcqRel); // (B1), (Q1)
        P::quiesce(); // (B1)
        loop {
            let owner = body.owner.load(Relaxed); // `take_or_owner` acquires
            if owner == 0 || !is_free(owner) {
                break;
            }
            if body.take_or_owner(me).is_ok() {
                return true;
            }
        }
        P::quiesce(); // (B7)
        // (B8) Release pairs with the Acquire of (B4): who finds it goes to the kernel at once.
        self.boosters.fetch_or(SETTLED, Release);
        false
    }

    /// The owner has ended. That ends at the deadline, or never.
    fn wait_for_nobody(&self, deadline: Option<Deadline>) -> bool {
        while !deadline.is_some_and(P::passed) {
            P::park(deadline);
        }
        false
    }

    #[inline(never)]
    fn unlock_unkept(&self) {
        let body = self.body();
        let lock = body.address();
        P::about_to_write(&body.owner); // who waits may have fetched the line
        if !body.release_unkept() {
            self.unlock_slow();
        }
        P::lets_go(lock); // which may be gone
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        let body = self.body();
        let me = P::me();
        body.check_owner(me);
        P::gives_up(body.address());
        let mut leaving = Leaving::default();
        let mut boosting = false;
        loop {
            let front = body.queue.front();
            let left = if !front.has(BOOST) {
                body.leave(front, &mut leaving)
            } else if boosting || S::STRICT || P::boosted() {
                self.leave_boosting(front, &mut leaving)
            } else {
                // The front has changed: who ended its promise without `BOOST` does not nap.
                boosting = !self.stop_boosting();
                false
            };
            if left {
                break;
            }
        }
        leaving.see_to::<P>();
    }

    /// (B3). Returns whether there are no boosters.
    fn stop_boosting(&self) -> bool {
        let body = self.body();
        // A word with marks is the kernel's to release.
        let unmarked = || body.owner.load(Relaxed) == P::me().number(); // the exchange acquires
        let boosters = self.boosters.load(Relaxed); // checked by the exchange
        if boosters & !SETTLED != 0 || !unmarked() {
            return false;
        }
        // (B3) by the exchange; and it hands on what others released.
        body.queue.front.fetch_and(!BOOST, Relaxed);
        // (B3) Release pairs with the Acquire of (B4), Acquire with the Release of (B5).
        let ended = self
            .boosters
            .compare_exchange(boosters, 0, AcqRel, Relaxed)
            .is_ok()
            && unmarked(); // who came and left meanwhile has left its mark
        if ended {
            P::event(Event::BoostStopped);
        } else {
            body.queue.front.fetch_or(BOOST, Relaxed); // (B6) for itself, and who has the mutex next
        }
        ended
    }

    /// A step of an unlock while boosting. Returns whether it was the last.
    fn leave_boosting(&self, front: Front, leaving: &mut Leaving) -> bool {
        let body = self.body();
        if !front.has(AWAKE)
            && let Some(first) = front.first()
        {
            if body.queue.mark(front, front.with(AWAKE)) {
                leaving.woken = Some(first);
            }
            return false;
        }
        let owner = body.owner.load(Relaxed); // the caller's own, but for the marks
        if owner & KERNEL_WAITERS != 0 {
            P::event(Event::BoostEnded);
            P::unlock_pi(&body.owner);
            return true;
        }
        // (M3) Release pairs with the Acquire of who takes it next.
        body.owner
            .compare_exchange(owner, 0, Release, Relaxed)
            .is_ok()
    }
}
