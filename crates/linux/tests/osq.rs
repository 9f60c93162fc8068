//! The spin queue on real threads.

#[path = "support/alone.rs"]
mod alone;

use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use alone::Alone;
use lockyard_core::{
    Platform,
    osq::{Event, Osq, Poll, Wait},
};
use lockyard_linux::Linux;

/// aarch64 is tested in an emulator.
const EMULATED: bool = cfg!(target_arch = "aarch64");

/// A number that only the queue's lead may touch.
struct Counter<W> {
    osq: Osq<Linux, W>,
    occupied: AtomicBool,
    count: UnsafeCell<u64>,
}

// SAFETY: `count` is accessed by the lead alone.
unsafe impl<W: Wait<Linux>> Sync for Counter<W> {}

impl<W: Wait<Linux>> Counter<W> {
    const fn new() -> Self {
        Self {
            osq: Osq::new(),
            occupied: AtomicBool::new(false),
            count: UnsafeCell::new(0),
        }
    }

    /// Becomes the lead, adds 1, and does `stay` before it leaves.
    fn add(&self, stay: impl FnOnce()) {
        loop {
            Linux::spin_begin();
            if self.osq.lock() {
                break;
            }
            thread::yield_now();
        }
        assert!(!self.occupied.swap(true, Relaxed), "there are two leads");
        // SAFETY: the caller is the lead, so nobody else accesses the count.
        unsafe { *self.count.get() += 1 };
        stay();
        self.occupied.store(false, Relaxed);
        self.osq.unlock();
    }

    /// The count, of a queue that must be empty.
    fn total(self) -> u64 {
        Linux::spin_begin();
        assert!(self.osq.lock(), "somebody was left in the queue");
        self.osq.unlock();
        self.count.into_inner()
    }
}

fn no_update_is_lost<W: Wait<Linux>>() {
    const ADDS: u64 = if EMULATED { 200 } else { 800 };
    for threads in 2..=8 {
        let counter = Counter::<W>::new();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..ADDS).for_each(|_| counter.add(|| {})));
            }
        });
        assert_eq!(counter.total(), threads * ADDS);
    }
}

/// Leads that give their CPU away make those behind them leave the queue, at
/// its end and in its middle, and the numbers of those that have left for good
/// come back.
fn spinners_may_leave<W: Wait<Linux>>() {
    const ROUNDS: u64 = if EMULATED { 5 } else { 15 };
    const THREADS: u64 = 16;
    const ADDS: u64 = 30;
    let counter = Counter::<W>::new();
    for _ in 0..ROUNDS {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for i in 0..ADDS {
                        counter.add(|| {
                            if i % 4 == 0 {
                                thread::yield_now();
                            }
                        });
                    }
                });
            }
        });
    }
    assert_eq!(counter.total(), ROUNDS * THREADS * ADDS);
}

#[test]
fn no_update_is_lost_by_pollers() {
    let _alone = Alone::begin();
    no_update_is_lost::<Poll>();
}

#[test]
fn no_update_is_lost_by_waiters_for_events() {
    let _alone = Alone::begin();
    no_update_is_lost::<Event>();
}

#[test]
fn short_lived_pollers_may_leave() {
    let _alone = Alone::begin();
    spinners_may_leave::<Poll>();
}

#[test]
fn short_lived_waiters_for_events_may_leave() {
    let _alone = Alone::begin();
    spinners_may_leave::<Event>();
}
