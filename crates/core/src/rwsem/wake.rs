//! How the reader-writer semaphore is released: who is let in, who is woken,
//! and who is left to a spinner.

use super::{
    AGAIN, Count, GRANTED, GRANTED_AND_MORE, HANDOFF, Kind, MAX_BATCH, OF_WAITERS, OVERFLOW,
    READER, READERS, RawRwLock, SPINNER, UPGRADABLE, WAITERS, WRITER, WakeCheck, fenced::SUSPENDED,
};
use crate::{
    osq,
    platform::{Event, Ordering::*, Platform, TaskId, Word},
    wait_queue::Entered,
};

/// What a release owes to waiters once the gate is open. It knows nothing of
/// the lock, which may be gone.
pub(super) enum Wakes {
    None,
    /// The first waiter, a writer, is to come and compete.
    First(TaskId),
    /// These have the lock, and wait to be told.
    Granted(Chain, Event),
    /// These wait to be told that they are to come again.
    Again(Chain),
}

/// Tasks in a row, linked by their nodes.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    first: TaskId,
    last: TaskId,
    /// What to tell them, and the last.
    tell: u32,
    tell_last: u32,
}

/// How often who waits is told to come again. It loses its place by that, each time to those
/// that happen to run when the lock is free.
const AGAINS: u32 = 2;

/// What to do with the queue, and the count that goes with it.
struct Plan {
    count: Count,
    wakes: Wakes,
}

impl Wakes {
    pub(super) fn deliver<P: Platform>(self) {
        match self {
            Wakes::None => {}
            Wakes::First(first) => {
                P::event(Event::WokeFirst);
                P::unpark(first);
                P::yield_to(first); // in any case: others wait behind it, and readers with them
            }
            Wakes::Granted(chain, event) => {
                P::event(event);
                chain.tell::<P>();
                P::yield_to(chain.first);
            }
            Wakes::Again(chain) => {
                P::event(Event::ToldToComeAgain);
                chain.tell::<P>();
            }
        }
    }
}

impl Chain {
    fn of(task: TaskId) -> Self {
        Self {
            first: task,
            last: task,
            tell: GRANTED,
            tell_last: GRANTED,
        }
    }

    fn append<P: Platform>(&mut self, task: TaskId) {
        P::task(self.last).rwsem.chain.store(task.number(), Relaxed); // in our hands
        self.last = task;
    }

    /// The one after `task`.
    fn after<P: Platform>(self, task: TaskId) -> Option<TaskId> {
        let chain = P::task(task).rwsem.chain.load(Relaxed); // in our hands
        if task == self.last {
            None
        } else {
            TaskId::new(chain)
        }
    }

    /// Tells each, and wakes it.
    fn tell<P: Platform>(self) {
        let mut next = Some(self.first);
        while let Some(task) = next {
            next = self.after::<P>(task); // the node is its task's again when told
            let what = if next.is_none() {
                self.tell_last
            } else {
                self.tell
            };
            // (R3) Release pairs with the Acquire of who waits or gives up.
            P::task(task).rwsem.granted.store(what, Release);
            P::unpark(task);
        }
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Releases the lock for a reader, counted or not.
    #[inline(always)]
    pub(super) fn release_read(&self, fair: bool) {
        match P::keeps(self.address()) {
            false if !fair => self.release_read_unkept(),
            true if !fair && self.leave_kept(READERS) => (),
            _ => self.release_read_unplain(fair),
        }
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn release_read_unkept(&self) {
        if !self.leave_shortly() {
            self.release_read_unplain(false);
        }
    }

    /// Of its own, so that the other way is short.
    #[inline(never)]
    fn release_read_unplain(&self, fair: bool) {
        if fair || !self.leave_at_once() {
            self.release_read_slow(fair);
        }
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn release_read_slow(&self, fair: bool) {
        if self.leave_by_slot() || self.leave_kept_slow(READERS, fair) {
            return;
        }
        let count = self.count();
        if self.fence_again(count)
            || count.may_bias()
                && P::may_bias(|| count.is_shared() || self.others_read())
                && self.bias()
        {
            return;
        }
        let alone = Count(READER);
        if count != alone {
            self.release_counted(count, fair);
        // (R1) Release pairs with the Acquire of who takes it next.
        } else if !self.exchange(alone, self.left_behind(), Release) {
            self.release_counted(self.count(), fair);
        }
    }

    /// Releases the lock for a reader that has company, or is waited for.
    #[inline(never)]
    fn release_counted(&self, count: Count, fair: bool) {
        if count.has_counted_reader() && !(count.has_slots() && P::was_another()) {
            self.release_from(count, Kind::Read, fair);
        } else if !self.leave_as_another() {
            self.release_from(self.count(), Kind::Read, fair);
        }
    }

    /// Has a reader counted that took the lock as another task. Returns whether it has left
    /// instead, for the keeper that it was.
    #[cold]
    fn leave_as_another(&self) -> bool {
        loop {
            let count = self.count();
            if count.has_keeper() && self.leave_as_keeper_of_another() {
                return true;
            } else if count.is_biased_somehow() {
                self.revoke(count);
            } else {
                if count.has_slots() {
                    if let Some(word) = P::meddled() {
                        word.store(1, Relaxed); // (F3) the quiesce orders it
                    }
                    self.count_after_quiesce(); // who revokes may take long
                }
                return false;
            }
        }
    }

    /// Releases the lock for the writer.
    #[inline(always)]
    pub(super) fn release_write(&self, fair: bool) {
        match P::keeps(self.address()) {
            false if !fair => self.release_write_unkept(),
            true if !fair && self.leave_kept(0) => (),
            _ => self.release_write_unplain(fair),
        }
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn release_write_unkept(&self) {
        if !self.leave_write_plain() {
            self.release_write_unplain(false);
        }
    }

    /// Of its own, so that the other way is short.
    #[inline(never)]
    fn release_write_unplain(&self, fair: bool) {
        if fair || !(self.leave_suspended() || self.leave_write_at_once()) {
            self.release_write_slow(fair);
        }
    }

    /// Of its own, so that the other way is short.
    #[inline(never)]
    fn release_write_slow(&self, fair: bool) {
        if self.leave_kept_slow(0, fair) {
            return;
        }
        let count = self.count();
        let part = self.part(Kind::Write, count);
        let alone = Count(part);
        self.owner.store(self.owner_left_behind(), Relaxed); // a hint
        // As in `fast_write`.
        // (R1) Release pairs with the Acquire of who takes it next.
        if count != alone || !self.exchange(alone, self.left_behind(), Release) {
            self.release_part(count, part, fair);
        }
    }

    /// Releases the lock. With `fair`, who is let in next is the first waiter.
    #[inline]
    pub(super) fn release(&self, kind: Kind, fair: bool) {
        self.release_from(self.count(), kind, fair);
    }

    #[inline(always)]
    fn release_from(&self, count: Count, kind: Kind, fair: bool) {
        self.release_part(count, self.part(kind, count), fair);
    }

    #[inline(always)]
    fn release_part(&self, count: Count, part: u32, fair: bool) {
        let after = Count(count.0 - part);
        let skip = Self::may_skip(after) && !fair && !C::TRIES_GATE && !self.rest().is_fenced();
        let owes = !skip && Self::concerns_waiters(after, part);
        let after = if skip { self.kept(after) } else { after };
        // (R1) Release pairs with the Acquire of who takes it next.
        if owes || !self.exchange(count, after, Release) {
            self.release_slow(part, fair);
        } else if skip {
            P::event(Event::WakeSkipped);
        }
    }

    /// What is the caller's of the count.
    #[inline]
    fn part(&self, kind: Kind, count: Count) -> u32 {
        let (part, holds) = match kind {
            Kind::Read | Kind::Recursive | Kind::InOrder => (READER, count.has_counted_reader()),
            Kind::Upgradable => (READER | UPGRADABLE, count.has(UPGRADABLE)),
            Kind::Write | Kind::Upgrade => (count.of_writer(), self.is_mine()),
        };
        if !holds {
            self.misused(kind);
        }
        part
    }

    #[cold]
    fn misused(&self, kind: Kind) -> ! {
        let me = P::me().number();
        panic!("task {me} releases the rwsem at {self:p} ({kind:?}), which it does not hold");
    }

    #[cold]
    pub(super) fn release_slow(&self, part: u32, fair: bool) {
        loop {
            let count = self.count();
            let after = Count(count.0 - part);
            let skip = Self::may_skip(after) && !fair && !self.rest().is_fenced();
            if Self::concerns_waiters(after, part) && (!skip || C::TRIES_GATE) {
                let section = |queue: Entered<'_, P>| self.release_inside(&queue, part, fair);
                let entered = if skip {
                    self.queue.try_enter(section)
                } else {
                    Some(self.queue.enter(section))
                };
                match entered {
                    Some(Some(wakes)) => return wakes.deliver::<P>(),
                    Some(None) => continue, // the waiters have left
                    None => {}              // the spinner will come
                }
            }
            // (R1) Release pairs with the Acquire of who takes it next.
            if self.exchange(count, after, Release) {
                if skip {
                    P::event(Event::WakeSkipped);
                }
                return;
            }
        }
    }

    /// Whether the waiters may be left to who promised to come: the lock is
    /// free for it to take, and not to be handed to another.
    pub(super) fn may_skip(after: Count) -> bool {
        after.is_free() && after.has(SPINNER) && !after.has(HANDOFF)
    }

    /// Whether a release may have to let in or wake a waiter.
    fn concerns_waiters(after: Count, part: u32) -> bool {
        let upgrade = after.may_upgrade() || part & UPGRADABLE != 0;
        // To the readers that it found in: others may join them.
        let gives_up = matches!(part, SUSPENDED | WRITER);
        after.has(WAITERS) && (after.is_free() || upgrade || gives_up)
    }

    /// Releases the lock in the gate, if there is a waiter. Without one nobody
    /// would keep the lock from being freed before the gate opens.
    fn release_inside(&self, queue: &Entered<'_, P>, part: u32, fair: bool) -> Option<Wakes> {
        self.bury(queue);
        queue.first()?;
        Some(self.advance(queue, |count| Count(count.0 - part), fair))
    }

    /// Who holds the lock `from` now on holds it `to` less.
    pub(super) fn relax(&self, from: Kind, to: Kind) {
        if from == Kind::Write {
            self.count_me();
        }
        let part = self.part(from, self.count());
        if from == Kind::Write {
            self.owner.store(READERS, Relaxed); // a hint
        }
        let change = |count: Count| Count(count.0 - part).entered(to);
        loop {
            let count = self.count();
            if count.has(WAITERS) {
                let wakes = self.queue.enter(|queue| {
                    self.bury(&queue);
                    self.advance(&queue, change, false)
                });
                return wakes.deliver::<P>();
            }
            // (R1) Release pairs with the Acquire of readers.
            if self.exchange(count, change(count), Release) {
                return;
            }
        }
    }

    /// A reader lets in readers that wait first.
    #[cold]
    pub(super) fn pass_on(&self) {
        let wakes = self.queue.enter(|queue| {
            self.bury(&queue);
            queue.first()?;
            Some(self.advance(&queue, |count| count, false))
        });
        if let Some(wakes) = wakes {
            wakes.deliver::<P>();
        }
    }

    /// Changes the count, and in the same step lets in those of the queue that
    /// may enter then.
    pub(super) fn advance(
        &self,
        queue: &Entered<'_, P>,
        change: impl Fn(Count) -> Count,
        fair: bool,
    ) -> Wakes {
        let wakes = self.advance_if(queue, |count| Some(change(count)), fair);
        wakes.unwrap_or(Wakes::None)
    }

    /// The same, if there is something to change the count to.
    pub(super) fn advance_if(
        &self,
        queue: &Entered<'_, P>,
        change: impl Fn(Count) -> Option<Count>,
        fair: bool,
    ) -> Option<Wakes> {
        loop {
            let count = self.count();
            let after = change(count)?;
            let again = match self.rest().is_fenced() && !fair {
                true => Self::tell_to_come_again(queue, after),
                false => None,
            };
            let plan = again.unwrap_or_else(|| Self::plan(queue, after, fair));
            // (R2) Release pairs with the Acquire of who takes or grants it
            // next; Acquire, on behalf of those granted it here.
            if self.exchange(count, plan.count, AcqRel) {
                self.carry_out(queue, &plan);
                return Some(plan.wakes);
            }
        }
    }

    /// Who of the queue is to be let in or woken with this count.
    fn plan(queue: &Entered<'_, P>, count: Count, fair: bool) -> Plan {
        let Some((first, kind)) = Self::first(queue) else {
            let count = count.without(OF_WAITERS);
            return Plan {
                count,
                wakes: Wakes::None,
            };
        };
        match kind {
            Kind::Write if count.is_free() && !fair && !count.has(HANDOFF) => Plan {
                count: count.with(SPINNER), // it looks before it sleeps again
                wakes: Wakes::First(first),
            },
            Kind::Write if count.is_free() => {
                Self::grant_one(queue, count.without(SPINNER), first, kind, Event::HandedOff)
            }
            Kind::Upgrade if count.may_upgrade() => {
                Self::grant_one(queue, count, first, kind, Event::Upgraded)
            }
            _ if !count.has(WRITER) && (kind.reads() || !count.is_free()) => {
                Self::grant(queue, count, kind)
            }
            _ => Plan {
                count,
                wakes: Wakes::None,
            },
        }
    }

    /// A free lock that is to have a fenced bias: nobody is to wait for that. `None` where
    /// somebody is to be handed it, was told so often enough, or too many wait.
    fn tell_to_come_again(queue: &Entered<'_, P>, count: Count) -> Option<Plan> {
        if !count.is_free() || count.has(HANDOFF) {
            return None;
        }
        let may_be_told = |task: &TaskId| {
            P::task(*task).rwsem.told.load(Relaxed) < AGAINS // the gate orders it
        };
        let mut chain = Chain {
            tell: AGAIN,
            tell_last: AGAIN,
            ..Chain::of(queue.first().filter(may_be_told)?)
        };
        let mut room = MAX_BATCH;
        while let Some(next) = queue.after(chain.last) {
            room = room.checked_sub(1)?;
            chain.append::<P>(Some(next).filter(may_be_told)?);
        }
        Some(Plan {
            count: count.without(OF_WAITERS),
            wakes: Wakes::Again(chain),
        })
    }

    fn first(queue: &Entered<'_, P>) -> Option<(TaskId, Kind)> {
        let first = queue.first()?;
        Some((first, P::task(first).rwsem.kind()?))
    }

    fn grant_one(
        queue: &Entered<'_, P>,
        count: Count,
        first: TaskId,
        kind: Kind,
        event: Event,
    ) -> Plan {
        let left = if queue.after(first).is_some() {
            HANDOFF
        } else {
            OF_WAITERS
        };
        Plan {
            count: count.entered(kind).without(left),
            wakes: Wakes::Granted(Chain::of(first), event),
        }
    }

    /// Lets in the readers, wherever they stand, and one upgradable reader if
    /// there is none; recursive readers alone if the first waiter is a writer.
    fn grant(queue: &Entered<'_, P>, mut count: Count, first: Kind) -> Plan {
        let mut chain: Option<Chain> = None;
        let (mut room, mut somebody_stays) = (MAX_BATCH, false);
        let mut next = queue.first();
        while let Some(task) = next {
            next = queue.after(task);
            let Some(entered) = Self::joined(count, task, first) else {
                somebody_stays = true;
                continue;
            };
            if room == 0 {
                somebody_stays = true;
                chain
                    .iter_mut()
                    .for_each(|chain| chain.tell_last = GRANTED_AND_MORE);
                break;
            }
            count = entered;
            room -= 1;
            match &mut chain {
                Some(chain) => chain.append::<P>(task),
                None => chain = Some(Chain::of(task)),
            }
        }
        let Some(chain) = chain else {
            return Plan {
                count,
                wakes: Wakes::None,
            };
        };
        let is_first = queue.first() == Some(chain.first);
        let left = match (somebody_stays, is_first) {
            (false, _) => OF_WAITERS,
            (true, true) => HANDOFF,
            (true, false) => 0,
        };
        Plan {
            count: count.without(left),
            wakes: Wakes::Granted(chain, Event::ReadersGranted),
        }
    }

    /// The count with `task` as one more reader, if it is one that may join.
    fn joined(count: Count, task: TaskId, first: Kind) -> Option<Count> {
        let kind = P::task(task).rwsem.kind()?;
        let joins = match kind {
            Kind::Recursive => true,
            Kind::Read | Kind::InOrder => first.reads(),
            Kind::Upgradable => first.reads() && !count.has(UPGRADABLE),
            Kind::Write | Kind::Upgrade => false,
        };
        joins
            .then(|| count.entered(kind))
            .filter(|count| !count.has(OVERFLOW))
    }

    /// Takes those that were let in out of the queue, and tells spinners.
    fn carry_out(&self, queue: &Entered<'_, P>, plan: &Plan) {
        let (Wakes::Granted(chain, _) | Wakes::Again(chain)) = plan.wakes else {
            return;
        };
        let mut next = Some(chain.first);
        while let Some(task) = next {
            next = chain.after::<P>(task);
            Self::unqueue(queue, task);
        }
        if plan.count.is_free() {
            // Nobody was let in, and it may be another's already.
        } else if plan.count.has(WRITER) {
            self.set_owner(chain.first);
        } else {
            // A hint; but who came by a reservation may learn by it that it is in the count.
            self.owner.store(READERS, Release); // (K2)
        }
    }
}
