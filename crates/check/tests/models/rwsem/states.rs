//! The table of the count word: the models reach every state that it has, and no other.

use std::{cell::RefCell, collections::BTreeSet};

use lockyard_check::history;

use super::*;

/// Who holds the lock, with two for any more than one, and the marks.
fn state(count: u32) -> (u32, u32, u32, u32) {
    let readers = (count / READER).min(2);
    (count & WRITER, count & UPGRADABLE, readers, count & MARKS)
}

/// The states that the table has.
fn legal() -> BTreeSet<(u32, u32, u32, u32)> {
    let held = [
        (WRITER, 0, 0),
        (0, 0, 1),
        (0, 0, 2),
        (0, UPGRADABLE, 1),
        (0, UPGRADABLE, 2),
    ];
    let waiting = [0, HANDOFF, SPINNER, HANDOFF | SPINNER].map(|marks| WAITERS | marks);
    let free = [0, WAITERS | SPINNER].map(|marks| (0, 0, 0, marks));
    let held = held.into_iter().flat_map(|(writer, upgradable, readers)| {
        let marks = [0].into_iter().chain(waiting);
        marks.map(move |marks| (writer, upgradable, readers, marks))
    });
    held.chain(free).collect()
}

/// Two readers in one task.
fn read_twice(shared: &Shared) {
    shared.lock.read();
    let again = shared.lock.try_read();
    shared.payload.get();
    if again {
        shared.unlock_read();
    }
    shared.unlock_read();
}

#[test]
fn every_legal_count_and_no_other() {
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    let look = |explorer: &Explorer, start: fn(usize) -> Rc<Shared>, which: usize| {
        let seen = Rc::clone(&seen);
        explore("rwsem, its count", explorer, &[], move || {
            let (seen, shared) = (Rc::clone(&seen), start(which));
            afterwards(move || {
                let counts = history(&shared.lock, COUNT);
                seen.borrow_mut().extend(counts.into_iter().map(state));
            });
        });
    };
    let base = Explorer::new().whims(8).wakes(Wakes::Permissive(1));
    for rotate in 0..9 {
        look(&base.pct(0, 3, 1_500), of_all_kinds, rotate);
        look(&base.polling().random(0, 300), of_all_kinds, rotate);
    }
    let two_readers = |_| started(&[(0, read_twice), (8, Shared::write)]);
    for changes in 2..=4 {
        look(&base.pct(0, changes, 3_000), two_readers, 0);
    }
    assert_eq!(*seen.borrow(), legal());
}
