//! A payload behind a mutex, and one that a condition variable announces.

use std::rc::Rc;

use lockyard_check::{Check, Tracked, name};
use lockyard_core::{Condvar, Deadline, RawMutex};

use crate::DEADLINE;

/// A payload behind a mutex.
pub struct Guarded {
    pub mutex: RawMutex<Check>,
    pub payload: Tracked<u32>,
}

impl Guarded {
    pub fn new() -> Rc<Self> {
        let guarded = Rc::new(Self {
            mutex: RawMutex::new(),
            payload: Tracked::new(0),
        });
        name(&guarded.mutex, "mutex");
        guarded
    }

    /// What the owner does: a write that would race if it had company.
    pub fn work(&self) {
        self.payload.set(self.payload.get() + 1);
    }

    pub fn unlock(&self) {
        // SAFETY: a model unlocks what it has locked.
        unsafe { self.mutex.unlock() };
    }

    /// Makes the caller the owner, whom another has left the mutex to.
    pub fn take_over(&self) {
        // SAFETY: in a model who leaves it has done with it, and said so.
        assert!(unsafe { self.mutex.take_over() });
    }

    pub fn lock_work_unlock(&self) {
        self.mutex.lock();
        self.work();
        self.unlock();
    }

    /// The same, each in the shortest way that is open, as callers do in whose code the rest does
    /// not stand.
    pub fn lock_work_unlock_shortly(&self) {
        let mutex = &self.mutex;
        match mutex.retake() {
            None => assert!(mutex.take_free().seen(|| mutex.see()) || mutex.lock_not_free()),
            Some(true) if mutex.is_to_see() => mutex.see(),
            Some(true) => (),
            Some(false) => assert!(mutex.lock_unless_mine()),
        }
        self.work();
        // SAFETY: it was locked above, and each way but the one that unlocks it does nothing.
        let unlocked = unsafe {
            mutex.unlock_kept()
                || mutex.unlock_alone()
                || mutex.unlock_at_once()
                || mutex.unlock_not_at_once()
        };
        assert!(unlocked);
    }

    pub fn unlock_locked_fairly(&self) {
        // SAFETY: a model unlocks what it has locked.
        unsafe { self.mutex.unlock_fair() };
    }

    pub fn unlock_fairly(&self) {
        self.mutex.lock();
        self.work();
        self.unlock_locked_fairly();
    }

    pub fn lock_in_time(&self) {
        if self.mutex.lock_until(DEADLINE) {
            self.work();
            self.unlock();
        }
    }

    pub fn lock_at_once(&self) {
        if self.mutex.try_lock() {
            self.work();
            self.unlock();
        }
    }
}

/// A payload that says whether to wait, behind a mutex with a condition variable.
pub struct Flag {
    pub guarded: Rc<Guarded>,
    pub condvar: Condvar<Check>,
}

impl Flag {
    pub fn new() -> Rc<Self> {
        let flag = Rc::new(Self {
            guarded: Guarded::new(),
            condvar: Condvar::new(),
        });
        name(&flag.condvar, "condvar");
        flag
    }

    pub fn wait(&self, deadline: Option<Deadline>) {
        self.guarded.mutex.lock();
        self.wait_locked(deadline);
    }

    pub fn wait_locked(&self, deadline: Option<Deadline>) {
        self.await_locked(deadline);
        self.guarded.unlock();
    }

    /// Waits for the flag, and stays the mutex's owner.
    pub fn await_locked(&self, deadline: Option<Deadline>) {
        let mut notified = true;
        while notified && self.guarded.payload.get() == 0 {
            // SAFETY: locked above, and again by each wait.
            notified = unsafe { self.condvar.wait_until(&self.guarded.mutex, deadline) };
        }
    }

    pub fn raise(&self) {
        self.guarded.mutex.lock();
        self.guarded.payload.set(1);
        self.guarded.unlock();
    }
}
