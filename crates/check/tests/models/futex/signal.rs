//! A condition variable that is an address, and a mutex.

use lockyard_check::CheckWord;

use super::*;
use crate::guarded::Guarded;

/// A mutex, and a condition variable that is an address.
struct Signalled {
    futex: Table<Check, SLOTS>,
    guarded: Rc<Guarded>,
}

impl Signalled {
    /// Waits while the payload is 0, or until the deadline. Returns how many wakers have
    /// counted it.
    fn wait(&self, deadline: Option<Deadline>, stop: impl Fn() -> bool) -> u32 {
        let mut counted = 0;
        self.guarded.mutex.lock();
        while self.guarded.payload.get() == 0 {
            let release = || self.guarded.unlock();
            let woken = (self.futex).wait_after(&A, Waiter::ANY, release, &stop, deadline);
            self.guarded.mutex.lock();
            counted += u32::from(woken);
            if !woken {
                break;
            }
        }
        self.guarded.unlock();
        counted
    }

    fn signal(&self) -> u32 {
        self.guarded.lock_work_unlock();
        self.futex.wake(&A, 1, EVERY_BIT)
    }
}

/// One waits for the payload to change; another changes it and signals.
fn signalled(deadline: Option<Deadline>) {
    let shared = Rc::new(Signalled {
        futex: Table::new(),
        guarded: Guarded::new(),
    });
    let counts = Rc::new(Cell::new((0, 0)));
    let (waiter, counted) = (Rc::clone(&shared), Rc::clone(&counts));
    spawn(move || {
        let woken = waiter.wait(deadline, || false);
        counted.set((woken, counted.get().1));
    });
    let woke = Rc::clone(&counts);
    spawn(move || {
        let woken = shared.signal();
        woke.set((woke.get().0, woken));
    });
    afterwards(move || assert_eq!(counts.get().0, counts.get().1, "who is woken is told"));
}

#[test]
fn no_lost_signal() {
    let explorer = Explorer::new().whims(1);
    explore("futex, signal", &explorer, &[Event::Parked], || {
        signalled(None);
    });
}

#[test]
fn signal_against_timeout() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Cancelled, Event::Parked];
    explore("futex, signal, deadline", &explorer, &events, || {
        signalled(Some(DEADLINE));
    });
}

/// Who waits is told to stop: it does, whatever it waits for meanwhile.
#[test]
fn no_lost_stop() {
    let explorer = Explorer::new().whims(1);
    let events = [Event::Cancelled, Event::Parked];
    explore("futex, stop", &explorer, &events, || {
        let shared = Rc::new(Signalled {
            futex: Table::new(),
            guarded: Guarded::new(),
        });
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
