//! A fork while another thread locks for the first time in its process.

#![cfg(not(target_arch = "aarch64"))] // its emulator crashes when a fork's child starts a thread

#[path = "support/child.rs"]
mod child;
#[path = "support/counter.rs"]
mod counter;

use std::{
    hint,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
    thread,
    time::{Duration, Instant},
};

use child::returns_in_child;
use counter::Counter;
use lockyard_core::Platform;
use lockyard_linux::Linux;

/// What finds out, when first used, whatever is found out once: the longest first.
fn spin_and_lock() {
    Linux::stamp();
    Linux::spin_begin();
    Linux::need_resched();
    let counter = <Counter>::new();
    counter.add();
    assert_eq!(counter.total(), 1);
}

/// The child does not wait for what the other thread began to find out: it is not there.
///
/// Each round has a process of its own, in which nobody has locked before, and another
/// moment of the fork: to measure the cycle counter takes some 100 us.
#[test]
fn the_child_waits_for_nobodys_first_steps() {
    for round in 0..150 {
        let first = || {
            let began = &AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    began.store(true, Release);
                    spin_and_lock();
                });
                while !began.load(Acquire) {
                    hint::spin_loop();
                }
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(round) {
                    hint::spin_loop();
                }
                assert!(returns_in_child(spin_and_lock));
            });
        };
        assert!(returns_in_child(first), "round {round}");
    }
}
