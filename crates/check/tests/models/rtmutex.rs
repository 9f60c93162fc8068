//! Models of the real-time mutex: tasks that lock, wait and give up. Those of
//! priorities and chains are in `inheritance`.

mod chains;
mod inheritance;
mod programs;

use std::{cell::Cell, rc::Rc};

use lockyard_check::{
    Check, CheckWord, Explorer, Tracked, Wakes, afterwards, await_lent, free, lent_levels, level,
    limit_whims, name, set_level, spawn,
};
use lockyard_core::{
    Event, FOREVER, Look,
    Ordering::Relaxed,
    Platform, RawRtMutex, TaskId, Word,
    rtmutex::{Block, Policy, Refused, Spin},
};

use crate::{DEADLINE, explore};

/// How many executions of a model to explore that has too many.
const MOST: u64 = 2_000;
/// How many to sample of one that has far too many.
const MANY: u64 = 1_200;

/// A payload behind a real-time mutex.
struct Guarded<W: Policy = Spin> {
    lock: RawRtMutex<Check, W>,
    payload: Tracked<u32>,
}

impl<W: Policy> Guarded<W> {
    fn new(called: &'static str) -> Rc<Self> {
        let guarded = Rc::new(Self {
            lock: RawRtMutex::new(),
            payload: Tracked::new(0),
        });
        name(&guarded.lock, called);
        guarded
    }

    /// What the owner does: a write that would race if it had company.
    fn work(&self) {
        self.payload.set(self.payload.get() + 1);
    }

    fn unlock(&self) {
        // SAFETY: a model unlocks what it has locked.
        unsafe { self.lock.unlock() };
    }

    fn lock(&self) {
        self.lock.lock();
        self.work();
    }

    fn lock_unlock(&self) {
        self.lock();
        self.unlock();
    }

    fn until(&self) {
        if self.lock.lock_until(DEADLINE) {
            self.work();
            self.unlock();
        }
    }

    fn at_once(&self) {
        if self.lock.try_lock() {
            self.work();
            self.unlock();
        }
    }

    /// Takes the lock or finds a deadlock; returns whether it was taken.
    fn checked(&self) -> bool {
        let taken = self.lock.lock_checked(None);
        if taken.is_ok() {
            self.work();
        }
        taken.is_ok()
    }

    /// Waits until somebody is in the queue.
    fn await_waiter(&self) {
        let nothing = CheckWord::ZERO;
        let stop = || self.lock.is_contended();
        Check::spin_until(&nothing, Relaxed, Look::Poll, FOREVER, |_| false, stop);
    }
}

fn task(number: u32) -> TaskId {
    TaskId::new(number).expect("tasks count from 1")
}

/// Spawns the next task with so many whims and its work.
fn go<T: 'static>(whims: u32, shared: &Rc<T>, work: impl FnOnce(&T) + 'static) {
    let shared = Rc::clone(shared);
    spawn(move || {
        limit_whims(whims);
        work(&shared);
    });
}

/// As [`go`], when the task has been told.
fn go_when_told<T: 'static>(whims: u32, shared: &Rc<T>, work: impl FnOnce(&T) + 'static) {
    go(whims, shared, |shared| {
        Check::park(None);
        work(shared);
    });
}

fn tell(number: u32) {
    Check::unpark(task(number));
}

/// In the end all is as if nobody had come.
fn in_the_end<W: Policy>(guarded: &Rc<Guarded<W>>, tasks: u32) {
    let guarded = Rc::clone(guarded);
    afterwards(move || {
        assert!(!guarded.lock.is_locked() && !guarded.lock.is_contended());
        for number in 1..=tasks {
            let lent = lent_levels(task(number)).last().copied();
            assert_eq!(lent.unwrap_or(0), 0, "task {number}");
        }
    });
}

/// A task for each element, with so many whims and that level, each of which does
/// this.
fn tasks<W: Policy>(whims_and_levels: &[(u32, u32)], work: fn(&Guarded<W>)) -> Rc<Guarded<W>> {
    let guarded = Guarded::new("lock");
    for (number, &(whims, level)) in (1..).zip(whims_and_levels) {
        set_level(task(number), level);
        go(whims, &guarded, work);
    }
    in_the_end(&guarded, whims_and_levels.len() as u32);
    guarded
}

/// What a task does.
type Work<W> = fn(&Guarded<W>);

/// The first task, at level 0, takes the lock, and then lets the others want it,
/// each at its level.
fn behind_an_owner<W: Policy>(others: &[(u32, Work<W>)]) {
    let guarded = Guarded::<W>::new("lock");
    let all = others.len() as u32 + 1;
    go(0, &guarded, move |guarded| {
        guarded.lock();
        (2..=all).for_each(tell);
        guarded.unlock();
    });
    for (number, &(level, work)) in (2..).zip(others) {
        set_level(task(number), level);
        go_when_told(1, &guarded, work);
    }
    in_the_end(&guarded, all);
}

/// Nobody is in with the owner, and nobody is left out.
#[test]
fn two_tasks_that_spin() {
    let explorer = Explorer::new().whims(1);
    let events = [
        Event::SpinAcquired,
        Event::SpinResched,
        Event::SpinOwnerOff,
        Event::Parked,
        Event::WokeFirst,
    ];
    explore("rtmutex of 2, spin", &explorer, &events, || {
        tasks::<Spin>(&[(1, 0), (1, 1)], Guarded::lock_unlock);
    });
}

#[test]
fn two_tasks_that_block() {
    let explorer = Explorer::new();
    let events = [Event::Parked, Event::WokeFirst];
    explore("rtmutex of 2, block", &explorer, &events, || {
        tasks::<Block>(&[(0, 1), (0, 1)], Guarded::lock_unlock);
    });
}

#[test]
fn spurious_wakes() {
    let explorer = Explorer::new().wakes(Wakes::Permissive(1)).executions(MANY);
    explore(
        "rtmutex, spurious wakes",
        &explorer,
        &[Event::Parked],
        || {
            tasks::<Block>(&[(0, 1), (0, 1)], Guarded::lock_unlock);
        },
    );
}

fn three<W: Policy>(name: &str) {
    for changes in [2, 4] {
        let explorer = Explorer::new().whims(1).pct(1, changes, MANY);
        explore(name, &explorer, &[Event::Lent, Event::Parked], || {
            behind_an_owner(&[(1, Guarded::<W>::lock_unlock), (2, Guarded::lock_unlock)]);
        });
    }
}

#[test]
fn three_tasks() {
    three::<Spin>("rtmutex of 3, spin");
    three::<Block>("rtmutex of 3, block");
}

/// Who gives up leaves no trace, and takes nobody's wake-up along.
#[test]
fn timeout_against_release() {
    let explorer = Explorer::new().pct(1, 3, MANY);
    let events = [Event::Cancelled, Event::CancelGranted];
    explore("rtmutex, a timeout", &explorer, &events, || {
        behind_an_owner(&[(1, Guarded::<Block>::until)]);
    });
}

#[test]
fn timeout_before_another() {
    for changes in [2, 4] {
        let explorer = Explorer::new().pct(1, changes, MANY);
        let events = [Event::Cancelled, Event::Parked];
        explore(
            "rtmutex, a timeout before another",
            &explorer,
            &events,
            || {
                behind_an_owner(&[(2, Guarded::<Spin>::until), (1, Guarded::lock_unlock)]);
            },
        );
    }
}

/// Who uses the lock last frees it.
#[test]
fn freed_after_the_last_use() {
    let explorer = Explorer::new();
    explore("rtmutex, freed", &explorer, &[Event::WokeFirst], || {
        let guarded = Guarded::<Block>::new("lock");
        for _ in 0..2 {
            go(0, &guarded, |guarded| {
                guarded.lock();
                let last = guarded.payload.get() == 2;
                guarded.unlock();
                if last {
                    free(&guarded.lock);
                }
            });
        }
    });
}

/// An unlock that finds nobody in the queue after all is not the last to touch the
/// lock, but who takes it then.
#[test]
fn freed_after_a_timeout() {
    let explorer = Explorer::new().pct(1, 3, 2 * MANY);
    explore(
        "rtmutex, freed after a timeout",
        &explorer,
        &[Event::Cancelled],
        || {
            let guarded = Guarded::<Block>::new("lock");
            go(0, &guarded, |guarded| {
                guarded.lock();
                tell(2);
                guarded.unlock();
            });
            go_when_told(0, &guarded, |guarded| {
                if !guarded.lock.lock_until(DEADLINE) {
                    guarded.lock();
                }
                guarded.unlock();
                free(&guarded.lock);
            });
        },
    );
}

/// A release leaves the lock to the top waiter: who comes at its level or below it
/// comes later, and is told so when it only tries.
#[test]
fn nobody_of_its_level_overtakes_the_top_waiter() {
    for tries in [false, true] {
        let explorer = Explorer::new().executions(MANY);
        explore(
            "rtmutex, in its turn",
            &explorer,
            &[Event::WokeFirst],
            move || {
                let guarded = Guarded::<Block>::new("lock");
                set_level(task(1), 1);
                set_level(task(2), 1);
                go(0, &guarded, move |guarded| {
                    guarded.lock();
                    guarded.await_waiter();
                    guarded.unlock();
                    if !tries {
                        guarded.lock.lock();
                    } else if !guarded.lock.try_lock() {
                        return;
                    }
                    assert_eq!(guarded.payload.get(), 2, "overtaken");
                    guarded.unlock();
                });
                go(0, &guarded, Guarded::lock_unlock);
                in_the_end(&guarded, 2);
            },
        );
    }
}

/// Who is above the top waiter may take a lock that was left to it.
#[test]
fn who_is_above_the_top_waiter_overtakes_it() {
    let overtook = Rc::new(Cell::new(false));
    let seen = Rc::clone(&overtook);
    let explorer = Explorer::new().executions(MANY);
    explore(
        "rtmutex, overtaking",
        &explorer,
        &[Event::WokeFirst],
        move || {
            let guarded = Guarded::<Block>::new("lock");
            set_level(task(1), 2);
            set_level(task(2), 1);
            let seen = Rc::clone(&seen);
            go(0, &guarded, move |guarded| {
                guarded.lock();
                guarded.await_waiter();
                guarded.unlock();
                if guarded.lock.try_lock() {
                    if guarded.payload.get() == 1 {
                        seen.set(true);
                    }
                    guarded.unlock();
                }
            });
            go(0, &guarded, Guarded::lock_unlock);
            in_the_end(&guarded, 2);
        },
    );
    assert!(overtook.get());
}

/// The owner is lent the waiter's level, and gives it back before the waiter is
/// woken.
#[test]
fn what_was_lent_is_gone_before_the_wake_up() {
    let explorer = Explorer::new();
    explore("rtmutex, lent", &explorer, &[Event::Lent], || {
        let guarded = Guarded::<Spin>::new("lock");
        set_level(task(2), 2);
        go(0, &guarded, |guarded| {
            guarded.lock();
            tell(2);
            await_lent(task(1), 2);
            guarded.unlock();
            assert_eq!(level(task(1)), 0);
        });
        go_when_told(0, &guarded, |guarded| {
            guarded.lock();
            assert_eq!(level(task(1)), 0, "the owner before is still lent my level");
            guarded.unlock();
        });
        in_the_end(&guarded, 2);
    });
}

/// With nothing to keep it from spinning the top waiter does not sleep: it is
/// woken all the same, and finds that out when it sleeps the next time.
#[test]
fn the_top_waiter_spins_until_the_release() {
    let explorer = Explorer::new().always_running();
    let events = [Event::SpinAcquired];
    explore("rtmutex, a spinner", &explorer, &events, || {
        let guarded = Guarded::<Spin>::new("lock");
        go(0, &guarded, |guarded| {
            guarded.lock();
            tell(2);
            guarded.await_waiter();
            guarded.unlock();
        });
        go_when_told(0, &guarded, |guarded| {
            guarded.lock_unlock();
            Check::park(None); // for ever, if it slept before
        });
        in_the_end(&guarded, 2);
    });
}

/// A waiter above the spinner comes: there is one spinner, and that one is next.
#[test]
fn a_spinner_makes_way() {
    let explorer = Explorer::new().always_running().random(1, MANY);
    let events = [Event::SpinNotTop, Event::SpinAcquired];
    explore("rtmutex, a spinner makes way", &explorer, &events, || {
        let guarded = Guarded::<Spin>::new("lock");
        set_level(task(2), 1);
        set_level(task(3), 2);
        go(0, &guarded, |guarded| {
            guarded.lock();
            tell(2);
            await_lent(task(1), 1);
            tell(3);
            await_lent(task(1), 2);
            guarded.unlock();
        });
        go_when_told(0, &guarded, |guarded| {
            guarded.lock();
            assert_eq!(guarded.payload.get(), 3);
            guarded.unlock();
        });
        go_when_told(0, &guarded, Guarded::lock_unlock);
        in_the_end(&guarded, 3);
    });
}

/// An owner that locks again is told so, whoever waits meanwhile.
#[test]
fn an_owner_that_locks_again() {
    let explorer = Explorer::new().executions(MANY);
    explore(
        "rtmutex, owner twice",
        &explorer,
        &[Event::DeadlockFound],
        || {
            let guarded = Guarded::<Block>::new("lock");
            set_level(task(2), 1);
            go(0, &guarded, |guarded| {
                guarded.lock();
                assert_eq!(guarded.lock.lock_checked(None), Err(Refused::Deadlock));
                assert!(!guarded.lock.lock_until(DEADLINE));
                guarded.unlock();
            });
            go(0, &guarded, |guarded| {
                assert!(guarded.checked(), "an innocent is blamed");
                guarded.unlock();
            });
            in_the_end(&guarded, 2);
        },
    );
}

/// What a misuse is answered with.
fn panics_with(what: &str, model: impl Fn() + 'static) {
    let failure = Explorer::new().check(model).expect_err("a misuse");
    assert!(failure.what.contains(what), "{}", failure.what);
}

#[test]
fn misuse_is_told() {
    panics_with("task 1 locks the real-time mutex at", || {
        let guarded = Guarded::<Spin>::new("lock");
        go(0, &guarded, |guarded| {
            guarded.lock();
            guarded.lock();
        });
    });
    panics_with("which is held by None", || {
        let guarded = Guarded::<Spin>::new("lock");
        go(0, &guarded, Guarded::unlock);
    });
}

/// Two locks, which two tasks take in opposite orders: one finds the deadlock, and
/// gives way.
fn two_locks() -> Rc<[Rc<Guarded<Block>>; 2]> {
    Rc::new([Guarded::new("a"), Guarded::new("b")])
}

fn opposite(first: &Guarded<Block>, second: &Guarded<Block>) {
    first.lock();
    if second.checked() {
        second.unlock();
    }
    first.unlock();
}

#[test]
fn a_deadlock_is_found() {
    let explorer = Explorer::new().pct(1, 3, MANY);
    explore(
        "rtmutex, ab and ba",
        &explorer,
        &[Event::DeadlockFound],
        || {
            let locks = two_locks();
            go(0, &locks, |[a, b]| opposite(a, b));
            go(0, &locks, |[a, b]| opposite(b, a));
            in_the_end(&locks[0], 2);
            in_the_end(&locks[1], 2);
        },
    );
}
