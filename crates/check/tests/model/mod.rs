//! What the models of the locks share.

use std::rc::Rc;

use lockyard_check::{Check, Explorer, Report, Tracked, name};
use lockyard_core::RawMutex;

/// The mutex that the models check.
pub type Mutex = RawMutex<Check>;

/// A payload behind a mutex.
pub struct Guarded {
    pub mutex: Mutex,
    pub payload: Tracked<u32>,
}

impl Guarded {
    pub fn new() -> Rc<Self> {
        let guarded = Rc::new(Self {
            mutex: Mutex::new(),
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

/// Explores a model to the end, and says what that took.
pub fn explore(name: &str, explorer: &Explorer, model: impl Fn() + 'static) -> Report {
    let report = explorer.check(model).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    println!("{name}: {report}");
    report
}
