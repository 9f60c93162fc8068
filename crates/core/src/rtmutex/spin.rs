//! How the top waiter waits for the owner.

use super::{Body, owner_of};
use crate::{
    mutex::HAND_OVER,
    platform::{Deadline, Event, FOREVER, Ordering::*, Priority, Running, TaskId, Word},
};

/// How the top waiter waits; the others sleep.
pub trait Policy: Send + Sync + 'static {
    /// Whether it spins before it sleeps.
    const SPINS: bool;
}

/// The top waiter sleeps.
pub struct Block;

/// The top waiter, which is queued and has lent its priority, spins while the
/// owner runs. It steals nothing. It goes to sleep when the owner stops running,
/// when it should let others run, and when a waiter above it has come.
pub struct Spin;

impl Policy for Block {
    const SPINS: bool = false;
}

impl Policy for Spin {
    const SPINS: bool = true;
}

impl<P: Priority> Body<P> {
    /// Spins as the top waiter, and so alone, while `owner` owns the lock.
    /// Returns whether it no longer does.
    pub(super) fn spin(&self, me: TaskId, owner: TaskId, deadline: Option<Deadline>) -> bool {
        let mut why = Event::SpinResched;
        P::spin_begin();
        let gone = P::spin_until(
            &self.owner,
            Relaxed, // only a hint: who takes the lock acquires
            P::pace(HAND_OVER),
            FOREVER,
            |word| owner_of(word) != Some(owner),
            || {
                // The word of the lock, not what a waiter says of itself: the top
                // waiter may be gone any moment, and wait for another lock.
                if self.top.load(Relaxed) != me.number() {
                    why = Event::SpinNotTop;
                } else if P::running(owner) == Running::No {
                    why = Event::SpinOwnerOff;
                } else {
                    return P::need_resched() || deadline.is_some_and(P::passed);
                }
                true
            },
        );
        if gone.is_none() {
            P::event(why);
        }
        gone.is_some()
    }
}
