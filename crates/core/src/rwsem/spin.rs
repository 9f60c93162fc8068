//! How who wants a reader-writer semaphore spins.

use super::{
    BUSY, Count, HANDOFF, Kind, NONSPINNABLE, OF_WAITERS, OWNER_SHIFT, READERS, RawRwLock, SPINNER,
    WAITERS, WRITER, WakeCheck, fenced::READER_LOOKS, keep::SEQUENCE,
};
use crate::{
    mutex::{Body, EXCHANGE_MICROS, GONE_LOOKS, HAND_OVER, TURN},
    osq,
    platform::{Deadline, Event, FOREVER, Look, Ordering::*, Platform, Running, TaskId, Word},
};

/// Looks of a glance; half as many after each take that fails.
const GLANCES: u32 = 32;

/// How long to spin while readers have the lock, in microseconds: nobody knows
/// whether they run. A little longer for each, up to [`CROWD`].
pub(super) const READERS_MICROS: u32 = 10;
const CROWD: u32 = 30;

/// How long to spin while a writer has the lock that has not said yet who it is, where that is
/// a step of its own, or has taken that back, in microseconds. Most of the time it is about to
/// go on; but a real-time spinner may have preempted it right there, and would keep it from its
/// CPU for ever. A writer that comes and goes may look like that for long.
const UNKNOWN_MICROS: u32 = crate::mutex::PATIENCE_MICROS;

/// How a spin ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spun {
    /// The lock was taken.
    Took,
    /// The first waiter is awake and overdue, and may wait for the caller's CPU.
    FirstOff(TaskId),
    /// It is time to queue up, or to sleep.
    Stop,
}

/// What the owner word holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(u32);

impl Owner {
    const fn writer(self) -> Option<TaskId> {
        match self.0 & (READERS | BUSY) {
            READERS => None, // it was the last one
            _ => TaskId::new((self.0 % SEQUENCE) >> OWNER_SHIFT),
        }
    }

    const fn is_known(self) -> bool {
        self.writer().is_some()
    }

    const fn is_nonspinnable(self) -> bool {
        self.0 & NONSPINNABLE != 0
    }
}

/// A task that spins.
struct Spinner {
    me: TaskId,
    kind: Kind,
    look: Look,
    deadline: Option<Deadline>,
    /// Whether it set `SPINNER`, or somebody may have on its behalf.
    promised: bool,
    /// Since when it has not known who has the lock.
    unknown_since: Option<u32>,
    /// The first waiter that it has woken.
    roused: Option<TaskId>,
    /// How often it has left the free lock to who came back to it.
    left: u32,
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Looks at the count for about a microsecond, and promises nothing.
    /// Returns whether that took the lock.
    pub(super) fn glance(&self, kind: Kind) -> bool {
        let mut looks = GLANCES;
        while looks > 0 {
            let free = P::spin_until(
                &self.count,
                Relaxed, // only a hint: `take` acquires
                Look::Poll,
                looks,
                |count| Count(count).taken(kind).is_some() || Count(count).is_to_be_revoked(kind),
                || false,
            );
            let Some(seen) = free.map(Count) else {
                return false;
            };
            // At once as it was seen: to look again lets others come in between.
            if !seen.is_fenced() && self.fast_from(seen, kind) || self.take_awake(kind) {
                P::event(Event::SpinAcquired);
                return true;
            }
            looks /= 2;
        }
        false
    }

    /// Spins in line; and where an overdue first waiter may want the caller's CPU, lets it run
    /// outside the line: a lead that is off its CPU has all go to sleep that are in it. A
    /// promise stands meanwhile, or the next release would wake a sleeper.
    /// Returns whether that took the lock; else no promise of the caller's is left.
    pub(super) fn spin(
        &self,
        me: TaskId,
        kind: Kind,
        look: Look,
        deadline: Option<Deadline>,
    ) -> bool {
        let mut spinner = Spinner {
            me,
            kind,
            look,
            deadline,
            promised: false,
            unknown_since: None,
            roused: None,
            left: 0,
        };
        let took = self.spin_by(&mut spinner);
        if took {
            P::event(Event::SpinAcquired);
        }
        took || spinner.promised && self.keep_promise(kind)
    }

    fn spin_by(&self, spinner: &mut Spinner) -> bool {
        let mut gives_way = None;
        loop {
            let first = match self.spin_once(spinner) {
                Spun::FirstOff(first) => first,
                spun => return spun == Spun::Took,
            };
            let since = *gives_way.get_or_insert_with(P::stamp);
            P::yield_to(first);
            if P::elapsed(since, EXCHANGE_MICROS) {
                P::event(Event::SpinGaveWay);
                return false;
            }
        }
    }

    fn spin_once(&self, spinner: &mut Spinner) -> Spun {
        if self.owner().is_nonspinnable() {
            P::event(Event::SpinReaders);
            return Spun::Stop;
        }
        if self.had_better_stay(spinner) && !spinner.promised && self.count().is_promised() {
            P::event(Event::SpinNotFirst);
            return Spun::Stop;
        }
        P::spin_begin();
        if !self.osq.lock() {
            return Spun::Stop;
        }
        spinner.unknown_since = None;
        let spun = self.compete(spinner, || false);
        self.osq.unlock();
        spun
    }

    /// A writer in the queue competes: the first waiter spins, any other only
    /// keeps a promise. Returns whether it took the lock and left the queue.
    pub(super) fn compete_in_queue(
        &self,
        me: TaskId,
        promised: bool,
        deadline: Option<Deadline>,
    ) -> bool {
        let took = if self.queue.front().first() == Some(me) {
            P::spin_begin();
            let mut spinner = Spinner {
                me,
                kind: Kind::Write,
                look: P::pace(HAND_OVER),
                deadline,
                promised,
                unknown_since: None,
                roused: None,
                left: 0,
            };
            let granted = || P::task(me).rwsem.granted.load(Relaxed) != 0; // `wait` acquires
            self.compete(&mut spinner, granted) == Spun::Took
                || spinner.promised && self.keep_promise(Kind::Write)
        } else {
            promised && self.keep_promise(Kind::Write)
        };
        if took {
            self.leave_queue(me);
        }
        took
    }

    /// The new writer takes itself out of the queue, and a promise that was
    /// made on its behalf, which it may not know of, off the count.
    fn leave_queue(&self, me: TaskId) {
        let was_told = self.queue.enter(|queue| {
            if P::task(me).rwsem.kind().is_none() {
                return true;
            }
            let was_first = Self::unqueue(&queue, me);
            let marks = match queue.first() {
                None => OF_WAITERS,
                Some(_) if was_first => HANDOFF | SPINNER,
                Some(_) => SPINNER,
            };
            self.count.fetch_and(!marks, Relaxed); // the gate orders the queue
            false
        });
        if was_told {
            self.hear(me); // that it is to come again
        }
    }

    /// Spins until the lock was taken, or it is better to stop, or `also` says
    /// so. A promise of the caller's stands, unless it took the lock.
    fn compete(&self, spinner: &mut Spinner, also: impl Fn() -> bool) -> Spun {
        loop {
            let (count, owner) = (self.count(), self.owner());
            if count.is_fenced() && self.outlast_fenced(spinner.kind, spinner.deadline) {
                return Spun::Took;
            }
            if let Some(taken) = count.taken(spinner.kind) {
                if self.leaves_it(count, spinner) {
                    continue;
                }
                if self.keep_promise_by(spinner.kind, count, taken, spinner.promised) {
                    return Spun::Took;
                }
                continue;
            }
            if count.keeps_out(spinner.kind) {
                self.recall(spinner.look);
                self.revoke(self.count());
                continue;
            }
            if Self::is_unpromised(count) {
                // Relaxed: what counts is that it is still held.
                spinner.promised |= self.exchange(count, count.with(SPINNER), Relaxed);
                continue;
            }
            if let Some(first) = self.overdue(count) {
                if first == spinner.me {
                    self.ask();
                    // At the gate it may have slept through being woken.
                    spinner.promised = true;
                    continue;
                }
                if spinner.promised && spinner.roused != Some(first) {
                    spinner.roused = Some(first);
                    if !self.is_first_to_write() {
                        self.ask();
                        continue;
                    }
                    P::event(Event::WokeFirst);
                    P::unpark(first); // it asks for itself
                }
                // Of a lock that had better stay with its owner, spinners had better sleep.
                if !matches!(spinner.look, Look::Every(_)) {
                    return Spun::FirstOff(first);
                }
                P::yield_to(first);
            }
            let claims = spinner.kind == Kind::Write && !owner.is_nonspinnable();
            if claims && count.may_claim() {
                if self.claim(count) {
                    self.end_promise(spinner.promised);
                    return Spun::Took;
                }
                continue;
            }
            spinner.see(owner, P::stamp);
            let give_up = self.watch(owner, count, spinner, &also);
            if give_up.is_none() && !also() {
                continue;
            }
            if give_up == Some(Event::SpinReaders) {
                let Owner(word) = owner;
                if word & (READERS | BUSY) == READERS || word == 0 && !count.has(WRITER) {
                    self.owner
                        .compare_exchange(word, word | NONSPINNABLE, Relaxed, Relaxed) // a hint
                        .ok();
                }
            }
            give_up.into_iter().for_each(P::event);
            return Spun::Stop;
        }
    }

    /// Claims the lock, which readers have, for the caller, who keeps further ones out as a writer
    /// in the lock would, and awaits those that are in. Else readers that come and go in turns
    /// would keep it out until it is overdue. Returns whether it has the lock.
    #[cold]
    fn claim(&self, count: Count) -> bool {
        if !self.keep_out(count, count.with(WRITER)) {
            return false;
        }
        self.await_counted(READER_LOOKS);
        // (R1) Acquire pairs with the Release of those that left before.
        if Count(self.count.load(Acquire)).readers() > 0 {
            self.owner.store(READERS | NONSPINNABLE, Relaxed); // a hint: one is off its CPU
            self.release_slow(WRITER, false);
            return false;
        }
        self.took_after_readers();
        true
    }

    /// Whether the lock had better stay with its owner, and one spinner is enough. If it may be
    /// biased, those that sleep keep it from that.
    fn had_better_stay(&self, spinner: &Spinner) -> bool {
        matches!(spinner.look, Look::Every(_)) && self.rest().is_new()
    }

    /// Whether the spinner leaves the lock, which is free with this count, to who comes back to
    /// it, and has let some time pass. It takes it when it has watched it for a turn.
    fn leaves_it(&self, count: Count, spinner: &mut Spinner) -> bool {
        let leaves = count.is_free() && self.had_better_stay(spinner);
        if !leaves || spinner.left >= TURN || P::need_resched() {
            return false;
        }
        let order = Relaxed; // only a hint
        let is_taken = |now| Count(now).taken(spinner.kind).is_none();
        let back = P::spin_until(&self.count, order, Look::Poll, GONE_LOOKS, is_taken, || {
            false
        });
        if back.is_none() {
            return false;
        }
        spinner.left += 1;
        let over = || P::need_resched() || spinner.deadline.is_some_and(P::passed);
        P::spin_until(&self.count, order, spinner.look, 2, |_| false, over);
        true
    }

    /// The last look of who promised one: takes the lock if it is free, and
    /// else, in the same step, ends the promise. Returns whether it took it.
    fn keep_promise(&self, kind: Kind) -> bool {
        loop {
            let count = self.count();
            if let Some(taken) = count.taken(kind) {
                if self.keep_promise_by(kind, count, taken, true) {
                    return true;
                }
            } else if count.is_kept() {
                self.revoke(count); // else nobody might come
            } else if !count.is_promised() {
                return false;
            // Relaxed: what counts is that it is still held.
            } else if self.exchange(count, count.without(SPINNER), Relaxed) {
                if count.has(WRITER) || self.is_first_to_write() {
                    return false;
                }
                self.pass_on(); // readers may have overtaken them by the promise
                // At the gate it may have slept through being woken: it looks again.
            }
        }
    }

    /// Takes back a promise of the caller's, who has the lock.
    fn end_promise(&self, promised: bool) {
        if promised {
            self.count.fetch_and(!SPINNER, Relaxed); // what counts is that it is still held
        }
    }

    /// Takes the lock, which may be taken.
    fn keep_promise_by(&self, kind: Kind, count: Count, taken: Count, promised: bool) -> bool {
        let kept = if promised && !count.is_biased_somehow() {
            SPINNER
        } else {
            0
        };
        let took = self.exchange_to_enter(kind, count, taken.without(kept));
        if took {
            self.share(kind, count);
        }
        took
    }

    /// Whether there are waiters, and nobody has promised to come.
    fn is_unpromised(count: Count) -> bool {
        count.has(WAITERS) && !count.has(SPINNER)
    }

    /// The first waiter, if it is overdue and nobody asked for it yet: a hint.
    pub(super) fn overdue(&self, count: Count) -> Option<TaskId> {
        if !count.has(WAITERS) || count.has(HANDOFF) {
            return None;
        }
        let first = self.queue.front().first();
        first.filter(|&first| Body::<P>::is_overdue(first))
    }

    /// Wakes the first waiter, a writer, to ask for the lock itself: readers have it, and
    /// nobody has promised to come. Until it runs, readers join them by its promise.
    pub(super) fn rouse(&self) {
        let first = self.queue.enter(|queue| {
            self.bury(&queue);
            let (count, first) = (self.count(), queue.first()?);
            let rouses = P::task(first).rwsem.kind() == Some(Kind::Write)
                && !count.is_free()
                && !count.has(HANDOFF | SPINNER)
                // Relaxed: what counts is that it is still held.
                && self.exchange(count, count.with(SPINNER), Relaxed);
            rouses.then_some(first)
        });
        if let Some(first) = first {
            P::event(Event::WokeFirst);
            P::unpark(first);
        }
    }

    /// Asks for the lock on behalf of the first waiter.
    pub(super) fn ask(&self) {
        let asked = self.queue.enter(|queue| {
            self.bury(&queue);
            let count = self.count();
            // Relaxed: what counts is that it is still held.
            queue.first().is_some()
                && !count.is_free()
                && !count.has(HANDOFF)
                && self.exchange(count, count.with(HANDOFF), Relaxed)
        });
        if asked {
            P::event(Event::HandoffAsked);
        }
    }

    /// Whether a writer has the lock that does not run: a hint.
    pub(super) fn is_owner_off(&self) -> bool {
        let is_off = |writer| P::running(writer) == Running::No;
        self.owner().writer().is_some_and(is_off)
    }

    /// The owner: a snapshot.
    fn owner(&self) -> Owner {
        Owner(self.owner.load(Relaxed)) // a hint
    }

    /// Watches the count until it is free or nobody has promised to come to
    /// those that wait, or something else changes; or returns why to stop.
    fn watch(
        &self,
        owner: Owner,
        count: Count,
        spinner: &Spinner,
        also: impl Fn() -> bool,
    ) -> Option<Event> {
        let patience = match count.has(WRITER) {
            true => UNKNOWN_MICROS,
            false => READERS_MICROS + count.readers().min(CROWD) / 2,
        };
        let mut why = None;
        P::spin_until(
            &self.count,
            Relaxed, // only a hint: who takes it acquires
            spinner.look,
            FOREVER,
            |now| {
                let now = Count(now);
                now.taken(spinner.kind).is_some()
                    || now.keeps_out(spinner.kind)
                    || Self::is_unpromised(now)
            },
            || {
                let now = self.owner();
                // Who was granted the lock, and not told yet, makes way for who is to tell it.
                let waits_for =
                    |task: TaskId| task == spinner.me || P::running(task) == Running::No;
                why = if now.writer().is_some_and(waits_for) {
                    Some(Event::SpinOwnerOff)
                } else if now.is_nonspinnable() || spinner.is_tired(patience, P::elapsed) {
                    Some(Event::SpinReaders)
                } else if P::need_resched() || spinner.deadline.is_some_and(P::passed) {
                    Some(Event::SpinResched)
                } else {
                    None
                };
                let overdue = || spinner.promised && self.overdue(self.count()).is_some();
                why.is_some() || now.is_known() != owner.is_known() || also() || overdue()
            },
        );
        why
    }
}

impl Spinner {
    /// Notes who has the lock.
    fn see(&mut self, owner: Owner, stamp: impl Fn() -> u32) {
        if owner.is_known() {
            self.unknown_since = None;
        } else {
            self.unknown_since.get_or_insert_with(stamp);
        }
    }

    /// Whether it has not known for too long.
    fn is_tired(&self, patience: u32, elapsed: impl Fn(u32, u32) -> bool) -> bool {
        self.unknown_since
            .is_some_and(|since| elapsed(since, patience))
    }
}
