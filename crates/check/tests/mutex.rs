//! Models of the mutex.

mod model;

use lockyard_check::{Explorer, afterwards, spawn};
use model::{Guarded, explore};

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap())
}

#[test]
fn exclusion() {
    let (threads, rounds) = (env("T", 2), env("R", 1));
    let mut explorer = Explorer::new().whims(env("W", 0) as u32).executions(env("E", 1000000));
    if let Ok(p) = std::env::var("P") { explorer = explorer.preemptions(Some(p.parse().unwrap())); }
    explore("exclusion", &explorer, move || {
        let guarded = Guarded::new();
        for _ in 0..threads {
            let guarded = guarded.clone();
            spawn(move || {
                for _ in 0..rounds {
                    guarded.lock_work_unlock();
                }
            });
        }
        afterwards(move || {
            assert_eq!(guarded.payload.get(), (threads * rounds) as u32);
            assert!(!guarded.mutex.is_locked());
        });
    });
}
