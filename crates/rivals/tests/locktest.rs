//! Every lock of the list keeps four threads apart; locktest itself asserts it.

use std::{collections::HashSet, time::Duration};

use lockyard_rivals::{
    AbseilRw, Entry, NsyncRw, ParkingLotRw, PthreadRw, Sharded, StdRw, UsyncRw, mutexes, rwlocks,
};
use lockyard_torture::{Lock, locktest::Config};

fn all() -> Vec<Entry> {
    [mutexes(), rwlocks()].into_iter().flatten().collect()
}

fn survives(entry: &Entry, load: u32, read_pct: u32) {
    let config = Config {
        threads: 4,
        duration: Duration::from_millis(50),
        load,
        gap: load,
        read_pct,
        lines: 1,
        sample: 32,
        seed: 1,
    };
    let report = (entry.on_threads.locktest)(&config);
    assert_eq!(report.ops.len(), config.threads, "{}", entry.name);
    assert_eq!(report.total(), report.ops.iter().sum::<u64>());
    assert_eq!(report.reads > 0, read_pct > 0, "{}", entry.name);
    assert_eq!(report.writes() > 0, read_pct < 100, "{}", entry.name);
}

#[test]
fn available_locks_keep_threads_apart() {
    for entry in all() {
        match (entry.available)() {
            Ok(()) => {
                survives(&entry, 0, 0);
                survives(&entry, 100, 0);
                survives(&entry, 100, 50);
                survives(&entry, 100, 100);
            }
            Err(why) => println!("{}: {why}", entry.name),
        }
    }
}

/// One reader holds it until another has had it: alone it would wait for ever.
fn two_read_at_once<L: Lock>() {
    let lock = L::new();
    let (other, both) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.wait();
            lock.read(|| both.wait());
        });
        lock.read(|| {
            other.wait();
            both.wait();
        });
    });
    lock.with(|| ());
}

#[test]
fn two_readers_are_in_at_once() {
    let tests: [(&str, fn()); 7] = [
        ("std-rw", two_read_at_once::<StdRw>),
        ("parking_lot-rw", two_read_at_once::<ParkingLotRw>),
        ("usync-rw", two_read_at_once::<UsyncRw>),
        ("pthread-rw", two_read_at_once::<PthreadRw>),
        ("sharded", two_read_at_once::<Sharded>),
        ("nsync-rw", two_read_at_once::<NsyncRw>),
        ("abseil-rw", two_read_at_once::<AbseilRw>),
    ];
    let locks = rwlocks();
    assert!(locks.iter().all(|entry| entry.shared));
    assert!(mutexes().iter().all(|entry| !entry.shared));
    assert_eq!(
        locks.iter().map(|entry| entry.name).collect::<Vec<_>>(),
        tests.map(|(name, _)| name)
    );
    for (entry, (_, test)) in locks.iter().zip(tests) {
        if (entry.available)().is_ok() {
            test();
        }
    }
}

#[test]
fn an_unavailable_lock_says_why_in_one_line() {
    for entry in all() {
        if let Err(why) = (entry.available)() {
            assert!(!why.is_empty() && !why.contains('\n'), "{}", entry.name);
        }
    }
}

#[test]
fn names_are_unique_and_sizes_are_known() {
    let entries = all();
    let names: HashSet<_> = entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entries.len());
    assert!(entries.iter().all(|entry| entry.size >= 1));
}
