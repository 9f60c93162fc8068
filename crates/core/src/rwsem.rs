//! The reader-writer semaphore: six words. Many readers or one writer, and
//! among the readers one upgradable reader, which may become the writer.
//!
//! After the Linux kernel's rwsem (a count word, an owner word as a hint,
//! writers that spin through an OSQ, readers that steal, woken in batches,
//! hand-off against starvation), cut for user space: here a sleeper costs far
//! more to wake, and an unlocked semaphore may be freed at once.
//!
//! # The words
//!
//! The count word says all that decides who may enter. It changes by atomic
//! read-modify-writes alone, and so each change sees what it replaces:
//!
//! | bits | meaning | set by | cleared by |
//! |---|---|---|---|
//! | 0 | `WRITER` | a writer that takes it, or claims it, or who grants it | its release; its downgrade; a writer that gives its claim up |
//! | 1 | `WAITERS`: the queue is not empty | the first to queue up, in the gate | who takes the last out of the queue, in the gate |
//! | 2 | `HANDOFF`: the first waiter is overdue, the next release grants it the lock | itself, or who spins or overtakes it, on its behalf, in the gate | who takes it out of the queue, in the gate |
//! | 3 | `SPINNER`: somebody is awake and will look at the count again before it sleeps | that spinner or first waiter; who wakes the first waiter: a release, or a reader that finds it overdue | who promised, in one step with looking; a writer that leaves the queue; who takes the last out of it |
//! | 4 | `UPGRADABLE`: one of the readers may upgrade | that reader, or who grants it | its release, upgrade or downgrade |
//! | 5..29 | readers, the upgradable and the virtual one included | each of them, or who grants it | its release |
//! | 29 | overflow: never set, for who would set it stays out | | |
//! | 30, 31 | the bias: none, `BIASING`, `BIASED` or `REVOKING` (`rwsem/bias.rs`) | a reader that leaves its part to the virtual reader; a writer that leaves | who releases that: a writer, or who upgrades |
//! | 3, with `BIASED` | `FENCED`: its readers fence (`rwsem/fenced.rs`) | who sets `BIASED` | a reader that finds it lasts; who takes `BIASED` away |
//! | 30, with `WRITER` | `SUSPENDED`: a writer awaits those readers, or has the lock after them | that writer | it, as it leaves |
//! | 30, 31, 4, with `WRITER` | `DRAINING`: one that only tries looks for those readers | that writer | it |
//! | 31, with `WRITER` | `KEPT`: the lock is reserved for the task whose number stands where the readers do (`rwsem/keep.rs`); with 30, `LOSING`: no more; 4 is `RECALL` then | who leaves it, and comes again and again | who wants it |
//!
//! Legal are `WRITER` or readers, and both while a writer claims the lock; `UPGRADABLE` with
//! readers only, and without a claim;
//! `HANDOFF` and `SPINNER` with `WAITERS` only; `HANDOFF` while the lock is
//! held only; and a free lock with `WAITERS` only together with `SPINNER`. So
//! a free lock has somebody coming for it, and may be taken by anybody. A bias
//! goes with readers only; `BIASED` without `WAITERS` only; `UPGRADABLE` in a bias
//! with two or more. `KEPT` may stand for a free lock, and so goes with `WAITERS` only
//! together with `SPINNER`, too; `LOSING` may have a reader, whom it keeps in, and `SUSPENDED` and
//! `DRAINING` many.
//!
//! The owner word is for spinners: the writer's task number, which also tells
//! misuse, or `READERS` or nothing, perhaps with `NONSPINNABLE` when a spinner found that
//! readers take long. They leave theirs behind; it means nothing once the lock
//! is free. A writer that leaves to a fenced bias leaves its number and `READERS`, and readers that
//! look whether others read, too, say so there (`rwsem/run.rs`). The first
//! of the next readers replaces what spinners would heed, the next writer all; a writer together
//! with the count, where the world can (`rwsem/at_once.rs`). Of a reserved lock it says whether its
//! keeper is in: `BUSY`.
//!
//! # Ordering
//!
//! | who leaves | who enters | |
//! |---|---|---|
//! | count: minus its part, Release | count: plus its part, Acquire | (R1) |
//! | count: minus its part, Release | count: plus another's part, on its behalf, Acquire | (R2) |
//! | `granted`: store, Release | `granted`: load, Acquire | (R3) |
//!
//! Every later change of the count continues the sequence that a release
//! heads, so who enters has seen off everybody who left before. Who grants the
//! lock to another acquires on its behalf (R2) and passes it on (R3).
//!
//! No wake-up is lost, for whether somebody waits, whether somebody promised to
//! come and whether the lock is free are in one word, and change in one step:
//!
//! - A waiter sets `WAITERS` on a lock that is held, or is behind another
//!   waiter. The release of that holder finds `WAITERS`. It goes through the
//!   gate, where the waiter is in the queue by then, and grants or wakes; or it
//!   finds `SPINNER`, and leaves the wake to who promised.
//! - Whoever ends a promise exchanges the count: free, it takes the lock; held,
//!   it clears `SPINNER`, and the holder's release will not find it. To clear
//!   another's promise so does no harm: a wake-up more. If it is reserved, the
//!   reservation is revoked before the promise ends.
//! - A waiter that leaves the queue does so in the gate, and in one step passes
//!   on what it was given: the count changes as at a release.
//! - A reader that comes while a promise stands leaves to it the readers that wait. Who ends
//!   the promise while readers have the lock lets those in, if they are first.
//!
//! # The check for waiters of an unlock, and hand-off
//!
//! The Linux kernel once let the unlock skip the wake-up when its OSQ held a
//! spinner, and the lock of the queue could not be had at the first try
//! ([`Trylock`]); seed 003 proposed to skip it without that try ([`Lockless`]).
//! Either has to look at two words, the count and the OSQ, in the right order.
//! And it needs that who is awake may take what is free: when hand-off came, a
//! spinner could find the lock free and reserved, and go to sleep, and the
//! skipped wake-up was lost; so the kernel dropped the check. Here:
//!
//! - the promise is in the count: there is no second word and no order;
//! - `HANDOFF` forbids the skip, so no free lock is ever reserved;
//! - a spinner's last look is its take, or finds the lock held.
//!
//! # Who is granted, and who is woken
//!
//! A writer is woken, and competes. Readers are granted the lock: all in the
//! queue, up to [`MAX_BATCH`] at once, past the writers between them. So is who
//! upgrades, as the last reader but itself leaves; and the first waiter of any
//! kind under `HANDOFF`. They are counted and taken off the queue inside the
//! gate and told outside, when nothing of the lock is touched any more: they
//! may free it. Until the gate opens the lock stays, for a waiter that was not
//! told must pass the gate to leave. Where the lock is to have a fenced bias, all that wait
//! are told to come again instead, when it is free; but each of them twice at most.
//!
//! # A writer that claims the lock
//!
//! Of readers that come and go in turns there is nearly always one in, and a writer that waits
//! until it sees the lock free has others take it first. So one that spins, and may, *claims* the
//! lock: it sets `WRITER` beside the readers, which keeps further ones out, and awaits those that
//! are in, as a writer does that suspends a fenced bias (below); the lock is its own once it finds
//! none left (R1). Readers that run are gone by then. If they are not, one of them is off its CPU:
//! the writer gives the claim up, marks them `NONSPINNABLE`, so that nobody claims the lock from
//! them again, and goes to sleep; those that have queued up meanwhile are seen to as at a release.
//! A lock that is to be handed over is not claimed. Two threads that write one time in ten, and
//! hold the lock for 20 work units and are away as long, waited 320 us to write at p99.9 without
//! that, until they were overdue, and 13 us with it; to read, 7 and 21 us (`claims.jsonl` in
//! benches/runs/rw-2cpu-xeon-300mib).
//!
//! # Readers that are not counted
//!
//! A lock that several tasks read again and again, and do not write, is *biased*: its readers
//! write to nothing but their own task's record, as those of the per-CPU semaphore,
//! and the count has one reader in place of them all. A reader tries that which finds itself
//! in company, or finds that others come in turns with it. Who wants to write ends that: it
//! quiesces, and counts those that are in. `rwsem/bias.rs` has the argument. If the lock is
//! also written, now and then, its readers fence, and a writer need not quiesce:
//! `rwsem/fenced.rs`. When it is biased in which way, `rwsem/rest.rs` says.
//!
//! # A lock that is reserved
//!
//! A lock that one task takes again and again, to write or to write and to read, is
//! reserved for it as it leaves: it comes and goes by stores then. `rwsem/keep.rs` has the
//! argument.
//!
//! # A lock that nobody else wants
//!
//! It has nothing in its count but those that have it, and is taken and left in the fewest steps:
//! `rwsem/plain.rs`.
//!
//! # A lock that several tasks want
//!
//! Such a lock is taken and left by what the task expects there, without a look before:
//! `rwsem/at_once.rs`.
//!
//! # Fairness
//!
//! As in the mutex: running tasks overtake sleeping ones, until the first waiter is
//! overdue and is handed the lock. A writer is woken before that, and asks when it runs:
//! nobody could have a lock that was handed to it asleep. Only if it has not run for several
//! times as long, who overtakes it asks on its behalf: those that come sleep then, and it runs.
//! Who is awake spins in line while the owner runs, readers among writers; and until then a
//! reader that is awake also joins readers past waiters. A *recursive* reader joins them even
//! later (`rwsem/recursive.rs`), one that comes *in order* never (`rwsem/in_order.rs`).

mod api;
mod at_once;
mod bias;
mod codes;
mod count;
mod enter;
mod fenced;
mod in_order;
mod keep;
mod plain;
mod readers;
mod recursive;
mod rest;
mod run;
mod spin;
mod wait;
mod wake;

use core::marker::PhantomData;

pub(crate) use bias::Slots;
use count::{Count, Kind};
pub use readers::Readers;

use crate::{
    osq::{self, Osq},
    platform::{Deadline, Ordering::*, Platform, Word},
    wait_queue::WaitQueue,
};

/// How many readers one release lets in. The last of them lets in the next, so
/// that the gate is not held, and the release not delayed, for longer.
pub const MAX_BATCH: u32 = 256;

const WRITER: u32 = 1;
const WAITERS: u32 = 2;
const HANDOFF: u32 = 4;
const SPINNER: u32 = 8;
const UPGRADABLE: u32 = 16;
const READER: u32 = 32;
const OVERFLOW: u32 = 1 << 29;
/// What a lock without waiters does not have.
const OF_WAITERS: u32 = WAITERS | HANDOFF | SPINNER;

/// Marks of the owner word.
const READERS: u32 = 1;
const NONSPINNABLE: u32 = 2;
/// The task has the lock, which is reserved for it, as the writer; or, with `READERS`, as
/// a reader.
const BUSY: u32 = 4;
const OWNER_SHIFT: u32 = 3;

/// What an unlock does that finds waiters, and a spinner that has promised to
/// come: the policy of seed 003.
pub trait WakeCheck: Send + Sync + 'static {
    /// Whether it wakes the first waiter nevertheless, if it gets the gate at
    /// the first try.
    const TRIES_GATE: bool;
}

/// Before seed 003: try the gate, and give up when it is held.
pub struct Trylock;

/// After seed 003: leave the waiters to the spinner.
pub struct Lockless;

impl WakeCheck for Trylock {
    const TRIES_GATE: bool = true;
}

impl WakeCheck for Lockless {
    const TRIES_GATE: bool = false;
}

/// A task as a waiter; the fields belong to the holder of the queue's gate, but
/// for `granted`, `chain` in the hands of who tells, and its own: `usual`, `marks`, `overtakes`,
/// `drains`.
pub(crate) struct Node<P: Platform> {
    /// A [`Kind`], or 0 when the task is not in the queue.
    kind: P::U32,
    /// The next of those that are granted the lock together.
    chain: P::U32,
    /// What the task was told.
    granted: P::U32,
    /// How often it was told to come again, since it came.
    told: P::U32,
    /// The usual lock that it took last, and what its count had beside those that have it.
    usual: P::U32,
    marks: P::U32,
    /// How often it overtook the first waiter, its own, wrapping.
    overtakes: P::U32,
    /// [`rest::Drains`].
    drains: P::U32,
    /// [`run::Ended`].
    ended: P::U32,
}

/// What `Node::granted` says: it has the lock.
const GRANTED: u32 = 1;
/// It has the lock, and is to let in those for whom the batch had no room.
const GRANTED_AND_MORE: u32 = 2;
/// It has not, and is to come again.
const AGAIN: u32 = 3;

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            kind: P::U32::ZERO,
            chain: P::U32::ZERO,
            granted: P::U32::ZERO,
            told: P::U32::ZERO,
            usual: P::U32::ZERO,
            marks: P::U32::ZERO,
            overtakes: P::U32::ZERO,
            drains: P::U32::ZERO,
            ended: P::U32::ZERO,
        }
    }

    /// How its task waits.
    fn kind(&self) -> Option<Kind> {
        let kinds = [
            Kind::Read,
            Kind::Upgradable,
            Kind::Write,
            Kind::Upgrade,
            Kind::Recursive,
            Kind::InOrder,
        ];
        let kind = self.kind.load(Relaxed); // the gate orders it
        kinds.into_iter().find(|&known| known as u32 == kind)
    }
}

/// A lock for many readers or one writer. `C` is how an unlock looks for
/// waiters, [`Lockless`] or [`Trylock`]; `W` how spinners in its queue wait.
///
/// Aligned so that the count and the owner share a cache line.
#[repr(C, align(8))]
pub struct RawRwLock<P: Platform, C = Lockless, W = osq::Event> {
    count: P::U32,
    owner: P::U32,
    queue: WaitQueue<P>,
    osq: Osq<P, W>,
    /// When the bias may come back, or since when it is there.
    rest: P::U32,
    check: PhantomData<C>,
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> Default for RawRwLock<P, C, W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// An unlocked lock: all its bytes are zero.
    pub const fn new() -> Self {
        Self {
            count: P::U32::ZERO,
            owner: P::U32::ZERO,
            queue: WaitQueue::new(),
            osq: Osq::new(),
            rest: P::U32::ZERO,
            check: PhantomData,
        }
    }

    /// Takes the lock as a reader if no writer has it, and not 2^24 - 1 readers; where
    /// readers have it and others wait, it may fail. It waits for who is just finding out
    /// whether anybody has it.
    #[inline]
    pub fn try_read(&self) -> bool {
        self.fast_read(Kind::Read) || self.take(Kind::Read)
    }

    /// Takes the lock as a reader, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller is the writer, or there are 2^24 - 1 readers already.
    #[inline(always)]
    pub fn read(&self) {
        self.read_by(Kind::Read, None);
    }

    /// Takes the lock as a reader, waiting until `deadline` at the latest;
    /// returns whether it was taken. What can be taken at once is taken even
    /// when the deadline has passed.
    ///
    /// # Panics
    /// When there are 2^24 - 1 readers already.
    #[inline]
    pub fn read_until(&self, deadline: Deadline) -> bool {
        self.read_by(Kind::Read, Some(deadline))
    }

    /// Releases the lock as a reader, recursive or not.
    ///
    /// # Safety
    /// The caller holds it as a reader.
    ///
    /// # Panics
    /// When no reader holds it after all. The lock is as before.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        self.release_read(false);
    }

    /// As [`RawRwLock::try_read`], as the one reader that may upgrade.
    pub fn try_upgradable(&self) -> bool {
        self.take(Kind::Upgradable)
    }

    /// As [`RawRwLock::read`], as the one reader that may upgrade.
    ///
    /// # Panics
    /// As [`RawRwLock::read`].
    pub fn upgradable(&self) {
        self.obtain(Kind::Upgradable, None);
    }

    /// As [`RawRwLock::read_until`], as the one reader that may upgrade.
    ///
    /// # Panics
    /// As [`RawRwLock::read_until`].
    pub fn upgradable_until(&self, deadline: Deadline) -> bool {
        self.obtain(Kind::Upgradable, Some(deadline))
    }

    /// Releases the lock as the upgradable reader.
    ///
    /// # Safety
    /// The caller holds it as that.
    ///
    /// # Panics
    /// When nobody does after all. The lock is as before.
    pub unsafe fn unlock_upgradable(&self) {
        self.release(Kind::Upgradable, false);
    }

    /// The upgradable reader becomes the writer if it is the only reader.
    ///
    /// # Safety
    /// The caller is the upgradable reader.
    pub unsafe fn try_upgrade(&self) -> bool {
        self.take(Kind::Upgrade)
    }

    /// The upgradable reader becomes the writer, before all that wait, once the
    /// other readers have left.
    ///
    /// # Safety
    /// The caller is the upgradable reader.
    pub unsafe fn upgrade(&self) {
        self.obtain(Kind::Upgrade, None);
    }

    /// As [`RawRwLock::upgrade`], waiting until `deadline` at the latest;
    /// returns whether the caller is the writer now. Else it still is the
    /// upgradable reader.
    ///
    /// # Safety
    /// The caller is the upgradable reader.
    pub unsafe fn upgrade_until(&self, deadline: Deadline) -> bool {
        self.obtain(Kind::Upgrade, Some(deadline))
    }

    /// Takes the lock as the writer if it is free. It waits as [`RawRwLock::try_read`] does.
    #[inline]
    pub fn try_write(&self) -> bool {
        self.retake(0) || self.fast_write() || self.take(Kind::Write)
    }

    /// Takes the lock as the writer, waiting as long as it takes.
    ///
    /// # Panics
    /// When the caller is the writer already.
    #[inline(always)]
    pub fn write(&self) {
        self.write_by(None);
    }

    /// Takes the lock as the writer, waiting until `deadline` at the latest;
    /// returns whether it was taken. A free lock is taken even when the
    /// deadline has passed.
    #[inline]
    pub fn write_until(&self, deadline: Deadline) -> bool {
        self.write_by(Some(deadline))
    }

    /// Releases the lock as the writer.
    ///
    /// # Safety
    /// The caller is the writer.
    ///
    /// # Panics
    /// When the caller is not the writer after all. The lock is as before.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        self.release_write(false);
    }

    /// Releases the lock as the writer, and to the first waiter if there is
    /// one: nobody overtakes it. Slower than [`RawRwLock::unlock_write`].
    ///
    /// # Safety
    /// As [`RawRwLock::unlock_write`].
    ///
    /// # Panics
    /// As [`RawRwLock::unlock_write`].
    pub unsafe fn unlock_write_fair(&self) {
        self.release_write(true);
    }

    /// Releases the lock as a reader; the last one, to the first waiter.
    ///
    /// # Safety
    /// As [`RawRwLock::unlock_read`].
    ///
    /// # Panics
    /// As [`RawRwLock::unlock_read`].
    pub unsafe fn unlock_read_fair(&self) {
        self.release_read(true);
    }

    /// Releases the lock as the upgradable reader; as the last one, to the
    /// first waiter.
    ///
    /// # Safety
    /// As [`RawRwLock::unlock_upgradable`].
    ///
    /// # Panics
    /// As [`RawRwLock::unlock_upgradable`].
    pub unsafe fn unlock_upgradable_fair(&self) {
        self.release(Kind::Upgradable, true);
    }

    /// The writer becomes a reader, and lets in readers that wait if one of them is the first
    /// to wait.
    ///
    /// # Safety
    /// The caller is the writer.
    ///
    /// # Panics
    /// When the caller is not the writer after all. The lock is as before.
    pub unsafe fn downgrade(&self) {
        self.relax(Kind::Write, Kind::Read);
    }

    /// The writer becomes the upgradable reader, and lets in readers as
    /// [`RawRwLock::downgrade`] does.
    ///
    /// # Safety
    /// The caller is the writer.
    ///
    /// # Panics
    /// When the caller is not the writer after all. The lock is as before.
    pub unsafe fn downgrade_to_upgradable(&self) {
        self.relax(Kind::Write, Kind::Upgradable);
    }

    /// The upgradable reader becomes one that may not upgrade.
    ///
    /// # Safety
    /// The caller is the upgradable reader.
    ///
    /// # Panics
    /// When nobody is the upgradable reader after all. The lock is as before.
    pub unsafe fn downgrade_upgradable(&self) {
        self.relax(Kind::Upgradable, Kind::Read);
    }

    /// Whether anybody holds the lock: a snapshot.
    pub fn is_locked(&self) -> bool {
        self.is_so(|count| {
            count.is_suspended()
                || self.is_written(count)
                || count.has_keeper() && self.is_read_by_keeper()
                || count.counted_readers() > 0
                || count.has_slots() && self.is_read_by_slot()
        })
    }

    /// Whether the calling task may be a reader: it says so in a slot, or readers are
    /// counted. A snapshot, for who checks releases: quick if the task is one.
    #[inline]
    pub fn may_be_read_by_me(&self) -> bool {
        self.is_so(|count| {
            count.counted_readers() > 0
                || count.has_keeper() && self.is_read_by_keeper()
                || count.has_slots() && (self.has_slot(&P::mine().slots) || self.is_read_by_slot())
        })
    }

    /// Whether a writer holds the lock: a snapshot.
    pub fn is_write_locked(&self) -> bool {
        self.is_so(|count| self.is_written(count))
    }

    fn is_written(&self, count: Count) -> bool {
        if count.is_suspended() {
            // Who is in no slot any more may be in the count by now, which is seen then: (B2) by the
            // Acquire of the look there.
            let is_read = || count.readers() > 0 || self.is_read_by_slot() || self.count() != count;
            return self.is_mine() || !is_read();
        }
        match count.has_keeper() {
            true => self.is_written_by_keeper(),
            false => count.has(WRITER) && count.readers() == 0,
        }
    }

    /// Whether somebody has the lock, as the count says it and what that refers to. Who is not in
    /// the latter any more may be in the count by now.
    #[inline]
    fn is_so(&self, is_so: impl Fn(Count) -> bool) -> bool {
        loop {
            let count = self.count();
            let so = is_so(count);
            if so || self.count() == count {
                return so;
            }
        }
    }

    /// Whether the calling task is the writer.
    pub fn is_mine(&self) -> bool {
        // Only the writer stores itself.
        let owner = (self.owner.load(Relaxed) % keep::SEQUENCE) & !BUSY;
        owner == P::me().number() << OWNER_SHIFT
    }

    #[inline(always)]
    fn count(&self) -> Count {
        Count(self.count.load(Relaxed)) // checked by `exchange`, or a hint
    }

    #[inline]
    fn exchange(&self, from: Count, to: Count, order: crate::Ordering) -> bool {
        self.exchange_or_see(from, to, order).is_ok()
    }

    /// The same, or returns what the count is.
    #[inline]
    fn exchange_or_see(&self, from: Count, to: Count, order: crate::Ordering) -> Result<(), Count> {
        let exchanged = self.count.compare_exchange(from.0, to.0, order, Relaxed); // who fails looks again
        exchanged.map(drop).map_err(Count)
    }
}
