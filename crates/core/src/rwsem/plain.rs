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

use super::{
    Count, Kind, OVERFLOW, OWNER_SHIFT, READER, READERS, RawRwLock, WRITER, WakeCheck, bias::Slots,
};
use crate::{
    osq,
    platform::{Ordering::*, Platform, Word},
};

impl Count {
    /// Whether it has readers alone, or is free. It has none of them in slots, and room for one
    /// more.
    #[inline(always)]
    const fn has_but_readers(self) -> bool {
        self.0 & !(OVERFLOW / 2 - READER) == 0
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Takes the lock as a reader, recursive or not, if it is reserved for the caller and nobody
    /// waits: what is quick of [`RawRwLock::try_read`], as the next two, for callers in whose code
    /// the rest had better not stand.
    #[inline(always)]
    pub fn retake_to_read(&self) -> bool {
        self.retake_alone(READERS)
    }

    /// Likewise, if it is plain or biased.
    #[inline(always)]
    pub fn try_read_shortly(&self) -> bool {
        let count = self.count();
        match count.has_but_readers() {
            true => self.read_plain(count),
            false => count.is_biased() && self.enter_by_first_slot(count) == Some(true),
        }
    }

    /// Likewise, if it is biased, but the first slot is in use, or fenced.
    #[inline(always)]
    pub fn try_read_shared(&self) -> bool {
        let count = self.count();
        match count.is_biased() {
            true => self.enter_by_slot(count),
            false => count.is_fenced() && self.enter_fenced(),
        }
    }

    /// Takes the lock as the writer, if it is reserved for the caller and nobody waits: what is
    /// quick of [`RawRwLock::try_write`], as the next.
    #[inline(always)]
    pub fn retake_to_write(&self) -> bool {
        self.retake_alone(0)
    }

    /// Likewise, if it is plain, and the caller's number is known.
    #[inline(always)]
    pub fn try_write_shortly(&self) -> bool {
        !P::waited(self.address()) && self.write_plain()
    }

    /// Releases the lock for the caller, if it has it by a reservation and nobody waits: what is
    /// quick of [`RawRwLock::unlock_read`] and [`RawRwLock::unlock_write`], as the next two.
    ///
    /// # Safety
    /// If the caller has the lock, it has no guard of it any more.
    #[inline(always)]
    pub unsafe fn unlock_kept(&self) -> bool {
        self.leave_kept_alone()
    }

    /// Likewise, if it reads it and the lock is biased or plain.
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
    pub unsafe fn unlock_write_shortly(&self) -> bool {
        self.leave_write_plain()
    }

    /// Takes the lock as a reader, if it is plain with this count.
    #[inline(always)]
    pub(super) fn read_plain(&self, count: Count) -> bool {
        // (R1) Acquire pairs with the Release of those that left before.
        let took =
            count.has_but_readers() && self.exchange(count, count.entered(Kind::Read), Acquire);
        if took {
            self.hint_reader(count);
            self.took_plain();
        }
        took
    }

    /// The caller has taken the plain lock as a reader. What is not short here comes last, so that
    /// nothing has to be saved for it before.
    #[inline(always)]
    fn took_plain(&self) {
        if P::waited(self.address()) {
            self.took_waited();
        } else {
            P::took(Some(self.address()));
        }
    }

    /// Of its own, so that the other way is short.
    #[cold]
    #[inline(never)]
    fn took_waited(&self) {
        P::took(Some(self.address()));
        self.remember();
    }

    /// Takes the lock as the writer, if it is plain and free, and the caller's number is known.
    #[inline(always)]
    pub(super) fn write_plain(&self) -> bool {
        let me = P::number();
        // What an exchange takes is known beforehand: it need not wait for the look at the count.
        // (R1) Acquire pairs with the Release of those that left before.
        let took =
            me != 0 && self.count() == Count(0) && self.exchange(Count(0), Count(WRITER), Acquire);
        if took {
            self.owner.store(me << OWNER_SHIFT, Relaxed); // a hint
            P::took(Some(self.address()));
        }
        took
    }

    /// Releases the lock for a reader, if it is biased or plain and that is quick. Returns whether
    /// it did.
    #[inline(always)]
    pub(super) fn leave_shortly(&self) -> bool {
        let mine = &P::mine().slots;
        self.leave_by_first_slot(mine) || self.leave_plain(mine)
    }

    /// Releases the plain lock for a reader. Returns whether it did.
    #[inline(always)]
    fn leave_plain(&self, mine: &Slots<P>) -> bool {
        let count = self.count();
        count.has_but_readers()
            && count != Count(0)
            && self.may_stay_plain()
            && !P::may_bias(|| count.is_shared() || self.run().last() != P::number())
            && !self.came_by_slot(mine)
            // (R1) Release pairs with the Acquire of who takes it next.
            && self.exchange(count, Count(count.0 - READER), Release)
    }

    /// Releases the plain lock for the writer. Returns whether it did.
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

    /// Whether it is to have no bias, nor to be reserved for the caller, as that leaves.
    #[inline(always)]
    fn may_stay_plain(&self) -> bool {
        !self.rest().is_fenced() && !P::keeps(self.address())
    }
}
