//! Readers of a lock that is written now and then, who are not in its count either.
//!
//! To end a bias costs a quiesce, microseconds. A *fenced* bias costs a writer no more than
//! a look at the slots, and each of its readers an exchange of its own slot as it comes,
//! which fences, as in BRAVO. A lock that is read by several tasks, and written too often for
//! a bias without a fence, has it; and gets it back as its writer leaves.
//!
//! | reader (F1) | who revokes, or suspends (F1) |
//! |---|---|
//! | its slot: the lock; fence | count: from `BIASED` to `REVOKING` or `SUSPENDED`; fence |
//! | count: biased? | each slot that names the lock |
//!
//! So a reader that finds the lock biased is found by who revokes that, and counted, by
//! (B2); it may be by then. One that does not find it so takes its slot back; if it was
//! counted meanwhile, it is a reader like others, and stays. The count acquires (R1).
//!
//! Its readers leave as those of any bias (B1). So a writer waits until it finds no slot that
//! names the lock, and acquires what it finds there (B2), (F2); and only where it is to count
//! those that are in, it quiesces before.
//!
//! Nobody but the writer counts them, unless a reader leaves as another task, which then counts all
//! that are in:
//!
//! | who leaves as another (F3) | who suspends (F3) |
//! |---|---|
//! | the world's word; quiesce | each slot that names the lock, until it does not, Acquire |
//! | each slot that names the lock: counted | the word |
//!
//! Who finds the word as it was had seen all of the slots before any reader was counted. So nobody
//! is in the count that was not when it kept readers out, and it need not look there.
//!
//! It *suspends* the bias: the mark by which it keeps readers out while it looks at the slots
//! stays in the count as long as it has the lock, and it leaves from that to the bias. Each change
//! of the count more would cost it a transfer of the line, which those that wait look at, and
//! them as long. One that only tries has another mark meanwhile, [`DRAINING`], which others that
//! try wait for: if it fails, they had better not.
//!
//! A bias sheds its fence by an exchange of the count: some of its readers came by a fence
//! then, so who revokes it quiesces and fences. It gets a fence by being revoked alone, for
//! tests by `store_if` know of no fence.
//!
//! # Who waits
//!
//! As long as readers are to fence nobody had better wait: a lock that is handed to many
//! sleepers is held until the last of them has run, and who wants it meanwhile has to sleep,
//! too. So who finds a writer in the lock polls, as long as that one runs; and a release that
//! leaves the lock free tells all who wait to come again. Each loses its place by that, and may
//! find the lock held once more by a reader that is off its CPU: so no one is told more than
//! twice, and all wait then in their order.
//!
//! A writer that finds readers which do not leave soon gives them the lock back, counted, for a
//! reader that takes long is off its CPU. The lock has no bias then until it is left, or for a while
//! if that happens often; and the writer queues up as for any lock. One that only tries gives it
//! back as it was.
//!
//! In a fork's child a lock that a thread was draining cannot be had, nor one that it was to
//! give back.

use super::{
    Count, Kind, OF_WAITERS, OWNER_SHIFT, READER, READERS, RawRwLock, SPINNER, UPGRADABLE, WAITERS,
    WRITER, WakeCheck,
    bias::{BIASED, Name, REVOKING, STEP},
    rest::{Drains, Rest},
    spin::READERS_MICROS,
};
use crate::{
    mutex::EXCHANGE_MICROS,
    osq,
    platform::{Deadline, Event, FOREVER, Look, Ordering::*, Platform, Word},
};

/// The mark of a biased count: with a fence. Nobody waits for it, and so nobody promises
/// to come.
const FENCED: u32 = SPINNER;

/// So many readers that look, in a row and after the time for that, and the bias sheds its fence:
/// a writer then interrupts the CPUs, for which three thousand readers have to pay. Of many locks
/// each may rest for long although much is written.
pub(super) const SHEDS: u32 = 48;

/// Looks for readers to leave: one that runs has left by then, most likely.
pub(super) const READER_LOOKS: u32 = 256;

/// What the count has while a writer that only tries looks whether one of those readers is in.
pub(super) const DRAINING: u32 = WRITER | REVOKING | UPGRADABLE;
/// What it has from when a writer begins to await those readers until it leaves.
pub(super) const SUSPENDED: u32 = WRITER | STEP;

/// Whether a writer waits for readers to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    /// It gives the lock back at once, as it was.
    Try,
    /// It looks so many times at each slot; what is left then is counted, and has so many more
    /// looks' time.
    Wait,
}

impl Drain {
    fn looks(self) -> u32 {
        match self {
            Self::Try => 1,
            Self::Wait => READER_LOOKS,
        }
    }

    /// What the count has while it looks.
    fn mark(self) -> u32 {
        match self {
            Self::Try => DRAINING,
            Self::Wait => SUSPENDED,
        }
    }
}

impl Count {
    /// Whether readers come and go by slots with a fence.
    #[inline(always)]
    pub(super) const fn is_fenced(self) -> bool {
        self.is_biased_somehow() && self.has(FENCED)
    }

    /// The same with a fenced bias: one of the readers is the virtual reader.
    pub(super) const fn fenced(self) -> Self {
        self.with(BIASED | FENCED)
    }

    /// The same with a writer's mark, who keeps others out.
    const fn marked(self, mark: u32) -> Self {
        Self(self.0 - (READER | BIASED | FENCED) + mark)
    }

    /// Of one with [`DRAINING`], once more with a fenced bias.
    const fn drained(self) -> Self {
        Self(self.0 - DRAINING + (READER | BIASED | FENCED))
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    #[inline(always)]
    pub(super) fn rest(&self) -> Rest {
        Rest(self.rest.load(Relaxed)) // a hint
    }

    pub(super) fn set_rest(&self, rest: Rest) {
        self.rest.store(rest.0, Relaxed); // a hint
    }

    /// Lets the caller in by a slot: the count said that the lock has a fenced bias.
    #[inline(never)]
    pub(super) fn enter_fenced(&self) -> bool {
        let (name, mine) = (self.name(), &P::mine().slots);
        if !mine.slots[0].is_free_in(name.region) {
            return self.enter_fenced_by_any();
        }
        self.come_to(&mine.slots[0].lock, name)
    }

    #[cold]
    #[inline(never)]
    fn enter_fenced_by_any(&self) -> bool {
        let (name, mine) = (self.name(), &P::mine().slots);
        let Some(at) = mine.free(name) else {
            return false;
        };
        let came = self.come_to(&mine.slots[at].lock, name);
        if came {
            mine.count_others(at, 1);
        }
        came
    }

    #[inline]
    fn come_to(&self, word: &P::U32, name: Name) -> bool {
        P::swap_fenced(word, name.lock, Relaxed); // (F1)
        // (F1), (R1)
        let came = Count(self.count.load(Acquire)).is_biased_somehow()
            // (B2) Acquire: I am counted.
            || word.compare_exchange(name.lock, 0, Relaxed, Acquire).is_err();
        if came {
            P::took(None);
            if P::may_bias(|| true) {
                self.sample();
            }
        }
        came
    }

    /// Takes the lock as the writer, if it has a fenced bias and its readers leave soon.
    pub(super) fn write_fenced(&self, count: Count, drain: Drain) -> bool {
        let took = count.is_fenced() && self.take_fenced(count, drain);
        if took && count.counted_readers() > 0 {
            self.took_after_readers();
        } else if took {
            P::took(Some(self.address()));
        }
        took
    }

    /// The caller has kept readers out, awaited those that were in, and has the lock.
    pub(super) fn took_after_readers(&self) {
        P::took(Some(self.address()));
        // One of them, which has left, may have said that readers have it.
        if !self.is_mine() {
            self.set_owner(P::me());
        }
    }

    /// Takes the lock as long as it has a fenced bias, or is about to get that back, and nobody
    /// waits for it. Returns whether it did.
    ///
    /// All readers that poll come in at once as a writer leaves; in line, each would wait for the
    /// one before.
    #[inline(never)]
    pub(super) fn outlast_fenced(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        let mut since = None;
        loop {
            let count = self.count();
            if count.has(WAITERS) || count.is_kept() || !self.rest().is_fenced() {
                return false;
            }
            if self.take_while_fenced(count, kind) {
                return true;
            }
            let since = *since.get_or_insert_with(P::stamp);
            if P::elapsed(since, EXCHANGE_MICROS) || deadline.is_some_and(P::passed) {
                return false;
            }
            let count = self.count();
            if count.is_biased() && kind == Kind::Write {
                self.revoke(count);
            } else if !self.await_fence(kind, deadline) {
                return false;
            }
        }
    }

    fn take_while_fenced(&self, count: Count, kind: Kind) -> bool {
        match kind {
            Kind::Write if count.is_fenced() => {
                count.counted_readers() == 0 && self.write_fenced(count, Drain::Wait)
            }
            Kind::Write => self.fast_from(count, kind),
            _ => self.fast_read(kind),
        }
    }

    /// Polls as long as a writer has the lock that runs, or counted readers for a moment. Returns
    /// whether there is something to take, or somebody waits.
    fn await_fence(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        let patience = match self.count().has(WRITER) {
            true => EXCHANGE_MICROS,
            false => READERS_MICROS,
        };
        P::spin_begin();
        let since = P::stamp();
        if kind.reads() {
            P::about_to_write(&P::mine().slots.slots[0].lock); // the writer has looked at it
        }
        let is_there = |count: Count| match kind {
            Kind::Write if count.is_fenced() => count.counted_readers() == 0,
            _ => count.is_biased_somehow() || count.taken(kind).is_some(),
        };
        let seen = P::spin_until(
            &self.count,
            Relaxed, // only a hint: who takes it acquires
            Look::Poll,
            FOREVER,
            |count| {
                let count = Count(count);
                is_there(count) || count.has(WAITERS) || count.is_kept()
            },
            || {
                let over = || P::need_resched() || P::elapsed(since, patience);
                self.is_owner_off() || over() || deadline.is_some_and(P::passed)
            },
        );
        seen.is_some()
    }

    /// Takes the lock as the writer if its readers leave soon. Returns whether it did; if not,
    /// they have it as before, or counted if it waited.
    #[cold]
    fn take_fenced(&self, count: Count, drain: Drain) -> bool {
        if count.has(UPGRADABLE) {
            self.unfence(count);
            return false;
        }
        let (now, rest) = (P::stamp(), self.rest()); // before others have to wait for it
        if !self.keep_out(count, count.marked(drain.mark())) {
            return false; // another does, or a reader came or went
        }
        let drains = Drains::of::<P>();
        let since = drains.is_measured().then_some(now);
        let (mut known, waits) = (self.await_slots(drain.looks()), drain == Drain::Wait);
        // To look would cost a transfer of the line, at which those look that wait.
        let none = known && count.counted_readers() == 0 && Self::nobody_meddled();
        if !known && waits {
            known = true;
            self.count_after_quiesce();
            self.await_counted(drain.looks());
        }
        // (R1) Acquire pairs with the Release of those that left before.
        if none || known && Count(self.count.load(Acquire)).readers() == 0 {
            if !waits {
                let decided = SUSPENDED.wrapping_sub(DRAINING);
                self.count.fetch_add(decided, Relaxed); // what it orders is acquired above
            }
            let micros = drains.note::<P>(since).micros();
            self.set_rest(rest.written(micros, now));
            P::event(Event::FencedBiasRevoked);
            return true;
        }
        self.owner.store(Self::owner_of_readers(), Relaxed); // likewise
        if waits {
            self.set_rest(self.rest().failed::<P>());
        }
        let count = self.count();
        // (R1) Release: what was before the fence
        if waits || count.has(OF_WAITERS) || !self.exchange(count, count.drained(), Release) {
            if !known {
                self.count_after_quiesce();
            }
            self.release_slow(drain.mark(), false);
        }
        false
    }

    /// Whether nobody but the caller has counted a reader, since it keeps others out, up to when it
    /// had seen the slots.
    fn nobody_meddled() -> bool {
        P::meddled().is_some_and(|word| word.load(Relaxed) == 0) // (F3)
    }

    /// Keeps others out, and tells spinners who does: the caller may be preempted before it has
    /// the lock. Returns whether it did.
    pub(super) fn keep_out(&self, count: Count, marked: Count) -> bool {
        // (F1), (K3) by its barrier
        if let Some(keeps_out) = self.replace_to_write(count, marked) {
            return keeps_out;
        }
        // Relaxed: the fence orders it.
        let keeps_out = self.exchange(count, marked, Relaxed);
        if keeps_out {
            P::fence(); // (F1)
            // (K3) by the fence: of the readers in the count one may have been the keeper, which
            // must find itself there.
            self.set_owner(P::me());
        }
        keeps_out
    }

    /// Gives the readers in the count some looks' time to leave.
    pub(super) fn await_counted(&self, looks: u32) {
        P::spin_until(
            &self.count,
            Relaxed, // only a hint: who takes it acquires
            Look::Poll,
            looks,
            |count| Count(count).readers() == 0,
            || false,
        );
    }

    /// Counts the readers that are in by slots, who leave them by a test (B1).
    pub(super) fn count_after_quiesce(&self) {
        P::quiesce(); // (B1)
        self.count_slots();
    }

    /// Gives the readers that are in by slots some looks' time to leave: it costs less than
    /// to count them. Returns whether they have left.
    fn await_slots(&self, looks: u32) -> bool {
        let (name, mut left) = (self.name(), true);
        P::each_reader(|task| {
            for slot in &task.slots.slots {
                // (B2) Acquire: what a reader did that has left.
                if slot.lock.load(Acquire) == name.lock {
                    // (B3) Acquire: who uses the slot for another lock has left this one. Who uses
                    // it for this one has said so before its fence (F1), or finds the lock draining.
                    if slot.region.load(Acquire) != name.region {
                        continue;
                    }
                    let gone = |now| now != name.lock;
                    // (F2) Acquire: likewise, of one that has left meanwhile.
                    let is_gone =
                        P::spin_until(&slot.lock, Acquire, Look::Poll, looks, gone, || false);
                    left &= is_gone.is_some();
                }
            }
        });
        left
    }

    /// Releases the lock for the writer that has suspended its fenced bias, which it gives back.
    /// Returns whether it did.
    #[inline(always)]
    pub(super) fn leave_suspended(&self) -> bool {
        let me = P::number() << OWNER_SHIFT;
        if me == 0 || !self.rest().is_fenced() {
            return false;
        }
        let (words, before) = ([&self.count, &self.owner], [SUSPENDED, me]);
        let after = || [Count(READER).fenced().0, Self::owner_of_readers()];
        // (R1) Release pairs with the Acquire of who takes it next.
        P::replace_pair(words, before, after) == Some(before)
    }

    /// Ends a fenced bias.
    #[cold]
    pub(super) fn unfence(&self, count: Count) {
        // Relaxed: the fence orders it.
        if !self.exchange(count, count.without(FENCED).next(), Relaxed) {
            return; // another does, or a reader came or went
        }
        P::fence(); // (F1)
        self.count_after_quiesce();
        P::event(Event::FencedBiasRevoked);
        self.release_slow(READER | REVOKING, false);
    }

    /// A reader that was counted is about to leave: it leaves its part to the virtual reader,
    /// if the lock had a fenced bias. Returns whether it left.
    pub(super) fn fence_again(&self, count: Count) -> bool {
        if !count.may_bias() || !self.rest().is_fenced() {
            return false;
        }
        self.restart();
        // (R1) Release: the caller's part is the virtual reader's.
        self.exchange(count, count.fenced(), Release)
    }

    /// A reader that came by a fenced bias looks whether it is worth its while.
    #[cold]
    fn sample(&self) {
        let (rest, count, run) = (self.rest(), self.count(), self.run());
        if rest.is_over::<P>() {
            self.lengthen(run, run.last());
            if P::may_bias(|| run.length() >= SHEDS) {
                return self.shed_fence(count, rest);
            }
        }
        if run.last() != P::number() {
            let sampled = rest.sampled(P::gain());
            if sampled != rest {
                self.set_rest(sampled);
            }
        }
    }

    fn shed_fence(&self, count: Count, rest: Rest) {
        // Relaxed: the quiesce orders it.
        if count.is_fenced() && self.exchange(count, count.without(FENCED), Relaxed) {
            self.set_rest(rest.restarted::<P>());
            P::event(Event::FenceShed);
        }
    }

    /// A reader has to wait: the lock is tried with a fenced bias; if it never was, by a writer.
    pub(super) fn ask_for_fence(&self) {
        let rest = self.rest();
        if rest.is_new() {
            // It may be biased by now, and must not be wiped any more.
            let asked = Rest::ASKED.0;
            self.rest.compare_exchange(0, asked, Relaxed, Relaxed).ok(); // a hint
        } else if rest.may_fence::<P>() {
            self.set_rest(rest.fenced::<P>());
        }
    }

    /// The writer had to wait, and not for a fenced bias.
    pub(super) fn wrote_unfenced(&self) {
        let rest = self.rest();
        if rest == Rest::ASKED {
            self.wipe(); // as long as it is in, no slot stands for a reader
            self.set_rest(rest.fenced::<P>());
        } else if rest.is_fenced() {
            self.restart();
        }
    }

    /// The bias is about to come back, and may not be as old as it says.
    fn restart(&self) {
        let rest = self.rest();
        if rest.is_over::<P>() {
            self.set_rest(rest.restarted::<P>());
        }
    }

    /// The count that the last one leaves behind, and the owner word: of a lock with a
    /// fenced bias, which gets it back, that of the last writer and `READERS`.
    #[inline]
    pub(super) fn left_behind(&self) -> Count {
        match self.rest().is_fenced() {
            true => Count(READER).fenced(),
            false => self.kept(Count(0)),
        }
    }

    /// The owner word as the writer leaves.
    #[inline]
    pub(super) fn owner_left_behind(&self) -> u32 {
        match self.rest().is_fenced() {
            true => Self::owner_of_readers(),
            false => 0,
        }
    }

    /// The owner word of readers, after whom the caller was the last writer.
    fn owner_of_readers() -> u32 {
        P::number() << OWNER_SHIFT | READERS
    }
}
