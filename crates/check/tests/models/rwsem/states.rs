//! The table of the count word: the models reach every state that it has, and no other.

use std::{cell::RefCell, collections::BTreeSet};

use lockyard_check::history;

use super::*;

/// Who holds the lock, with two for any more than one, and the marks.
fn state(count: u32) -> (u32, u32, u32, u32) {
    let readers = (count / READER).min(2);
    (count & WRITER, count & UPGRADABLE, readers, count & MARKS)
}

/// The states without a bias that the table has: a writer beside readers claims the lock.
fn legal() -> BTreeSet<(u32, u32, u32, u32)> {
    let held = [
        (WRITER, 0, 0),
        (WRITER, 0, 1),
        (WRITER, 0, 2),
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

/// Where in its circle the bias is.
const BIASES: [u32; 4] = [0, 1 << 30, 2 << 30, 3 << 30];

/// The states of a lock that may be biased: with one, it has readers; `UPGRADABLE` and
/// the virtual reader are two; nobody waits for one that is biased, in which `SPINNER` says
/// that its readers fence; and while a writer keeps those out it has `WRITER`, and `UPGRADABLE` if
/// that one only tries.
fn legal_with_a_bias() -> BTreeSet<(u32, (u32, u32, u32, u32))> {
    let biases = BIASES.into_iter();
    let all = biases.flat_map(|bias| legal().into_iter().map(move |state| (bias, state)));
    let is_legal = |&(bias, (writer, upgradable, readers, marks)): &(u32, (u32, u32, u32, u32))| {
        let least = 1 + u32::from(upgradable != 0);
        bias == 0 || writer == 0 && readers >= least && (marks == 0 || bias != BIASES[2])
    };
    let biased = all.filter(is_legal).collect::<BTreeSet<_>>();
    let is_biased =
        |&&(bias, (.., marks)): &&(u32, (u32, u32, u32, u32))| bias == BIASES[2] && marks == 0;
    let fenced = biased.iter().filter(is_biased);
    let fenced = fenced.map(|&(bias, (writer, upgradable, readers, _))| {
        (bias, (writer, upgradable, readers, SPINNER))
    });
    let waiting = [0, HANDOFF, SPINNER, HANDOFF | SPINNER].map(|marks| WAITERS | marks);
    let kept_out = [(BIASES[3], UPGRADABLE), (BIASES[1], 0)];
    let kept_out = kept_out.into_iter().flat_map(|(bias, upgradable)| {
        let marks = [0].into_iter().chain(waiting);
        marks.flat_map(move |marks| {
            (0..=2).map(move |readers| (bias, (WRITER, upgradable, readers, marks)))
        })
    });
    let more = fenced.chain(kept_out).collect::<BTreeSet<_>>();
    biased.union(&more).copied().collect()
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
    let two_readers = |_| started(&[(2, read_twice), (8, Shared::write)]);
    let and_two_writers = |_| {
        started(&[
            (2, read_twice),
            (8, Shared::write),
            (8, Shared::try_to_write),
        ])
    };
    for changes in 2..=4 {
        look(&base.pct(0, changes, 3_000), two_readers, 0);
        look(&base.pct(0, changes, 3_000), and_two_writers, 0);
    }
    assert_eq!(*seen.borrow(), legal());
}

/// Few executions have a waiter or two while the bias comes or goes, and so not every
/// state is seen here: those of a biased lock are.
#[test]
fn every_biased_count_is_legal() {
    fn read_often(shared: &Shared) {
        for _ in 0..2 {
            shared.read();
            read_twice(shared);
        }
    }
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    let works: [&[(u32, Work)]; 3] = [
        &[
            (2, read_often),
            (2, Shared::write),
            (2, Shared::read_upgradably),
        ],
        &[(2, read_often), (2, Shared::upgrade), (2, Shared::read)],
        &[(2, read_often), (2, read_often), (2, Shared::try_to_write)],
    ];
    for works in works {
        for changes in 2..=3 {
            let explorer = Explorer::new().biasing().whims(2).pct(0, changes, 1_500);
            let seen = Rc::clone(&seen);
            explore("rwsem, a biased count", &explorer, &[], move || {
                let (seen, shared) = (Rc::clone(&seen), started(works));
                afterwards(move || {
                    let counts = history(&shared.lock, COUNT).into_iter();
                    let states = counts.map(|count| (count & BIASES[3], state(count & !BIASES[3])));
                    seen.borrow_mut().extend(states);
                });
            });
        }
    }
    let (seen, legal) = (seen.borrow(), legal_with_a_bias());
    assert!(seen.is_subset(&legal), "reached: {:?}", &*seen - &legal);
    let biased = |states: &BTreeSet<_>| {
        let biased = states.iter().filter(|(bias, _)| *bias == BIASES[2]);
        biased.copied().collect::<BTreeSet<_>>()
    };
    assert_eq!(biased(&seen), biased(&legal));
    for bias in BIASES {
        assert!(seen.iter().any(|&(seen, _)| seen == bias));
    }
    let is_suspended =
        |&(bias, (writer, ..)): &(u32, (u32, u32, u32, u32))| bias == BIASES[1] && writer != 0;
    assert!(seen.iter().any(is_suspended));
}
