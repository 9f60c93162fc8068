//! Waiters that were moved together, and are woken together.

use lockyard_core::Ordering::{Acquire, Release};

use super::*;

/// Has `waiters` wait for the flag, and when all do, `notify` be called by who has raised it;
/// that is to unlock the mutex. Each comes back once more afterwards, as does who notified.
/// All have worked at the end.
fn together(waiters: u32, notify: fn(&Flag)) {
    let flag = Flag::new();
    let counts = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
    let count_off = move |flag: &Flag, counts: &[CheckWord; 2]| {
        if counts[1].fetch_add(1, Relaxed) == waiters {
            flag.guarded.mutex.lock();
            assert_eq!(flag.guarded.payload.get(), 1 + 2 * waiters + 1);
            flag.guarded.unlock();
        }
    };
    for _ in 0..waiters {
        let (flag, counts) = (Rc::clone(&flag), Rc::clone(&counts));
        spawn(move || {
            flag.guarded.mutex.lock();
            counts[0].fetch_add(1, Relaxed);
            flag.await_locked(None);
            flag.guarded.work();
            flag.guarded.unlock();
            flag.guarded.lock_work_unlock();
            count_off(&flag, &counts);
        });
    }
    spawn(move || {
        let all_wait = |count| count == waiters;
        Check::spin_until(&counts[0], Relaxed, Look::Poll, FOREVER, all_wait, || false);
        flag.guarded.mutex.lock();
        flag.guarded.payload.set(1);
        notify(&flag);
        flag.guarded.lock_work_unlock();
        count_off(&flag, &counts);
    });
}

fn all(flag: &Flag) {
    assert!(flag.condvar.notify_all() > 1);
    flag.guarded.unlock();
}

#[test]
fn two_come_together() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 20_000);
    explore(
        "condvar, two together",
        &explorer,
        &[Event::WokeFirst, Event::WokeBatch, Event::Parked],
        || together(2, all),
    );
}

#[test]
fn three_come_together() {
    let explorer = Explorer::new().whims(2).pct(1, 4, 20_000);
    explore(
        "condvar, three together",
        &explorer,
        &[Event::WokeFirst, Event::WokeBatch, Event::Parked],
        || together(3, all),
    );
}

/// Who was moved alone is in no batch, and ends one.
#[test]
fn one_comes_before_the_others() {
    let explorer = Explorer::new().whims(2).pct(1, 4, 20_000);
    explore(
        "condvar, one before the others",
        &explorer,
        &[Event::WokeFirst, Event::WokeBatch],
        || {
            together(3, |flag| {
                flag.condvar.notify_one();
                all(flag);
            });
        },
    );
}

#[test]
fn two_come_to_a_free_mutex() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 20_000);
    explore(
        "condvar, two to a free mutex",
        &explorer,
        &[Event::WokeFirst, Event::WokeBatch, Event::Parked],
        || {
            together(2, |flag| {
                flag.guarded.unlock();
                flag.condvar.notify_all();
            });
        },
    );
}

/// Nobody comes back to see to those that were left asleep.
#[test]
fn two_come_while_another_unlocks() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 20_000);
    explore(
        "condvar, two while another unlocks",
        &explorer,
        &[Event::WokeFirst, Event::WokeBatch, Event::Parked],
        || {
            let flag = Flag::new();
            let counts = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
            for _ in 0..2 {
                let (flag, counts) = (Rc::clone(&flag), Rc::clone(&counts));
                spawn(move || {
                    flag.guarded.mutex.lock();
                    counts[0].fetch_add(1, Relaxed);
                    flag.wait_locked(None);
                });
            }
            let until = |word: &CheckWord, value| {
                let there = move |now| now == value;
                Check::spin_until(word, Acquire, Look::Poll, FOREVER, there, || false);
            };
            let (owners, owner_counts) = (Rc::clone(&flag), Rc::clone(&counts));
            spawn(move || {
                until(&owner_counts[0], 2);
                owners.guarded.mutex.lock();
                owners.guarded.payload.set(1);
                owner_counts[1].store(1, Release); // who notifies knows of those that wait
                owners.guarded.unlock();
            });
            spawn(move || {
                until(&counts[1], 1);
                flag.condvar.notify_all();
            });
        },
    );
}

/// The first reaches its deadline when it was moved already: it is awake, and sleeps again,
/// while the unlock is about to wake it.
#[test]
fn two_come_and_the_first_is_awake() {
    let explorer = Explorer::new().whims(2).pct(1, 4, 40_000);
    explore(
        "condvar, two, the first awake",
        &explorer,
        &[Event::WokeFirst, Event::WokeBatch, Event::Parked],
        || {
            let flag = Flag::new();
            let ready = Rc::new(CheckWord::ZERO);
            for waiter in 0..2 {
                let (flag, ready) = (Rc::clone(&flag), Rc::clone(&ready));
                spawn(move || {
                    if waiter == 1 {
                        let first_waits = |ready| ready == 1;
                        Check::spin_until(
                            &ready,
                            Relaxed,
                            Look::Poll,
                            FOREVER,
                            first_waits,
                            || false,
                        );
                    }
                    flag.guarded.mutex.lock();
                    ready.fetch_add(1, Relaxed);
                    flag.wait_locked((waiter == 0).then_some(DEADLINE));
                });
            }
            spawn(move || {
                let both_wait = |ready| ready == 2;
                Check::spin_until(&ready, Relaxed, Look::Poll, FOREVER, both_wait, || false);
                flag.guarded.mutex.lock();
                flag.guarded.payload.set(1);
                flag.condvar.notify_all();
                flag.guarded.unlock();
            });
        },
    );
}
