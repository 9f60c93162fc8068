//! A condition variable that is nothing but an address.
//!
//! Who signals most often holds the mutex, and whoever is woken then has to wait for that: it
//! would be woken twice. So it is not woken, but moved to the mutex's queue, as the waiters of
//! [`Condvar`](crate::Condvar) are, and its node is told so. So are several that are woken at
//! once, also if the mutex is free: they would come all at the same time.

use super::{
    Key, Place, Places, Table, Waiter,
    queue::{PARKS, WANTS},
};
use crate::{
    condvar,
    mutex::RawMutex,
    osq,
    platform::{Deadline, Platform},
};

/// How a wait ended that began by a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitedAfter {
    /// A waker has counted the caller.
    Woken,
    /// The same, and the caller has the mutex.
    Locked,
    /// No waker has counted the caller.
    NotWoken,
}

impl<P: Platform, const FIRST: usize, const MOST: usize> Table<P, FIRST, MOST> {
    /// Has the caller stand in the queue of `key`, then calls `release`, and waits until
    /// a waker of `key` wakes it, until `deadline`, or until `stop` says so, which it is
    /// asked before each sleep: who changes what it reads unparks the caller.
    ///
    /// A condition variable that is nothing but an address: a waker that `release` lets
    /// go on finds the caller, and the word at the address is nobody's. `release` runs
    /// outside of all gates; it may wake others by the table, but not wait in it.
    ///
    /// The caller is to take `mutex` when it is woken. A waker that holds it would wake
    /// the caller in vain: it has it wait for the mutex instead, asleep as it is.
    ///
    /// # Safety
    /// `release` and `stop` do not unwind: the caller stands in a queue then, and whoever
    /// takes it out of there uses its mutex.
    pub unsafe fn wait_after<W: osq::Wait<P>>(
        &self,
        key: &Key,
        waiter: Waiter,
        mutex: Option<&RawMutex<P, W>>,
        release: impl FnOnce(),
        stop: impl Fn() -> bool,
        deadline: Option<Deadline>,
    ) -> WaitedAfter {
        let me = P::me();
        let place = Place::new(me, 0);
        let node = place.node();
        node.begin(me, mutex.map_or(PARKS, |_| WANTS));
        if let Some(mutex) = mutex {
            condvar::want(me, mutex.body());
        }
        self.enqueue(place, node, key, waiter, || true);
        release();
        self.park(&Places::new(me, 1), stop, deadline);
        match (self.end(place), mutex) {
            (false, _) => WaitedAfter::NotWoken,
            (true, Some(mutex)) if condvar::was_moved::<P>(me) => {
                mutex.wait_moved(me);
                WaitedAfter::Locked
            }
            (true, _) => WaitedAfter::Woken,
        }
    }
}
