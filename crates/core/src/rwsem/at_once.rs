//! A writer that comes and leaves in one step, in a world that has it
//! ([`Platform::replace_pair`]).
//!
//! It leaves so where it did not come by a reservation and has nobody to wake: it replaces the
//! count and the owner word if they are as they would be read, and so is one of the releases of
//! `wake.rs` in which nobody comes in between. As it comes it replaces the owner word whatever
//! that says, in the step in which the count changes: a writer that is preempted between two
//! would have spinners wait for they know not whom, for half a millisecond each.

use super::{Count, OWNER_SHIFT, RawRwLock, UPGRADABLE, WAITERS, WRITER, WakeCheck};
use crate::{
    osq,
    platform::{Event, Ordering::*, Platform, Word},
};

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Releases the lock for the writer. Returns whether it did.
    #[inline(always)]
    pub(super) fn release_write_at_once(&self, fair: bool) -> bool {
        let owner = P::number() << OWNER_SHIFT;
        if owner == 0 {
            return false;
        }
        // The count is most likely as at the last release: to look would have the release wait
        // for its line, and what follows depend on what is there.
        let last = &P::mine().rwsem.found;
        let mut count = Count(last.load(Relaxed)); // its task's own
        if !self.may_leave(count, fair) {
            count = Count(WRITER);
        }
        loop {
            let left = || [self.left_by(count).0, self.owner_left_behind()];
            // (R1) Release pairs with the Acquire of who takes it next.
            match P::replace_pair([&self.count, &self.owner], [count.0, owner], left) {
                Some(found) if found == [count.0, owner] => {
                    if count.has(WAITERS) {
                        P::event(Event::WakeSkipped);
                    }
                    return true;
                }
                Some([now, found]) if found == owner && self.may_leave(Count(now), fair) => {
                    count = Count(now);
                    last.store(now, Relaxed); // its task's own
                }
                _ => return false,
            }
        }
    }

    /// Takes the lock as the writer by this change of the count, with a full barrier. Returns
    /// whether it did; `None` in a world that has no such step.
    #[inline(always)]
    pub(super) fn replace_to_write(&self, count: Count, taken: Count) -> Option<bool> {
        let me = P::number() << OWNER_SHIFT;
        if me == 0 {
            return None;
        }
        let mut owner = self.owner.load(Relaxed); // as it may be: it says nothing
        loop {
            // (R1) Acquire pairs with the Release of those that left before.
            let words = [&self.count, &self.owner];
            let [found, said] = P::replace_pair(words, [count.0, owner], || [taken.0, me])?;
            if found != count.0 || said == owner {
                return Some(found == count.0);
            }
            owner = said;
        }
    }

    /// Whether nobody has to be seen to, if the writer leaves.
    #[inline(always)]
    fn may_leave(&self, count: Count, fair: bool) -> bool {
        let is_plain = count.state() == 0 && !count.has(UPGRADABLE) && count.has(WRITER);
        let after = Count(count.0 & !WRITER);
        is_plain && (!count.has(WAITERS) || self.skips(after, fair))
    }

    /// What the count is then.
    #[inline(always)]
    fn left_by(&self, count: Count) -> Count {
        match Count(count.0 - WRITER) {
            Count(0) => self.left_behind(),
            after => self.kept(after),
        }
    }

    /// Whether a release that leaves this count need not look after those that wait.
    #[inline(always)]
    pub(super) fn skips(&self, after: Count, fair: bool) -> bool {
        Self::may_skip(after) && !fair && !C::TRIES_GATE && !self.rest().is_fenced()
    }
}
