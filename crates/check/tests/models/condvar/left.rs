//! An owner that leaves the mutex to another task to unlock, and notifies when it has said so; and
//! waiters with two mutexes.

use lockyard_core::Ordering::{Acquire, Release};

use super::*;

#[test]
fn who_has_left_it_notifies() {
    let explorer = Explorer::new();
    explore(
        "condvar, left, then notified",
        &explorer,
        &[Event::Requeued],
        || {
            let flag = Flag::new();
            let counts = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
            let until = |word: &CheckWord, value| {
                let there = move |now| now == value;
                Check::spin_until(word, Acquire, Look::Poll, FOREVER, there, || false);
            };
            let (waiters, waiter_counts) = (Rc::clone(&flag), Rc::clone(&counts));
            spawn(move || {
                waiters.guarded.mutex.lock();
                waiter_counts[0].store(1, Relaxed);
                waiters.wait_locked(None);
            });
            let (owners, owner_counts) = (Rc::clone(&flag), Rc::clone(&counts));
            spawn(move || {
                until(&owner_counts[0], 1);
                owners.guarded.mutex.lock();
                owners.guarded.payload.set(1);
                owner_counts[1].store(1, Release);
                owners.condvar.notify_one();
            });
            spawn(move || {
                until(&counts[1], 1);
                flag.guarded.take_over();
                flag.guarded.unlock();
            });
        },
    );
}

/// Three waiters with two mutexes; who comes first is anybody's.
#[test]
fn all_of_two_mutexes() {
    let explorer = Explorer::new().whims(2).pct(1, 4, 20_000);
    explore(
        "condvar, all of two mutexes",
        &explorer,
        &[Event::Requeued, Event::WokeBatch],
        || {
            let flag = Flag::new();
            let other = Guarded::new();
            let ready = Rc::new(CheckWord::ZERO);
            for index in 0..3 {
                let (flag, other, ready) = (Rc::clone(&flag), Rc::clone(&other), Rc::clone(&ready));
                spawn(move || {
                    let guarded = if index == 1 { &other } else { &flag.guarded };
                    guarded.mutex.lock();
                    ready.fetch_add(1, Relaxed);
                    let deadline = (index == 2).then_some(DEADLINE);
                    let mut notified = true;
                    while notified && guarded.payload.get() == 0 {
                        // SAFETY: locked.
                        notified = unsafe { flag.condvar.wait_until(&guarded.mutex, deadline) };
                    }
                    guarded.unlock();
                });
            }
            spawn(move || {
                let all = |ready| ready == 3;
                Check::spin_until(&ready, Relaxed, Look::Poll, FOREVER, all, || false);
                other.mutex.lock();
                other.payload.set(1);
                other.unlock();
                flag.guarded.mutex.lock();
                flag.guarded.payload.set(1);
                flag.condvar.notify_all();
                flag.guarded.unlock();
                other.lock_work_unlock();
            });
        },
    );
}
