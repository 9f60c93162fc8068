//! Models of locks that a fork's child uses, without the tasks that were at work in them. What
//! one of those held, or was given, stays so; all else works.

use std::rc::Rc;

use lockyard_check::{
    CheckWord, Explorer, Forks, Tracked, history, limit_whims, name, spawn, spawn_in_child,
};
use lockyard_core::{
    Condvar, Deadline, Event, FOREVER, Look, Ordering::Relaxed, Platform, RawMutex,
    RawPercpuRwLock, RawRwLock, Unlocks, Word,
};

use crate::{DEADLINE, explore};

struct Shared {
    mutex: RawMutex<Forks>,
    /// The child's own.
    other: RawMutex<Forks>,
    condvar: Condvar<Forks>,
    /// Where an owner of the mutex waits for another to unlock it.
    unlocks: Unlocks<Forks>,
    payload: Tracked<u32>,
}

impl Shared {
    fn new() -> Rc<Self> {
        let shared = Rc::new(Self {
            mutex: RawMutex::new(),
            other: RawMutex::new(),
            condvar: Condvar::new(),
            unlocks: Unlocks::new(),
            payload: Tracked::new(0),
        });
        name(&shared.mutex, "mutex");
        name(&shared.other, "other");
        name(&shared.condvar, "condvar");
        shared
    }

    /// Locks a mutex, does something that would race if it had company, and unlocks it.
    fn work(&self, mutex: &RawMutex<Forks>) {
        mutex.lock();
        self.payload.set(self.payload.get() + 1);
        unlock(mutex);
    }

    /// What a child's only task does.
    fn work_unless_lost(&self) {
        if !self.mutex.is_locked() {
            self.work(&self.mutex);
        }
    }

    /// Waits once, and returns whether it was notified.
    fn is_notified(&self, mutex: &RawMutex<Forks>, deadline: Option<Deadline>) -> bool {
        mutex.lock();
        let notified = self.wait_locked(mutex, deadline);
        unlock(mutex);
        notified
    }

    fn wait(&self, mutex: &RawMutex<Forks>) {
        mutex.lock();
        while self.payload.get() == 0 {
            self.wait_locked(mutex, None);
        }
        unlock(mutex);
    }

    fn wait_locked(&self, mutex: &RawMutex<Forks>, deadline: Option<Deadline>) -> bool {
        // SAFETY: the callers have locked it.
        unsafe { self.condvar.wait_until(mutex, deadline) }
    }
}

fn unlock(mutex: &RawMutex<Forks>) {
    // SAFETY: a model unlocks what it has locked.
    unsafe { mutex.unlock() };
}

/// How many executions of a model to explore that has too many.
const FEW: u64 = 16_000;

fn parents(count: usize, shared: &Rc<Shared>, body: fn(&Shared)) {
    for _ in 0..count {
        let shared = Rc::clone(shared);
        spawn(move || body(&shared));
    }
}

fn children(count: usize, shared: &Rc<Shared>, body: fn(&Shared)) {
    for _ in 0..count {
        let shared = Rc::clone(shared);
        spawn_in_child(move || body(&shared));
    }
}

/// In the parent one task waits, and another notifies it.
fn waited_for_and_notified() -> Rc<Shared> {
    let shared = Shared::new();
    parents(1, &shared, |shared| shared.wait(&shared.mutex));
    parents(1, &shared, |shared| {
        shared.condvar.notify_one();
    });
    shared
}

/// A task was about to sleep, or to wake one that does.
#[test]
fn a_mutex() {
    explore(
        "fork, mutex",
        &Explorer::new().whims(2),
        &[Event::Parked],
        || {
            let shared = Shared::new();
            parents(2, &shared, |shared| shared.work(&shared.mutex));
            children(1, &shared, Shared::work_unless_lost);
        },
    );
}

/// The owner that waits for another to unlock the mutex stays behind; the child unlocks it.
#[test]
fn an_owner_that_waits() {
    explore("fork, owner", &Explorer::new().whims(1), &[], || {
        let shared = Shared::new();
        parents(1, &shared, |shared| {
            shared.mutex.lock();
            shared.mutex.lock_after_another(&shared.unlocks, None);
        });
        children(1, &shared, |shared| {
            // SAFETY: the owner is gone, if there is one.
            unsafe { shared.mutex.unlock_for_another(&shared.unlocks) };
            shared.work(&shared.mutex);
        });
    });
}

/// A task was about to move a waiter to the mutex, inside of both queues.
#[test]
fn a_notifier() {
    explore(
        "fork, condvar",
        &Explorer::new().always_running(),
        &[Event::Requeued],
        || {
            let shared = waited_for_and_notified();
            children(1, &shared, |shared| {
                shared.condvar.notify_all();
                shared.work_unless_lost();
            });
        },
    );
}

/// The child waits where a task notified, and nobody notifies it.
#[test]
fn a_waiter() {
    explore(
        "fork, condvar, waiting",
        &Explorer::new().always_running(),
        &[Event::Requeued, Event::Cancelled],
        || {
            let shared = waited_for_and_notified();
            children(1, &shared, |shared| {
                let is_lost = shared.mutex.is_locked();
                let mutex = if is_lost {
                    &shared.other
                } else {
                    &shared.mutex
                };
                assert!(!shared.is_notified(mutex, Some(DEADLINE)));
                assert_eq!(shared.condvar.notify_all(), 0);
            });
        },
    );
}

/// The last of three waiters was about to stand in the queue.
#[test]
fn a_queue() {
    let explorer = Explorer::new().always_running().executions(FEW);
    explore("fork, queue", &explorer, &[Event::Cancelled], || {
        let shared = Shared::new();
        parents(3, &shared, |shared| shared.wait(&RawMutex::new()));
        children(1, &shared, |shared| {
            assert!(!shared.is_notified(&shared.other, Some(DEADLINE)));
        });
    });
}

/// Two tasks of the child find the gate closed: one waits, and the other notifies, and again
/// when that one sleeps.
#[test]
fn two_that_mend() {
    explore(
        "fork, condvar, 2 in the child",
        &Explorer::new().always_running().pct(1, 2, FEW),
        &[Event::Requeued],
        || {
            let shared = Shared::new();
            parents(1, &shared, |shared| shared.wait(&shared.mutex));
            children(1, &shared, |shared| {
                shared.condvar.notify_one();
                // It looks in vain, until nobody else can go on.
                let nothing = CheckWord::ZERO;
                Forks::spin_until(&nothing, Relaxed, Look::Poll, 1, |_| false, || false);
                shared.work(&shared.other);
                shared.condvar.notify_one();
            });
            children(1, &shared, |shared| {
                assert!(shared.is_notified(&shared.other, None));
            });
        },
    );
}

/// Both wait, where two tasks were about to stand in the queue.
#[test]
fn two_waiters_that_mend() {
    explore(
        "fork, 2 waiters in the child",
        &Explorer::new().always_running().pct(1, 2, FEW),
        &[Event::Cancelled],
        || {
            let shared = Shared::new();
            parents(2, &shared, |shared| shared.wait(&RawMutex::new()));
            children(2, &shared, |shared| {
                assert!(!shared.is_notified(&RawMutex::new(), Some(DEADLINE)));
            });
        },
    );
}

/// One of them waits with the mutex, unless that is lost, that a task was about to move a
/// waiter to.
#[test]
fn a_waiter_and_a_notifier() {
    const MUTEX: u32 = 1;
    const OTHER: u32 = 2;
    let explorer = Explorer::new().always_running().executions(FEW);
    explore("fork, both queues", &explorer, &[Event::Requeued], || {
        let shared = waited_for_and_notified();
        let with = Rc::new(CheckWord::ZERO);
        let (waiter, told) = (Rc::clone(&shared), Rc::clone(&with));
        spawn_in_child(move || {
            let is_lost = waiter.mutex.is_locked();
            let (mutex, name) = match is_lost {
                true => (&waiter.other, OTHER),
                false => (&waiter.mutex, MUTEX),
            };
            told.store(name, Relaxed);
            waiter.wait(mutex);
        });
        spawn_in_child(move || {
            let is_told = |name| name != 0;
            let with = Forks::spin_until(&with, Relaxed, Look::Poll, FOREVER, is_told, || false);
            let is_lost = with == Some(OTHER);
            shared.work(if is_lost {
                &shared.other
            } else {
                &shared.mutex
            });
            shared.condvar.notify_one();
        });
    });
}

/// A writer was about to sleep behind a reader, in the queue that a writer of the child stands
/// in.
#[test]
fn a_rwsem() {
    explore(
        "fork, rwsem",
        &Explorer::new().whims(1).always_running(),
        &[Event::Parked, Event::Cancelled],
        || {
            let lock = Rc::new(RawRwLock::<Forks>::new());
            name(&*lock, "rwsem");
            let [reader, writer, child] = [(); 3].map(|()| Rc::clone(&lock));
            spawn(move || {
                limit_whims(0);
                reader.read();
            });
            spawn(move || writer.write());
            spawn_in_child(move || {
                limit_whims(0);
                if child.write_until(DEADLINE) {
                    // SAFETY: just locked.
                    unsafe { child.unlock_write() };
                }
            });
        },
    );
}

/// A writer was about to sleep behind another, or to wake it.
#[test]
fn a_percpu_rwsem() {
    explore(
        "fork, percpu",
        &Explorer::new().always_running(),
        &[Event::Parked],
        || {
            let lock = Rc::new(RawPercpuRwLock::<Forks>::new());
            name(&*lock, "percpu");
            let write = |lock: &RawPercpuRwLock<Forks>| {
                lock.write();
                // SAFETY: locked above.
                unsafe { lock.unlock_write() };
            };
            for _ in 0..2 {
                let lock = Rc::clone(&lock);
                spawn(move || write(&lock));
            }
            spawn_in_child(move || {
                if !lock.is_locked() {
                    write(&lock);
                }
            });
        },
    );
}

type RwLock = lock_api::RwLock<RawRwLock<Forks>, ()>;
type RwWork = fn(&RwLock);

fn write(lock: &RwLock) {
    drop(lock.write());
}

fn read(lock: &RwLock) {
    drop(lock.read());
}

/// Whether a task was about to begin a bias, or to end one or a reservation, or to drain the
/// readers: it has the lock until that is done.
fn is_changing(lock: &RwLock) -> bool {
    const COUNT: usize = 0;
    const BIASING: u32 = 1 << 30; // in the others of these, too
    let now = history(lock, COUNT).last().copied();
    now.is_some_and(|count| count & BIASING != 0)
}

/// Tasks of the parent, and one of the child that gets the lock unless it is lost.
fn rwsem_in_a_child(parents: &[RwWork], child: RwWork) {
    let lock = Rc::new(RwLock::new(()));
    name(&*lock, "rwsem");
    for &work in parents {
        let lock = Rc::clone(&lock);
        spawn(move || work(&lock));
    }
    spawn_in_child(move || {
        if !lock.is_locked() && !is_changing(&lock) {
            child(&lock);
        }
    });
}

/// The mutex is reserved for a task that is gone, or another that is gone was about to end that.
#[test]
fn a_mutex_that_was_reserved() {
    explore(
        "fork, kept",
        &Explorer::new().keeping().always_running(),
        &[Event::Revoked],
        || {
            let shared = Shared::new();
            parents(1, &shared, |shared| {
                shared.work(&shared.mutex);
                shared.work(&shared.mutex);
            });
            parents(1, &shared, |shared| shared.work(&shared.mutex));
            children(1, &shared, Shared::work_unless_lost);
        },
    );
}

/// The same of an rwsem.
#[test]
fn a_rwsem_that_was_reserved() {
    let write_twice: RwWork = |lock| {
        write(lock);
        write(lock);
    };
    let write_and_read: RwWork = |lock| {
        write(lock);
        read(lock);
    };
    for (keeper, other, child) in [
        (write_twice, write as RwWork, write as RwWork),
        (write_twice, read, read),
        (write_and_read, write, read),
        (write_and_read, read, write),
    ] {
        let explorer = Explorer::new().keeping().always_running().polling();
        let explorer = explorer.executions(FEW);
        explore(
            "fork, rwsem, kept",
            &explorer,
            &[Event::Revoked],
            move || {
                rwsem_in_a_child(&[keeper, other], child);
            },
        );
    }
}

/// A reader that is gone made it so that readers do not write to the lock, or a writer was
/// about to end that.
#[test]
fn a_rwsem_with_slots() {
    for child in [read as RwWork, write] {
        let events = [Event::Biased, Event::FencedBiasRevoked];
        let explorer = Explorer::new().biasing().always_running().polling();
        explore("fork, rwsem, biased", &explorer, &events, move || {
            rwsem_in_a_child(&[read, write], child);
        });
    }
}
