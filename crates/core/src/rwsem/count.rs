//! The count word of a reader-writer semaphore as a value, and who wants to change it.

use super::{
    OF_WAITERS, OVERFLOW, READER, UPGRADABLE, WAITERS, WRITER,
    bias::{BIASED, STATE, STEP},
};

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
}

impl Kind {
    /// Whether it is that of a reader that comes.
    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Upgradable | Self::Recursive)
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
        self.0 % (OVERFLOW << 1) / READER
    }

    /// Whether nobody holds the lock.
    pub(super) const fn is_free(self) -> bool {
        !self.has(WRITER) && self.readers() == 0
    }

    /// Whether the upgradable reader is the only reader.
    pub(super) const fn may_upgrade(self) -> bool {
        self.has(UPGRADABLE) && self.readers() == 1
    }

    /// The count once a task that is awake has taken the lock, if it may: a
    /// reader does not overtake waiters, unless the lock is free.
    #[inline(always)]
    pub(super) fn taken(self, kind: Kind) -> Option<Self> {
        let may_read = !self.has(WRITER) && (!self.has(WAITERS) || self.readers() == 0);
        let may = match kind {
            Kind::Read => may_read,
            Kind::Upgradable => may_read && !self.has(UPGRADABLE),
            Kind::Write => self.is_free(),
            Kind::Upgrade => self.may_upgrade(),
            Kind::Recursive => !self.has(WRITER),
        };
        may.then(|| self.entered(kind))
            .filter(|count| !count.has(OVERFLOW))
    }

    /// The count with one more who holds the lock.
    #[inline(always)]
    pub(super) const fn entered(self, kind: Kind) -> Self {
        Self(match kind {
            Kind::Read | Kind::Recursive => self.0 + READER,
            Kind::Upgradable => self.0 + (READER | UPGRADABLE),
            Kind::Write => self.0 | WRITER,
            Kind::Upgrade => self.0 - (READER | UPGRADABLE) + WRITER,
        })
    }

    pub(super) const fn state(self) -> u32 {
        self.0 & STATE
    }

    #[inline(always)]
    pub(super) const fn is_biased(self) -> bool {
        self.state() == BIASED
    }

    /// The next state.
    pub(super) const fn next(self) -> Self {
        Self(self.0.wrapping_add(STEP))
    }

    /// Whether a slot that names the lock stands for a reader.
    pub(super) const fn has_slots(self) -> bool {
        self.0 & BIASED != 0
    }

    /// Whether one of its readers may turn into the virtual reader.
    #[inline(always)]
    pub(super) const fn may_bias(self) -> bool {
        let readers = self.readers() > self.has(UPGRADABLE) as u32; // who is none misuses it
        self.0 & (STATE | WRITER | OF_WAITERS) == 0 && readers
    }

    /// The readers but the virtual one.
    pub(super) const fn counted_readers(self) -> u32 {
        self.readers() - (self.state() != 0) as u32
    }
}
