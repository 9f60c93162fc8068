//! Models of the gate, by way of the condition variable: its queue is where
//! tasks meet without the mutex.

use std::rc::Rc;

use lockyard_check::{Explorer, limit_whims, spawn};
use lockyard_core::Event;

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
