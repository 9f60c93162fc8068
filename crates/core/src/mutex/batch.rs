//! Waiters of a condition variable that were moved here together are woken in batches.
//!
//! If each were woken by the unlock of the one before, the last would sit out the wake-ups of
//! all, one after the other, while CPUs idle and the mutex is free nearly all of that time. So
//! the unlock that wakes the first waiter takes those behind it out of the queue, as far as
//! they were moved together, and *sends* them: they lock the mutex as newcomers, who spin while
//! its owner runs. The first keeps its place and its right to a hand-off, and promises to come
//! as ever; so the next batch is woken when it has had the mutex.
//!
//! # Why none is lost
//!
//! Who sends a waiter has taken it out inside the gate; from then on its links are the
//! sender's, who chains those it sends by them. The mutex may be gone once it is released, and
//! the sender does not touch it any more, but their records alone, which are never freed:
//!
//! | sender | waiter |
//! |---|---|
//! | read its link | |
//! | (C2) store `SENT` | (C2) read `SENT`: it stands in no queue, and its links are its own |
//! | unpark | park, if it was not sent yet |
//!
//! An unpark that comes before the park ends that at once. One that comes later than the end
//! of the wait ends a later park for nothing.

use super::Body;
use crate::{
    condvar::{SENT, TOGETHER},
    platform::{Event, Ordering::*, Platform, TaskId, Word},
    wait_queue::Entered,
};

/// How many are woken with the first waiter. With more, those that wait would have the mutex
/// sooner, where many CPUs idle; but each takes whoever unlocks a microsecond or two.
const BATCH: usize = 7;

/// The waiters to send, linked by their records.
#[derive(Default)]
pub(super) struct Sent {
    first: Option<TaskId>,
    last: Option<TaskId>,
}

impl Sent {
    fn push<P: Platform>(&mut self, task: TaskId) {
        P::task(task).wait.next.store(0, Relaxed); // its sender's alone
        match self.last.replace(task) {
            None => self.first = Some(task),
            Some(last) => P::task(last).wait.next.store(task.number(), Relaxed), // likewise
        }
    }

    /// Has them come.
    pub(super) fn send<P: Platform>(self) {
        let mut next = self.first;
        while let Some(task) = next {
            let node = &P::task(task).wait;
            next = TaskId::new(node.next.load(Relaxed)); // the last access to a link of it
            node.moved.store(SENT, Release); // (C2)
            P::event(Event::WokeBatch);
            P::unpark(task);
        }
    }
}

/// The first waiter, which is marked awake, and those to be woken with it.
#[derive(Default)]
pub(crate) struct Call {
    first: Option<TaskId>,
    sent: Sent,
}

impl Call {
    /// Wakes them. The mutex may be gone.
    pub(crate) fn make<P: Platform>(self) {
        if let Some(first) = self.first {
            P::event(Event::WokeFirst);
            P::unpark(first);
            self.sent.send::<P>();
        }
    }
}

/// Whether the caller, a waiter, was sent: it stands in the queue no more.
pub(super) fn was_sent<P: Platform>(me: TaskId) -> bool {
    P::task(me).wait.moved.load(Acquire) == SENT // (C2)
}

/// Whether a waiter was moved together with others.
pub(super) fn came_together<P: Platform>(task: TaskId) -> bool {
    P::task(task).wait.moved.load(Relaxed) == TOGETHER // exact inside the gate, else a hint
}

impl<P: Platform> Body<P> {
    /// Takes those out of the queue that are to be woken with `first`, beside those that were
    /// taken out before.
    pub(super) fn take_along(&self, queue: &Entered<'_, P>, first: TaskId, sent: &mut Sent) {
        if queue.first() != Some(first) || !came_together::<P>(first) {
            return;
        }
        for _ in 0..BATCH {
            match queue.after(first) {
                Some(next) if came_together::<P>(next) => {
                    queue.remove(next);
                    if P::exists(next) {
                        sent.push::<P>(next); // a fork has not left it behind
                    }
                }
                _ => return,
            }
        }
    }

    pub(super) fn call(&self, queue: &Entered<'_, P>, first: Option<TaskId>) -> Call {
        let mut sent = Sent::default();
        if let Some(first) = first {
            self.take_along(queue, first, &mut sent);
        }
        Call { first, sent }
    }
}
