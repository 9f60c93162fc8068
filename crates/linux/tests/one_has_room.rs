//! Two threads need the same memory at once, and there is room for it once.

#![cfg(not(target_arch = "aarch64"))] // its emulator crashes when a fork's child starts a thread

#[path = "support/child.rs"]
mod child;

use std::{
    fs, hint,
    sync::{
        Barrier,
        atomic::{
            AtomicBool, AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
    thread,
};

use child::returns_in_child;
use lockyard_core::Platform;
use lockyard_linux::{
    Linux,
    futex::{self, Waited},
};
use rustix::process::{Resource, Rlimit, setrlimit};

const TRIES: usize = 200;

/// Both prepare themselves, and then need what fits `room` bytes once.
fn both(prepare: fn(), room: u64, need: fn()) {
    let (ready, go) = (Barrier::new(3), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                prepare();
                ready.wait();
                while !go.load(Acquire) {
                    hint::spin_loop();
                }
                need();
            });
        }
        ready.wait();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mapped = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let kib = mapped.unwrap().trim_end_matches("kB").trim();
        let most = Some(kib.parse::<u64>().unwrap() * 1024 + room);
        let limit = Rlimit {
            current: most,
            maximum: most,
        };
        setrlimit(Resource::As, limit).unwrap();
        go.store(true, Release);
    });
}

fn number() {
    Linux::me();
}

fn wait() {
    let word = AtomicU32::new(0);
    assert_eq!(futex::wait(&word, 1, None), Waited::Changed);
}

#[test]
fn the_first_records() {
    let room = 64 * futex::RECORD_BYTES as u64 * 5 / 4;
    for _ in 0..TRIES {
        assert!(returns_in_child(|| both(|| (), room, number)));
    }
}

#[test]
fn the_table_of_those_that_wait() {
    let room = 64 * futex::MOST_BUCKETS as u64 + (1 << 19);
    for _ in 0..TRIES {
        assert!(returns_in_child(|| both(number, room, wait)));
    }
}
