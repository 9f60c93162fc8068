//! Two words that are replaced at once: one step towards all, and a full barrier.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use lockyard_check::{Check, CheckWord, Explorer, afterwards, spawn};
use lockyard_core::{Ordering::Relaxed, Platform, Word};

/// X, and the words of a pair.
type Words = [CheckWord; 3];

/// What two tasks are told, and what the words hold in the end.
fn outcomes(tasks: [fn(&Words) -> [u32; 2]; 2]) -> BTreeSet<([[u32; 2]; 2], [u32; 3])> {
    let outcomes = Rc::new(RefCell::new(BTreeSet::new()));
    let seen = Rc::clone(&outcomes);
    let report = Explorer::new().pairing().check(move || {
        let words: Rc<Words> = Rc::new([const { CheckWord::ZERO }; 3]);
        let told = Rc::new(RefCell::new([[0; 2]; 2]));
        for (at, task) in tasks.into_iter().enumerate() {
            let (words, told) = (Rc::clone(&words), Rc::clone(&told));
            spawn(move || {
                let found = task(&words);
                told.borrow_mut()[at] = found;
            });
        }
        let seen = Rc::clone(&seen);
        afterwards(move || {
            let finals = words.each_ref().map(|word| word.load(Relaxed));
            seen.borrow_mut().insert((*told.borrow(), finals));
        });
    });
    assert!(report.is_ok_and(|report| !report.truncated));
    outcomes.take()
}

fn replace([_, first, second]: &Words, before: [u32; 2], after: [u32; 2]) -> [u32; 2] {
    Check::replace_pair([first, second], before, || after).expect("the explorer is pairing")
}

#[test]
fn one_of_two_replaces_both() {
    let reached = outcomes([
        |words| replace(words, [0, 0], [1, 2]),
        |words| replace(words, [0, 0], [3, 4]),
    ]);
    let first = ([[0, 0], [1, 2]], [0, 1, 2]);
    let second = ([[3, 4], [0, 0]], [0, 3, 4]);
    assert_eq!(reached, BTreeSet::from([first, second]));
}

#[test]
fn nobody_comes_in_between() {
    let reached = outcomes([
        |words| replace(words, [0, 0], [1, 2]),
        |[_, first, second]| {
            let found = second.compare_exchange(0, 5, Relaxed, Relaxed);
            [first.load(Relaxed), found.unwrap_or_else(|found| found)]
        },
    ]);
    let behind = |first| ([[0, 0], [first, 2]], [0, 1, 2]);
    let before = ([[0, 5], [0, 0]], [0, 0, 5]);
    assert_eq!(reached, BTreeSet::from([before, behind(0), behind(1)]));
}

#[test]
fn a_pair_is_a_barrier() {
    let reached = outcomes([
        |words| {
            words[0].store(1, Relaxed);
            [replace(words, [9, 9], [9, 9])[0], words[1].load(Relaxed)]
        },
        |words| {
            words[1].store(1, Relaxed);
            [replace(words, [9, 9], [9, 9])[0], words[0].load(Relaxed)]
        },
    ]);
    let told: BTreeSet<_> = reached
        .iter()
        .map(|(told, _)| told.map(|told| told[1]))
        .collect();
    assert_eq!(told, BTreeSet::from([[0, 1], [1, 0], [1, 1]]));
}

/// It finds what is newest: a store that was made before it, if it comes behind that at all.
#[test]
fn it_finds_what_was_stored_before() {
    let reached = outcomes([
        |words| {
            words[1].store(1, Relaxed);
            words[2].store(1, Relaxed);
            [0, 0]
        },
        |words| replace(words, [1, 1], [2, 2]),
    ]);
    let told: BTreeSet<_> = reached
        .iter()
        .map(|(told, finals)| (told[1], *finals))
        .collect();
    let known = [
        ([0, 0], [0, 1, 1]),
        ([1, 0], [0, 1, 1]),
        ([1, 1], [0, 2, 2]),
    ];
    assert_eq!(told, BTreeSet::from(known));
}
