//! What tasks do with a semaphore, and how a model starts them.

use std::rc::Rc;

use lockyard_check::{
    Check, CheckWord, Tracked, afterwards, become_another, limit_whims, name, spawn,
};
use lockyard_core::{
    FOREVER, Look,
    Ordering::{Acquire, Relaxed, Release},
    Platform, RawRwLock, TaskId, Word,
    rwsem::{Lockless, WakeCheck},
};

use crate::DEADLINE;

/// A payload behind a reader-writer semaphore.
pub struct Shared<C: WakeCheck = Lockless> {
    pub lock: RawRwLock<Check, C>,
    pub payload: Tracked<u32>,
    /// For what tasks tell each other: who has been in.
    pub been: CheckWord,
}

/// What a task does.
pub type Work<C = Lockless> = fn(&Shared<C>);

/// What a task does that holds the lock, or held it.
#[derive(Clone, Copy)]
pub enum Step {
    Read,
    UnlockWrite,
    UnlockWriteFairly,
    UnlockRead,
    UnlockReadFairly,
    UnlockUpgradable,
    UnlockUpgradableFairly,
    Downgrade,
    DowngradeToUpgradable,
    DowngradeUpgradable,
    Upgrade,
    TryToUpgrade,
}

impl<C: WakeCheck> Shared<C> {
    pub fn new() -> Rc<Self> {
        let shared = Rc::new(Self {
            lock: RawRwLock::new(),
            payload: Tracked::new(0),
            been: CheckWord::ZERO,
        });
        name(&shared.lock, "rwsem");
        name(&shared.been, "been");
        shared
    }

    /// What the writer does: a write that would race if it had company.
    pub fn work(&self) {
        self.payload.set(self.payload.get() + 1);
    }

    /// What a task does to the lock that holds it as that step demands. Returns
    /// whether it did.
    pub fn step(&self, step: Step) -> bool {
        // SAFETY: a model takes no step but from what it has locked.
        unsafe {
            match step {
                Step::Read => self.read(),
                Step::UnlockWrite => self.lock.unlock_write(),
                Step::UnlockWriteFairly => self.lock.unlock_write_fair(),
                Step::UnlockRead => self.lock.unlock_read(),
                Step::UnlockReadFairly => self.lock.unlock_read_fair(),
                Step::UnlockUpgradable => self.lock.unlock_upgradable(),
                Step::UnlockUpgradableFairly => self.lock.unlock_upgradable_fair(),
                Step::Downgrade => self.lock.downgrade(),
                Step::DowngradeToUpgradable => self.lock.downgrade_to_upgradable(),
                Step::DowngradeUpgradable => self.lock.downgrade_upgradable(),
                Step::Upgrade => self.lock.upgrade(),
                Step::TryToUpgrade => return self.lock.upgrade_until(DEADLINE),
            }
        }
        true
    }

    pub fn unlock_write(&self) {
        self.step(Step::UnlockWrite);
    }

    pub fn unlock_write_fairly(&self) {
        self.step(Step::UnlockWriteFairly);
    }

    pub fn unlock_read(&self) {
        self.step(Step::UnlockRead);
    }

    pub fn unlock_upgradable(&self) {
        self.step(Step::UnlockUpgradable);
    }

    pub fn write(&self) {
        self.lock.write();
        self.work();
        self.unlock_write();
    }

    pub fn read(&self) {
        self.lock.read();
        self.payload.get();
        self.unlock_read();
    }

    /// Writes, and comes and goes in the shortest way that is open, as callers do in whose code the
    /// rest does not stand.
    pub fn write_shortly(&self) {
        let lock = &self.lock;
        let took = lock.retake_to_write();
        if !took.unwrap_or_else(|| lock.try_write_plain().seen(|| lock.see())) {
            lock.write();
        }
        self.work();
        if !self.leave_shortly() {
            self.unlock_write();
        }
    }

    /// The same of a reader.
    pub fn read_shortly(&self) {
        let lock = &self.lock;
        let plain = || lock.try_read_plain().seen(|| lock.see());
        let shortly = || plain() || lock.try_read_biased() || lock.try_read_shared();
        if !lock.retake_to_read().unwrap_or_else(shortly) {
            lock.read_recursive();
        }
        self.payload.get();
        if !self.leave_shortly() {
            self.unlock_read();
        }
    }

    fn leave_shortly(&self) -> bool {
        let lock = &self.lock;
        // SAFETY: the caller has it, and each way but the one that releases it does nothing.
        unsafe {
            let shortly = || lock.unlock_read_shortly() || lock.unlock_write_plain();
            lock.unlock_kept().unwrap_or_else(shortly)
        }
    }

    /// Reads twice at a time, after it has read.
    pub fn read_nested(&self) {
        self.read();
        self.lock.read();
        let again = self.lock.try_read();
        self.payload.get();
        if again {
            self.unlock_read();
        }
        self.payload.get();
        self.unlock_read();
    }

    pub fn write_fairly(&self) {
        self.lock.write();
        self.work();
        self.unlock_write_fairly();
    }

    pub fn read_fairly(&self) {
        self.lock.read();
        self.payload.get();
        self.step(Step::UnlockReadFairly);
    }

    pub fn try_to_write(&self) {
        if self.lock.write_until(DEADLINE) {
            self.work();
            self.unlock_write();
        }
    }

    pub fn try_to_read(&self) {
        if self.lock.read_until(DEADLINE) {
            self.payload.get();
            self.unlock_read();
        }
    }

    /// Writes if nobody is in.
    pub fn write_at_once(&self) {
        if self.lock.try_write() {
            self.work();
            self.unlock_write();
        }
    }

    pub fn read_at_once(&self) {
        if self.lock.try_read() {
            self.payload.get();
            self.unlock_read();
        }
    }

    /// Reads until another has been in.
    pub fn read_until_another_has(&self) {
        self.lock.read();
        self.payload.get();
        self.wait_for(1);
        self.unlock_read();
    }

    pub fn read_and_say_so(&self) {
        self.lock.read();
        self.payload.get();
        self.been.fetch_add(1, Relaxed);
        self.unlock_read();
    }

    /// Reads, and lets nobody write until another has been in.
    pub fn read_recursively_until_another_has(&self) {
        self.lock.read_recursive();
        self.payload.get();
        self.wait_for(1);
        self.unlock_read();
    }

    pub fn read_recursively_and_say_so(&self) {
        self.lock.read_recursive();
        self.payload.get();
        self.been.fetch_add(1, Relaxed);
        self.unlock_read();
    }

    pub fn read_recursively(&self) {
        self.lock.read_recursive();
        self.payload.get();
        self.unlock_read();
    }

    pub fn read_recursively_twice(&self) {
        self.lock.read_recursive();
        self.lock.read_recursive();
        self.payload.get();
        self.unlock_read();
        self.unlock_read();
    }

    pub fn read_upgradably(&self) {
        self.lock.upgradable();
        self.payload.get();
        self.unlock_upgradable();
    }

    /// Nobody writes between the reading and the writing.
    pub fn upgrade(&self) {
        self.lock.upgradable();
        let before = self.payload.get();
        self.step(Step::Upgrade);
        assert_eq!(self.payload.get(), before);
        self.work();
        self.unlock_write();
    }

    pub fn try_to_upgrade(&self) {
        self.lock.upgradable();
        let before = self.payload.get();
        if self.step(Step::TryToUpgrade) {
            assert_eq!(self.payload.get(), before);
            self.work();
            self.unlock_write();
        } else {
            self.unlock_upgradable();
        }
    }

    /// Nobody writes between the writing and the reading.
    pub fn downgrade(&self) {
        self.lock.write();
        self.work();
        let before = self.payload.get();
        self.step(Step::Downgrade);
        assert_eq!(self.payload.get(), before);
        self.unlock_read();
    }

    /// All ways down.
    pub fn downgrade_by_steps(&self) {
        self.lock.write();
        self.work();
        let before = self.payload.get();
        self.step(Step::DowngradeToUpgradable);
        self.step(Step::DowngradeUpgradable);
        assert_eq!(self.payload.get(), before);
        self.unlock_read();
    }

    /// Takes the lock as a reader, for another task to release it.
    pub fn read_for_another(&self) {
        self.lock.read();
        self.payload.get();
        self.been.fetch_add(1, Release);
    }

    /// Releases the lock for a reader that took it as another task.
    pub fn leave_for_another(&self) {
        let done = |now| now > 0;
        Check::spin_until(&self.been, Acquire, Look::Poll, FOREVER, done, || false);
        become_another();
        self.payload.get();
        self.unlock_read();
    }

    /// Reads, and is known to, as who checks releases asks.
    pub fn read_knowingly(&self) {
        self.lock.read();
        assert!(self.lock.may_be_read_by_me());
        self.unlock_read();
    }

    /// Waits until so many have been in.
    pub fn wait_for(&self, been: u32) {
        let done = |now| now >= been;
        Check::spin_until(&self.been, Relaxed, Look::Poll, FOREVER, done, || false);
    }
}

/// One task for each element, which says how many whims it may meet, and what
/// it does. In the end nobody has the lock.
pub fn tasks<C: WakeCheck>(works: &[(u32, Work<C>)]) {
    let shared = started(works);
    afterwards(move || assert!(!shared.lock.is_locked()));
}

pub fn started<C: WakeCheck>(works: &[(u32, Work<C>)]) -> Rc<Shared<C>> {
    let shared = Shared::new();
    for &(most, work) in works {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(most);
            work(&shared);
        });
    }
    shared
}

/// The first task takes the lock, lets the others want it, and takes the steps:
/// each other does what it is given, with so many whims.
pub fn behind<C: WakeCheck>(take: Work<C>, steps: &'static [Step], others: &[(u32, Work<C>)]) {
    behind_one((0, take), steps, others);
}

/// The same, if so many rare things happen to the first.
pub fn behind_one<C: WakeCheck>(
    (most, take): (u32, Work<C>),
    steps: &'static [Step],
    others: &[(u32, Work<C>)],
) {
    let shared = Shared::new();
    let owner = Rc::clone(&shared);
    let count = others.len() as u32;
    spawn(move || {
        limit_whims(most);
        take(&owner);
        for other in 2..2 + count {
            Check::unpark(TaskId::new(other).expect("a task"));
        }
        for &step in steps {
            owner.step(step);
        }
    });
    for &(most, work) in others {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(most);
            Check::park(None);
            work(&shared);
        });
    }
    afterwards(move || assert!(!shared.lock.is_locked()));
}

pub fn take_to_write<C: WakeCheck>(shared: &Shared<C>) {
    shared.lock.write();
    shared.work();
}

pub fn take_to_read<C: WakeCheck>(shared: &Shared<C>) {
    shared.lock.read();
    shared.payload.get();
}

pub fn take_upgradably<C: WakeCheck>(shared: &Shared<C>) {
    shared.lock.upgradable();
    shared.payload.get();
}
