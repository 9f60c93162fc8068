//! Forks of a process in which a thread holds a lock.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/child.rs"]
mod child;
#[path = "support/counter.rs"]
mod counter;
#[path = "support/counts.rs"]
mod counts;

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use alone::Alone;
use child::returns_in_child;
use counter::Counter;
use counts::Counts;
use lockyard_core::{Condvar, Event, Platform, osq};
use lockyard_linux::Linux;

/// aarch64 is tested in an emulator, and a fork's child that starts a thread
/// crashes that: an assertion of QEMU 7.2 fails.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const ADDS: u64 = 200;

/// What a child does with a mutex that its only thread holds.
fn unlock_and_contend(counter: &Counter) {
    counter.add_and_unlock();
    assert!(!counter.mutex.is_locked());
    counter.add();
    assert_eq!(counter.total(), 2);
    if EMULATED {
        return;
    }
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..ADDS).for_each(|_| counter.add()));
        }
        (0..ADDS).for_each(|_| counter.add());
    });
    assert_eq!(counter.total(), 2 + 3 * ADDS);
}

#[test]
fn the_child_unlocks_what_the_forking_thread_held() {
    let _alone = Alone::begin();
    let counter = Counter::new();
    counter.mutex.lock();
    assert!(returns_in_child(|| unlock_and_contend(&counter)));
    assert!(counter.mutex.is_mine());
    counter.add_and_unlock();
    assert_eq!(counter.total(), 1);
}

/// The child with a mutex that `sleepers` threads of the parent wait for does
/// as `child` says; then they get it in the parent.
fn with_sleepers(sleepers: u64, child: impl FnOnce(&Counter)) {
    let mut counts = Counts::begin();
    let counter = Counter::new();
    counter.mutex.lock();
    thread::scope(|scope| {
        for sleeper in 0..sleepers {
            scope.spawn(|| counter.add());
            counts.until(Event::Parked, sleeper + 1);
        }
        let returned = returns_in_child(|| child(&counter));
        counter.add_and_unlock();
        assert!(returned, "the child failed");
    });
    assert_eq!(counter.total(), 1 + sleepers);
}

#[test]
fn the_child_does_not_wait_for_a_sleeper_of_the_parent() {
    with_sleepers(1, unlock_and_contend);
}

#[test]
fn the_child_does_not_wait_for_many_sleepers_of_the_parent() {
    with_sleepers(5, unlock_and_contend);
}

#[test]
fn the_child_hands_over_to_nobody_of_the_parent() {
    with_sleepers(3, |counter| {
        // SAFETY: the forking thread held it, and so the child does.
        unsafe { counter.mutex.unlock_fair() };
        assert!(!counter.mutex.is_locked());
        assert!(counter.mutex.try_lock());
        unlock_and_contend(counter);
    });
}

/// The child's own threads queue up behind those that it does not have.
#[test]
fn the_childs_sleepers_are_found_behind_those_of_the_parent() {
    if EMULATED {
        eprintln!("skipped: the emulator cannot run a child's threads");
        return;
    }
    with_sleepers(3, |counter| {
        let mutex = &counter.mutex;
        thread::scope(|scope| {
            scope.spawn(|| counter.add());
            let quitter = scope.spawn(|| mutex.lock_until(Linux::after(5_000_000)));
            scope.spawn(|| counter.add());
            assert!(!quitter.join().unwrap());
            counter.add_and_unlock();
        });
        assert_eq!(counter.total(), 3);
    });
}

#[test]
fn the_childs_child_unlocks_as_well() {
    with_sleepers(2, |counter| {
        assert!(returns_in_child(|| unlock_and_contend(counter)));
        unlock_and_contend(counter);
    });
}

#[test]
fn the_child_notifies_no_waiter_of_the_parent() {
    let mut counts = Counts::begin();
    let counter = &Counter::<osq::Event>::new();
    let condvar = &Condvar::<Linux>::new();
    thread::scope(|scope| {
        for waiter in 0..3 {
            scope.spawn(|| {
                counter.mutex.lock();
                // SAFETY: this thread holds the mutex.
                assert!(unsafe { condvar.wait_until(&counter.mutex, None) });
                counter.add_and_unlock();
            });
            counts.until(Event::Parked, waiter + 1);
        }
        let returned = returns_in_child(|| {
            condvar.notify_all();
            assert_eq!(condvar.notify_all(), 0);
            counter.mutex.lock();
            unlock_and_contend(counter);
        });
        assert_eq!(condvar.notify_all(), 3);
        assert!(returned, "the child failed");
    });
    assert_eq!(counter.total(), 3);
}

/// A thread of the parent is about to move waiters to the mutex at the moment of the fork,
/// inside of both queues.
#[test]
fn the_child_waits_where_a_thread_of_the_parent_notified() {
    const FORKS: u32 = if EMULATED { 3 } else { 300 };
    const WAITERS: u32 = 16;
    let _alone = Alone::begin();
    let counter = &Counter::<osq::Event>::new();
    let condvar = &Condvar::<Linux>::new();
    let ended = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                counter.mutex.lock();
                while !ended.load(Relaxed) {
                    // SAFETY: this thread holds the mutex.
                    unsafe { condvar.wait_until(&counter.mutex, None) };
                }
                counter.add_and_unlock();
            });
        }
        let notifier = scope.spawn(|| {
            while !ended.load(Relaxed) {
                condvar.notify_all();
            }
        });
        let forks = || {
            counter.mutex.lock();
            let returned = returns_in_child(|| {
                // SAFETY: the forking thread held it, and so the child does.
                let wait =
                    || unsafe { condvar.wait_until(&counter.mutex, Some(Linux::after(1_000))) };
                assert!(!wait());
                condvar.notify_one();
                assert!(!wait());
            });
            // SAFETY: this thread holds the mutex.
            unsafe { counter.mutex.unlock() };
            returned
        };
        let returned = (0..FORKS).all(|_| forks());
        ended.store(true, Relaxed);
        notifier.join().unwrap();
        condvar.notify_all();
        assert!(returned, "a child failed");
    });
}

#[test]
fn the_child_takes_what_a_thread_of_the_parent_keeps() {
    let _alone = Alone::begin();
    let counter = &Counter::<osq::Event>::new();
    let (kept, end) = (&Barrier::new(2), &Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..ADDS).for_each(|_| counter.add());
            kept.wait();
            end.wait();
        });
        kept.wait();
        let returned = returns_in_child(|| {
            (0..ADDS).for_each(|_| counter.add());
            assert_eq!(counter.total(), 2 * ADDS);
        });
        end.wait();
        assert!(returned, "the child failed");
    });
}
