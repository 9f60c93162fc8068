//! Models of the mutex.

mod model;

use std::rc::Rc;

use lockyard_check::{Explorer, Wakes, afterwards, free, spawn};
use lockyard_core::{Deadline, Event};
use model::{Guarded, explore};

/// Far behind every nap.
const DEADLINE: Deadline = Deadline(1 << 60);

/// Each task does this as often as said; the payload counts.
fn tasks(count: u32, rounds: u32, work: impl Fn(&Guarded) + 'static) -> Rc<Guarded> {
    let guarded = Guarded::new();
    let work = Rc::new(work);
    for _ in 0..count {
        let (guarded, work) = (guarded.clone(), work.clone());
        spawn(move || {
            for _ in 0..rounds {
                work(&guarded);
            }
        });
    }
    guarded
}

fn locking(count: u32, rounds: u32) {
    let guarded = tasks(count, rounds, Guarded::lock_work_unlock);
    afterwards(move || {
        assert_eq!(guarded.payload.get(), count * rounds);
        assert!(!guarded.mutex.is_locked());
    });
}

fn reached(report: &lockyard_check::Report, events: &[Event]) {
    for &event in events {
        assert!(report.count(event) > 0, "{event:?} was not reached");
    }
}

#[test]
fn two_tasks() {
    let report = explore("mutex of 2", &Explorer::new().whims(3), || locking(2, 1));
    reached(
        &report,
        &[
            Event::SpinAcquired,
            Event::SpinOwnerOff,
            Event::SpinResched,
            Event::Parked,
            Event::WokeFirst,
            Event::HandoffAsked,
            Event::HandedOff,
        ],
    );
}

#[test]
fn two_tasks_with_spurious_wakes() {
    let explorer = Explorer::new().whims(2).wakes(Wakes::Permissive(1));
    explore("mutex of 2, spurious wakes", &explorer, || locking(2, 1));
}

#[test]
fn two_tasks_twice() {
    explore("mutex of 2, twice", &Explorer::new().whims(1).executions(400_000), || locking(2, 2));
}

#[test]
fn three_tasks() {
    explore("mutex of 3", &Explorer::new().whims(1).executions(400_000), || locking(3, 1));
}

#[test]
fn three_tasks_at_random() {
    for seed in 0..4 {
        let explorer = Explorer::new().whims(3).random(seed, 20_000);
        explore("mutex of 3, random", &explorer, || locking(3, 1));
        let explorer = Explorer::new().whims(3).pct(seed, 3, 20_000);
        explore("mutex of 3, PCT", &explorer, || locking(3, 1));
    }
}

fn fair(guarded: &Guarded) {
    guarded.mutex.lock();
    guarded.work();
    // SAFETY: locked above.
    unsafe { guarded.mutex.unlock_fair() };
}

#[test]
fn handed_over() {
    let report = explore("mutex, fair", &Explorer::new().whims(2), || {
        let guarded = tasks(2, 1, fair);
        afterwards(move || assert_eq!(guarded.payload.get(), 2));
    });
    reached(&report, &[Event::HandedOff]);
}

fn until(guarded: &Guarded) {
    if guarded.mutex.lock_until(DEADLINE) {
        guarded.work();
        guarded.unlock();
    }
}

#[test]
fn deadlines() {
    let report = explore("mutex, deadlines", &Explorer::new().whims(2), || {
        let guarded = tasks(2, 1, until);
        afterwards(move || assert!(!guarded.mutex.is_locked()));
    });
    reached(&report, &[Event::Cancelled]);
}

/// The heir reaches its deadline when the mutex is handed to it.
#[test]
fn an_heir_that_times_out() {
    let report = explore("mutex, late heir", &Explorer::new().whims(2), || {
        let guarded = Guarded::new();
        let other = guarded.clone();
        spawn(move || fair(&guarded));
        spawn(move || until(&other));
    });
    reached(&report, &[Event::CancelGranted, Event::Cancelled]);
}

/// Who uses the mutex last frees it, as C++ programs do.
fn use_and_free(guarded: &Guarded, users: u32) {
    guarded.mutex.lock();
    guarded.work();
    let last = guarded.payload.get() == users;
    guarded.unlock();
    if last {
        free(&guarded.mutex);
    }
}

#[test]
fn freed_after_the_last_use() {
    let report = explore("mutex, freed", &Explorer::new().whims(2), || {
        tasks(2, 1, |guarded| use_and_free(guarded, 2));
    });
    reached(&report, &[Event::WokeFirst, Event::HandedOff]);
}
