//! Every lock of the list keeps four threads apart; locktest itself asserts it.

use std::{collections::HashSet, time::Duration};

use lockyard_rivals::{Entry, mutexes};
use lockyard_torture::locktest::Config;

fn survives(entry: &Entry, load: u32) {
    let config = Config {
        threads: 4,
        duration: Duration::from_millis(50),
        load,
        gap: load,
        read_pct: 0,
        sample: 32,
        seed: 1,
    };
    let report = (entry.locktest)(&config);
    assert_eq!(report.ops.len(), config.threads, "{}", entry.name);
    assert_eq!(report.total(), report.ops.iter().sum::<u64>());
}

#[test]
fn available_locks_keep_threads_apart() {
    for entry in mutexes() {
        match (entry.available)() {
            Ok(()) => {
                survives(&entry, 0);
                survives(&entry, 100);
            }
            Err(why) => println!("{}: {why}", entry.name),
        }
    }
}

#[test]
fn an_unavailable_lock_says_why_in_one_line() {
    for entry in mutexes() {
        if let Err(why) = (entry.available)() {
            assert!(!why.is_empty() && !why.contains('\n'), "{}", entry.name);
        }
    }
}

#[test]
fn names_are_unique_and_sizes_are_known() {
    let entries = mutexes();
    let names: HashSet<_> = entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entries.len());
    assert!(entries.iter().all(|entry| entry.size >= 1));
}
