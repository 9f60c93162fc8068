//! Who comes to a lock and leaves it by what it expects there.
//!
//! Where several tasks want a lock, its cache line is elsewhere most of the time. To look at
//! the count first costs a writer a transfer of the line, and the exchange another, for who spins
//! has looked in between. But what is there is mostly known: nobody, or the caller; and beside
//! them what the caller found last time. So it exchanges at once, and goes by what a failed
//! exchange says: the line is its own then.
//!
//! A reader does not know how many others are in. To guess wrong takes the line from another, who
//! guesses wrong by that; so it looks first (`counted.jsonl` in
//! benches/runs/rw-2cpu-xeon-480mib, of builds that never bias).
//!
//! That is for *usual* locks: nothing is biased or reserved, and nobody has to be seen to, for
//! none wait, or somebody has promised to come; and for a task that has waited for the lock lately:
//! else the line is likely where it left it. A task finds that out as it takes the lock,
//! when the line is there, and remembers it. It may not be so any more as it leaves: then the
//! exchange fails; or what is left undone is what a lock can do without, such as to give back
//! a fenced bias.
//!
//! A writer replaces the owner word in the same step, in a world that can
//! ([`Platform::replace_pair`]), from whatever that says: one that is preempted between two
//! steps would have spinners wait for they know not whom, for some milliseconds each.

use super::{Count, Kind, OWNER_SHIFT, READER, RawRwLock, SPINNER, WAITERS, WRITER, WakeCheck};
use crate::{
    osq,
    platform::{Event, Ordering::*, Platform, Word},
};

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// What a task remembers the lock by.
    #[inline(always)]
    fn tag(&self) -> u32 {
        self.name().lock
    }

    /// Whether the lock is the last that the caller has taken and found usual, and has waited for
    /// lately. It may have found otherwise since, or another lock may be there now.
    #[inline(always)]
    pub(super) fn was_usual(&self) -> bool {
        P::waited(self.address()) && P::mine().rwsem.usual.load(Relaxed) == self.tag() // its task's own
    }

    /// The caller has taken the lock, and remembers if it is usual and others want it; now and then
    /// it asks anew.
    #[inline(always)]
    pub(super) fn remember(&self) {
        if !P::waited(self.address()) {
            return;
        }
        if P::keeps(self.address()) || P::may_bias(|| true) {
            Self::forget();
        } else if !self.was_usual() && !self.rest().is_fenced() {
            P::mine().rwsem.usual.store(self.tag(), Relaxed); // its task's own
        }
    }

    #[inline(always)]
    fn forget() {
        P::mine().rwsem.usual.store(0, Relaxed); // its task's own
    }

    /// The caller wants the lock, which has this count.
    #[inline(always)]
    fn forget_unusual(count: &Count) {
        if !Self::is_usual(*count) {
            Self::forget();
        }
    }

    /// Whether the lock is usual with this count.
    #[inline(always)]
    fn is_usual(count: Count) -> bool {
        let marks = (count.0 % READER) & !WRITER | count.state();
        marks == 0 || marks == WAITERS | SPINNER
    }

    /// Whether who has it may leave the usual lock with this count, and see to nobody.
    #[inline(always)]
    fn may_leave(count: Count) -> bool {
        Self::is_usual(count) && !(C::TRIES_GATE && count.has(WAITERS))
    }

    /// What the caller expects the count to have beside those that have the lock.
    #[inline(always)]
    fn marks() -> Count {
        Count(P::mine().rwsem.marks.load(Relaxed)) // its task's own
    }

    /// The caller has exchanged this count of a usual lock.
    #[inline(always)]
    fn set_marks(count: Count) {
        let marks = (count.0 % READER) & !WRITER;
        P::mine().rwsem.marks.store(marks, Relaxed); // its task's own
    }

    /// The caller has taken the usual lock at once, with this count before.
    #[inline(always)]
    fn took_usual(&self, kind: Kind, before: Count) {
        self.remember();
        Self::set_marks(before);
        if before.has(WAITERS) {
            self.overtook(kind, before);
        }
    }

    /// The caller has released the usual lock at once, with this count before and after.
    #[inline(always)]
    fn left_usual(before: Count, after: Count) {
        Self::set_marks(before);
        if before.has(WAITERS) && after.is_free() {
            P::event(Event::WakeSkipped);
        }
    }

    /// Takes the lock as a reader.
    ///
    /// # Errors
    /// The count that keeps the caller out, or that is not usual.
    #[inline(always)]
    pub(super) fn read_at_once(&self) -> Result<(), Count> {
        let mut count = self.count();
        while Self::is_usual(count)
            && let Some(taken) = count.taken(Kind::Read)
        {
            // (R1) Acquire pairs with the Release of those that left before.
            match self.exchange_or_see(count, taken, Acquire) {
                Ok(()) => {
                    self.own(Kind::Read, count);
                    self.took_usual(Kind::Read, count);
                    return Ok(());
                }
                Err(now) => count = now,
            }
        }
        Self::forget_unusual(&count); // it may be biased: then readers leave the count alone
        Err(count)
    }

    /// Releases the lock for a reader. Returns whether it did.
    #[inline(always)]
    pub(super) fn leave_at_once(&self) -> bool {
        if !self.was_usual() || self.came_by_slot(&P::mine().slots) {
            return false;
        }
        let mut count = self.count();
        while Self::may_leave(count) && count.0 >= READER {
            let after = Count(count.0 - READER);
            // (R1) Release pairs with the Acquire of who takes it next.
            match self.exchange_or_see(count, after, Release) {
                Ok(()) => {
                    Self::left_usual(count, after);
                    return true;
                }
                Err(now) => count = now,
            }
        }
        Self::forget();
        false
    }

    /// Takes the lock as the writer.
    ///
    /// # Errors
    /// The count that keeps the caller out, or that is not usual; or as it is, in a world that
    /// has no such step.
    #[inline(always)]
    pub(super) fn write_at_once(&self) -> Result<(), Count> {
        let enters = |count: Count| Self::is_usual(count).then(|| count.taken(Kind::Write))?;
        let taken = self.replace(Self::marks(), 0, enters);
        let taken = taken.unwrap_or_else(|| Err(self.count()));
        let before = taken.inspect_err(Self::forget_unusual)?;
        P::took(Some(self.address()));
        self.took_usual(Kind::Write, before);
        Ok(())
    }

    /// Makes the caller the writer by this change of the count, with a full barrier. Returns
    /// whether it did; `None` in a world that has no such step.
    #[inline(always)]
    pub(super) fn replace_to_write(&self, count: Count, taken: Count) -> Option<bool> {
        let owner = self.owner.load(Relaxed); // as it may be: it says nothing
        let enters = |now: Count| (now == count).then_some(taken);
        let replaced = self.replace(count, owner, enters);
        replaced.map(|replaced| replaced.is_ok())
    }

    /// The same from this count and owner word, or what they turn out to be, as long as the count
    /// is one that `enters`. Returns the count before.
    ///
    /// # Errors
    /// A count that does not.
    #[inline(always)]
    fn replace(
        &self,
        mut count: Count,
        mut owner: u32,
        enters: impl Fn(Count) -> Option<Count>,
    ) -> Option<Result<Count, Count>> {
        let me = P::number() << OWNER_SHIFT;
        if me == 0 {
            return None;
        }
        while let Some(taken) = enters(count) {
            let words = [&self.count, &self.owner];
            // (R1) Acquire pairs with the Release of those that left before.
            let found = P::replace_pair(words, [count.0, owner], || [taken.0, me])?;
            if found == [count.0, owner] {
                return Some(Ok(count));
            }
            (count, owner) = (Count(found[0]), found[1]);
        }
        Some(Err(count))
    }

    /// Releases the lock for the writer. Returns whether it did.
    #[inline(always)]
    pub(super) fn leave_write_at_once(&self) -> bool {
        let me = P::number() << OWNER_SHIFT;
        if me == 0 || !self.was_usual() {
            return false;
        }
        let mut count = Self::marks().entered(Kind::Write);
        while Self::may_leave(count) {
            let (words, after) = ([&self.count, &self.owner], count.without(WRITER));
            // (R1) Release pairs with the Acquire of who takes it next.
            match P::replace_pair(words, [count.0, me], || [after.0, 0]) {
                Some(found) if found == [count.0, me] => {
                    Self::left_usual(count, after);
                    return true;
                }
                Some([now, owner]) if owner == me => count = Count(now),
                _ => return false,
            }
        }
        false
    }
}
