//! Readers of a biased lock, who are not in its count.
//!
//! After BRAVO (D. Dice, A. Kogan, ATC 2019): while nobody writes, a reader says in a
//! place of its own that it reads, and a writer looks there before it goes on. There
//! each reader fences; here the writer quiesces, but for a lock that is written more often:
//! `rwsem/fenced.rs`.
//!
//! The count has one reader for all of them, the *virtual reader*. What it stands for
//! are the slots of the tasks that name the lock. The mark above the readers goes
//! round: from 0 to [`BIASED`], the first time by [`BIASING`], to [`REVOKING`] and 0. Whoever
//! takes it from 0 is about to leave, and leaves its own part of the count to the virtual
//! reader; whoever takes it to `REVOKING` releases that.
//!
//! | reader (B1) | who revokes (B1) |
//! |---|---|
//! | test: the count is unchanged, and biased | count: from `BIASED` to `REVOKING` |
//! | its slot: the lock; or 0, as it leaves | quiesce; then each slot that names the lock |
//!
//! Test and store are one `store_if`. So after the quiesce nobody comes by a slot any
//! more, and who leaves one exchanges it. Who leaves by a store demands that nobody be counted
//! but the virtual reader, for a count that is as it was may be another: somebody has left,
//! and the caller is counted instead. Whom the revoker finds it counts, and tells so
//! by exchanging its slot, too: from then on this is a reader like any other, and
//! leaves as such. Nobody waits for anybody.
//!
//! | reader (B2) | who revokes (B2) |
//! |---|---|
//! | slot: exchanged for 0, Release; it has left | count: a reader more; slot: `COUNTED`, Release |
//! | or failed, Acquire: count: a reader less | or failed, Acquire: count: a reader less |
//!
//! What readers did happens before the revoker's release of the virtual reader, for it
//! acquires what it finds in their slots (B2). What was written before a biased reader
//! comes happens before its test, which acquires (R1): from a release of a writer to the
//! test the count changed by read-modify-writes alone.
//!
//! No wake-up is lost: `WAITERS` is never set in a count that is biased, nor `BIASED` in
//! one with `WAITERS`. So a reader that leaves its slot by a store owes nobody anything,
//! and touches the lock no more; who is counted leaves like others; and the virtual
//! reader is released like another. A writer that spins takes `BIASED` for its turn
//! to revoke, whenever it sees it, and who would queue up revokes first.
//!
//! In a fork's child, slots of threads that are gone name the lock for ever, as such
//! readers stay in the count. So does the virtual reader whom a thread was about to
//! release or to make, that is gone.
//!
//! # Readers that leave as another task
//!
//! A thread that ends may get another number, by which it releases what it reads. Such a
//! reader does not find its slot, and cannot know whether it is in the count by now. It must not
//! take the slot of another, who leaves that by a store that looks at nothing but the count;
//! nor a part of the count that is another's, who may not have seen yet that it is counted, and
//! whom that part keeps from leaving by the store. So it ends the bias first, or counts who is
//! in by slots if another has ended it: then it is counted itself. It is in while it counts, so
//! that nobody takes the lock or frees it meanwhile, and what it takes back for a reader that
//! has left (B2) it owes to nobody.
//!
//! # Stale slots
//!
//! A slot may name a lock that was dropped or moved while a guard of it was forgotten.
//! A new lock that later lies there must not take it for a reader. Nor does it: only in
//! `BIASED`, `REVOKING`, `DRAINING` and `SUSPENDED` can a slot name a reader that is not
//! counted. So who leaves in another state (B4), by a slot, has found a stale one; and before
//! a lock is first biased all of them are wiped, in `BIASING`, through which it goes once, or by
//! a writer that has it and was asked to. Never later: then a slot may name a reader that is
//! about to come, which takes a slot that was wiped for one that was counted. So the mark that
//! asks replaces nothing but 0 in the word of rests, which is never 0 again. A lock that is
//! moved there brings its bias along, and has that reader for ever.
//!
//! # The names of locks
//!
//! A slot has two words, for addresses are longer than one. The `region` of a slot seldom
//! changes: it belongs to the task, and while somebody visits the slots it must not
//! change, lest that one exchanges the slot for another lock of the same `lock` word.
//!
//! | task (B3) | visitor (B3) |
//! |---|---|
//! | `region`: another, Release; fence; is there a visitor? then back | visitors + 1; fence; `region`, Acquire: mine? then exchange `lock` |
//! | | visitors - 1, Release (B5) |
//!
//! A visitor that has seen an old `lock` and finds another region there has learnt by that alone
//! that the task has left its lock.

use core::{hint, ptr};

use super::{Count, OF_WAITERS, OVERFLOW, READER, RawRwLock, WakeCheck};
use crate::{
    osq,
    platform::{Event, Ordering::*, Platform, Word},
};

/// States of the mark above the readers, which goes round by steps.
pub(super) const STEP: u32 = OVERFLOW << 1;
/// A reader wipes stale slots.
const BIASING: u32 = STEP;
/// Readers come and go by their slots.
pub(super) const BIASED: u32 = 2 * STEP;
/// Those that are there are counted.
pub(super) const REVOKING: u32 = 3 * STEP;
pub(super) const STATE: u32 = REVOKING;

/// Locks that a task reads at a time as one of a biased lock's readers; of others it is
/// an ordinary reader.
const SLOTS: usize = 4;

/// Marks of a slot: it names a lock; its reader is in the lock's count by now.
const NAMES: u32 = 1;
const COUNTED: u32 = 2;
const NAME_SHIFT: u32 = 2;
/// The alignment of a lock says nothing.
const ALIGN_SHIFT: u32 = 3;

/// What a slot says of the lock that it names.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) lock: u32,
    pub(super) region: u32,
}

impl Name {
    #[inline(always)]
    const fn of(address: u64) -> Self {
        let place = address >> ALIGN_SHIFT;
        Self {
            lock: (place as u32) << NAME_SHIFT | NAMES,
            region: (place >> (u32::BITS - NAME_SHIFT)) as u32 + 1, // not 0
        }
    }
}

/// Where a task says that it reads.
pub(super) struct Slot<P: Platform> {
    /// The low part of the lock's name, and the marks; 0 when there is none.
    pub(super) lock: P::U32,
    /// The high part, of the lock or of the last one; 0 if there is none, before the first and
    /// after its task has slept: the slot is not *bound*.
    pub(super) region: P::U32,
}

impl<P: Platform> Slot<P> {
    /// Whether it names the lock; its own task asks.
    #[inline(always)]
    fn names(&self, name: Name) -> bool {
        self.lock.load(Relaxed) | COUNTED == name.lock | COUNTED // its task's own
            && self.region.load(Relaxed) == name.region // likewise
    }

    fn is_free(&self) -> bool {
        self.lock.load(Relaxed) == 0 // its task's own
    }

    fn is_bound(&self) -> bool {
        self.region.load(Relaxed) != 0 // likewise
    }

    #[inline(always)]
    pub(super) fn is_free_in(&self, region: u32) -> bool {
        self.lock.load(Relaxed) == 0 && self.region.load(Relaxed) == region // likewise
    }
}

/// The slots of a task, on lines that others write to only to revoke a bias.
#[repr(align(128))]
pub(crate) struct Slots<P: Platform> {
    pub(super) slots: [Slot<P>; SLOTS],
    /// Those in use but for the first one's; the task's own.
    others: P::U32,
    /// Who is about to exchange a slot.
    visitors: P::U32,
}

impl<P: Platform> Slots<P> {
    /// Whether their task, who asks, uses none.
    #[inline(always)]
    pub(super) fn are_free(&self) -> bool {
        self.slots[0].lock.load(Relaxed) == 0 && self.others.load(Relaxed) == 0 // its own
    }

    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    lock: P::U32::ZERO,
                    region: P::U32::ZERO,
                }
            }; SLOTS],
            others: P::U32::ZERO,
            visitors: P::U32::ZERO,
        }
    }

    /// A free slot whose region is that of the lock.
    pub(super) fn free(&self, name: Name) -> Option<usize> {
        if !self.slots.iter().any(Slot::is_bound) {
            P::lists_reader(); // (B6)
        }
        let free_in = |region| self.slots.iter().position(|slot| slot.is_free_in(region));
        free_in(name.region).or_else(|| {
            let at = free_in(0).or_else(|| self.slots.iter().position(Slot::is_free))?;
            self.rebind(&self.slots[at], name.region).then_some(at)
        })
    }

    /// Unbinds all, if all are free and there is no visitor. Returns whether they are unbound.
    pub(super) fn unbind(&self) -> bool {
        let mut bound = self.slots.iter().filter(|slot| slot.is_bound());
        bound.all(|slot| slot.is_free() && self.rebind(slot, 0))
    }

    /// Changes the region of a free slot, unless there is a visitor.
    fn rebind(&self, slot: &Slot<P>, region: u32) -> bool {
        let before = slot.region.load(Relaxed); // its task's own
        // (B3) by the fence, and Release: I have left the lock that the slot was used for.
        slot.region.store(region, Release);
        P::fence();
        let alone = before == 0 || self.visitors.load(Relaxed) == 0; // (B3) by the fence
        if !alone {
            slot.region.store(before, Relaxed); // as before
        }
        alone
    }

    /// One more or less of the slots but the first.
    pub(super) fn count_others(&self, at: usize, change: u32) {
        if at > 0 {
            let others = self.others.load(Relaxed); // its task's own
            self.others.store(others.wrapping_add(change), Relaxed); // likewise
        }
    }

    /// Shows a visitor the slots that name the lock, and are not counted: words to
    /// exchange.
    fn visit(&self, name: Name, mut visitor: impl FnMut(&P::U32)) {
        for slot in &self.slots {
            // (B2) Acquire: what a reader did that has left.
            if slot.lock.load(Acquire) != name.lock {
                continue;
            }
            self.visitors.fetch_add(1, Relaxed); // (B3) by the fence
            P::fence();
            // (B3) Acquire: who uses the slot for another lock has left mine.
            if slot.region.load(Acquire) == name.region {
                visitor(&slot.lock);
            }
            // (B5) Release: the exchange is done.
            self.visitors.fetch_add(1u32.wrapping_neg(), Release);
        }
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    #[inline(always)]
    pub(super) fn name(&self) -> Name {
        Name::of(P::name_of(ptr::from_ref(self).addr()) as u64)
    }

    /// Lets the caller in by a slot: the count says that the lock is biased.
    #[inline(always)]
    pub(super) fn enter_by_slot(&self, count: Count) -> bool {
        let entered = self.enter_by_first_slot(count);
        entered.unwrap_or_else(|| self.enter_by_any_slot(count))
    }

    /// The same, if the first may be used, and is known.
    #[inline(always)]
    pub(super) fn enter_by_first_slot(&self, count: Count) -> Option<bool> {
        let (name, slot) = (self.name(), &P::known()?.slots.slots[0]);
        // (B1), (R1)
        let enter = || P::try_store_if(&slot.lock, name.lock, &self.count, count.0);
        slot.is_free_in(name.region).then(enter)
    }

    #[cold]
    fn enter_by_any_slot(&self, count: Count) -> bool {
        let (name, mine) = (self.name(), &P::mine().slots);
        let Some(at) = mine.free(name) else {
            return false;
        };
        // (B1), (R1)
        let entered = P::try_store_if(&mine.slots[at].lock, name.lock, &self.count, count.0);
        if entered {
            mine.count_others(at, 1);
        }
        entered
    }

    /// Lets the caller out by its first slot, if that stands for it in a biased lock.
    #[inline(always)]
    pub(super) fn leave_by_first_slot(&self, mine: &Slots<P>) -> bool {
        let (name, slot) = (self.name(), &mine.slots[0]);
        // Its task's own; and not counted. Others have no use for the count's line.
        if slot.lock.load(Relaxed) != name.lock || slot.region.load(Relaxed) != name.region {
            return false;
        }
        let count = self.count();
        // (B1), (B2)
        count.is_biased_alone() && P::try_store_if(&slot.lock, 0, &self.count, count.0)
    }

    /// Lets the caller out by its slot, if it has one that stands for it.
    pub(super) fn leave_by_slot(&self) -> bool {
        let (name, mine) = (self.name(), &P::mine().slots);
        if mine.are_free() {
            return false;
        }
        let mut counted = None;
        for (at, slot) in mine.slots.iter().enumerate() {
            if !slot.names(name) {
                continue;
            }
            // (B4) Acquire: who revoked has told all that it counted.
            let stands = Count(self.count.load(Acquire)).has_slots();
            // (B2) Release: I have left; Acquire: I am counted.
            let left = slot.lock.compare_exchange(name.lock, 0, Release, Acquire);
            if left.is_ok() {
                mine.count_others(at, 1u32.wrapping_neg());
                return stands;
            }
            counted = Some(at); // a thread that had the number before may have left it
        }
        if let Some(at) = counted {
            mine.count_others(at, 1u32.wrapping_neg());
            mine.slots[at].lock.store(0, Relaxed); // the caller's own again
        }
        false
    }

    /// A reader is about to leave, and the lock is read again and again: it leaves its
    /// part to the virtual reader of a fenced bias, if the lock is not to rest. Returns
    /// whether it left.
    #[cold]
    pub(super) fn bias(&self) -> bool {
        let (rest, count) = (self.rest(), self.count());
        if !rest.may_fence::<P>() || !count.may_bias() {
            return false;
        }
        if !rest.is_new() {
            self.set_rest(rest.fenced::<P>());
            return self.fence_again(count);
        }
        // (R1) Acquire: whether it is new is known. It keeps others from doing the same.
        if !self.exchange(count, count.next(), Acquire) {
            return false;
        }
        if self.rest().is_new() {
            self.wipe();
            self.set_rest(rest.fenced::<P>());
        }
        loop {
            let count = self.count();
            if count.has(OF_WAITERS) {
                self.count.fetch_add(BIASING.wrapping_neg(), Relaxed); // as before
                return false;
            }
            // (R1) Release: the caller's part is the virtual reader's.
            if self.exchange(count, count.next().fenced(), Release) {
                P::event(Event::Biased);
                return true;
            }
        }
    }

    /// Frees the slots that name a lock that was here before.
    pub(super) fn wipe(&self) {
        let name = self.name();
        P::each_reader(|task| {
            task.slots.visit(name, |word| {
                word.compare_exchange(name.lock, 0, Relaxed, Relaxed).ok(); // nobody's
            });
        });
    }

    /// Who needs the lock without readers, or is to wait for it, ends a bias, and looks
    /// again.
    #[cold]
    pub(super) fn unbias(&self, count: Count) {
        let began = P::stamp();
        // Relaxed: the quiesce orders it.
        if !self.exchange(count, count.next(), Relaxed) {
            return; // another does, or a reader came or went
        }
        P::quiesce(); // (B1)
        P::fence(); // (F1)
        self.count_slots();
        let micros = P::stamp().wrapping_sub(began);
        self.set_rest(self.rest().revoked::<P>(micros));
        P::event(Event::BiasRevoked);
        self.release_slow(READER | REVOKING, false);
    }

    /// Counts the readers that are in by slots: no more come.
    pub(super) fn count_slots(&self) {
        let name = self.name();
        P::each_reader(|task| task.slots.visit(name, |word| self.count_in(word, name)));
    }

    /// Counts a reader that has said in a slot that it reads, unless it has left.
    fn count_in(&self, word: &P::U32, name: Name) {
        self.count.fetch_add(READER, Relaxed); // (B2) publishes it
        // (B2) Release: it is counted; Acquire: it has left.
        let told = word.compare_exchange(name.lock, name.lock | COUNTED, Release, Acquire);
        if told.is_err() {
            // Nobody waits for this: the virtual reader is still there, or a writer.
            self.count.fetch_add(READER.wrapping_neg(), Relaxed);
        }
    }

    /// Whether a slot of the caller's names the lock.
    #[inline(always)]
    pub(super) fn has_slot(&self, mine: &Slots<P>) -> bool {
        let name = self.name();
        mine.slots.iter().any(|slot| slot.names(name))
    }

    /// Whether the caller came by a slot, which may have been counted since.
    #[inline(always)]
    pub(super) fn came_by_slot(&self, mine: &Slots<P>) -> bool {
        !mine.are_free() && {
            hint::cold_path(); // it reads others
            self.has_slot(mine)
        }
    }

    /// Whether a slot says that its task reads: a snapshot.
    #[cold]
    pub(super) fn is_read_by_slot(&self) -> bool {
        let (name, mut is_read) = (self.name(), false);
        P::each_reader(|task| task.slots.visit(name, |_| is_read = true));
        is_read
    }
}
