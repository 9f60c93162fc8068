//! Who comes to a lock and leaves it where that is all that there is to do.
//!
//! Of many locks most are *plain*, most of the time: nobody waits for them, they are not reserved,
//! and their readers are counted. The count of such a lock has nothing but those that have it, and
//! one look at it tells. What is done then had better be short, with no call: it costs an
//! exchange as one comes, and one as one leaves, and all else together is to cost less.
//!
//! It is what would be done otherwise, in fewer steps. So there is no ordering of its own: (R1).
//! Who came in another way must not leave in this one before it is in the count, nor leave anything
//! behind. A reader that came by a slot has been told so in the slot, and looks there. A keeper is
//! told so in the owner word (K2): before the virtual writer goes if it reads, so that no count in
//! which it could leave as a reader has come before; but after that if it writes, so it looks.

use core::hint;

use super::{Count, Kind, OVERFLOW, OWNER_SHIFT, READER, READERS, RawRwLock, WRITER, WakeCheck};
use crate::{
    osq,
    platform::{Ordering::*, Platform, TaskRecord, Word},
    quick::Quick,
};

impl Count {
    /// As many readers as there can be, less one.
    const ROOM: u32 = OVERFLOW / 2 - READER;

    /// Whether it has readers alone, or is free. It has none of them in slots, and room for one
    /// more.
    #[inline(always)]
    const fn has_but_readers(self) -> bool {
        self.0 & !Self::ROOM == 0
    }

    /// Whether it has readers, and nothing else.
    #[inline(always)]
    const fn has_readers_alone(self) -> bool {
        Self(self.0.wrapping_sub(READER)).has_but_readers() // without any, it wraps
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Takes the lock as a reader, recursive or not, if it is reserved for the caller and nobody
    /// waits: what is quick of [`RawRwLock::try_read`], as the next three, for callers in whose code
    /// the rest had better not stand. Returns whether it did, and the caller calls
    /// [`RawRwLock::see`] then if [`RawRwLock::is_to_see`] says so; `None` where none of that can be,
    /// as the caller has no reservation.
    #[inline(always)]
    pub fn retake_to_read(&self) -> Option<bool> {
        P::keeps(self.address()).then(|| self.retake_alone(READERS))
    }

    /// Likewise, if it is plain, after that has returned `None`.
    #[inline(always)]
    pub fn try_read_plain(&self) -> Quick {
        self.read_plain(self.count())
    }

    /// Likewise, if it is biased, and the first slot is free.
    #[inline(always)]
    pub fn try_read_biased(&self) -> bool {
        let count = self.count();
        count.is_biased() && self.enter_by_first_slot(count) == Some(true)
    }

    /// Likewise, if it is biased, but the first slot is in use, or fenced; and the caller is known.
    #[inline(always)]
    pub fn try_read_shared(&self) -> bool {
        let count = self.count();
        P::known().is_some()
            && match count.is_biased() {
                true => self.enter_by_slot(count),
                false => count.is_fenced() && self.enter_fenced(),
            }
    }

    /// Takes the lock as the writer, if it is reserved for the caller and nobody waits: what is
    /// quick of [`RawRwLock::try_write`], as the next. Returns as [`RawRwLock::retake_to_read`].
    #[inline(always)]
    pub fn retake_to_write(&self) -> Option<bool> {
        P::keeps(self.address()).then(|| self.retake_alone(0))
    }

    /// Likewise, if it is plain, and the caller's number is known; after that has returned `None`.
    #[inline(always)]
    pub fn try_write_plain(&self) -> Quick {
        match P::waited(self.address()) {
            true => Quick::Not,
            false => self.write_plain(),
        }
    }

    /// Whether the caller, who has retaken the lock, is to call [`RawRwLock::see`].
    #[inline(always)]
    pub fn is_to_see(&self) -> bool {
        P::may_inspect()
    }

    /// As [`RawRwLock::retake_to_read`] and [`RawRwLock::retake_to_write`], and sees it.
    #[inline(always)]
    pub(super) fn retake_and_see(&self, how: u32) -> bool {
        let took = self.retake_alone(how);
        if took && self.is_to_see() {
            self.see();
        }
        took
    }

    /// Takes note of the lock, which the caller has. Of its own, so that the other way is short.
    #[cold]
    #[inline(never)]
    pub fn see(&self) {
        P::sees(self.address());
        self.remember();
    }

    /// Releases the lock for the caller, if it has it by a reservation and nobody waits: what is
    /// quick of [`RawRwLock::unlock_read`] and [`RawRwLock::unlock_write`], as the next two.
    /// Returns whether it did; `None` where it has no reservation, and will have none.
    ///
    /// # Safety
    /// If the caller has the lock, it has no guard of it any more.
    #[inline(always)]
    pub unsafe fn unlock_kept(&self) -> Option<bool> {
        P::keeps(self.address()).then(|| self.leave_kept_alone())
    }

    /// Likewise, if it reads it and the lock is biased or plain; after that has returned `None`.
    ///
    /// # Safety
    /// As [`RawRwLock::unlock_kept`].
    #[inline(always)]
    pub unsafe fn unlock_read_shortly(&self) -> bool {
        self.leave_shortly()
    }

    /// Likewise, if it is the writer and the lock is plain.
    ///
    /// # Safety
    /// As [`RawRwLock::unlock_kept`].
    #[inline(always)]
    pub unsafe fn unlock_write_plain(&self) -> bool {
        self.leave_write_plain()
    }

    /// Takes the lock as a reader, if it is plain with this count; the caller has no reservation.
    #[inline(always)]
    pub(super) fn read_plain(&self, count: Count) -> Quick {
        // (R1) Acquire pairs with the Release of those that left before.
        let is_in =
            count.has_but_readers() && self.exchange(count, count.entered(Kind::Read), Acquire);
        if !is_in {
            return Quick::Not;
        }
        self.hint_reader(count);
        Quick::took(P::took_unkept(), P::waited(self.address()))
    }

    /// Takes the lock as the writer, if it is plain and free, and the caller's number is known;
    /// likewise.
    #[inline(always)]
    pub(super) fn write_plain(&self) -> Quick {
        let me = P::number();
        // What an exchange takes is known beforehand: it need not wait for the look at the count.
        // (R1) Acquire pairs with the Release of those that left before.
        let is_in =
            me != 0 && self.count() == Count(0) && self.exchange(Count(0), Count(WRITER), Acquire);
        if !is_in {
            return Quick::Not;
        }
        self.owner.store(me << OWNER_SHIFT, Relaxed); // a hint
        Quick::took(P::took_unkept(), false)
    }

    /// Releases the lock for a reader that has no reservation, if it is biased or plain and that is
    /// quick. Returns whether it did.
    #[inline(always)]
    pub(super) fn leave_shortly(&self) -> bool {
        let Some(TaskRecord { slots: mine, .. }) = P::known() else {
            return false;
        };
        if mine.are_free() {
            return self.leave_plain();
        }
        hint::cold_path(); // for who reads others
        self.leave_by_first_slot(mine) || (!self.has_slot(mine) && self.leave_plain())
    }

    /// Releases the plain lock for a reader that has no slot. Returns whether it did.
    #[inline(always)]
    fn leave_plain(&self) -> bool {
        let count = self.count();
        count.has_readers_alone()
            && self.may_stay_plain()
            && !P::may_bias(|| count.is_shared() || self.run().last() != P::number())
            // (R1) Release pairs with the Acquire of who takes it next.
            && self.exchange(count, Count(count.0 - READER), Release)
    }

    /// Releases the plain lock for the writer, likewise.
    #[inline(always)]
    pub(super) fn leave_write_plain(&self) -> bool {
        if P::waited(self.address()) {
            return false; // to look at the count before would cost a transfer of the line
        }
        let me = P::number() << OWNER_SHIFT;
        // The caller's own; with more than that it may be a keeper, of whom others still find out.
        let is_mine = me != 0 && self.owner.load(Relaxed) == me;
        if self.count() != Count(WRITER) || !is_mine || !self.may_stay_plain() {
            return false;
        }
        self.owner.store(0, Relaxed); // a hint
        // (R1) Release pairs with the Acquire of who takes it next.
        let left = self.exchange(Count(WRITER), Count(0), Release);
        if !left {
            self.owner.store(me, Relaxed); // it has it still
        }
        left
    }

    /// Whether it is to have no bias as the caller leaves.
    #[inline(always)]
    fn may_stay_plain(&self) -> bool {
        !self.rest().is_fenced()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_readers_alone_if_it_has_but_readers_and_is_not_free() {
        for low in 0..u32::BITS {
            for high in 0..u32::BITS {
                for count in [
                    0,
                    1 << low,
                    1 << low | 1 << high,
                    (1 << high) - (1 << low.min(high)),
                ] {
                    let readers = (READER..=OVERFLOW / 2).contains(&count);
                    let alone = readers && count.is_multiple_of(READER);
                    assert_eq!(Count(count).has_readers_alone(), alone, "{count:#x}");
                }
            }
        }
        assert!(Count(READER).has_readers_alone());
        assert!(Count(OVERFLOW / 2).has_readers_alone(), "the last of them");
    }
}
