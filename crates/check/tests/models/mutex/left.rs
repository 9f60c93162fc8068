//! An owner that leaves the mutex to another to unlock, and may lock it again.

use std::cell::Cell;

use lockyard_check::Tracked;
use lockyard_core::{Deadline, RawMutex, Unlocks};

use super::*;

/// A mutex, with what says that its owner has left it.
struct Left {
    lock: Lock,
    rounds: CheckWord,
    payload: Tracked<u32>,
}

/// What lies in the memory of a mutex.
struct Lock {
    mutex: RawMutex<Check>,
    unlocks: Unlocks<Check>,
}

impl Left {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            lock: Lock {
                mutex: RawMutex::new(),
                unlocks: Unlocks::new(),
            },
            rounds: CheckWord::ZERO,
            payload: Tracked::new(0),
        })
    }

    fn work(&self) {
        self.payload.set(self.payload.get() + 1);
    }

    /// The owner leaves the mutex to another, for this time.
    fn leave(&self, round: u32) {
        self.work();
        self.rounds.store(round, Release);
    }

    fn lock_again(&self, deadline: Option<Deadline>) -> bool {
        let lock = &self.lock;
        lock.mutex.lock_after_another(&lock.unlocks, deadline)
    }

    /// Waits until the owner has left it.
    fn await_left(&self, round: u32) {
        let left = move |rounds| rounds == round;
        Check::spin_until(&self.rounds, Acquire, Look::Poll, FOREVER, left, || false);
    }

    /// Waits until it was left to the caller, and unlocks it.
    fn unlock_left(&self, round: u32) {
        self.await_left(round);
        self.work();
        self.unlock_another();
    }

    fn unlock_another(&self) {
        // SAFETY: in a model who leaves it has done with it, and said so.
        unsafe { self.lock.mutex.unlock_for_another(&self.lock.unlocks) };
    }

    fn unlock(&self) {
        // SAFETY: a model unlocks what it has locked.
        unsafe { self.lock.mutex.unlock() };
    }

    fn lock_work_unlock(&self) {
        self.lock.mutex.lock();
        self.work();
        self.unlock();
    }
}

/// One task with so many whims.
fn task(left: &Rc<Left>, whims: u32, work: impl FnOnce(&Left) + 'static) {
    let left = Rc::clone(left);
    spawn(move || {
        limit_whims(whims);
        work(&left);
    });
}

/// One locks the mutex and leaves it to another to unlock, while a third wants it.
#[test]
fn unlocked_by_another() {
    let explorer = Explorer::new().whims(2);
    let events = [Event::Parked, Event::WokeFirst];
    explore("mutex, unlocked by another", &explorer, &events, || {
        let guarded = Guarded::new();
        let left = Rc::new(CheckWord::ZERO);
        let (locker, leaves) = (guarded.clone(), left.clone());
        spawn(move || {
            limit_whims(0);
            locker.mutex.lock();
            locker.work();
            leaves.store(1, Release);
        });
        let unlocker = guarded.clone();
        spawn(move || {
            limit_whims(0);
            Check::spin_until(
                &left,
                Acquire,
                Look::Poll,
                FOREVER,
                |left| left == 1,
                || false,
            );
            unlocker.work();
            unlocker.take_over();
            unlocker.unlock();
        });
        let third = guarded.clone();
        spawn(move || third.lock_work_unlock());
        afterwards(move || assert_eq!(guarded.payload.get(), 3));
    });
}

/// The owner locks it again before or after another unlocks it, and frees it.
#[test]
fn locked_again_and_freed() {
    let explorer = Explorer::new().whims(2);
    explore_to(25_000, "mutex, locked again", &explorer, &[], || {
        let left = Left::new();
        task(&left, 2, |owner| {
            owner.lock.mutex.lock();
            owner.leave(1);
            assert!(owner.lock_again(None));
            owner.work();
            owner.unlock();
            free(&owner.lock);
        });
        task(&left, 2, |unlocker| unlocker.unlock_left(1));
        afterwards(move || assert_eq!(left.payload.get(), 3));
    });
}

/// As a semaphore: taken twice, given twice.
#[test]
fn locked_again_twice() {
    let explorer = Explorer::new().whims(1);
    explore("mutex, locked again twice", &explorer, &[], || {
        let left = Left::new();
        task(&left, 1, |owner| {
            owner.lock.mutex.lock();
            for round in 1..=2 {
                owner.leave(round);
                assert!(owner.lock_again(None));
            }
            owner.unlock();
        });
        task(&left, 1, |unlocker| {
            unlocker.unlock_left(1);
            unlocker.unlock_left(2);
        });
        afterwards(move || {
            assert_eq!(left.payload.get(), 4);
            assert!(!left.lock.mutex.is_locked());
        });
    });
}

/// A third wants it meanwhile.
#[test]
fn locked_again_beside_another() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 20_000);
    let events = [Event::Parked, Event::WokeFirst];
    explore(
        "mutex, locked again beside another",
        &explorer,
        &events,
        || {
            let left = Left::new();
            task(&left, 0, |owner| {
                owner.lock.mutex.lock();
                owner.leave(1);
                assert!(owner.lock_again(None));
                owner.work();
                owner.unlock();
            });
            task(&left, 0, |unlocker| unlocker.unlock_left(1));
            task(&left, 2, Left::lock_work_unlock);
            afterwards(move || {
                assert_eq!(left.payload.get(), 4);
                assert!(!left.lock.mutex.is_locked());
            });
        },
    );
}

/// The owner gives up, or does not: in any case it can be had afterwards.
#[test]
fn locked_again_in_time() {
    let outcomes = Rc::new([Cell::new(0), Cell::new(0)]);
    let counts = Rc::clone(&outcomes);
    explore(
        "mutex, locked again in time",
        &Explorer::new().whims(0),
        &[],
        move || {
            let left = Left::new();
            let outcomes = Rc::clone(&outcomes);
            task(&left, 0, move |owner| {
                owner.lock.mutex.lock();
                owner.leave(1);
                let took = owner.lock_again(Some(DEADLINE));
                let outcome = &outcomes[usize::from(took)];
                outcome.set(outcome.get() + 1);
                if took {
                    owner.work();
                    owner.unlock();
                }
            });
            task(&left, 0, |unlocker| {
                unlocker.unlock_left(1);
                unlocker.lock_work_unlock();
            });
            afterwards(move || {
                assert!(left.payload.get() >= 3);
                assert!(!left.lock.mutex.is_locked());
            });
        },
    );
    assert!(
        counts.iter().all(|count| count.get() > 0),
        "the owner did not reach both ends: {counts:?}"
    );
}

/// Two unlock it, of whom one should not: the owner comes back, and nobody is stuck.
#[test]
fn unlocked_by_two_others() {
    let explorer = Explorer::new();
    explore("mutex, unlocked by two others", &explorer, &[], || {
        let left = Left::new();
        task(&left, 0, |owner| {
            owner.lock.mutex.lock();
            owner.leave(1);
            assert!(owner.lock_again(None));
            // SAFETY: it has no guard.
            unsafe { owner.lock.mutex.unlock_if_mine() };
        });
        for _ in 0..2 {
            task(&left, 0, |unlocker| {
                unlocker.await_left(1);
                unlocker.unlock_another();
            });
        }
        afterwards(move || assert!(!left.lock.mutex.is_locked()));
    });
}
