//! Models of waiting for words that several address spaces map: the kernel has the
//! queues, and core counts who may be in them.

use std::{cell::Cell, num::NonZeroU32, rc::Rc};

use lockyard_check::{Check, CheckWord, Explorer, Tracked, afterwards, die, name, spawn};
use lockyard_core::{
    Deadline, Event, KernelFutex,
    Ordering::{Acquire, Relaxed, Release},
    Word,
    futex::{Counted, Shared, Waited},
};

use super::{DEADLINE, explore};

const EVERY_BIT: NonZeroU32 = NonZeroU32::MAX;
/// All words are in one bucket: as if it were the whole table.
const OFFSET: u64 = 64;

/// Who may give up its glance at the word, and enter the kernel.
fn glances() -> Explorer {
    Explorer::new().whims(1)
}

struct Memory<const SLOTS: usize> {
    waiters: Shared<Check, 1, SLOTS>,
    word: CheckWord,
    payload: Tracked<u32>,
    /// How many waits ended with `Woken`, and how many that was by the wakers: no part
    /// of what is modelled.
    woken: Cell<u32>,
    woke: Cell<u32>,
}

impl<const SLOTS: usize> Memory<SLOTS> {
    fn new() -> Rc<Self> {
        let memory = Rc::new(Self {
            waiters: Shared::new(),
            word: CheckWord::ZERO,
            payload: Tracked::new(0),
            woken: Cell::new(0),
            woke: Cell::new(0),
        });
        name(&memory.waiters, "waiters");
        let this = Rc::clone(&memory);
        afterwards(move || {
            assert!(this.waiters.is_empty(OFFSET), "nobody is counted");
            assert_eq!(this.woken.get(), this.woke.get(), "who is woken is told");
        });
        memory
    }

    /// Waits while the word is 0.
    fn wait(&self, deadline: Option<Deadline>) -> Waited {
        let Ok(waited) = (self.waiters).wait(OFFSET, &self.word, 0, EVERY_BIT, deadline);
        self.ended(waited);
        let changed = waited == Waited::Changed && self.word.load(Acquire) == 1;
        if changed || waited == Waited::Woken {
            assert_eq!(self.payload.get(), 1);
        }
        waited
    }

    fn ended(&self, waited: Waited) {
        let woken = u32::from(waited == Waited::Woken);
        self.woken.set(self.woken.get() + woken);
    }

    /// Changes the word, which announces the payload.
    fn change(&self) {
        self.payload.set(1);
        self.word.store(1, Release);
    }

    fn wake(&self, most: u32) {
        let woke = (self.waiters).wake(OFFSET, &self.word, most, EVERY_BIT);
        self.woke.set(self.woke.get() + woke);
    }
}

fn wait_and_wake<const SLOTS: usize>(waiters: u32, deadline: Option<Deadline>) {
    let memory = Memory::<SLOTS>::new();
    for _ in 0..waiters {
        let memory = Rc::clone(&memory);
        spawn(move || {
            memory.wait(deadline);
        });
    }
    spawn(move || {
        memory.change();
        memory.wake(waiters);
    });
}

#[test]
fn no_lost_wake_up() {
    explore("shared futex", &glances(), &[Event::Parked], || {
        wait_and_wake::<1>(1, None);
    });
}

/// The word is written with `Relaxed`: the wake-up alone announces the payload.
#[test]
fn a_wake_up_announces() {
    explore(
        "shared futex, wake-up",
        &glances(),
        &[Event::Parked],
        || {
            let memory = Memory::<1>::new();
            let waiter = Rc::clone(&memory);
            spawn(move || {
                let Ok(waited) = (waiter.waiters).wait(OFFSET, &waiter.word, 0, EVERY_BIT, None);
                if waited == Waited::Woken {
                    assert_eq!(waiter.payload.get(), 1);
                }
                waiter.ended(waited);
            });
            spawn(move || {
                memory.payload.set(1);
                memory.word.store(1, Relaxed);
                memory.wake(1);
            });
        },
    );
}

#[test]
fn wake_against_timeout() {
    explore(
        "shared futex, deadline",
        &glances(),
        &[Event::Parked],
        || {
            wait_and_wake::<1>(1, Some(DEADLINE));
        },
    );
}

/// Of two waiters one finds no slot, or both have one.
#[test]
fn two_waiters() {
    explore("shared futex, crowd", &glances(), &[Event::Parked], || {
        wait_and_wake::<1>(2, None);
    });
    explore("shared futex, slots", &glances(), &[Event::Parked], || {
        wait_and_wake::<2>(2, None);
    });
}

/// A task is killed after it has counted itself, before the kernel compares, while it
/// sleeps, or when it was woken: the other one is woken, and in the end nobody is
/// counted, unless the dead had no slot.
#[test]
fn who_is_killed_is_uncounted() {
    explore("shared futex, killed", &glances(), &[Event::Parked], || {
        let memory = Memory::<2>::new();
        let (mortal, waiter) = (Rc::clone(&memory), Rc::clone(&memory));
        spawn(move || {
            let counted = mortal.waiters.count(OFFSET);
            assert_ne!(counted, Counted::Crowd);
            let past = Some(Deadline(0));
            let Ok(waited) = Check::futex_wait(&mortal.word, 0, EVERY_BIT, past);
            mortal.ended(waited);
            die();
        });
        spawn(move || {
            waiter.wait(None);
        });
        spawn(move || {
            memory.change();
            memory.wake(2);
        });
    });
}
