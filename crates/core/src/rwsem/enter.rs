//! How a task that is awake takes the reader-writer semaphore.

use super::{
    BUSY, Count, HANDOFF, Kind, NONSPINNABLE, OVERFLOW, OWNER_SHIFT, READERS, RawRwLock, WAITERS,
    WRITER, WakeCheck, fenced::Drain,
};
use crate::{
    mutex::{PATIENCE_MICROS, TURN_MICROS},
    osq,
    platform::{Deadline, Event, Ordering::*, Platform, TaskId, Word},
};

/// How long a waiter has waited, and has been the first, when it is handed the lock although it
/// did not ask, in microseconds. One that runs asks sooner; but among more tasks than CPUs it
/// may not run. Those that come sleep then, and leave it a CPU: that costs much, and is not to
/// happen all the time where many wait for long.
const LATE_MICROS: u32 = 6 * PATIENCE_MICROS;
const LATE_FIRST_MICROS: u32 = 4 * TURN_MICROS;

/// Of so many times that a task overtakes, it looks once whether the first waiter is late.
const OVERTAKES: u32 = 8;

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    #[inline]
    pub(super) fn obtain(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        self.fast_from(self.count(), kind) || self.contend(kind, deadline)
    }

    /// Takes the lock as the writer.
    #[inline(always)]
    pub(super) fn write_by(&self, deadline: Option<Deadline>) -> bool {
        match P::keeps(self.address()) {
            true => self.retake_and_see(0) || self.write_unplain(deadline),
            false => self.write_unreserved(deadline),
        }
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn write_unreserved(&self, deadline: Option<Deadline>) -> bool {
        self.try_write_plain().seen(|| self.see()) || self.write_unplain(deadline)
    }

    /// Of its own, so that the other way is short.
    #[inline(never)]
    fn write_unplain(&self, deadline: Option<Deadline>) -> bool {
        if self.retake(0) {
            return true;
        }
        if !self.was_usual() {
            return self.fast_write() || self.contend(Kind::Write, deadline);
        }
        match self.write_at_once() {
            Ok(()) => true,
            Err(count) => self.fast_from(count, Kind::Write) || self.contend(Kind::Write, deadline),
        }
    }

    /// Takes the lock as a reader that may not have to be counted.
    #[inline(always)]
    pub(super) fn read_by(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        let count = self.count();
        if self.fast_slot(count) {
            return true;
        }
        match P::keeps(self.address()) {
            true => self.retake_and_see(READERS) || self.read_unplain(count, kind, deadline),
            false => self.read_unreserved(count, kind, deadline),
        }
    }

    /// Of its own, so that what stands in the caller's code is small.
    #[inline(never)]
    fn read_unreserved(&self, count: Count, kind: Kind, deadline: Option<Deadline>) -> bool {
        self.read_plain(count).seen(|| self.see()) || self.read_unplain(count, kind, deadline)
    }

    /// Of its own, so that the other way is short.
    #[inline(never)]
    fn read_unplain(&self, count: Count, kind: Kind, deadline: Option<Deadline>) -> bool {
        if count.is_fenced() && self.enter_fenced() || self.retake(READERS) {
            return true;
        }
        let at_once = match kind == Kind::Read && self.was_usual() {
            true => self.read_at_once(),
            false => Err(count),
        };
        at_once.map_or_else(
            |count| self.fast_from(count, kind) || self.contend(kind, deadline),
            |()| true,
        )
    }

    /// Takes the lock as a reader at the first try.
    #[inline]
    pub(super) fn fast_read(&self, kind: Kind) -> bool {
        let count = self.count();
        self.fast_slot(count)
            || self.retake(READERS)
            || count.is_fenced() && self.enter_fenced()
            || self.fast_from(count, kind)
    }

    /// Takes the lock as the writer at the first try.
    #[inline(always)]
    pub(super) fn fast_write(&self) -> bool {
        match self.count() {
            // What an exchange takes is known beforehand: it need not wait for the look at the count.
            Count(0) => self.exchange_to_enter(Kind::Write, Count(0), Count(WRITER)),
            count => self.fast_from(count, Kind::Write),
        }
    }

    /// Takes the lock as a reader by a slot, if the lock is biased.
    #[inline(always)]
    fn fast_slot(&self, count: Count) -> bool {
        count.is_biased() && self.enter_by_slot(count)
    }

    /// Takes the lock at the first try; as a reader, when nobody waits, or somebody looks after
    /// those that do. Whether others read it makes no difference to what is done: nobody could
    /// predict that.
    #[inline(always)]
    pub(super) fn fast_from(&self, count: Count, kind: Kind) -> bool {
        let Some(taken) = count.taken(kind) else {
            return false;
        };
        let leaves_them = kind == Kind::Write || kind == Kind::Read && count.is_promised();
        let shares = count.has(WAITERS) && !leaves_them;
        if shares || !self.exchange_to_enter(kind, count, taken) {
            return false;
        }
        if count.has(WAITERS) {
            self.overtook(kind, count);
        }
        true
    }

    /// Takes the lock if it may be taken, once is revoked what keeps the caller out, by the caller
    /// or by another who is about that.
    pub(super) fn take(&self, kind: Kind) -> bool {
        let count = self.count();
        match kind == Kind::Write && count.is_fenced() {
            true => self.write_fenced(count, Drain::Try),
            false => {
                self.take_or_revoke(kind, |count| count.keeps_out(kind) || count.is_undecided())
            }
        }
    }

    /// The same for who may wait: it leaves that to who has promised to come.
    pub(super) fn take_awake(&self, kind: Kind) -> bool {
        kind == Kind::Read && self.count().is_fenced() && self.enter_fenced()
            || kind == Kind::Write && self.write_fenced(self.count(), Drain::Wait)
            || self.take_or_revoke(kind, |count| count.is_to_be_revoked(kind))
            || kind == Kind::Read && self.join_readers()
    }

    /// Takes the lock as a reader past waiters whom nobody looks after, as long as the first of
    /// them is not overdue; and if that is a writer, wakes it.
    fn join_readers(&self) -> bool {
        loop {
            let count = self.count();
            let may_join = count.has(WAITERS) && !count.has(WRITER | HANDOFF);
            if !may_join || count.readers() == 0 || count.entered(Kind::Read).has(OVERFLOW) {
                return false;
            }
            if !count.is_promised() && self.overdue(count).is_some() {
                if !self.is_first_to_write() {
                    self.ask();
                    return false;
                }
                self.rouse();
                continue;
            }
            if self.exchange_to_enter(Kind::Read, count, count.entered(Kind::Read)) {
                self.share(Kind::Read, count);
                return true;
            }
        }
    }

    fn take_or_revoke(&self, kind: Kind, revokes: impl Fn(Count) -> bool) -> bool {
        let before = loop {
            match self.enter(kind) {
                Ok(before) => break before,
                Err(count) if self.retake_recalled(count, kind) => return true,
                Err(count) if revokes(count) => self.revoke(count),
                Err(_) => return false,
            }
        };
        self.share(kind, before);
        true
    }

    /// Takes the lock, and returns what the count was before.
    ///
    /// # Errors
    /// The count that keeps the caller out.
    pub(super) fn enter(&self, kind: Kind) -> Result<Count, Count> {
        loop {
            let count = self.count();
            let taken = count.taken(kind).ok_or(count)?;
            if self.exchange_to_enter(kind, count, taken) {
                return Ok(count);
            }
        }
    }

    /// Takes the lock by this change of the count, and tells spinners who has it: of a writer,
    /// in one step if the world can. Returns whether it did.
    #[inline(always)]
    pub(super) fn exchange_to_enter(&self, kind: Kind, count: Count, taken: Count) -> bool {
        if kind == Kind::Write
            && let Some(took) = self.replace_to_write(count, taken)
        {
            if took {
                P::took(Some(self.address()));
                self.remember();
            }
            return took;
        }
        // (R1) Acquire pairs with the Release of those that left before.
        let took = self.exchange(count, taken, Acquire);
        if took {
            self.own(kind, count);
            self.remember();
        }
        took
    }

    /// Tells spinners who holds the lock, after the caller took it.
    #[inline]
    pub(super) fn own(&self, kind: Kind, before: Count) {
        // The upgradable reader does not keep the lock.
        P::took((kind != Kind::Upgradable).then(|| self.address()));
        match kind {
            Kind::Write | Kind::Upgrade => self.set_owner(P::me()),
            Kind::Read | Kind::Recursive | Kind::InOrder | Kind::Upgradable => {
                self.hint_reader(before)
            }
        }
    }

    /// Likewise, if that is a reader.
    #[inline(always)]
    pub(super) fn hint_reader(&self, before: Count) {
        // Only where it must not stay: the release would wait for that.
        if before.readers() == 0 && self.owner.load(Relaxed) & (NONSPINNABLE | BUSY) != 0 {
            self.owner.store(READERS, Relaxed); // a hint
        }
    }

    pub(super) fn set_owner(&self, writer: TaskId) {
        self.owner.store(writer.number() << OWNER_SHIFT, Relaxed); // a hint to others
    }

    /// After the caller took the lock as a reader past waiters: if a reader is the
    /// first of them, it may come in as well, and others with it. Who is first is a
    /// hint: whom this misses, the next release finds. Recursive readers must not be
    /// missed, but none wait once the first reader is in.
    pub(super) fn share(&self, kind: Kind, before: Count) {
        if !before.has(WAITERS) {
            return;
        }
        self.overtook(kind, before);
        if !kind.reads() {
            return;
        }
        let begins = kind == Kind::Recursive && before.readers() == 0;
        if begins || !self.is_first_to_write() {
            self.pass_on();
        }
    }

    /// After the caller took the lock past waiters: looks after the first of them, now and then.
    #[inline(always)]
    pub(super) fn overtook(&self, kind: Kind, before: Count) {
        if kind.reads() {
            P::event(Event::ReadStolen);
        }
        let mine = &P::mine().rwsem.overtakes;
        let others = mine.load(Relaxed); // its task's own
        mine.store(others.wrapping_add(1), Relaxed); // likewise
        if others.is_multiple_of(OVERTAKES) {
            self.look_after_first(before);
        }
    }

    /// If the first waiter is late, it is handed the lock next, wherever it is.
    #[cold]
    fn look_after_first(&self, before: Count) {
        let is_late = |first: TaskId| {
            let node = &P::task(first).wait;
            first != P::me() // it is about to leave the queue
                && P::elapsed(node.since.load(Relaxed), LATE_MICROS) // a hint
                && P::elapsed(node.first.load(Relaxed), LATE_FIRST_MICROS) // likewise
        };
        if !before.has(HANDOFF) && self.queue.front().first().is_some_and(is_late) {
            self.ask();
        }
    }

    /// Whether the first waiter is a writer: a hint.
    pub(super) fn is_first_to_write(&self) -> bool {
        let first = self.queue.front().first();
        first.and_then(|first| P::task(first).rwsem.kind()) == Some(Kind::Write)
    }
}
