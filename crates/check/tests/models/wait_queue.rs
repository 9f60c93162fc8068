//! Models of the queue of sleeping waiters, by way of the mutex.

use std::rc::Rc;

use lockyard_check::{Check, Explorer, afterwards, limit_whims, spawn};
use lockyard_core::{Event, Platform, TaskId};

use crate::{DEADLINE, explore, guarded::Guarded};

/// What a task does behind the owner.
type Work = fn(&Guarded);

/// The first task takes the mutex, then lets the others want it: each does what
/// it is given, with so many whims.
fn behind_an_owner(others: &[(u32, Work)]) {
    let guarded = Guarded::new();
    let owner = Rc::clone(&guarded);
    let count = others.len() as u32;
    spawn(move || {
        owner.mutex.lock();
        for other in 2..2 + count {
            Check::unpark(TaskId::new(other).expect("a task"));
        }
        owner.work();
        owner.unlock();
    });
    for &(whims, work) in others {
        let guarded = Rc::clone(&guarded);
        spawn(move || {
            limit_whims(whims);
            Check::park(None);
            work(&guarded);
        });
    }
    afterwards(move || assert!(!guarded.mutex.is_locked()));
}

/// Gives up at any moment.
fn leave(guarded: &Guarded) {
    if guarded.mutex.lock_until(DEADLINE) {
        guarded.work();
        guarded.unlock();
    }
}

const EXPLORER: Explorer = Explorer::new().whims(2).always_running();

#[test]
fn cancel_against_wake() {
    explore(
        "wait queue, cancel",
        &EXPLORER,
        &[Event::Cancelled, Event::WokeFirst],
        || {
            behind_an_owner(&[(2, leave)]);
        },
    );
}

/// A waiter leaves while it is woken, and another waits behind it: the wake-up
/// must not be lost with it. Too many executions to see them all.
#[test]
fn cancel_before_another() {
    let events = [Event::Cancelled, Event::WokeFirst, Event::Parked];
    for changes in 1..=3 {
        let explorer = EXPLORER.pct(1, changes, 20_000);
        explore(
            "wait queue, cancel before another",
            &explorer,
            &events,
            || {
                behind_an_owner(&[(0, leave), (1, Guarded::lock_work_unlock)]);
            },
        );
    }
}

/// Both leave, in any order.
#[test]
fn two_cancel() {
    let explorer = EXPLORER.pct(1, 3, 20_000);
    explore(
        "wait queue, two cancel",
        &explorer,
        &[Event::Cancelled],
        || {
            behind_an_owner(&[(0, leave), (0, leave)]);
        },
    );
}

/// A spinner takes its promise back, while the owner unlocks and another task
/// sleeps. Too many executions to see them all.
#[test]
fn a_broken_promise() {
    let events = [Event::WokeFirst, Event::Parked];
    for changes in 1..=3 {
        let explorer = EXPLORER.pct(1, changes, 20_000);
        explore(
            "wait queue, a promise taken back",
            &explorer,
            &events,
            || {
                let lock = Guarded::lock_work_unlock;
                behind_an_owner(&[(2, lock), (1, lock)]);
            },
        );
    }
}
