//! Mutexes that stay reserved for the thread that takes them again and again.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/counter.rs"]
mod counter;
#[path = "support/counts.rs"]
mod counts;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::Barrier,
    thread,
};

use counter::Counter;
use counts::Counts;
use lockyard_core::{Event, Platform, osq};
use lockyard_linux::Linux;

/// More acquisitions than earn a reservation.
const MANY: u64 = 1_000;

/// Takes the mutex until it stays reserved for the caller; `false` where nothing
/// does, for want of restartable sequences.
fn keep(counter: &Counter) -> bool {
    (0..MANY).for_each(|_| counter.add());
    let kept = Linux::keeps(ptr::from_ref(&counter.mutex).addr());
    if !kept {
        println!("skipped: nothing is kept without restartable sequences");
    }
    kept
}

#[test]
fn another_takes_what_a_thread_keeps_and_so_does_that_thread() {
    let mut counts = Counts::begin();
    let counter = &Counter::<osq::Event>::new();
    if !keep(counter) {
        return;
    }
    assert!(!counter.mutex.is_locked());
    assert!(!counter.mutex.is_mine());
    thread::scope(|scope| {
        scope.spawn(|| counter.add());
    });
    counts.until(Event::Revoked, 1);
    counter.add();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(counter.mutex.try_lock());
            counter.add_and_unlock();
        });
    });
    assert_eq!(counter.total(), MANY + 3);
}

#[test]
fn who_gets_the_number_of_a_thread_gets_what_that_kept() {
    let _counts = Counts::begin();
    let counter = &Counter::<osq::Event>::new();
    for round in 1..=3 {
        let keeper = thread::scope(|scope| scope.spawn(|| keep(counter)).join().unwrap());
        if !keeper {
            return;
        }
        assert_eq!(counter.total(), round * MANY);
    }
}

#[test]
fn the_keeper_does_not_unlock_what_it_has_unlocked() {
    let _counts = Counts::begin();
    let counter = &Counter::<osq::Event>::new();
    if !keep(counter) {
        return;
    }
    let unlock = || {
        // SAFETY: the caller does not hold the mutex; that ends in a panic.
        unsafe { counter.mutex.unlock() };
    };
    assert!(catch_unwind(AssertUnwindSafe(unlock)).is_err());
    counter.add();
    assert_eq!(counter.total(), MANY + 1);
}

#[test]
fn no_update_is_lost_in_bursts() {
    const THREADS: u64 = 4;
    const BURSTS: u64 = if cfg!(target_arch = "aarch64") {
        20
    } else {
        1_000
    };
    let mut counts = Counts::begin();
    let counter = &Counter::<osq::Event>::new();
    let start = &Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                start.wait();
                for burst in 0..BURSTS {
                    // As long as one another's, and as short as none would keep.
                    let length = (burst * 37 + thread * 11) % 150;
                    (0..=length).for_each(|_| counter.add());
                    if burst % 16 == thread {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let bursts = |thread| (0..BURSTS).map(move |burst| (burst * 37 + thread * 11) % 150 + 1);
    assert_eq!(counter.total(), (0..THREADS).flat_map(bursts).sum::<u64>());
    println!("revoked {} times", counts.seen(Event::Revoked));
}
