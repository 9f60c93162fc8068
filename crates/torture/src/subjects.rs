//! What is explored: our locks, with all that their users may do.

mod inherited;
mod shared;

pub use inherited::RtMutexes;
pub use shared::{Percpu, Rwsem, Urgent};

use std::cell::Cell;

use fastrand::Rng;
use lockyard_core::{Condvar, Platform, RawMutex, osq::Wait};
use lockyard_sim::{Sim, name, note};

use crate::{
    Lock,
    explore::{Sections, Subject},
};

/// The words of our locks, in the order in which they lie.
const MUTEX: &[&str] = &["owner", "front", "gate", "osq"];
const CONDVAR: &[&str] = &["front", "gate"];

/// A deadline up to so long away.
fn deadline(dice: &mut Rng) -> lockyard_core::Deadline {
    Sim::after(dice.u64(0..2_000_000))
}

/// A mutex: locked, tried, locked with a deadline, released fairly.
pub struct Mutex<W: Wait<Sim>>(RawMutex<Sim, W>);

impl<W: Wait<Sim>> Subject for Mutex<W> {
    fn new() -> Self {
        Self(RawMutex::new())
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let locked = match dice.u8(0..4) {
            0 => {
                note("calls lock_until");
                self.0.lock_until(deadline(dice))
            }
            1 => {
                note("calls try_lock");
                self.0.try_lock()
            }
            _ => {
                note("calls lock");
                self.0.lock();
                true
            }
        };
        if !locked {
            note("has not got it");
            return;
        }
        (sections.alone)();
        // SAFETY: locked above.
        unsafe {
            match dice.u8(0..8) {
                0 => {
                    note("calls unlock_fair");
                    self.0.unlock_fair();
                }
                _ => {
                    note("calls unlock");
                    self.0.unlock();
                }
            }
        }
    }

    fn is_free(&self) -> bool {
        self.0.try_lock()
    }

    fn name(&self) {
        name(&self.0, "mutex", MUTEX);
    }
}

/// A lock of one unit made of a mutex and a condition variable. Who waits too
/// long gives up.
pub struct Guarded<W: Wait<Sim>> {
    mutex: RawMutex<Sim, W>,
    freed: Condvar<Sim>,
    taken: Cell<bool>,
}

impl<W: Wait<Sim>> Guarded<W> {
    fn acquire(&self, dice: &mut Rng) -> bool {
        let end = (dice.u8(0..3) == 0).then(|| deadline(dice));
        note("wants the unit");
        self.mutex.lock();
        let mut notified = true;
        while notified && self.taken.get() {
            // SAFETY: locked above, and again by each wait.
            notified = unsafe { self.freed.wait_until(&self.mutex, end) };
        }
        let acquired = !self.taken.replace(true);
        note(match acquired {
            true => "takes the unit",
            false => "gives up",
        });
        // SAFETY: as above.
        unsafe { self.mutex.unlock() };
        acquired
    }

    fn release(&self, dice: &mut Rng) {
        note("frees the unit");
        self.mutex.lock();
        self.taken.set(false);
        let (early, all) = (dice.bool(), dice.u8(0..4) == 0);
        let notify = || match all {
            true => {
                note("calls notify_all");
                self.freed.notify_all() > 0
            }
            false => {
                note("calls notify_one");
                self.freed.notify_one()
            }
        };
        if early {
            notify();
        }
        // SAFETY: locked above.
        unsafe { self.mutex.unlock() };
        if !early {
            notify();
        }
    }
}

impl<W: Wait<Sim>> Subject for Guarded<W> {
    fn new() -> Self {
        Self {
            mutex: RawMutex::new(),
            freed: Condvar::new(),
            taken: Cell::new(false),
        }
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        if self.acquire(dice) {
            (sections.alone)();
            self.release(dice);
        }
    }

    fn is_free(&self) -> bool {
        !self.taken.get() && self.mutex.try_lock()
    }

    fn name(&self) {
        name(&self.mutex, "mutex", MUTEX);
        name(&self.freed, "condvar", CONDVAR);
    }
}

/// A lock that can only be locked and unlocked.
pub struct Plain<L: Lock>(L);

impl<L: Lock> Subject for Plain<L> {
    fn new() -> Self {
        Self(L::new())
    }

    fn act(&self, _: &mut Rng, sections: &Sections<'_>) {
        note("locks");
        self.0.with(sections.alone);
        note("has unlocked");
    }

    fn is_free(&self) -> bool {
        true
    }

    fn name(&self) {
        name(&self.0, "lock", &[]);
    }
}
