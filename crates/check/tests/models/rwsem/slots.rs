//! Slots that are used for another lock than before.

use lockyard_check::{Check, CheckWord, Tracked, name};
use lockyard_core::{FOREVER, Look, Platform, RawRwLock};

use super::*;

/// One more than a task has slots.
const LOCKS: usize = 5;

struct Locks {
    locks: [RawRwLock<Check>; LOCKS],
    payloads: [Tracked<u32>; LOCKS],
    ready: CheckWord,
}

impl Locks {
    fn new() -> Rc<Self> {
        let all = Rc::new(Self {
            locks: [const { RawRwLock::new() }; LOCKS],
            payloads: [const { Tracked::new(0) }; LOCKS],
            ready: CheckWord::ZERO,
        });
        let names = ["a", "b", "c", "d", "e"];
        all.locks
            .iter()
            .zip(names)
            .for_each(|(lock, called)| name(lock, called));
        all
    }

    fn read(&self, lock: usize) {
        self.locks[lock].read();
        self.payloads[lock].get();
        // SAFETY: it is held as a reader.
        unsafe { self.locks[lock].unlock_read() };
    }

    fn write(&self, lock: usize) {
        self.locks[lock].write();
        self.payloads[lock].set(1);
        // SAFETY: it is held as the writer.
        unsafe { self.locks[lock].unlock_write() };
    }
}

/// A reader has a slot for each of four locks, and then uses one of them for a fifth, while a
/// writer looks there for readers of the first.
#[test]
fn a_slot_for_another_lock() {
    for seed in 0..2 {
        let explorer = Explorer::new().biasing().whims(3).random(seed, 8 * MANY);
        let events = [Event::Biased, Event::FencedBiasRevoked];
        explore_to(
            LATE,
            "rwsem, another lock's slot",
            &explorer,
            &events,
            || {
                let all = Locks::new();
                let reader = Rc::clone(&all);
                spawn(move || {
                    (0..LOCKS).for_each(|lock| reader.read(lock)); // which biases it
                    (1..LOCKS).for_each(|lock| reader.read(lock)); // by a slot
                    reader.ready.store(1, Relaxed);
                    reader.read(1);
                    reader.read(0);
                });
                let writer = Rc::clone(&all);
                spawn(move || {
                    let ready = |now| now == 1;
                    Check::spin_until(&writer.ready, Relaxed, Look::Poll, FOREVER, ready, || false);
                    writer.write(1);
                });
                afterwards(move || {
                    assert!(!all.locks.iter().any(RawRwLock::is_locked));
                });
            },
        );
    }
}
