//! A payload behind a mutex.

use std::rc::Rc;

use lockyard_check::{Check, Tracked, name};
use lockyard_core::RawMutex;

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

    pub fn lock_work_unlock(&self) {
        self.mutex.lock();
        self.work();
        self.unlock();
    }
}
