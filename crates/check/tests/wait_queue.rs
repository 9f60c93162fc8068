//! Models of the queue of sleeping waiters, by way of the mutex.

mod model;

use lockyard_check::{Explorer, afterwards, spawn};
use lockyard_core::{Deadline, Event};
use model::{Guarded, explore};

/// A waiter leaves while it is woken, and another waits behind it: the wake-up
/// must not be lost with it.
#[test]
fn cancel_against_wake() {
    let explorer = Explorer::new().whims(1).executions(300_000);
    let report = explore("wait queue, cancel", &explorer, || {
        let guarded = Guarded::new();
        let (leaver, waiter) = (guarded.clone(), guarded.clone());
        let all = guarded.clone();
        spawn(move || guarded.lock_work_unlock());
        spawn(move || {
            if leaver.mutex.lock_until(Deadline(1 << 60)) {
                leaver.work();
                leaver.unlock();
            }
        });
        spawn(move || waiter.lock_work_unlock());
        afterwards(move || assert!(!all.mutex.is_locked()));
    });
    assert!(report.count(Event::Cancelled) > 0);
}
