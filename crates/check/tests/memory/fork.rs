//! What a fork's child finds in the memory.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use lockyard_check::{CheckWord, Explorer, spawn, spawn_in_child};
use lockyard_core::{Ordering::Relaxed, Word};

type Words = Rc<[CheckWord; 2]>;

/// What the child finds in both words, over all executions.
fn found<const N: usize>(parents: [fn(&Words); N]) -> BTreeSet<[u32; 2]> {
    let found = Rc::new(RefCell::new(BTreeSet::new()));
    let all = Rc::clone(&found);
    let model = move || {
        let words: Words = Rc::new([CheckWord::ZERO, CheckWord::ZERO]);
        for parent in parents {
            let words = Rc::clone(&words);
            spawn(move || parent(&words));
        }
        let found = Rc::clone(&found);
        spawn_in_child(move || {
            found
                .borrow_mut()
                .insert([0, 1].map(|at| words[at].load(Relaxed)));
        });
    };
    let report = Explorer::new().check(model).unwrap();
    assert!(!report.truncated);
    all.take()
}

/// A thread may be gone between any two steps, and what it stored is there.
#[test]
fn the_stores_of_a_thread_up_to_some_moment() {
    let parent = |words: &Words| {
        words[0].store(1, Relaxed);
        words[1].store(1, Relaxed);
        words[0].store(2, Relaxed);
    };
    let expected = [[0, 0], [1, 0], [1, 1], [2, 1]];
    assert_eq!(found([parent]), BTreeSet::from(expected));
}

/// What a thread was seen to do is there.
#[test]
fn what_others_saw() {
    let first = |words: &Words| words[0].store(1, Relaxed);
    let second = |words: &Words| words[1].store(words[0].load(Relaxed), Relaxed);
    assert_eq!(
        found([first, second]),
        BTreeSet::from([[0, 0], [1, 0], [1, 1]])
    );
}
