//! Models of the condition variable.

mod batch;
mod last;
mod left;

use std::rc::Rc;

use lockyard_check::{Check, CheckWord, Explorer, spawn};
use lockyard_core::{Deadline, Event, FOREVER, Look, Ordering::Relaxed, Platform, Word};

use crate::{
    DEADLINE, explore,
    guarded::{Flag, Guarded},
    programs::{self, Deed},
};

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

/// What is done with the mutex, and with the condition variable. The first task raises the flag
/// and notifies all, again and again: so whoever waits for it without a deadline is notified, or
/// need not wait.
pub fn any_deed(random: &mut fastrand::Rng, task: u32) -> Deed<Flag> {
    let works = [
        Guarded::lock_work_unlock,
        Guarded::unlock_fairly,
        Guarded::lock_in_time,
        Guarded::lock_at_once,
    ];
    let work = works[random.usize(..works.len())];
    let notify_all: fn(&Flag) = |flag| {
        flag.condvar.notify_all();
    };
    match random.u32(..9) {
        choice if task == 0 => Rc::new(move |flag| match choice {
            0..3 => {
                flag.raise();
                notify_all(flag);
            }
            _ => {
                flag.guarded.mutex.lock();
                flag.guarded.payload.set(1);
                notify_all(flag);
                flag.guarded.unlock();
                work(&flag.guarded);
            }
        }),
        0..2 => Rc::new(|flag| flag.wait(None)),
        2..4 => Rc::new(|flag| flag.wait(Some(DEADLINE))),
        4 => Rc::new(|flag| {
            flag.condvar.notify_one();
        }),
        5 => Rc::new(notify_all),
        _ => Rc::new(move |flag| work(&flag.guarded)),
    }
}

fn explore_programs(numbers: std::ops::Range<u64>) {
    let at_end = |flag: &Flag| assert!(!flag.guarded.mutex.is_locked());
    let events = [
        Event::Requeued,
        Event::WokeBatch,
        Event::HandedOff,
        Event::Cancelled,
    ];
    programs::explore("condvar", numbers, &events, any_deed, Flag::new, at_end);
}

#[test]
fn random_programs() {
    explore_programs(0..200);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs(1_000..5_000);
}
