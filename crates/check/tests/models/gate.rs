//! Models of the gate, by way of the condition variable: its queue is where
//! tasks meet without the mutex. And of the one that opens by a store, by way of the futex:
//! who finds the word changed does no more than pass the gate.

use std::rc::Rc;

use lockyard_check::{Check, Explorer, Tracked, afterwards, limit_whims, spawn};
use lockyard_core::{
    Event,
    futex::{Key, Table, Waited, Waiter},
};

use crate::{DEADLINE, explore, guarded::Flag};

fn wait_and_notify(whims: &[u32]) {
    let flag = Flag::new();
    let waiter = Rc::clone(&flag);
    spawn(move || {
        limit_whims(0);
        waiter.wait(Some(DEADLINE));
    });
    for &most in whims {
        let flag = Rc::clone(&flag);
        spawn(move || {
            limit_whims(most);
            flag.condvar.notify_one();
        });
    }
}

/// A task sleeps at the gate while another is in.
#[test]
fn a_sleeper() {
    let explorer = Explorer::new().whims(2);
    explore("gate of 2", &explorer, &[Event::GateParked], || {
        wait_and_notify(&[2])
    });
}

/// Sleepers stand on each other; too many executions to see them all.
#[test]
fn two_sleepers() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 40_000);
    explore("gate of 3", &explorer, &[Event::GateParked], || {
        wait_and_notify(&[2, 2])
    });
}

fn pass_a_bucket(whims: &[u32]) {
    let shared = Rc::new((Table::<Check, 1>::new(), Tracked::new(0)));
    for &most in whims {
        let shared = Rc::clone(&shared);
        spawn(move || {
            limit_whims(most);
            let (table, passed) = &*shared;
            let pass = || {
                passed.set(passed.get() + 1);
                false
            };
            for _ in 0..2 {
                let waited = table.wait(&Key::private(1, 4), Waiter::ANY, pass, None);
                assert_eq!(waited, Waited::Changed);
            }
        });
    }
    let all = 2 * whims.len();
    afterwards(move || assert_eq!(shared.1.get(), all));
}

/// A task sleeps at a bucket's gate while another opens it, by a store or not.
#[test]
fn a_sleeper_at_a_bucket() {
    let explorer = Explorer::new().whims(1);
    explore("gate of a bucket", &explorer, &[Event::GateParked], || {
        pass_a_bucket(&[1, 1])
    });
}

/// Sleepers come and go while a third is inside.
#[test]
fn two_sleepers_at_a_bucket() {
    let explorer = Explorer::new().whims(2).pct(1, 3, 40_000);
    explore(
        "gate of a bucket, 3",
        &explorer,
        &[Event::GateParked],
        || pass_a_bucket(&[1, 2, 2]),
    );
}
