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
const MARKS: u32 = 7;

/// What was seen of each word: the front's marks with and without a first
/// waiter, and whether the others name a task.
#[derive(Default)]
struct Seen {
    owner: BTreeSet<bool>,
    front: BTreeSet<(bool, u32)>,
    gate: BTreeSet<(bool, bool)>,
    tail: BTreeSet<bool>,
}

impl Seen {
    /// Looks at all that the words of a mutex have held in an execution.
    fn look(&mut self, mutex: &RawMutex<Check>, tasks: u32) {
        for owner in history(mutex, OWNER) {
            assert!(owner <= tasks, "the owner word holds {owner:#x}");
            self.owner.insert(owner != 0);
        }
        for front in history(mutex, FRONT) {
            let (first, marks) = (front >> 3, front & MARKS);
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
        for explorer in [base, base.polling()] {
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
    assert_eq!(seen.owner, both);
    assert_eq!(seen.tail, both);
    let gate = BTreeSet::from([(false, false), (false, true), (true, false), (true, true)]);
    assert_eq!(seen.gate, gate);
    // The last waiter takes every mark along: an empty front has none.
    let marks = (0..=MARKS).map(|marks| (true, marks));
    let legal: BTreeSet<_> = marks.chain([(false, 0)]).collect();
    assert!(seen.front.is_subset(&legal), "reached: {:?}", seen.front);
    &legal - &seen.front
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

#[test]
#[ignore = "takes long"]
fn every_legal_state_even_the_rarest() {
    assert_eq!(unreached(40), BTreeSet::new());
}
