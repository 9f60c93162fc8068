//! Models of long chains, of tasks for which others act: who is due which level in the
//! end, and who is told of a deadlock.

use std::{cell::Cell, rc::Rc};

use lockyard_check::{CheckWord, Explorer, afterwards, level, set_level};
use lockyard_core::{Ordering::AcqRel, Word, rtmutex::Start};

use super::{
    go,
    inheritance::{Chain, change},
    task,
};
use crate::explore;

/// How many executions to sample.
const MANY: u64 = 2_000;

/// Tasks for which others act, from `first` to `last`.
fn idle(chain: &Rc<Chain>, first: u32, last: u32) {
    for _ in first..=last {
        go(0, chain, |_| ());
    }
}

/// In the end the tasks from `first` on run at these levels.
fn in_the_end(chain: &Rc<Chain>, first: u32, levels: &'static [u32]) {
    let chain = Rc::clone(chain);
    afterwards(move || {
        let tasks = (first..).take(levels.len());
        let found: Vec<_> = tasks.map(|number| level(task(number))).collect();
        assert_eq!(found, levels);
        drop(chain); // the locks were there until now
    });
}

/// The level of a waiter is taken back along a chain of which one owner has another lender.
fn a_lower_lender_is_left(explored: &str, take_back: fn(&Chain)) {
    let explorer = Explorer::new();
    explore(explored, &explorer, &[], move || {
        let chain = Chain::of(&[2, 3, 4, 3]);
        set_level(task(5), 3);
        set_level(task(6), 1);
        chain.wait(6, 3);
        chain.wait(2, 1);
        chain.wait(3, 2);
        chain.wait(5, 0);
        assert_eq!([2, 3, 4].map(|number| level(task(number))), [3; 3]);
        go(0, &chain, take_back);
        idle(&chain, 2, 6);
        in_the_end(&chain, 2, &[0, 1, 1]);
    });
}

#[test]
fn a_lower_lender_is_left_by_who_leaves() {
    a_lower_lender_is_left("real-time mutex, a lender leaves", |chain| {
        chain.leave(5, 0);
    });
}

#[test]
fn a_lower_lender_is_left_by_who_falls() {
    a_lower_lender_is_left("real-time mutex, a lender falls", |_| change(5, 0));
}

/// One would close a circle, and passes on what another lends to a task of it just then.
#[test]
fn who_is_refused_passes_on_what_others_lend() {
    for changes in [2, 3] {
        let explorer = Explorer::new().pct(1, changes, MANY);
        explore("real-time mutex, refused", &explorer, &[], || {
            let chain = Chain::of(&[3, 4, 5, 6, 3]);
            chain.wait(3, 1);
            chain.wait(4, 2);
            chain.wait(5, 3);
            chain.wait(7, 4);
            go(0, &chain, |chain| {
                assert_eq!(chain.begin(6, 0), Start::Deadlock)
            });
            go(0, &chain, |_| change(7, 3));
            idle(&chain, 3, 7);
            in_the_end(&chain, 3, &[3; 4]);
        });
    }
}

/// 3 closes a circle, and nobody looks: it is as low as who waits there already. One comes that
/// only stands before the circle, is told so, and passes on what another lends to a task of it
/// just then.
#[test]
fn who_stands_before_a_circle_passes_on_what_others_lend() {
    for changes in [3, 4, 5] {
        let explorer = Explorer::new().pct(1, changes, MANY);
        explore("real-time mutex, before", &explorer, &[], || {
            let chain = Chain::of(&[4, 3, 5]);
            chain.wait(4, 1);
            chain.wait(5, 0);
            chain.wait(2, 2);
            let one = Rc::new(CheckWord::ZERO);
            let done = move |chain: &Chain| {
                if one.swap(1, AcqRel) == 0 {
                    return;
                }
                assert_eq!([3, 4, 5].map(|number| level(task(number))), [3; 3]);
                chain.leave(5, 0);
                chain.unlock(5, 2);
                assert!(chain.ends(2, 2)); // 2 has c
                chain.unlock(2, 2);
            };
            let last = done.clone();
            go(0, &chain, move |chain| {
                assert_ne!(chain.begin(1, 0), Start::Took);
                done(chain);
            });
            go(0, &chain, move |chain| {
                change(2, 3);
                last(chain);
            });
            go(0, &chain, |chain| {
                chain.0[2].lock();
                chain.unlock(3, 2);
            });
            idle(&chain, 4, 5);
        });
    }
}

/// One comes for a lock that is released meanwhile, and passes on what another lends.
#[test]
fn who_comes_for_a_free_lock_passes_on_what_others_lend() {
    for changes in [3, 4] {
        let explorer = Explorer::new().pct(1, changes, MANY);
        explore("real-time mutex, free", &explorer, &[], || {
            let chain = Chain::of(&[3, 4, 5, 6, 7, 4]);
            chain.wait(2, 5);
            chain.wait(3, 1);
            chain.wait(4, 2);
            chain.wait(5, 3);
            chain.wait(6, 4);
            go(0, &chain, |chain| {
                assert_ne!(chain.begin(1, 0), Start::Deadlock)
            });
            go(0, &chain, |_| change(2, 3));
            go(0, &chain, |chain| {
                chain.ends(3, 1);
                chain.unlock(3, 0);
            });
            idle(&chain, 4, 7);
            in_the_end(&chain, 4, &[3; 4]);
        });
    }
}

/// A chain changes while it is followed: each of its links is there at some time, all of
/// them never.
#[test]
fn nobody_is_told_of_a_circle_that_never_was() {
    for changes in [1, 2, 3] {
        let explorer = Explorer::new().pct(1, changes, MANY);
        explore("real-time mutex, no circle", &explorer, &[], || {
            let chain = Chain::of(&[3, 4, 3]);
            set_level(task(7), 2);
            chain.wait(5, 2); // so that 3 always owes somebody something
            chain.wait(3, 1);
            chain.wait(7, 0);
            let told = Rc::new(Cell::new(None));
            let its = Rc::clone(&told);
            go(0, &chain, move |chain| its.set(Some(chain.begin(6, 0))));
            go(0, &chain, |chain| {
                chain.unlock(4, 1);
                assert!(chain.ends(3, 1)); // 3 has b
                chain.unlock(3, 1);
                chain.unlock(3, 0);
                assert!(chain.ends(7, 0)); // 7 has a
                assert_eq!(chain.begin(4, 1), Start::Took);
                chain.wait(3, 1);
                chain.wait(4, 0);
            });
            idle(&chain, 3, 7);
            afterwards(move || assert_ne!(told.get(), Some(Start::Deadlock)));
        });
    }
}
