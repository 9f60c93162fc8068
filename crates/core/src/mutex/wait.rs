//! The queue of those that sleep: how a waiter comes, waits its turn, and leaves.

use super::{
    Body, HAND_OVER, PATIENCE_MICROS, TURN_MICROS,
    batch::{Call, was_sent},
    is_free, named,
};
use crate::{
    condvar::Company,
    platform::{Deadline, Event, Look, Ordering::*, Platform, TaskId, Woken, Word},
    wait_queue::{AWAKE, BOOST, Entered, Front, HANDOFF, SPINNER},
};

/// How long the first waiter sleeps at a time where an unlock may miss the end of its
/// promise, in nanoseconds.
const NAP_NS: u64 = 5_000_000;

/// How much later than itself the others take a first waiter for overdue that is awake, in
/// microseconds: some of the looks of who looks seldom.
const LATE_MICROS: u32 = 50;

/// How the turn of a first waiter ended.
enum Turn {
    /// The mutex was taken.
    Took,
    /// Its promise has ended, and an unlock sees that.
    Sleep,
    /// Its promise has ended, and an unlock may miss that.
    Nap,
}

impl<P: Platform> Body<P> {
    /// Enqueues the caller and waits. Returns whether that took the mutex.
    pub(super) fn queue_up(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        self.queue.enter(|queue| {
            self.bury(&queue);
            queue.push(me, AWAKE);
        });
        self.wait(me, deadline)
    }

    /// Enqueues `task`, which sleeps in a condition variable's queue. The
    /// caller need not hold the mutex. `task` must enter the gate to leave the
    /// queue, so the mutex is there until the gate opens. Returns whom to wake.
    pub(crate) fn adopt(&self, task: TaskId, company: Company) -> Call {
        self.queue.enter(|queue| {
            self.bury(&queue);
            let is_first = queue.push(task, 0);
            let wakes = match company {
                Company::None => is_first, // if not, it is up to others to wake
                Company::Follows => false, // it is up to the last
                Company::Before => true,
            };
            if !wakes || self.owner() == Some(P::me()) {
                return Call::default();
            }
            P::quiesce(); // (M2) the first may have promised nothing
            let woken = self.stranded();
            self.call(&queue, woken)
        })
    }

    /// After a promise has ended: the first waiter, which the caller must wake,
    /// if the mutex is free and nobody else promises to come.
    fn stranded(&self) -> Option<TaskId> {
        loop {
            let front = self.queue.front();
            let first = front.first()?;
            if front.has(AWAKE | SPINNER) || self.owner().is_some() {
                return None;
            }
            if self.queue.mark(front, front.with(AWAKE)) {
                return Some(first);
            }
        }
    }

    /// The first waiter, which the caller must wake, if it sleeps.
    fn rouse(&self) -> Option<TaskId> {
        loop {
            let front = self.queue.front();
            let first = front.first().filter(|_| !front.has(AWAKE))?;
            if self.queue.mark(front, front.with(AWAKE)) {
                return Some(first);
            }
        }
    }

    /// Waits in the queue. Returns whether the mutex was taken; either way the
    /// caller is out of the queue. Without a deadline it was, or the caller was sent.
    pub(crate) fn wait(&self, me: TaskId, deadline: Option<Deadline>) -> bool {
        let mut napped = false;
        loop {
            if was_sent::<P>(me) {
                return false;
            }
            let first = self.queue.front().first() == Some(me);
            let turn = match first {
                true => self.wait_first(me, deadline, napped),
                false => Turn::Sleep,
            };
            if matches!(turn, Turn::Took) {
                self.queue.enter(|queue| queue.remove(me));
                return true;
            }
            if deadline.is_some_and(P::passed) {
                return self.cancel(me);
            }
            let naps = matches!(turn, Turn::Nap) || first && self.queue.front().has(BOOST);
            if naps {
                P::event(Event::Napped);
            }
            P::event(Event::Parked);
            let until = match naps {
                true => Some(P::sooner(deadline, NAP_NS)),
                false => deadline,
            };
            let woken = P::park(until);
            napped = naps && woken == Woken::TimedOut;
        }
    }

    /// The first waiter's turn: spins while the owner runs.
    fn wait_first(&self, me: TaskId, deadline: Option<Deadline>, napped: bool) -> Turn {
        let look = P::pace(HAND_OVER);
        P::spin_begin();
        loop {
            // (M3) Acquire pairs with hand_over's Release: it may be mine.
            let mut owner = self.owner.load(Acquire);
            if named(owner) == Some(me) && !is_free(owner) {
                return Turn::Took;
            }
            if is_free(owner) {
                match self.take_or_owner(me) {
                    Ok(_) => return Turn::Took,
                    Err(other) if named(other) == Some(me) => continue, // and acquire
                    Err(other) => owner = other,
                }
            }
            let front = self.queue.front();
            let ask = !front.has(HANDOFF) && Self::is_overdue(me);
            let wanted = front.with(if ask { AWAKE | HANDOFF } else { AWAKE });
            if wanted != front {
                if self.queue.mark(front, wanted) && ask {
                    P::event(Event::HandoffAsked);
                }
                continue;
            }
            let look = match look {
                Look::Every(_) if front.has(HANDOFF) => Look::Poll, // it comes with the next release
                _ => look,
            };
            let give_up = self.watch(owner, look, deadline, || {
                !front.has(HANDOFF) && Self::is_overdue(me)
            });
            if let Some(event) = give_up {
                self.queue.front.fetch_and(!AWAKE, AcqRel); // (M2), (Q1)
                let naps = event == Event::SpinOwnerOff && !napped;
                if naps {
                    P::fence(); // (M2), as far as the owner does not run
                } else {
                    P::quiesce(); // (M2)
                }
                let now = self.owner();
                if now.is_some() && now != Some(me) {
                    P::event(event);
                    return if naps { Turn::Nap } else { Turn::Sleep };
                }
            }
        }
    }

    /// Leaves the queue without the mutex; `true` when it was handed over at
    /// the last moment.
    fn cancel(&self, me: TaskId) -> bool {
        let (was_first, granted) = self.queue.enter(|queue| {
            let was_first = queue.remove(me);
            // (M3) Acquire pairs with hand_over's Release.
            let owner = self.owner.load(Acquire);
            (was_first, !is_free(owner) && named(owner) == Some(me))
        });
        if granted {
            P::event(Event::CancelGranted);
            return true;
        }
        P::event(Event::Cancelled);
        let front = self.queue.front();
        if was_first && front.first().is_some() {
            P::quiesce(); // (M2) my promise went with me
            let wake = if front.has(BOOST) {
                self.rouse() // to nap, in my place
            } else {
                self.stranded()
            };
            if let Some(first) = wake {
                P::event(Event::WokeFirst);
                P::unpark(first);
            }
        }
        false
    }

    /// Drops from the front waiters that a fork has left behind; the last of
    /// them takes the promises of the other side along.
    pub(super) fn bury(&self, queue: &Entered<'_, P>) {
        while let Some(first) = queue.first()
            && !P::exists(first)
        {
            queue.remove(first);
        }
    }

    /// Whether a first waiter has been first for long enough. A hint: it may
    /// be gone.
    pub(crate) fn is_overdue(first: TaskId) -> bool {
        Self::was_first_for(first, TURN_MICROS)
    }

    /// The first waiter, if it is awake and overdue, and does not run: it would have asked
    /// for the mutex.
    pub(crate) fn late(front: Front) -> Option<TaskId> {
        let awake = front.has(AWAKE) && !front.has(HANDOFF);
        let first = front.first().filter(|_| awake)?;
        Self::was_first_for(first, TURN_MICROS + LATE_MICROS).then_some(first)
    }

    fn was_first_for(task: TaskId, micros: u32) -> bool {
        P::elapsed(P::task(task).wait.first.load(Relaxed), micros) // a hint
            && Self::was_overtaken(task, PATIENCE_MICROS)
    }

    /// Whether a waiter has been overtaken for so long. A hint, as above.
    pub(super) fn was_overtaken(task: TaskId, micros: u32) -> bool {
        P::elapsed(P::task(task).wait.since.load(Relaxed), micros) // a hint
    }
}
