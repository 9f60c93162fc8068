//! The tables of the locks' words: no model reaches a state that its table
//! calls illegal, and the models together reach every legal one.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use lockyard_check::{Check, Explorer, Wakes, afterwards, history};
use lockyard_core::RawMutex;

use crate::{
    explore,
    guarded::Guarded,
    mutex::{of_all_kinds, tasks},
};

// The words of a mutex, in their order, and what they hold: see mutex.rs and
// gate.rs in the core.
const OWNER: usize = 0;
const FRONT: usize = 1;
const GATE: usize = 2;
const TAIL: usize = 3;
const AWAKE: u32 = 1;
const HANDOFF: u32 = 2;
const RECALL: u32 = 8;
const KEPT: u32 = 1 << 29;
/// All but `RECALL`, which may stand beside any of them, and alone.
const MARKS: u32 = 7;

/// What was seen of each word: the front's marks with and without a first
/// waiter, and whether the others name a task; of the owner also whether it keeps
/// the mutex.
#[derive(Default)]
struct Seen {
    owner: BTreeSet<(bool, bool)>,
    front: BTreeSet<(bool, u32)>,
    gate: BTreeSet<(bool, bool)>,
    tail: BTreeSet<bool>,
}

impl Seen {
    /// Looks at all that the words of a mutex have held in an execution.
    fn look(&mut self, mutex: &RawMutex<Check>, tasks: u32) {
        for owner in history(mutex, OWNER) {
            let (task, kept) = (owner & !KEPT, owner & KEPT != 0);
            assert!(
                task <= tasks && (task != 0 || !kept),
                "the owner word holds {owner:#x}"
            );
            self.owner.insert((task != 0, kept));
        }
        for front in history(mutex, FRONT) {
            let (first, marks) = (front >> 5, front & (MARKS | RECALL));
            assert!(first <= tasks, "the front names task {first}");
            assert!(
                first != 0 || marks & (AWAKE | HANDOFF) == 0,
                "the front has marks of a first waiter, and none: {front:#x}"
            );
            self.front.insert((first != 0, marks));
        }
        for gate in history(mutex, GATE) {
            let (locked, top) = (gate & 1 != 0, gate >> 1);
            assert!(top <= tasks, "the gate's stack names task {top}");
            self.gate.insert((locked, top != 0));
        }
        for tail in history(mutex, TAIL) {
            assert!(tail <= tasks, "the tail of the spin queue is {tail}");
            self.tail.insert(tail != 0);
        }
    }
}

/// Explores, with so many seeds, and returns the front's states that the table
/// has and no model reached.
fn unreached(seeds: u64) -> BTreeSet<(bool, u32)> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let base = Explorer::new().whims(6).wakes(Wakes::Permissive(2));
    for seed in 0..seeds {
        for explorer in [base, base.polling(), base.seldom()] {
            for explorer in [explorer.pct(seed, 3, 6_000), explorer.random(seed, 2_000)] {
                let seen = Rc::clone(&seen);
                explore("words of a mutex", &explorer, &[], move || {
                    let guarded = of_all_kinds();
                    let seen = Rc::clone(&seen);
                    afterwards(move || seen.borrow_mut().look(&guarded.mutex, 3));
                });
            }
        }
        let explorer = base.whims(4).polling().pct(seed, 3, 10_000);
        let seen = Rc::clone(&seen);
        explore("a sleeper that is asked for", &explorer, &[], move || {
            let guarded = tasks(&[0, 4, 2], Guarded::lock_work_unlock);
            let seen = Rc::clone(&seen);
            afterwards(move || seen.borrow_mut().look(&guarded.mutex, 3));
        });
    }
    let seen = seen.borrow();
    let both = BTreeSet::from([false, true]);
    let unkept = both.iter().map(|&owned| (owned, false)).collect();
    assert_eq!(seen.owner, unkept);
    assert_eq!(seen.tail, both);
    let gate = BTreeSet::from([(false, false), (false, true), (true, false), (true, true)]);
    assert_eq!(seen.gate, gate);
    // The last waiter takes every mark along: an empty front has none.
    let marks = (0..=MARKS).map(|marks| (true, marks));
    let legal: BTreeSet<_> = marks.chain([(false, 0)]).collect();
    let front = seen.front.iter();
    let front: BTreeSet<_> = front
        .map(|(first, marks)| (*first, marks & MARKS))
        .collect();
    assert!(front.is_subset(&legal), "reached: {front:?}");
    &legal - &front
}

/// All three marks at once take a sleeper that wakes for no reason while a
/// spinner asks on its behalf: one execution in some ten thousand.
const RAREST: (bool, u32) = (true, MARKS);

#[test]
fn every_legal_state_and_no_other() {
    let unreached = unreached(4);
    assert!(
        unreached.is_subset(&BTreeSet::from([RAREST])),
        "{unreached:?}"
    );
}

/// A front without a first waiter may have `RECALL`, and no other mark.
#[test]
fn every_state_of_a_kept_mutex_is_legal() {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let base = Explorer::new().whims(4).keeping();
    for explorer in [base, base.polling(), base.seldom()] {
        for explorer in [explorer.pct(0, 3, 6_000), explorer.random(0, 4_000)] {
            let seen = Rc::clone(&seen);
            explore("words of a kept mutex", &explorer, &[], move || {
                let guarded = of_all_kinds();
                let seen = Rc::clone(&seen);
                afterwards(move || seen.borrow_mut().look(&guarded.mutex, 3));
            });
        }
    }
    let seen = seen.borrow();
    let owner = BTreeSet::from([(false, false), (true, false), (true, true)]);
    assert_eq!(seen.owner, owner);
    let empty = seen.front.iter().filter(|(first, _)| !first);
    let empty: BTreeSet<_> = empty.map(|(_, marks)| *marks).collect();
    assert_eq!(empty, BTreeSet::from([0, RECALL]));
    assert!(seen.front.contains(&(true, AWAKE | RECALL)));
}

#[test]
#[ignore = "40 times the samples of the test above, for one state in some ten thousand executions"]
fn every_legal_state_even_the_rarest() {
    assert_eq!(unreached(40), BTreeSet::new());
}
