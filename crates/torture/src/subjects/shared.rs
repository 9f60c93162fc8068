//! The locks for readers and writers.

use fastrand::Rng;
use lockyard_core::{
    Deadline, RawPercpuRwLock, RawRwLock,
    percpu_rwsem::Grant,
    rwsem::{Lockless, WakeCheck},
};
use lockyard_sim::{Sim, name, note};

use super::deadline;
use crate::explore::{Sections, Subject};

const RWSEM: &[&str] = &["count", "owner", "front", "gate", "osq"];

/// A rwsem: read, written, upgraded, downgraded, tried, with deadlines, released
/// fairly.
pub struct Rwsem<C = Lockless>(RawRwLock<Sim, C>);

/// A percpu-rwsem: read, written, downgraded, tried, with deadlines, released
/// fairly.
pub struct Percpu<G>(RawPercpuRwLock<Sim, G>);

/// The calls that take a lock in some way: simply, at once, before a deadline.
type Calls = [&'static str; 3];

const READ: Calls = ["calls read", "calls try_read", "calls read_until"];
const WRITE: Calls = ["calls write", "calls try_write", "calls write_until"];
const UPGRADABLE: Calls = [
    "calls upgradable",
    "calls try_upgradable",
    "calls upgradable_until",
];
const UPGRADE: Calls = ["calls upgrade", "calls try_upgrade", "calls upgrade_until"];

/// Takes a lock in one of three ways.
fn takes(
    dice: &mut Rng,
    calls: Calls,
    lock: impl FnOnce(),
    attempt: impl FnOnce() -> bool,
    until: impl FnOnce(Deadline) -> bool,
) -> bool {
    let taken = match dice.u8(0..4) {
        0 => {
            note(calls[2]);
            until(deadline(dice))
        }
        1 => {
            note(calls[1]);
            attempt()
        }
        _ => {
            note(calls[0]);
            lock();
            true
        }
    };
    if !taken {
        note("has not got it");
    }
    taken
}

/// Releases a lock, one time in eight fairly.
fn releases(dice: &mut Rng, what: &'static str, unlock: impl FnOnce(), fair: impl FnOnce()) {
    let fairly = dice.u8(0..8) == 0;
    note(what);
    if fairly { fair() } else { unlock() }
}

impl<C: WakeCheck> Rwsem<C> {
    fn read(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let lock = &self.0;
        let until = |end| lock.read_until(end);
        if takes(dice, READ, || lock.read(), || lock.try_read(), until) {
            (sections.shared)();
            self.done_reading(dice);
        }
    }

    fn done_reading(&self, dice: &mut Rng) {
        let lock = &self.0;
        // SAFETY: the caller reads.
        let unlock = || unsafe { lock.unlock_read() };
        // SAFETY: as above.
        let fair = || unsafe { lock.unlock_read_fair() };
        releases(dice, "unlocks, reading", unlock, fair);
    }

    fn write(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let lock = &self.0;
        let until = |end| lock.write_until(end);
        if takes(dice, WRITE, || lock.write(), || lock.try_write(), until) {
            (sections.alone)();
            self.done_writing(dice, sections);
        }
    }

    /// The writer unlocks, or lets readers in first.
    fn done_writing(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let lock = &self.0;
        match dice.u8(0..8) {
            0 => {
                note("downgrades");
                // SAFETY: the caller is the writer.
                unsafe { lock.downgrade() };
                (sections.shared)();
                self.done_reading(dice);
            }
            1 => {
                note("downgrades, and may upgrade");
                // SAFETY: the caller is the writer.
                unsafe { lock.downgrade_to_upgradable() };
                (sections.shared)();
                self.done_with_upgradable(dice);
            }
            _ => {
                // SAFETY: the caller is the writer.
                let unlock = || unsafe { lock.unlock_write() };
                // SAFETY: as above.
                let fair = || unsafe { lock.unlock_write_fair() };
                releases(dice, "unlocks, writing", unlock, fair);
            }
        }
    }

    fn upgrade(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let lock = &self.0;
        let until = |end| lock.upgradable_until(end);
        if !takes(
            dice,
            UPGRADABLE,
            || lock.upgradable(),
            || lock.try_upgradable(),
            until,
        ) {
            return;
        }
        (sections.shared)();
        // SAFETY: taken above.
        let upgrade = || unsafe { lock.upgrade() };
        // SAFETY: as above.
        let attempt = || unsafe { lock.try_upgrade() };
        // SAFETY: as above.
        let until = |end| unsafe { lock.upgrade_until(end) };
        if takes(dice, UPGRADE, upgrade, attempt, until) {
            (sections.alone)();
            self.done_writing(dice, sections);
        } else {
            self.done_with_upgradable(dice);
        }
    }

    fn done_with_upgradable(&self, dice: &mut Rng) {
        let lock = &self.0;
        if dice.u8(0..4) == 0 {
            note("will not upgrade");
            // SAFETY: the caller is the upgradable reader.
            unsafe { lock.downgrade_upgradable() };
            self.done_reading(dice);
            return;
        }
        // SAFETY: the caller is the upgradable reader.
        let unlock = || unsafe { lock.unlock_upgradable() };
        // SAFETY: as above.
        let fair = || unsafe { lock.unlock_upgradable_fair() };
        releases(dice, "unlocks, upgradable", unlock, fair);
    }
}

impl<C: WakeCheck> Subject for Rwsem<C> {
    fn new() -> Self {
        Self(RawRwLock::new())
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        match dice.u8(0..5) {
            0 | 1 => self.read(dice, sections),
            2 | 3 => self.write(dice, sections),
            _ => self.upgrade(dice, sections),
        }
    }

    fn is_free(&self) -> bool {
        self.0.try_write()
    }

    fn name(&self) {
        name(&self.0, "rwsem", RWSEM);
    }
}

impl<G: Grant> Percpu<G> {
    fn done_reading(&self) {
        note("unlocks, reading");
        // SAFETY: the caller reads.
        unsafe { self.0.unlock_read() };
    }

    fn done_writing(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let lock = &self.0;
        if dice.u8(0..8) == 0 {
            note("downgrades");
            // SAFETY: the caller is the writer.
            unsafe { lock.downgrade() };
            (sections.shared)();
            self.done_reading();
            return;
        }
        // SAFETY: the caller is the writer.
        let unlock = || unsafe { lock.unlock_write() };
        // SAFETY: as above.
        let fair = || unsafe { lock.unlock_write_fair() };
        releases(dice, "unlocks, writing", unlock, fair);
    }
}

impl<G: Grant> Subject for Percpu<G> {
    fn new() -> Self {
        Self(RawPercpuRwLock::new())
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let lock = &self.0;
        if dice.bool() {
            let until = |end| lock.read_until(end);
            if takes(dice, READ, || lock.read(), || lock.try_read(), until) {
                (sections.shared)();
                self.done_reading();
            }
        } else {
            let until = |end| lock.write_until(end);
            if takes(dice, WRITE, || lock.write(), || lock.try_write(), until) {
                (sections.alone)();
                self.done_writing(dice, sections);
            }
        }
    }

    fn is_free(&self) -> bool {
        self.0.try_write()
    }

    fn name(&self) {
        name(&self.0, "percpu", &[]);
    }
}
