//! Models of writers that give way: readers of theirs may read again.
//!
//! Such a writer comes again for as long as others do nothing, so no tree of executions is
//! finite: these are PCT's.

use std::rc::Rc;

use lockyard_check::{Check, Explorer, afterwards, spawn};
use lockyard_core::{Event, Platform, TaskId, percpu_rwsem::Bounded};

use super::{Shared, Work, after_a_writer, freed, tasks};
use crate::explore;

/// Somebody gives way, and somebody sleeps.
fn explore_giving_way(name: &str, executions: u64, model: impl Fn() + Clone + 'static) {
    let events = [Event::Cancelled, Event::Parked];
    for changes in 1..=3 {
        let explorer = Explorer::new().whims(1).pct(1, changes, executions);
        explore(name, &explorer, &events, model.clone());
    }
}

/// A reader reads again, before or after a writer has come that waits for it.
#[test]
fn a_reader_reads_again() {
    for write in [Shared::write_giving_way, Shared::write_giving_way_until] {
        explore_giving_way("percpu, reads again", 5_000, move || {
            tasks::<Bounded>(&[(0, Shared::read_within), (1, write)]);
        });
    }
    explore_giving_way("percpu, slowly again", 5_000, || {
        after_a_writer::<Bounded>(Shared::write_giving_way, &[(0, Shared::read_within)]);
    });
}

/// A reader waits for another, which comes when a writer may wait already.
#[test]
fn a_reader_waits_for_a_reader() {
    explore_giving_way("percpu, a reader's reader", 5_000, || {
        let task = |number| TaskId::new(number).expect("a task");
        let shared = Shared::<Bounded>::new();
        let [first, second, writer] = [(); 3].map(|()| Rc::clone(&shared));
        spawn(move || {
            first.lock.read();
            Check::unpark(task(2));
            Check::park(None); // until the second was in
            first.look();
            first.unlock_read();
        });
        spawn(move || {
            Check::park(None); // until the first is in
            second.lock.read();
            Check::unpark(task(1));
            second.look();
            second.unlock_read();
        });
        spawn(move || writer.write_giving_way());
        afterwards(move || assert!(!shared.lock.is_locked()));
    });
}

/// One of them is in the queue when the other gives way.
#[test]
fn two_writers_and_a_reader_that_reads_again() {
    explore_giving_way("percpu, both give way", 10_000, || {
        let write: (u32, Work<Bounded>) = (1, Shared::write_giving_way);
        tasks(&[(0, Shared::read_within), write, write]);
    });
}

fn read_within_and_free(shared: &Shared<Bounded>) {
    shared.lock.read();
    shared.read();
    shared.free_after(2, Shared::unlock_read);
}

fn write_and_free(shared: &Shared<Bounded>) {
    shared.lock.write_giving_way(None);
    shared.work();
    shared.free_after(2, Shared::unlock_write);
}

/// The last of them frees the lock, which a writer has left and come back to.
#[test]
fn freed_after_the_last_use() {
    explore_giving_way("percpu, freed", 5_000, || {
        freed(read_within_and_free, write_and_free);
    });
}
