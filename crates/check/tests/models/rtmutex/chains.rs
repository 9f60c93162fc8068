//! Models of long chains, of tasks for which others act: who is due which level in the
//! end, and who is told of a deadlock.

use std::{cell::Cell, rc::Rc};

use lockyard_check::{Check, Explorer, afterwards, level, name, set_level};
use lockyard_core::{
    RawRtMutex,
    rtmutex::{Block, Start, adjust},
};

use super::{go, task};
use crate::explore;

/// How many executions to sample.
const MANY: u64 = 2_000;

/// Locks, and who waits for which.
struct Net(Vec<RawRtMutex<Check, Block>>);

impl Net {
    /// A lock for each of these owners.
    fn new(owners: &[u32]) -> Rc<Self> {
        let names = ["a", "b", "c", "d", "e", "f"];
        let net = Self(owners.iter().map(|_| RawRtMutex::new()).collect());
        for ((lock, owner), called) in net.0.iter().zip(owners).zip(names) {
            name(lock, called);
            lock.lock_new_for(task(*owner));
        }
        Rc::new(net)
    }

    fn start(&self, number: u32, lock: usize) -> Start {
        // SAFETY: in a model a task waits for one lock at a time, and the net stays.
        unsafe { self.0[lock].start_for(task(number)) }
    }

    fn wait(&self, number: u32, lock: usize) {
        assert_eq!(self.start(number, lock), Start::Waits);
    }

    fn cancel(&self, number: u32, lock: usize) -> bool {
        // SAFETY: it waits for that lock.
        unsafe { self.0[lock].cancel_for(task(number)) }
    }

    fn unlock(&self, number: u32, lock: usize) {
        // SAFETY: it holds that lock.
        unsafe { self.0[lock].unlock_for(task(number)) }
    }
}

/// The level of a task changes.
fn change(number: u32, level: u32) {
    set_level(task(number), level);
    adjust::<Check>(task(number));
}

/// Tasks for which others act, from `first` to `last`.
fn idle(net: &Rc<Net>, first: u32, last: u32) {
    for _ in first..=last {
        go(0, net, |_| ());
    }
}

/// In the end the tasks from `first` on run at these levels.
fn in_the_end(net: &Rc<Net>, first: u32, levels: &'static [u32]) {
    let net = Rc::clone(net);
    afterwards(move || {
        let tasks = (first..).take(levels.len());
        let found: Vec<_> = tasks.map(|number| level(task(number))).collect();
        assert_eq!(found, levels, "with {} locks", net.0.len());
    });
}

/// The level of a waiter is taken back along a chain of which one owner has another lender.
fn a_lower_lender_is_left(explored: &str, take_back: fn(&Net)) {
    let explorer = Explorer::new();
    explore(explored, &explorer, &[], move || {
        let net = Net::new(&[2, 3, 4, 3]);
        set_level(task(5), 3);
        set_level(task(6), 1);
        net.wait(6, 3);
        net.wait(2, 1);
        net.wait(3, 2);
        net.wait(5, 0);
        assert_eq!([2, 3, 4].map(|number| level(task(number))), [3; 3]);
        go(0, &net, take_back);
        idle(&net, 2, 6);
        in_the_end(&net, 2, &[0, 1, 1]);
    });
}

#[test]
fn a_lower_lender_is_left_by_who_leaves() {
    a_lower_lender_is_left("real-time mutex, a lender leaves", |net| {
        assert!(!net.cancel(5, 0));
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
            let net = Net::new(&[3, 4, 5, 6, 3]);
            net.wait(3, 1);
            net.wait(4, 2);
            net.wait(5, 3);
            net.wait(7, 4);
            go(0, &net, |net| assert_eq!(net.start(6, 0), Start::Deadlock));
            go(0, &net, |_| change(7, 3));
            idle(&net, 3, 7);
            in_the_end(&net, 3, &[3; 4]);
        });
    }
}

/// One comes for a lock that is released meanwhile, and passes on what another lends.
#[test]
fn who_comes_for_a_free_lock_passes_on_what_others_lend() {
    for changes in [3, 4] {
        let explorer = Explorer::new().pct(1, changes, MANY);
        explore("real-time mutex, free", &explorer, &[], || {
            let net = Net::new(&[3, 4, 5, 6, 7, 4]);
            net.wait(2, 5);
            net.wait(3, 1);
            net.wait(4, 2);
            net.wait(5, 3);
            net.wait(6, 4);
            go(0, &net, |net| assert_ne!(net.start(1, 0), Start::Deadlock));
            go(0, &net, |_| change(2, 3));
            go(0, &net, |net| {
                net.cancel(3, 1);
                net.unlock(3, 0);
            });
            idle(&net, 4, 7);
            in_the_end(&net, 4, &[3; 4]);
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
            let net = Net::new(&[3, 4, 3]);
            set_level(task(7), 2);
            net.wait(5, 2); // so that 3 always owes somebody something
            net.wait(3, 1);
            net.wait(7, 0);
            let told = Rc::new(Cell::new(None));
            let its = Rc::clone(&told);
            go(0, &net, move |net| its.set(Some(net.start(6, 0))));
            go(0, &net, |net| {
                net.unlock(4, 1);
                assert!(net.cancel(3, 1)); // 3 has b
                net.unlock(3, 1);
                net.unlock(3, 0);
                assert!(net.cancel(7, 0)); // 7 has a
                assert_eq!(net.start(4, 1), Start::Took);
                net.wait(3, 1);
                net.wait(4, 0);
            });
            idle(&net, 3, 7);
            afterwards(move || assert_ne!(told.get(), Some(Start::Deadlock)));
        });
    }
}
