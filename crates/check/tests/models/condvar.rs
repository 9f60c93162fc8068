//! Models of the condition variable.

use std::rc::Rc;

use lockyard_check::{Check, CheckWord, Explorer, spawn};
use lockyard_core::{Deadline, Event, FOREVER, Look, Ordering::Relaxed, Platform, Word};

use crate::{DEADLINE, explore, guarded::Flag};

fn waiting(waiters: u32, deadline: Option<Deadline>, notify: impl Fn(&Flag) + 'static) {
    let flag = Flag::new();
    for _ in 0..waiters {
        let flag = flag.clone();
        spawn(move || flag.wait(deadline));
    }
    spawn(move || {
        flag.raise();
        notify(&flag);
    });
}

#[test]
fn no_lost_notify() {
    explore(
        "condvar",
        &Explorer::new().whims(1),
        &[Event::Requeued],
        || {
            waiting(1, None, |flag| {
                flag.condvar.notify_one();
            });
        },
    );
}

#[test]
fn requeue_against_timeout() {
    explore(
        "condvar, deadline",
        &Explorer::new().whims(1).polling(),
        &[Event::Requeued, Event::Cancelled],
        || {
            waiting(1, Some(DEADLINE), |flag| {
                flag.condvar.notify_one();
            });
        },
    );
}

/// The flag is raised and the waiter notified inside one section.
#[test]
fn notify_inside() {
    explore(
        "condvar, inside",
        &Explorer::new().whims(1),
        &[Event::Requeued],
        || {
            let flag = Flag::new();
            let other = flag.clone();
            spawn(move || flag.wait(None));
            spawn(move || {
                other.guarded.mutex.lock();
                other.guarded.payload.set(1);
                other.condvar.notify_one();
                other.guarded.unlock();
            });
        },
    );
}

/// A fair unlock goes to who waits, and nobody overtakes it: not even the owner,
/// which locks again at once.
#[test]
fn nobody_overtakes_an_heir() {
    explore(
        "condvar, an heir",
        &Explorer::new(),
        &[Event::Requeued, Event::HandedOff],
        || {
            let flag = Flag::new();
            let other = Rc::clone(&flag);
            let ready = Rc::new(CheckWord::ZERO);
            let waiting = Rc::clone(&ready);
            spawn(move || {
                flag.guarded.mutex.lock();
                waiting.store(1, Relaxed);
                // SAFETY: locked above.
                unsafe { flag.condvar.wait_until(&flag.guarded.mutex, None) };
                flag.guarded.payload.set(1);
                flag.guarded.unlock();
            });
            spawn(move || {
                Check::spin_until(
                    &ready,
                    Relaxed,
                    Look::Poll,
                    FOREVER,
                    |ready| ready == 1,
                    || false,
                );
                other.guarded.mutex.lock();
                assert!(other.condvar.notify_one());
                // SAFETY: locked above.
                unsafe { other.guarded.mutex.unlock_fair() };
                other.guarded.mutex.lock();
                assert_eq!(other.guarded.payload.get(), 1, "the heir was first");
                other.guarded.unlock();
            });
        },
    );
}

/// Both waiters are in the queue; too many executions to see them all.
#[test]
fn notify_all() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 10_000);
    explore(
        "condvar, all",
        &explorer,
        &[Event::Requeued, Event::WokeFirst],
        || {
            let flag = Flag::new();
            let ready = Rc::new(CheckWord::ZERO);
            for _ in 0..2 {
                let (flag, ready) = (Rc::clone(&flag), Rc::clone(&ready));
                spawn(move || {
                    flag.guarded.mutex.lock();
                    ready.fetch_add(1, Relaxed);
                    flag.wait_locked(None);
                });
            }
            spawn(move || {
                Check::spin_until(
                    &ready,
                    Relaxed,
                    Look::Poll,
                    FOREVER,
                    |ready| ready == 2,
                    || false,
                );
                flag.raise();
                assert_eq!(flag.condvar.notify_all(), 2);
            });
        },
    );
}
