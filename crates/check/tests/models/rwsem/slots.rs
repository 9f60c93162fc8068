//! Slots that are used for another lock than before.

use lockyard_check::{Check, CheckWord, Tracked, name};
use lockyard_core::{FOREVER, Look, Platform, RawRwLock};

use super::{readers::sleep, *};

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

    fn lock(&self, lock: usize) {
        self.locks[lock].read();
        self.payloads[lock].get();
    }

    fn unlock(&self, lock: usize) {
        // SAFETY: it is held as a reader.
        unsafe { self.locks[lock].unlock_read() };
    }

    fn read(&self, lock: usize) {
        self.lock(lock);
        self.unlock(lock);
    }

    fn write(&self, lock: usize) {
        self.locks[lock].write();
        self.payloads[lock].set(1);
        // SAFETY: it is held as the writer.
        unsafe { self.locks[lock].unlock_write() };
    }
}

fn await_to_be(word: &CheckWord, value: u32) {
    let is = |now| now == value;
    Check::spin_until(word, Relaxed, Look::Poll, FOREVER, is, || false);
}

/// A reader has a slot for each of four locks, and then uses one of them for a fifth, while a
/// writer looks there for readers of the first.
#[test]
fn a_slot_for_another_lock() {
    for seed in 0..2 {
        let explorer = Explorer::new().random(seed, 8 * MANY);
        explore_slots(explorer, 1, |all| {
            (0..LOCKS).for_each(|lock| all.read(lock)); // which biases it
            (1..LOCKS).for_each(|lock| all.read(lock)); // by a slot
            all.ready.store(1, Relaxed);
            all.read(1);
            all.read(0);
        });
    }
}

/// It has slept before it uses the slot for another.
#[test]
fn a_slot_for_another_lock_after_sleep() {
    for changes in 2..=4 {
        let explorer = Explorer::new().resting().pct(1, changes, MANY);
        explore_slots(explorer, 0, |all| {
            [0, 1, 0, 1].into_iter().for_each(|lock| all.read(lock)); // which biases it
            all.lock(0);
            all.ready.store(1, Relaxed);
            all.unlock(0);
            sleep();
            all.lock(1);
            await_to_be(&all.ready, 2);
            all.unlock(1);
        });
    }
}

fn explore_slots(explorer: Explorer, written: usize, reads: fn(&Locks)) {
    let explorer = explorer.biasing().whims(3);
    let events = [Event::Biased, Event::FencedBiasRevoked];
    explore_to(
        LATE,
        "rwsem, another lock's slot",
        &explorer,
        &events,
        move || {
            let all = Locks::new();
            let reader = Rc::clone(&all);
            spawn(move || reads(&reader));
            let writer = Rc::clone(&all);
            spawn(move || {
                await_to_be(&writer.ready, 1);
                writer.write(written);
                writer.ready.store(2, Relaxed);
            });
            afterwards(move || {
                assert!(!all.locks.iter().any(RawRwLock::is_locked));
            });
        },
    );
}
