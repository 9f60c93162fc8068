//! Models of the queue of sleeping waiters, by way of the mutex.

use lockyard_check::{Explorer, afterwards, spawn};
use lockyard_core::Event;

use crate::{DEADLINE, explore, guarded::Guarded};

/// A waiter leaves while it is woken, and another waits behind it: the wake-up
/// must not be lost with it.
#[test]
fn cancel_against_wake() {
    let explorer = Explorer::new().whims(1).executions(100_000);
    explore("wait queue, cancel", &explorer, &[Event::Cancelled], || {
        let guarded = Guarded::new();
        let (leaver, waiter) = (guarded.clone(), guarded.clone());
        let all = guarded.clone();
        spawn(move || guarded.lock_work_unlock());
        spawn(move || {
            if leaver.mutex.lock_until(DEADLINE) {
                leaver.work();
                leaver.unlock();
            }
        });
        spawn(move || waiter.lock_work_unlock());
        afterwards(move || assert!(!all.mutex.is_locked()));
    });
}
