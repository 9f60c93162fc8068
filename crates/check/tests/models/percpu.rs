//! Models of the per-CPU reader-writer semaphore.

mod giving_way;
mod last;

use std::{cell::RefCell, collections::BTreeSet, ops::Range, rc::Rc};

use lockyard_check::{
    Check, CheckWord, Explorer, Tracked, Wakes, afterwards, free, history, limit_whims, name, spawn,
};
use lockyard_core::{
    Event,
    Ordering::Relaxed,
    Platform, RawPercpuRwLock, TaskId, Word,
    percpu_rwsem::{Barging, Bounded, Grant, Handoff},
};

use crate::{
    DEADLINE, explore,
    programs::{self, Deed},
};

/// A payload behind the lock.
pub struct Shared<G> {
    pub lock: RawPercpuRwLock<Check, G>,
    payload: Tracked<u32>,
    /// How many sections there were, for who frees the lock.
    sections: CheckWord,
}

/// What a task does.
type Work<G> = fn(&Shared<G>);

impl<G: Grant> Shared<G> {
    pub fn new() -> Rc<Self> {
        let shared = Rc::new(Self {
            lock: RawPercpuRwLock::new(),
            payload: Tracked::new(0),
            sections: CheckWord::ZERO,
        });
        name(&shared.lock, "lock");
        shared
    }

    /// What a reader does: a read that would race with a writer.
    fn look(&self) {
        self.payload.get();
        self.sections.fetch_add(1, Relaxed);
    }

    /// What a writer does: a write that would race with anybody.
    fn work(&self) {
        self.payload.set(self.payload.get() + 1);
        self.sections.fetch_add(1, Relaxed);
    }

    fn unlock_read(&self) {
        // SAFETY: a model releases what it has.
        unsafe { self.lock.unlock_read() };
    }

    fn unlock_write(&self) {
        // SAFETY: a model releases what it has.
        unsafe { self.lock.unlock_write() };
    }

    fn read(&self) {
        self.lock.read();
        self.look();
        self.unlock_read();
    }

    fn write(&self) {
        self.lock.write();
        self.work();
        self.unlock_write();
    }

    fn read_twice(&self) {
        self.read();
        self.read();
    }

    fn write_twice(&self) {
        self.write();
        self.write();
    }

    fn unlock_write_fairly(&self) {
        // SAFETY: a model releases what it has.
        unsafe { self.lock.unlock_write_fair() };
    }

    fn downgrade(&self) {
        // SAFETY: a model downgrades what it has.
        unsafe { self.lock.downgrade() };
    }

    fn write_fairly(&self) {
        self.lock.write();
        self.work();
        self.unlock_write_fairly();
    }

    fn write_then_read(&self) {
        self.lock.write();
        self.work();
        self.downgrade();
        self.look();
        self.unlock_read();
    }

    fn read_until(&self) {
        if self.lock.read_until(DEADLINE) {
            self.look();
            self.unlock_read();
        }
    }

    fn write_until(&self) {
        if self.lock.write_until(DEADLINE) {
            self.work();
            self.unlock_write();
        }
    }

    fn write_giving_way(&self) {
        self.lock.write_giving_way(None);
        self.work();
        self.unlock_write();
    }

    fn write_giving_way_until(&self) {
        if self.lock.write_giving_way(Some(DEADLINE)) {
            self.work();
            self.unlock_write();
        }
    }

    /// Reads what it reads already.
    fn read_within(&self) {
        self.lock.read();
        self.read();
        self.unlock_read();
    }

    fn try_both(&self) {
        if self.lock.try_write() {
            self.work();
            self.unlock_write();
        }
        if self.lock.try_read() {
            self.look();
            self.unlock_read();
        }
    }

    /// Frees the lock if this was the last of so many sections.
    fn free_after(&self, sections: u32, unlock: Work<G>) {
        let last = self.sections.load(Relaxed) == sections;
        unlock(self);
        if last {
            free(&self.lock);
        }
    }
}

/// One task for each element, with so many whims. In the end nobody is in.
fn tasks<G: Grant>(works: &[(u32, Work<G>)]) -> Rc<Shared<G>> {
    let shared = Shared::new();
    for &(whims, work) in works {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(whims);
            work(&shared);
        });
    }
    let last = Rc::clone(&shared);
    afterwards(move || assert!(!last.lock.is_locked()));
    shared
}

/// The first task writes, after which readers are on the slow path; then come the
/// others, and the first does `work` as well.
fn after_a_writer<G: Grant>(work: Work<G>, others: &[(u32, Work<G>)]) {
    let shared = Shared::new();
    let first = Rc::clone(&shared);
    let count = others.len() as u32;
    spawn(move || {
        limit_whims(0);
        first.write();
        for other in 2..2 + count {
            Check::unpark(TaskId::new(other).expect("a task"));
        }
        work(&first);
    });
    for &(whims, work) in others {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(whims);
            Check::park(None);
            work(&shared);
        });
    }
    afterwards(move || assert!(!shared.lock.is_locked()));
}

/// The first task has the lock for writing while the others come.
fn behind_a_writer<G: Grant>(others: &[(u32, Work<G>)]) {
    let shared = Shared::new();
    let first = Rc::clone(&shared);
    let count = others.len() as u32;
    spawn(move || {
        limit_whims(1);
        first.lock.write();
        for other in 2..2 + count {
            Check::unpark(TaskId::new(other).expect("a task"));
        }
        first.work();
        first.unlock_write();
    });
    for &(whims, work) in others {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(whims);
            Check::park(None);
            work(&shared);
        });
    }
    afterwards(move || assert!(!shared.lock.is_locked()));
}

const EXPLORER: Explorer = Explorer::new().whims(2);

/// The fast path against the first writer: the grace period.
#[test]
fn a_reader_and_a_writer() {
    let events = [Event::GracePeriod, Event::Parked];
    explore("percpu, reader and writer", &EXPLORER, &events, || {
        tasks::<Bounded>(&[(2, Shared::read), (2, Shared::write)]);
    });
}

#[test]
fn a_reader_and_a_writer_with_spurious_wakes() {
    let explorer = Explorer::new().whims(1).wakes(Wakes::Permissive(1));
    let events = [Event::GracePeriod, Event::Parked];
    explore("percpu, spurious wakes", &explorer, &events, || {
        tasks::<Bounded>(&[(1, Shared::read), (1, Shared::write)]);
    });
}

#[test]
fn two_writers() {
    let events = [Event::GraceSkipped, Event::Parked];
    explore("percpu, two writers", &EXPLORER, &events, || {
        let shared = tasks::<Bounded>(&[(1, Shared::write), (1, Shared::write)]);
        afterwards(move || assert_eq!(shared.payload.get(), 2));
    });
}

/// Readers fence, and the second writer waits for no grace period.
#[test]
fn closely_spaced_writers() {
    let events = [Event::GraceSkipped, Event::TookBack];
    explore("percpu, writers in a row", &EXPLORER, &events, || {
        after_a_writer::<Bounded>(Shared::write, &[(1, Shared::read)]);
    });
}

/// A reader finds that no writer has come for long: the next one waits for a grace
/// period again.
#[test]
fn back_to_the_fast_path() {
    let events = [Event::BackToFast, Event::GracePeriod];
    explore("percpu, fast again", &EXPLORER, &events, || {
        after_a_writer::<Bounded>(Shared::write, &[(1, Shared::read_twice)]);
    });
}

/// A reader goes on another CPU than it came on, and the writer adds up.
#[test]
fn a_late_reader_on_another_cpu() {
    for changes in 2..=4 {
        let explorer = Explorer::new().whims(1).pct(1, changes, 10_000);
        explore("percpu, late reader", &explorer, &[Event::Parked], || {
            tasks::<Bounded>(&[(1, Shared::read), (1, Shared::read), (0, Shared::write)]);
        });
    }
}

/// One reader is in while another takes itself back: the sum must not be 0. The
/// writer looks at the CPU of the latter first.
#[test]
fn one_reader_takes_itself_back_and_another_stays() {
    let events = [Event::TookBack, Event::Parked];
    explore("percpu, took back", &Explorer::new(), &events, || {
        let shared = Shared::<Bounded>::new();
        let (visitor, stayer) = (Rc::clone(&shared), Rc::clone(&shared));
        let task = |number| TaskId::new(number).expect("a task");
        spawn(move || {
            shared.write();
            Check::unpark(task(3));
            Check::park(None); // until the stayer is in
            Check::unpark(task(2));
            shared.write();
        });
        spawn(move || {
            Check::park(None);
            if visitor.lock.try_read() {
                visitor.look();
                visitor.unlock_read();
            }
        });
        spawn(move || {
            Check::park(None);
            stayer.lock.read();
            Check::unpark(task(1));
            stayer.look();
            stayer.unlock_read();
        });
    });
}

/// Readers and a writer sleep; both grants, and the bound.
fn no_lost_wake_up<G: Grant>(name: &str, events: &[Event]) {
    explore(name, &Explorer::new().whims(1), events, || {
        behind_a_writer::<G>(&[(1, Shared::read)]);
    });
    explore(name, &Explorer::new().whims(1), &[Event::Parked], || {
        behind_a_writer::<G>(&[(1, Shared::write)]);
    });
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(1).pct(1, changes, 5_000);
        explore(name, &explorer, events, || {
            behind_a_writer::<G>(&[(1, Shared::read), (1, Shared::write)]);
        });
        explore(name, &explorer, events, || {
            behind_a_writer::<G>(&[(0, Shared::write), (1, Shared::write), (1, Shared::read)]);
        });
    }
}

#[test]
fn no_lost_wake_up_by_handoff() {
    no_lost_wake_up::<Handoff>("percpu, handoff", &[Event::HandedOff, Event::Parked]);
}

#[test]
fn no_lost_wake_up_by_barging() {
    no_lost_wake_up::<Barging>("percpu, barging", &[Event::WokeFirst, Event::Parked]);
}

/// Woken or with the lock, as its patience says.
#[test]
fn no_lost_wake_up_within_the_bound() {
    let events = [Event::HandedOff, Event::WokeFirst];
    no_lost_wake_up::<Bounded>("percpu, bounded", &events);
}

/// A waiter is woken, and others are before it; it is called again.
#[test]
fn losers_are_called_again() {
    let events = [Event::Bypassed, Event::WokeFirst];
    for changes in 1..=3 {
        let explorer = Explorer::new().pct(1, changes, 10_000);
        explore("percpu, bypassed", &explorer, &events, || {
            after_a_writer::<Barging>(
                Shared::write_twice,
                &[(0, Shared::write), (0, Shared::read)],
            );
        });
    }
}

/// The words of the lock, behind the two of the counter, and what its state holds: see
/// percpu_rwsem.rs in the core.
const STATE: usize = 2;
const SLOW: u32 = 1;
const WAITERS: u32 = 2;
const MARKS: u32 = 3;

/// What the state word has held, as whether there is a writer, and the marks.
fn states<G: Grant>(lock: &RawPercpuRwLock<Check, G>) -> Vec<(bool, u32)> {
    let states = history(lock, STATE);
    let parts = states.iter().map(|state| (state >> 2 != 0, state & MARKS));
    parts.collect()
}

/// With a hand-off the lock goes from a writer to the one that waits, and to nobody in
/// between.
#[test]
fn nobody_overtakes_an_heir() {
    let events = [Event::HandedOff, Event::Parked];
    for changes in 1..=3 {
        let explorer = Explorer::new().pct(1, changes, 5_000);
        explore("percpu, an heir", &explorer, &events, || {
            let write: (u32, Work<Handoff>) = (0, Shared::write);
            let shared = tasks(&[write, write, write]);
            afterwards(move || {
                for pair in states(&shared.lock).windows(2) {
                    let waited_for = pair[0] == (true, SLOW | WAITERS);
                    assert!(!waited_for || pair[1].0, "given to nobody: {pair:?}");
                }
            });
        });
    }
}

/// The table of the state word: no model reaches another state, and together these
/// reach each.
#[test]
fn every_legal_state_and_no_other() {
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    for changes in 1..=3 {
        let explorer = EXPLORER.pct(1, changes, 10_000);
        let seen = Rc::clone(&seen);
        explore("percpu, states", &explorer, &[], move || {
            let works: [(u32, Work<Barging>); 3] = [
                (2, Shared::write_twice),
                (2, Shared::read_twice),
                (0, Shared::write_until),
            ];
            let shared = tasks(&works);
            let seen = Rc::clone(&seen);
            afterwards(move || seen.borrow_mut().extend(states(&shared.lock)));
        });
    }
    let legal = [
        (false, 0),
        (false, SLOW),
        (false, SLOW | WAITERS),
        (true, SLOW),
        (true, SLOW | WAITERS),
    ];
    assert_eq!(*seen.borrow(), BTreeSet::from(legal));
}

#[test]
fn deadlines_of_readers() {
    let events = [Event::Cancelled, Event::CancelGranted];
    let explorer = Explorer::new().whims(1);
    explore("percpu, reader's deadline", &explorer, &events, || {
        behind_a_writer::<Bounded>(&[(1, Shared::read_until)]);
    });
}

#[test]
fn deadlines_of_writers() {
    let events = [Event::Cancelled, Event::CancelGranted];
    let explorer = Explorer::new().whims(1);
    explore("percpu, writer's deadline", &explorer, &events, || {
        behind_a_writer::<Bounded>(&[(1, Shared::write_until)]);
    });
    let events = [Event::Cancelled];
    explore("percpu, impatient writer", &explorer, &events, || {
        tasks::<Bounded>(&[(1, Shared::read), (1, Shared::write_until)]);
    });
}

/// Who gives up leaves nobody behind that sleeps.
#[test]
fn deadlines_before_another() {
    let events = [Event::Cancelled, Event::Parked];
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(1).pct(1, changes, 5_000);
        explore("percpu, deadlines", &explorer, &events, || {
            behind_a_writer::<Bounded>(&[(0, Shared::write_until), (1, Shared::read)]);
        });
        explore("percpu, deadlines", &explorer, &events, || {
            tasks::<Bounded>(&[
                (0, Shared::read),
                (1, Shared::write_until),
                (0, Shared::read),
            ]);
        });
    }
}

#[test]
fn tries() {
    let explorer = Explorer::new().whims(1);
    explore("percpu, tries", &explorer, &[], || {
        tasks::<Bounded>(&[(0, Shared::try_both), (1, Shared::write)]);
    });
    let explorer = Explorer::new();
    explore("percpu, tries in a row", &explorer, &[], || {
        after_a_writer::<Bounded>(Shared::try_both, &[(0, Shared::read)]);
    });
    explore("percpu, tries of a reader", &explorer, &[], || {
        tasks::<Bounded>(&[(0, Shared::try_both), (0, Shared::read)]);
    });
}

#[test]
fn fair_releases() {
    let events = [Event::HandedOff, Event::GraceSkipped];
    explore("percpu, fair", &EXPLORER, &events, || {
        tasks::<Barging>(&[(1, Shared::write_fairly), (1, Shared::write_fairly)]);
    });
    explore("percpu, fair to readers", &EXPLORER, &events[..1], || {
        tasks::<Barging>(&[(1, Shared::write_fairly), (1, Shared::read)]);
    });
}

#[test]
fn a_writer_that_becomes_a_reader() {
    explore("percpu, downgrade", &EXPLORER, &[Event::Parked], || {
        tasks::<Bounded>(&[(1, Shared::write_then_read), (1, Shared::write)]);
    });
}

fn read_and_free<G: Grant>(shared: &Shared<G>) {
    shared.lock.read();
    shared.look();
    shared.free_after(2, Shared::unlock_read);
}

fn write_and_free<G: Grant>(shared: &Shared<G>) {
    shared.lock.write();
    shared.work();
    shared.free_after(2, Shared::unlock_write);
}

/// Two tasks, of which the last frees the lock.
fn freed<G: Grant>(first: Work<G>, second: Work<G>) {
    let shared = Shared::new();
    for work in [first, second] {
        let shared = Rc::clone(&shared);
        spawn(move || work(&shared));
    }
}

#[test]
fn freed_after_the_last_use() {
    let events = [Event::Parked, Event::GracePeriod];
    explore("percpu, freed", &EXPLORER, &events, || {
        freed::<Bounded>(read_and_free, write_and_free);
    });
    let events = [Event::HandedOff, Event::WokeFirst];
    explore("percpu, freed by a writer", &EXPLORER, &events, || {
        freed::<Bounded>(write_and_free, write_and_free);
    });
}

/// One of all that takes the lock and leaves it.
pub fn any_deed<G: Grant>(random: &mut fastrand::Rng, _: u32) -> Deed<Shared<G>> {
    let works: [Work<G>; 10] = [
        Shared::read,
        Shared::read_twice,
        Shared::write,
        Shared::write_twice,
        Shared::write_fairly,
        Shared::write_then_read,
        Shared::read_until,
        Shared::write_until,
        Shared::write_giving_way,
        Shared::try_both,
    ];
    Rc::new(works[random.usize(..works.len())])
}

fn explore_programs<G: Grant>(numbers: Range<u64>) {
    let at_end = |shared: &Shared<G>| assert!(!shared.lock.is_locked());
    let events = [Event::GracePeriod, Event::TookBack, Event::Cancelled];
    programs::explore("percpu", numbers, &events, any_deed, Shared::new, at_end);
}

#[test]
fn random_programs() {
    explore_programs::<Handoff>(0..50);
    explore_programs::<Barging>(50..100);
    explore_programs::<Bounded>(100..200);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs::<Handoff>(1_000..2_000);
    explore_programs::<Barging>(2_000..3_000);
    explore_programs::<Bounded>(3_000..5_000);
}
