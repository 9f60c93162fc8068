//! A condition variable that is an address, and a mutex.

use lockyard_check::CheckWord;

use super::*;
use crate::guarded::Guarded;

/// A mutex, and a condition variable that is an address.
struct Signalled {
    futex: Rc<Table<Check, SLOTS>>,
    guarded: Rc<Guarded>,
}

impl Signalled {
    fn new() -> Self {
        Self {
            futex: Rc::new(Table::new()),
            guarded: Guarded::new(),
        }
    }

    /// The same condition variable, with another mutex.
    fn with_another_mutex(&self) -> Self {
        Self {
            futex: Rc::clone(&self.futex),
            guarded: Guarded::new(),
        }
    }

    /// Waits while the payload is 0, or until the deadline. Returns how many wakers have
    /// counted it. Those who have the mutex have it wait for that.
    fn wait(&self, deadline: Option<Deadline>, stop: impl Fn() -> bool) -> u32 {
        self.guarded.mutex.lock();
        self.wait_locked(deadline, stop)
    }

    fn wait_locked(&self, deadline: Option<Deadline>, stop: impl Fn() -> bool) -> u32 {
        let mut counted = 0;
        while self.guarded.payload.get() == 0 {
            let release = || self.guarded.unlock();
            let mutex = Some(&self.guarded.mutex);
            // SAFETY: what unwinds is abandoned, with the other tasks.
            let waited = unsafe {
                (self.futex).wait_after(&A, Waiter::ANY, mutex, release, &stop, deadline)
            };
            if waited != WaitedAfter::Locked {
                self.guarded.mutex.lock();
            }
            if waited == WaitedAfter::NotWoken {
                break;
            }
            counted += 1;
        }
        self.guarded.unlock();
        counted
    }

    fn signal(&self, most: u32) -> u32 {
        self.guarded.lock_work_unlock();
        self.futex.wake(&A, most, EVERY_BIT)
    }

    fn signal_inside(&self, most: u32) -> u32 {
        self.guarded.mutex.lock();
        self.guarded.work();
        let woken = self.futex.wake(&A, most, EVERY_BIT);
        self.guarded.unlock();
        woken
    }
}

/// One waits for the payload to change; another changes it and signals.
fn signalled(signal: fn(&Signalled) -> u32, deadline: Option<Deadline>) {
    let shared = Rc::new(Signalled::new());
    let counts = Rc::new(Cell::new((0, 0)));
    let (waiter, counted) = (Rc::clone(&shared), Rc::clone(&counts));
    spawn(move || {
        let woken = waiter.wait(deadline, || false);
        counted.set((woken, counted.get().1));
    });
    let woke = Rc::clone(&counts);
    spawn(move || {
        let woken = signal(&shared);
        woke.set((woke.get().0, woken));
    });
    afterwards(move || assert_eq!(counts.get().0, counts.get().1, "who is woken is told"));
}

#[test]
fn no_lost_signal() {
    let explorer = Explorer::new().whims(1);
    explore("futex, signal", &explorer, &[Event::Parked], || {
        signalled(|shared| shared.signal(1), None);
    });
}

#[test]
fn signal_inside() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Parked, Event::Requeued];
    explore("futex, signal, mutex held", &explorer, &events, || {
        signalled(|shared| shared.signal_inside(1), None);
    });
}

#[test]
fn signal_inside_against_timeout() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Cancelled, Event::Parked, Event::Requeued];
    let name = "futex, signal, mutex held, deadline";
    explore(name, &explorer, &events, || {
        signalled(|shared| shared.signal_inside(1), Some(DEADLINE));
    });
}

#[test]
fn signal_against_timeout() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Cancelled, Event::Parked];
    explore("futex, signal, deadline", &explorer, &events, || {
        signalled(|shared| shared.signal(1), Some(DEADLINE));
    });
}

/// Both waiters are in the queue, of one mutex or two; too many executions to see them all.
fn broadcast(
    name: &str,
    events: &[Event],
    second: fn(&Rc<Signalled>) -> Rc<Signalled>,
    signal: fn(&Signalled) -> u32,
) {
    let explorer = Explorer::new().whims(2).pct(1, 3, 10_000);
    explore(name, &explorer, events, move || {
        let shared = Rc::new(Signalled::new());
        let second = second(&shared);
        let ready = Rc::new(CheckWord::ZERO);
        for waits in [&shared, &second] {
            let (waits, ready) = (Rc::clone(waits), Rc::clone(&ready));
            spawn(move || {
                waits.guarded.mutex.lock();
                ready.fetch_add(1, Relaxed);
                assert_eq!(waits.wait_locked(None, || false), 1);
            });
        }
        spawn(move || {
            let both = |ready| ready == 2;
            Check::spin_until(&ready, Relaxed, Look::Poll, FOREVER, both, || false);
            if !Rc::ptr_eq(&shared, &second) {
                second.guarded.lock_work_unlock();
            }
            assert_eq!(signal(&shared), 2);
        });
    });
}

const MOVED: [Event; 3] = [Event::Requeued, Event::WokeFirst, Event::WokeBatch];

#[test]
fn broadcast_inside() {
    let signal = |shared: &Signalled| shared.signal_inside(ALL);
    broadcast("futex, broadcast, mutex held", &MOVED, Rc::clone, signal);
}

/// The mutex is free, or somebody takes it meanwhile.
#[test]
fn broadcast_outside() {
    broadcast("futex, broadcast", &MOVED, Rc::clone, |shared| {
        shared.signal(ALL)
    });
}

/// Who is moved to its mutex does not wait for what becomes of the other.
#[test]
fn broadcast_to_two_mutexes() {
    let second = |shared: &Rc<Signalled>| Rc::new(shared.with_another_mutex());
    broadcast(
        "futex, broadcast, two mutexes",
        &[Event::Parked],
        second,
        |shared| shared.signal(ALL),
    );
}

/// Who waits is told to stop: it does, whatever it waits for meanwhile.
#[test]
fn no_lost_stop() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Cancelled, Event::Parked];
    explore("futex, stop", &explorer, &events, || {
        let shared = Rc::new(Signalled::new());
        let stop = Rc::new(CheckWord::ZERO);
        let stops = Rc::clone(&stop);
        spawn(move || {
            let woken = shared.wait(None, || stops.load(Relaxed) == 1);
            assert_eq!(woken, 0);
        });
        spawn(move || {
            stop.store(1, Relaxed); // the unpark publishes it
            Check::unpark(TaskId::new(1).expect("a task"));
        });
    });
}

/// An owner leaves the mutex to another task to unlock, and signals when it has said so.
#[test]
fn who_has_left_it_signals() {
    let explorer = Explorer::new();
    let events = [Event::Parked, Event::Requeued];
    explore("futex, left, then signalled", &explorer, &events, || {
        let shared = Rc::new(Signalled::new());
        let counts = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
        let until = |word: &CheckWord, value| {
            let there = move |now| now == value;
            Check::spin_until(word, Acquire, Look::Poll, FOREVER, there, || false);
        };
        let (waits, waiter_counts) = (Rc::clone(&shared), Rc::clone(&counts));
        spawn(move || {
            waits.guarded.mutex.lock();
            waiter_counts[0].store(1, Relaxed);
            waits.wait_locked(None, || false);
        });
        let (owns, owner_counts) = (Rc::clone(&shared), Rc::clone(&counts));
        spawn(move || {
            until(&owner_counts[0], 1);
            owns.guarded.mutex.lock();
            owns.guarded.payload.set(1);
            owner_counts[1].store(1, Release);
            owns.futex.wake(&A, 1, EVERY_BIT);
        });
        spawn(move || {
            until(&counts[1], 1);
            shared.guarded.take_over();
            shared.guarded.unlock();
        });
    });
}
