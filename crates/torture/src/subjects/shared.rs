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

const RWSEM: &[&str] = &["count", "owner", "front", "gate", "osq", "rest"];

/// A rwsem: read, written, upgraded, downgraded, tried, with deadlines, released
/// fairly.
pub struct Rwsem<C = Lockless>(RawRwLock<Sim, C>);

/// A rwsem that tasks of real-time priorities take to write, as long as it takes.
pub struct Urgent(Rwsem);

/// A percpu-rwsem: read, written, downgraded, tried, with deadlines, released
/// fairly.
pub struct Percpu<G>(RawPercpuRwLock<Sim, G>);

/// How to take a lock.
enum Way {
    /// Waiting as long as it takes.
    Simply,
    /// Without waiting.
    Trying,
    /// Waiting until then.
    Until(Deadline),
}

impl Way {
    fn new(dice: &mut Rng) -> Self {
        match dice.u8(0..4) {
            0 => {
                note("has a deadline");
                Self::Until(deadline(dice))
            }
            1 => {
                note("tries");
                Self::Trying
            }
            _ => Self::Simply,
        }
    }
}

/// How a task has a lock.
#[derive(Clone, Copy)]
enum Held {
    Read,
    Upgradable,
    Write,
}

fn got(taken: bool) -> bool {
    if !taken {
        note("has not got it");
    }
    taken
}

impl<C: WakeCheck> Rwsem<C> {
    fn take(&self, dice: &mut Rng, how: Held) -> bool {
        let lock = &self.0;
        got(match (how, Way::new(dice)) {
            (Held::Read, Way::Simply) => {
                lock.read();
                true
            }
            (Held::Read, Way::Trying) => lock.try_read(),
            (Held::Read, Way::Until(end)) => lock.read_until(end),
            (Held::Upgradable, Way::Simply) => {
                lock.upgradable();
                true
            }
            (Held::Upgradable, Way::Trying) => lock.try_upgradable(),
            (Held::Upgradable, Way::Until(end)) => lock.upgradable_until(end),
            (Held::Write, Way::Simply) => {
                lock.write();
                true
            }
            (Held::Write, Way::Trying) => lock.try_write(),
            (Held::Write, Way::Until(end)) => lock.write_until(end),
        })
    }

    /// The upgradable reader wants to write. Whether it may.
    fn upgrade(&self, dice: &mut Rng) -> bool {
        let lock = &self.0;
        note("upgrades");
        let way = Way::new(dice);
        // SAFETY: the caller is the upgradable reader.
        got(unsafe {
            match way {
                Way::Simply => {
                    lock.upgrade();
                    true
                }
                Way::Trying => lock.try_upgrade(),
                Way::Until(end) => lock.upgrade_until(end),
            }
        })
    }

    /// Who has the lock has it for less from now on, now and then.
    fn downgrade(&self, dice: &mut Rng, held: Held) -> Held {
        let to = match (held, dice.u8(0..8)) {
            (Held::Write, 0) | (Held::Upgradable, 0 | 1) => Held::Read,
            (Held::Write, 1) => Held::Upgradable,
            _ => return held,
        };
        note("downgrades");
        // SAFETY: the caller has the lock as `held` says.
        unsafe {
            match (held, to) {
                (Held::Write, Held::Upgradable) => self.0.downgrade_to_upgradable(),
                (Held::Write, _) => self.0.downgrade(),
                _ => self.0.downgrade_upgradable(),
            }
        }
        to
    }

    fn release(&self, dice: &mut Rng, held: Held) {
        let lock = &self.0;
        let fair = dice.u8(0..8) == 0;
        note(if fair { "unlocks fairly" } else { "unlocks" });
        // SAFETY: the caller has the lock as `held` says.
        unsafe {
            match (held, fair) {
                (Held::Read, false) => lock.unlock_read(),
                (Held::Read, true) => lock.unlock_read_fair(),
                (Held::Upgradable, false) => lock.unlock_upgradable(),
                (Held::Upgradable, true) => lock.unlock_upgradable_fair(),
                (Held::Write, false) => lock.unlock_write(),
                (Held::Write, true) => lock.unlock_write_fair(),
            }
        }
    }
}

impl Subject for Urgent {
    const REAL_TIME: bool = true;

    fn new() -> Self {
        Self(Rwsem::new())
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        self.0.0.write();
        (sections.alone)();
        self.0.release(dice, Held::Write);
    }

    fn is_free(&self) -> bool {
        self.0.is_free()
    }

    fn name(&self) {
        self.0.name();
    }
}

impl<C: WakeCheck> Subject for Rwsem<C> {
    fn new() -> Self {
        Self(RawRwLock::new())
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let (what, mut held) = match dice.u8(0..5) {
            0 | 1 => ("reads", Held::Read),
            2 | 3 => ("writes", Held::Write),
            _ => ("reads upgradably", Held::Upgradable),
        };
        note(what);
        if !self.take(dice, held) {
            return;
        }
        if let Held::Upgradable = held {
            (sections.shared)();
            if self.upgrade(dice) {
                held = Held::Write;
            }
        }
        if let Held::Write = held {
            (sections.alone)();
            held = self.downgrade(dice, held);
        }
        if let Held::Upgradable = held {
            held = self.downgrade(dice, held);
        }
        if let Held::Read | Held::Upgradable = held {
            (sections.shared)();
        }
        self.release(dice, held);
    }

    fn is_free(&self) -> bool {
        self.0.try_write()
    }

    fn name(&self) {
        name(&self.0, "rwsem", RWSEM);
    }
}

impl<G: Grant> Percpu<G> {
    fn take(&self, dice: &mut Rng, writes: bool) -> bool {
        let lock = &self.0;
        got(match (writes, Way::new(dice)) {
            (false, Way::Simply) => {
                lock.read();
                true
            }
            (false, Way::Trying) => lock.try_read(),
            (false, Way::Until(end)) => lock.read_until(end),
            (true, Way::Simply) => {
                lock.write();
                true
            }
            (true, Way::Trying) => lock.try_write(),
            (true, Way::Until(end)) => lock.write_until(end),
        })
    }

    fn read(&self, sections: &Sections<'_>) {
        (sections.shared)();
        note("unlocks");
        // SAFETY: the caller reads.
        unsafe { self.0.unlock_read() };
    }

    fn write(&self, dice: &mut Rng, sections: &Sections<'_>) {
        (sections.alone)();
        let end = dice.u8(0..8);
        note(match end {
            0 => "downgrades",
            1 => "unlocks fairly",
            _ => "unlocks",
        });
        // SAFETY: the caller is the writer.
        unsafe {
            match end {
                0 => self.0.downgrade(),
                1 => self.0.unlock_write_fair(),
                _ => self.0.unlock_write(),
            }
        }
        if end == 0 {
            self.read(sections);
        }
    }
}

impl<G: Grant> Subject for Percpu<G> {
    fn new() -> Self {
        Self(RawPercpuRwLock::new())
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let writes = dice.bool();
        note(if writes { "writes" } else { "reads" });
        match self.take(dice, writes) {
            false => {}
            true if writes => self.write(dice, sections),
            true => self.read(sections),
        }
    }

    fn is_free(&self) -> bool {
        self.0.try_write()
    }

    fn name(&self) {
        name(&self.0, "percpu", &[]);
    }
}
