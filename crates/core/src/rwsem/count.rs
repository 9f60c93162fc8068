//! The count word of a reader-writer semaphore as a value, and who wants to change it.

use super::{
    HANDOFF, OF_WAITERS, OVERFLOW, READER, SPINNER, UPGRADABLE, WAITERS, WRITER,
    bias::{BIASED, REVOKING, STATE, STEP},
    fenced::{DRAINING, SUSPENDED},
};
use crate::platform::TaskId;

/// The state of a lock that is reserved for a task: `rwsem/keep.rs`.
const KEPT: u32 = WRITER | BIASED;
/// A mark of such a lock: its keeper is asked not to keep it.
pub(super) const RECALL: u32 = UPGRADABLE;
/// The waiters that such a lock may have: somebody has promised to look after them.
const COVERED: u32 = WAITERS | SPINNER;
/// What the count then has, once that is revoked, until it is known what the task does.
pub(super) const LOSING: u32 = WRITER | REVOKING;

/// How a task wants the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Read = 1,
    Upgradable = 2,
    Write = 3,
    /// It is the upgradable reader.
    Upgrade = 4,
    /// As a reader, past those that wait.
    Recursive = 5,
    /// As a reader, behind those that wait.
    InOrder = 6,
}

impl Kind {
    /// Whether it is that of a reader that comes.
    pub(super) const fn reads(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Upgradable | Self::Recursive | Self::InOrder
        )
    }

    /// Whether who wants it spins before it queues up.
    pub(super) const fn spins(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Recursive)
    }
}

/// What the count word holds: see `rwsem.rs`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) u32);

impl Count {
    pub(super) const fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    pub(super) const fn with(self, bits: u32) -> Self {
        Self(self.0 | bits)
    }

    pub(super) const fn without(self, bits: u32) -> Self {
        Self(self.0 & !bits)
    }

    pub(super) const fn readers(self) -> u32 {
        match self.is_kept() {
            true => 0,
            false => self.0 % (OVERFLOW << 1) / READER,
        }
    }

    /// Whether nobody holds the lock.
    pub(super) const fn is_free(self) -> bool {
        !self.has(WRITER) && self.readers() == 0
    }

    /// Whether the upgradable reader is the only reader.
    pub(super) const fn may_upgrade(self) -> bool {
        self.has(UPGRADABLE) && !self.has(WRITER) && self.readers() == 1
    }

    /// The count once a task that is awake has taken the lock, if it may: a reader joins
    /// readers past waiters only while somebody has promised to look after these.
    #[inline(always)]
    pub(super) fn taken(self, kind: Kind) -> Option<Self> {
        let may_overtake = || self.readers() == 0 || self.is_promised() && !self.has(HANDOFF);
        let may_read = !self.has(WRITER) && (!self.has(WAITERS) || may_overtake());
        let may = match kind {
            Kind::Read => may_read,
            Kind::Upgradable => may_read && !self.has(UPGRADABLE),
            Kind::Write => self.is_free(),
            Kind::Upgrade => self.may_upgrade(),
            Kind::Recursive => !self.has(WRITER),
            Kind::InOrder => !self.has(WRITER | WAITERS),
        };
        may.then(|| self.entered(kind))
            .filter(|count| !count.has(OVERFLOW))
    }

    /// The count with one more who holds the lock.
    #[inline(always)]
    pub(super) const fn entered(self, kind: Kind) -> Self {
        Self(match kind {
            Kind::Read | Kind::Recursive | Kind::InOrder => self.0 + READER,
            Kind::Upgradable => self.0 + (READER | UPGRADABLE),
            Kind::Write => self.0 | WRITER,
            Kind::Upgrade => self.0 - (READER | UPGRADABLE) + WRITER,
        })
    }

    pub(super) const fn state(self) -> u32 {
        self.0 & STATE
    }

    /// Whether readers come and go by slots, without a fence.
    #[inline(always)]
    pub(super) const fn is_biased(self) -> bool {
        self.0 & (STATE | WRITER | SPINNER) == BIASED
    }

    /// Whether readers come and go by slots.
    #[inline(always)]
    pub(super) const fn is_biased_somehow(self) -> bool {
        self.0 & (STATE | WRITER) == BIASED
    }

    /// Whether readers come and go by slots, and none is counted.
    #[inline(always)]
    pub(super) const fn is_biased_alone(self) -> bool {
        self.0 & !SPINNER == BIASED | READER
    }

    /// The count of a lock that is reserved for the task of this number.
    #[inline(always)]
    pub(super) const fn kept_for(task: u32) -> Self {
        const { assert!(TaskId::MAX < OVERFLOW / READER) }
        Self((task * READER) | KEPT)
    }

    /// Whether the lock is reserved for that task, and nothing else is to be done as it
    /// comes and goes.
    #[inline(always)]
    pub(super) const fn is_kept_for(self, task: u32) -> bool {
        let other = self.0 ^ Self::kept_for(task).0;
        other == 0 || other == COVERED
    }

    /// The same count of a lock that nobody has, reserved for that task.
    #[inline(always)]
    pub(super) const fn reserved(self, task: u32) -> Self {
        self.with(Self::kept_for(task).0)
    }

    /// The count once the lock is not reserved any more, and its keeper has that part.
    pub(super) const fn unreserved(self, part: u32) -> Self {
        let marks = if self.has(WAITERS) { OF_WAITERS } else { 0 };
        Self(self.0 & marks | part)
    }

    /// Whether who is to wait for the lock has nothing to revoke: somebody who is awake
    /// has promised to.
    pub(super) const fn may_join(self) -> bool {
        self.has(WAITERS) && (!self.is_kept() || self.has(SPINNER))
    }

    /// Whether somebody has promised to look after waiters.
    pub(super) const fn is_promised(self) -> bool {
        self.has(SPINNER) && !self.is_biased_somehow()
    }

    /// Whether a task that may wait has to revoke what keeps it out.
    pub(super) const fn is_to_be_revoked(self, kind: Kind) -> bool {
        self.keeps_out(kind) && !self.may_join()
    }

    /// Whether the lock is reserved.
    #[inline(always)]
    pub(super) const fn is_kept(self) -> bool {
        self.0 & (STATE | WRITER) == KEPT
    }

    /// Whether the virtual writer stands for whom the lock was reserved for.
    pub(super) const fn has_keeper(self) -> bool {
        self.has(WRITER) && self.state() != 0
    }

    /// Whether the caller has to revoke what keeps it out.
    pub(super) const fn keeps_out(self, kind: Kind) -> bool {
        self.is_kept() || self.is_biased_somehow() && !kind.reads()
    }

    /// Whether somebody revokes, and is finding out who has the lock beside those in the count.
    pub(super) const fn is_undecided(self) -> bool {
        self.state() == REVOKING
    }

    /// Whether a writer has ended a fenced bias for its turn: it awaits those readers, or has the
    /// lock.
    #[inline(always)]
    pub(super) const fn is_suspended(self) -> bool {
        self.0 & (STATE | WRITER) == SUSPENDED
    }

    /// Whether a writer may keep further readers out, and await those that are in.
    pub(super) const fn may_claim(self) -> bool {
        !self.has(STATE | WRITER | UPGRADABLE | HANDOFF) && self.readers() > 0
    }

    /// What is the writer's of it.
    #[inline(always)]
    pub(super) const fn of_writer(self) -> u32 {
        match self.is_suspended() {
            true => SUSPENDED,
            false => WRITER,
        }
    }

    /// The next state.
    pub(super) const fn next(self) -> Self {
        Self(self.0.wrapping_add(STEP))
    }

    /// Whether a slot that names the lock stands for a reader.
    pub(super) const fn has_slots(self) -> bool {
        match self.has(WRITER) {
            true => self.0 & DRAINING == DRAINING || self.is_suspended(),
            false => self.has(BIASED),
        }
    }

    /// Whether more than one reader is counted.
    #[inline(always)]
    pub(super) const fn is_shared(self) -> bool {
        self.readers() > 1
    }

    /// Whether one of its readers may turn into the virtual reader.
    #[inline(always)]
    pub(super) const fn may_bias(self) -> bool {
        let readers = self.readers() > self.has(UPGRADABLE) as u32; // who is none misuses it
        self.0 & (STATE | WRITER | OF_WAITERS) == 0 && readers
    }

    /// Whether one of the readers but the upgradable one is counted.
    #[inline(always)]
    pub(super) const fn has_counted_reader(self) -> bool {
        let upgradable = self.has(UPGRADABLE) && !self.has(WRITER);
        self.counted_readers() > upgradable as u32
    }

    /// The readers but the virtual one.
    pub(super) const fn counted_readers(self) -> u32 {
        self.readers() - (self.state() != 0 && !self.has(WRITER)) as u32
    }
}
