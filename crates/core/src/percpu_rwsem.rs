//! The per-CPU reader-writer semaphore: a reader counts itself on its own CPU,
//! without a barrier and without a write that another CPU sees.
//!
//! After the Linux kernel's percpu-rwsem (O. Nesterov, P. Zijlstra), cut for user
//! space: a reader cannot switch preemption off, so it comes and goes by a
//! conditional addition to a part of a counter that is its CPU's
//! ([`PerCpu::add_if`]); an unlocked lock may be freed at once; and the readers'
//! fast path comes back by a reader's doing, for nobody runs callbacks here.
//!
//! # The words
//!
//! The counter's sum, less the takings-back in `undone`, is the number of readers.
//! A reader may come by one part and go by another, of its CPU or of the next: only the sum
//! means anything.
//!
//! The state word:
//!
//! | part | meaning | set by | cleared by |
//! |---|---|---|---|
//! | writer | the task that excludes all others, once the readers are out | that task, by exchange; the writer before, handing over | its release |
//! | `WAITERS` | tasks are in the queue, or one is pushing itself | who queues up, in the gate, when there is a writer | the release or the waiter that empties the queue, in the gate |
//! | `SLOW` | readers fence; no grace period is needed | the writer that finds it clear | a reader that finds no writer has come for [`CALM_MICROS`] |
//!
//! Illegal: a writer, or `WAITERS`, without `SLOW`; `WAITERS` without a writer,
//! unless one that was called is on its way. 0 is the fast path of readers.
//!
//! # Readers against the writer
//!
//! On the fast path nothing is ordered by the reader. The writer pays:
//!
//! | reader (P1) | writer (P1) |
//! |---|---|
//! | test: the state is still 0 | state: from 0 to `SLOW` and itself |
//! | count 1 | quiesce; sum up |
//!
//! [`PerCpu::add_if`] makes the test and the addition one step towards
//! [`quiesce`](crate::Platform::quiesce): either the test fails, or the sum has the reader. Once
//! `SLOW` is set a writer need not wait for that: it was waited for when `SLOW` was
//! set, and no test for 0 has passed since. So writers that come close together
//! have one grace period between them. Instead the readers fence:
//!
//! | reader (P2) | writer (P2) |
//! |---|---|
//! | count 1 | state: itself |
//! | fence; state: is there a writer? | fence; sum up |
//!
//! A reader that finds a writer takes its 1 back, in a word of its own: a sum that
//! missed a 1 in one part and had its -1 from another would hide a reader that is
//! in. For the same reason `undone` is read before the sum (P5).
//!
//! | reader (P5) | writer (P5) |
//! |---|---|
//! | count 1; fence (P2) | read `undone` |
//! | add 1 to `undone` | sum up |
//!
//! All other subtractions are those of readers that were in before the writer came,
//! and whose 1 the sum is sure to have, by (P1) or (P2): once 0, it stays 0.
//! A subtraction releases and the sum acquires: the writer is behind what the readers
//! did (P3).
//!
//! # Why no wake-up is lost
//!
//! To the writer that waits for readers: a reader goes as it came, by an addition on
//! condition that the state is what it has read. The writer is in that state, so
//! the reader knows whom to wake, and does not touch the lock again.
//!
//! | reader (P3) | writer (P3) |
//! |---|---|
//! | test: the state is unchanged | state: itself |
//! | count -1; wake the writer in it | quiesce; sum up; sleep |
//!
//! The grace period stands where a task is about to sleep. A reader that takes its
//! 1 back is still a user of the lock and just looks, with a fence (P6):
//!
//! | reader (P6) | writer (P6) |
//! |---|---|
//! | add 1 to `undone` | state: itself |
//! | fence; state: wake the writer in it | fence; read `undone`; sleep |
//!
//! To waiters in the queue: they set `WAITERS` by exchange in a state that has a
//! writer, and inside the gate, so its release fails to exchange the state, and
//! enters the gate. It *calls* waiters: readers, up to and including one writer. If
//! any are left behind, that writer was called, and its own release will call them;
//! or it finds another writer there, whose release will.
//!
//! # Freed memory
//!
//! A release with waiters changes the state inside the gate. Whom it calls it tells
//! only when the gate is open, and until then they are in the lock: it is not freed.
//!
//! # Who gets the lock
//!
//! What a release does with those that it calls is the policy of seed 002:
//! [`Handoff`] takes the lock for them; [`Barging`] only wakes them, and whoever is
//! on a CPU may come first; who loses goes back to the front of the queue.
//! [`Bounded`] is `Barging` until the first waiter has waited for a time that its
//! user chooses, [`PATIENCE_MICROS`] if he does not, and then `Handoff`.

mod api;
mod giving_way;
mod waiting;

use core::{marker::PhantomData, mem::offset_of};

pub use giving_way::SPAN_MICROS;
pub use waiting::{Barging, Bounded, Grant, Handoff, Patience};

use crate::{
    platform::{Deadline, Event, Ordering::*, PerCpu, TaskId, Word},
    wait_queue::WaitQueue,
};
pub(crate) use waiting::Node;

/// How long a waiter of a [`Bounded`] lock may be overtaken, in microseconds, unless
/// its user says otherwise: as in the mutex.
pub const PATIENCE_MICROS: u32 = crate::mutex::PATIENCE_MICROS;

/// How long readers stay on the slow path after the last writer, in microseconds. A
/// grace period takes some, and interrupts every running thread; the slow path
/// costs a reader a fence.
pub const CALM_MICROS: u32 = 500;

/// The state in which readers are on the fast path.
const FAST: u32 = 0;
const SLOW: u32 = 1;
const WAITERS: u32 = 2;
const WRITER_SHIFT: u32 = 2;

/// The state word as one value.
#[derive(Clone, Copy)]
struct State(u32);

impl State {
    #[inline]
    const fn writer(self) -> Option<TaskId> {
        TaskId::new(self.0 >> WRITER_SHIFT)
    }

    const fn has(self, marks: u32) -> bool {
        self.0 & marks != 0
    }

    /// The state with that writer, and the marks.
    const fn of(writer: TaskId, marks: u32) -> u32 {
        writer.number() << WRITER_SHIFT | marks & WAITERS | SLOW
    }
}

/// A reader-writer lock for data that is read all the time and written seldom. `G`
/// says who gets it from a writer: [`Bounded`], [`Barging`] (after seed 002) or
/// [`Handoff`] (before it).
///
/// It does not know its readers: a read lock may be released by another task than
/// the one that took it. A task that reads must not read again, for a writer may
/// have come in between, which waits for the first and lets no other in; unless all
/// writers come by [`RawPercpuRwLock::write_giving_way`].
#[repr(C)]
pub struct RawPercpuRwLock<P: PerCpu, G = Bounded> {
    counter: P::Counter,
    state: P::U32,
    /// When the last writer left.
    since: P::U32,
    /// The readers that took themselves back, of those in the counter.
    undone: P::U32,
    queue: WaitQueue<P>,
    grant: PhantomData<G>,
}

impl<P: PerCpu, G: Grant> Default for RawPercpuRwLock<P, G> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: PerCpu, G: Grant> RawPercpuRwLock<P, G> {
    /// How many of its bytes it uses, from the first on. What is behind is padding.
    pub const USED: usize = offset_of!(Self, queue) + size_of::<WaitQueue<P>>();

    /// An unlocked lock: all its bytes are zero.
    pub const fn new() -> Self {
        Self {
            counter: P::ZERO,
            state: P::U32::ZERO,
            since: P::U32::ZERO,
            undone: P::U32::ZERO,
            queue: WaitQueue::new(),
            grant: PhantomData,
        }
    }

    /// Sees to it that readers can be counted, which else who comes first does.
    ///
    /// # Errors
    /// Why they cannot: then who comes first panics.
    pub fn make_room(&self) -> Result<(), &'static str> {
        P::make_room(&self.counter)
    }

    /// Lets the caller in as a reader unless there is a writer, or somebody who tries to be one.
    #[inline]
    pub fn try_read(&self) -> bool {
        self.enter_fast() || self.enter()
    }

    /// Lets the caller in as a reader, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller is the writer.
    #[inline]
    pub fn read(&self) {
        if !self.enter_fast() {
            self.read_slow(None);
        }
    }

    /// Lets the caller in as a reader, waiting until `deadline` at the latest;
    /// returns whether it is in. Without a writer it is, even when the deadline has
    /// passed.
    #[inline]
    pub fn read_until(&self, deadline: Deadline) -> bool {
        self.enter_fast() || self.read_slow(Some(deadline))
    }

    /// A reader goes.
    ///
    /// # Safety
    /// The caller owns a read lock: its own, or one that the reader who took it
    /// passed on.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        // (P3) if the state is not 0, there may be a writer to wake.
        if !P::add_if(&self.counter, -1, &self.state, FAST) {
            self.leave_slow();
        }
    }

    /// Takes the lock for writing if nobody is in. It may fail when a reader was in
    /// or tried to get in meanwhile.
    pub fn try_write(&self) -> bool {
        let me = P::me();
        if !self.is_drained() || !self.become_writer(me) {
            return false;
        }
        P::fence(); // (P2)
        self.is_drained() || self.give_up()
    }

    /// Takes the lock for writing, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller is the writer already.
    pub fn write(&self) {
        self.write_slow(None);
    }

    /// Takes the lock for writing, waiting until `deadline` at the latest; returns
    /// whether it was taken. A free lock is, even when the deadline has passed.
    pub fn write_until(&self, deadline: Deadline) -> bool {
        self.write_slow(Some(deadline))
    }

    /// The writer goes.
    ///
    /// # Safety
    /// The caller is the writer.
    ///
    /// # Panics
    /// When it is not after all. The lock is as before.
    pub unsafe fn unlock_write(&self) {
        self.check_writer();
        self.release(false);
    }

    /// The writer goes, and those that have waited the longest come in: nobody
    /// overtakes them.
    ///
    /// # Safety
    /// As [`RawPercpuRwLock::unlock_write`].
    ///
    /// # Panics
    /// As [`RawPercpuRwLock::unlock_write`].
    pub unsafe fn unlock_write_fair(&self) {
        self.check_writer();
        self.release(true);
    }

    /// The writer becomes a reader: no other writer is in before.
    ///
    /// # Safety
    /// As [`RawPercpuRwLock::unlock_write`].
    ///
    /// # Panics
    /// As [`RawPercpuRwLock::unlock_write`]; and where there is no room to count readers: the
    /// lock is free then.
    pub unsafe fn downgrade(&self) {
        self.check_writer();
        let room = self.make_room();
        if room.is_ok() {
            self.count(1);
        }
        self.release(false); // even if there is no room for the count
        if let Err(why) = room {
            panic!("{why}");
        }
    }

    /// Whether anybody is in: a snapshot. While readers come and go it may say that nobody is:
    /// their parts are looked at one after the other.
    pub fn is_locked(&self) -> bool {
        self.is_write_locked() || !self.is_drained()
    }

    /// Whether there is a writer: a snapshot. It may still wait for readers, or only try.
    pub fn is_write_locked(&self) -> bool {
        self.state().writer().is_some()
    }

    /// Whether the calling task is the writer.
    pub fn is_mine(&self) -> bool {
        self.state().writer() == Some(P::me())
    }

    #[inline]
    fn state(&self) -> State {
        State(self.state.load(Relaxed)) // checked by an exchange or an addition
    }

    #[inline]
    fn enter_fast(&self) -> bool {
        // (P1)
        P::add_if(&self.counter, 1, &self.state, FAST)
    }

    #[cold]
    fn read_slow(&self, deadline: Option<Deadline>) -> bool {
        self.enter() || self.queue_up(P::me(), false, deadline)
    }

    /// Lets the caller in as a reader unless there is a writer, on either path.
    fn enter(&self) -> bool {
        loop {
            let state = self.state();
            if state.writer().is_some() {
                return false;
            }
            // (P4) the test acquires: what the writer before did.
            if !P::add_if(&self.counter, 1, &self.state, state.0) {
                continue;
            }
            if state.0 == FAST {
                return true;
            }
            P::fence(); // (P2)
            // (P4) Acquire pairs with release's Release: a writer that came and
            // went since the test.
            if State(self.state.load(Acquire)).writer().is_none() {
                self.calm_down();
                return true;
            }
            self.take_back();
            return false;
        }
    }

    /// Puts readers back on the fast path when no writer has come for a while.
    fn calm_down(&self) {
        let calm = P::elapsed(self.since.load(Relaxed), CALM_MICROS); // a hint
        let fast = || {
            self.state
                // Relaxed: (P4) goes through a read-modify-write.
                .compare_exchange(SLOW, FAST, Relaxed, Relaxed)
        };
        if calm && fast().is_ok() {
            P::event(Event::BackToFast);
        }
    }

    /// Undoes a reader's count that came too late: there is a writer.
    #[cold]
    fn take_back(&self) {
        P::event(Event::TookBack);
        // Relaxed: the fence of (P2) is between my count and this, for (P5).
        self.undone.fetch_add(1, Relaxed);
        P::fence(); // (P6)
        if let Some(writer) = self.state().writer() {
            P::unpark(writer);
        }
    }

    #[cold]
    fn leave_slow(&self) {
        let state = self.count(-1); // (P3)
        // From here on the lock may be gone.
        if let Some(writer) = state.writer() {
            P::unpark(writer);
        }
    }

    /// Adds to the counter, in the state that is returned.
    fn count(&self, delta: i64) -> State {
        loop {
            let state = self.state();
            if P::add_if(&self.counter, delta, &self.state, state.0) {
                return state;
            }
        }
    }

    fn write_slow(&self, deadline: Option<Deadline>) -> bool {
        let me = P::me();
        (self.become_writer(me) || self.queue_up(me, true, deadline))
            && (self.drain(deadline) || self.give_up())
    }

    /// Makes the caller the writer unless there is one. Readers may still be in,
    /// but no test for the fast path passes any more.
    fn become_writer(&self, me: TaskId) -> bool {
        let mut state = self.state();
        while state.writer().is_none() {
            let mine = State::of(me, state.0);
            // (P4) Acquire pairs with release's Release: the writer before.
            match self.state.compare_exchange(state.0, mine, Acquire, Relaxed) {
                Ok(_) if state.has(SLOW) => {
                    P::event(Event::GraceSkipped);
                    return true;
                }
                Ok(_) => {
                    P::event(Event::GracePeriod);
                    P::quiesce(); // (P1)
                    return true;
                }
                Err(now) => state = State(now),
            }
        }
        false
    }

    /// The writer waits until all readers are out. Returns whether they are.
    fn drain(&self, deadline: Option<Deadline>) -> bool {
        P::fence(); // (P2), (P6)
        if self.is_drained() {
            return true;
        }
        P::quiesce(); // (P3)
        while !self.is_drained() {
            if deadline.is_some_and(P::passed) {
                P::event(Event::Cancelled);
                return false;
            }
            P::event(Event::Parked);
            P::park(deadline);
        }
        true
    }

    /// Whether all readers are out: a snapshot, which stays true while there is a
    /// writer that has kept (P1) and (P2).
    fn is_drained(&self) -> bool {
        // (P5) Acquire pairs with the fence before take_back: the sum has what was undone.
        let undone = self.undone.load(Acquire);
        // (P3) the sum acquires: what the readers did.
        P::sum(&self.counter) == u64::from(undone)
    }

    /// The writer goes without having been in.
    #[cold]
    fn give_up(&self) -> bool {
        self.release(false);
        false
    }

    /// The writer takes what readers took back out of the counter too, so that its word does
    /// not wrap. Who is the next writer sees both done, by (P4).
    fn forget_undone(&self) {
        let undone = self.undone.load(Acquire); // (P5)
        if undone != 0 {
            self.count(-i64::from(undone));
            self.undone.fetch_add(undone.wrapping_neg(), Relaxed); // (P4) publishes it
        }
    }

    /// The writer lets others in; with `fair`, first of all those that wait.
    fn release(&self, fair: bool) {
        self.since.store(P::stamp(), Relaxed); // a hint
        self.forget_undone();
        loop {
            let state = self.state();
            if state.has(WAITERS) {
                if self.release_to_waiters(fair) {
                    return;
                }
            } else if self
                .state
                // (P4) Release pairs with the Acquire of who comes next.
                .compare_exchange(state.0, SLOW, Release, Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    fn check_writer(&self) {
        let (me, writer) = (P::me(), self.state().writer());
        assert!(
            writer == Some(me),
            "task {} unlocks the lock at {self:p} for writing, which is held by {writer:?}",
            me.number()
        );
    }
}
