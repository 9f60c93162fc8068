//! How a mutex's spinners spin: a glance, then in line, as long as the owner
//! runs; and what they promise meanwhile to the waiters that sleep.

use super::{
    Body, RawMutex,
    keep::{is_free, named},
};
use crate::{
    osq,
    platform::{Deadline, Event, FOREVER, Look, Ordering::*, Platform, Running, TaskId, Word},
    wait_queue::{AWAKE, HANDOFF, SPINNER},
};

/// Looks of a glance; half as many after each take that fails.
const GLANCES: u32 = 32;

/// How often a spinner that looks seldom finds the mutex free, and sees somebody come back
/// to it, until it recalls the mutex: a wait is then worth a thousand acquisitions.
pub(crate) const TURN: u32 = 12;

/// Looks for a mutex that was recalled.
const RECALL_LOOKS: u32 = 8;

/// Looks, of a spinner that looks seldom, at a mutex that it finds free: after these
/// nobody is about to come back to it.
pub(crate) const GONE_LOOKS: u32 = 16;

/// How a spin ended.
pub(crate) enum Spun {
    /// The mutex was taken.
    Took,
    /// The first waiter is awake and overdue, and does not run: it may wait for the caller's
    /// CPU. If there is a promise, it stands.
    FirstOff(TaskId, Promise),
    /// It is time to queue up.
    Stop,
}

/// Whether a spinner has set `SPINNER`, and so must clear it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    None,
    Made,
}

impl<P: Platform, W: osq::Wait<P>> RawMutex<P, W> {
    /// Spins in line, until the caller must give way; a promise that it has made goes along.
    pub(crate) fn spin(
        &self,
        me: TaskId,
        look: Look,
        promise: Promise,
        deadline: Option<Deadline>,
        gives_way: impl Fn() -> bool,
    ) -> Spun {
        if promise == Promise::None && self.body.queue.front().has(SPINNER) {
            P::event(Event::SpinNotFirst);
            return Spun::Stop;
        }
        self.spin_in_line(me, look, promise, deadline, gives_way)
    }

    /// The same, if another has promised to spin as well.
    pub(super) fn spin_in_line(
        &self,
        me: TaskId,
        look: Look,
        promise: Promise,
        deadline: Option<Deadline>,
        gives_way: impl Fn() -> bool,
    ) -> Spun {
        P::spin_begin();
        if self.osq.lock() {
            let spun = self.body.lead(me, look, deadline, promise, gives_way);
            self.osq.unlock();
            return spun;
        }
        match self.body.take_or_retract(me, promise) {
            true => Spun::Took,
            false => Spun::Stop,
        }
    }
}

impl<P: Platform> Body<P> {
    /// Looks at the owner for about a microsecond, outside the spin queue.
    /// Returns whether that took the mutex.
    #[inline]
    pub(crate) fn glance(&self, me: TaskId, promise: &mut Promise) -> bool {
        let mut looks = GLANCES;
        while looks > 0 {
            if self.promise(promise).is_some() {
                return false;
            }
            let free = P::spin_until(
                &self.owner,
                Relaxed, // only a hint: `take` acquires
                Look::Poll,
                looks,
                is_free,
                || false,
            );
            match free {
                None => return false,
                Some(0) => {}
                Some(_) => self.recall(),
            }
            if self.take_or_owner(me).is_ok() {
                self.spun(promise);
                return true;
            }
            looks /= 2;
        }
        false
    }

    /// Spins as the lead of the spin queue.
    fn lead(
        &self,
        me: TaskId,
        look: Look,
        deadline: Option<Deadline>,
        mut promise: Promise,
        gives_way: impl Fn() -> bool,
    ) -> Spun {
        // Who looks seldom takes it when it has watched it for a turn, or nobody comes back.
        let mut watched = !matches!(look, Look::Every(_));
        loop {
            let mut owner = self.owner.load(Relaxed); // `take_or_owner` acquires
            if watched && is_free(owner) {
                match self.take_or_owner(me) {
                    Ok(_) => {
                        self.spun(&mut promise);
                        return Spun::Took;
                    }
                    Err(other) => owner = other,
                }
            }
            watched = true;
            let give_up = if gives_way() {
                Some(Event::SpinNotTop)
            } else if let Some(first) = self.promise(&mut promise) {
                return Spun::FirstOff(first, promise);
            } else {
                self.watch(owner, look, deadline, || {
                    let front = self.queue.front();
                    let needed = front.first().is_some_and(|first| {
                        !front.has(AWAKE | SPINNER)
                            || !front.has(AWAKE | HANDOFF) && Self::is_overdue(first)
                    });
                    needed || Self::late(front).is_some() || gives_way()
                })
            };
            if let Some(event) = give_up
                && !self.retract(&mut promise)
            {
                P::event(event);
                return Spun::Stop;
            }
        }
    }

    /// If there are waiters: promises, on behalf of a spinner, to look at the
    /// owner again, unless somebody else has; and sees to an overdue first. Returns
    /// that one if it is awake and does not run.
    #[inline]
    fn promise(&self, promise: &mut Promise) -> Option<TaskId> {
        loop {
            let front = self.queue.front();
            let first = front.first()?;
            if front.has(AWAKE) {
                return Self::late(front);
            }
            let overdue = !front.has(HANDOFF) && Self::is_overdue(first);
            let wanted = front.with(if overdue { SPINNER | HANDOFF } else { SPINNER });
            if wanted == front {
                return None;
            }
            if self.queue.mark(front, wanted) {
                if !front.has(SPINNER) {
                    *promise = Promise::Made;
                }
                if overdue {
                    P::event(Event::HandoffAsked);
                }
                return None;
            }
        }
    }

    /// The spinner has taken the mutex: its promise, if it made one, is kept.
    fn spun(&self, promise: &mut Promise) {
        self.end(promise);
        P::event(Event::SpinAcquired);
    }

    fn end(&self, promise: &mut Promise) {
        if *promise == Promise::Made {
            *promise = Promise::None;
            self.queue.front.fetch_and(!SPINNER, AcqRel); // (M2), (Q1)
        }
    }

    /// The spinner leaves, and takes its promise back, if it made one. Returns whether it
    /// got the mutex after all.
    pub(crate) fn take_or_retract(&self, me: TaskId, mut promise: Promise) -> bool {
        self.retract(&mut promise) && self.take_or_owner(me).is_ok()
    }

    /// Takes the spinner's promise back, if it made one. Returns whether the
    /// mutex is free, so that the caller must try to take it.
    pub(crate) fn retract(&self, promise: &mut Promise) -> bool {
        let made = *promise == Promise::Made;
        if made {
            self.end(promise);
            P::quiesce(); // (M2)
        }
        made && self.owner().is_none()
    }

    /// Watches the owner word until it names another than `owner`, the mutex may
    /// be there to take or to revoke, or `also` holds; or returns why to stop
    /// spinning.
    pub(super) fn watch(
        &self,
        mut owner: u32,
        look: Look,
        deadline: Option<Deadline>,
        also: impl Fn() -> bool,
    ) -> Option<Event> {
        let mut why = None;
        for _ in 0..TURN {
            let task = named(owner);
            let now = P::spin_until(
                &self.owner,
                Relaxed, // only a hint: `take_from` acquires
                look,
                FOREVER,
                |now| now != owner || is_free(now),
                || {
                    if task.is_some_and(|owner| P::running(owner) == Running::No) {
                        why = Some(Event::SpinOwnerOff);
                    } else if P::need_resched() || deadline.is_some_and(P::passed) {
                        why = Some(Event::SpinResched);
                    }
                    why.is_some() || also()
                },
            );
            match now.and_then(|now| self.who_comes_back(now, look)) {
                Some(back) => owner = back,
                None => return why,
            }
        }
        self.recall();
        // It releases the mutex soon, and stays away for a moment alone.
        P::spin_until(
            &self.owner,
            Relaxed, // only a hint: `take_from` acquires
            Look::Poll,
            RECALL_LOOKS,
            is_free,
            || false,
        );
        None
    }

    /// The owner word once another has come back to a mutex that was free, as far as the
    /// spinner cares: one that polls takes it, or has it recalled if it is reserved.
    fn who_comes_back(&self, now: u32, look: Look) -> Option<u32> {
        if !is_free(now) {
            return None;
        }
        if !matches!(look, Look::Every(_)) {
            if now != 0 {
                self.recall();
            }
            return None;
        }
        let back = P::spin_until(
            &self.owner,
            Relaxed, // only a hint: `take_from` acquires
            Look::Poll,
            GONE_LOOKS,
            |now| !is_free(now),
            || false,
        );
        back.filter(|&owner| named(owner) != Some(P::me())) // it was handed to me
    }
}
