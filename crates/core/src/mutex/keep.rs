//! A mutex that stays reserved for its owner when it is released.
//!
//! An owner may leave the mutex reserved for itself instead of free, in the same
//! store that unlocks it, and then takes it back without a read-modify-write
//! (lock reservation: Kawachiya, Koseki, Onodera, OOPSLA 2002; with the
//! pair (M1), (M2) of `mutex.rs` instead of a stopped thread).
//!
//! | the keeper takes it back (K1) | who revokes (K2) |
//! |---|---|
//! | test: the owner word says that it is mine | owner word: from reserved to my number |
//! | owner word: store my number | quiesce; does it still hold my number? |
//!
//! Test and store are one `store_if`. So either the keeper's store is there
//! before the quiesce ends: it has the mutex, and the revoker sees that; or the
//! keeper's tests find the revoker's number, which nobody else overwrites: the
//! revoker has it. Until the revoker knows, others see a mutex that it holds.
//! Whoever goes to sleep on that has ended its promise and quiesced before it
//! looked. If the keeper then gets the mutex after all, its test came after that
//! quiesce, so its unlock, later still, sees the promise gone and wakes.
//!
//! A busy keeper would often win and be interrupted for nothing, so it is asked:
//! `RECALL` sends its next unlock to the slow path, which does not keep the
//! mutex. Which tasks keep which mutexes, the world says ([`Platform::keeps`]);
//! any answer is sound.

use super::Body;
use crate::{
    platform::{Event, Look, Ordering::*, Platform, TaskId, Word},
    wait_queue::{Front, RECALL},
};

/// A mark of the owner word: the mutex is free, and reserved for that task. Not one
/// of the two that the kernel sets.
pub(super) const KEPT: u32 = 1 << 29;
const _: () = assert!(KEPT > TaskId::MAX);

/// Looks at a reserved mutex before it is revoked: a keeper that comes and goes
/// shows itself by then.
const KEEPER_LOOKS: u32 = 3;

impl<P: Platform> Body<P> {
    /// Takes the mutex if it is reserved for the caller.
    #[inline(always)]
    pub(crate) fn retake(&self) -> bool {
        P::keeps(self.address()) && self.retake_and_see()
    }

    /// The same, after [`Platform::keeps`].
    #[inline(always)]
    pub(super) fn retake_and_see(&self) -> bool {
        let took = self.retake_kept();
        if took && P::may_inspect() {
            self.see();
        }
        took
    }

    /// [`Body::retake`], for callers that see it themselves.
    #[inline(always)]
    pub(crate) fn retake_uninspected(&self) -> bool {
        P::keeps(self.address()) && self.retake_kept()
    }

    /// The same, after [`Platform::keeps`].
    #[inline(always)]
    pub(super) fn retake_kept(&self) -> bool {
        // (K1); what the mutex protects the keeper has written itself
        let me = P::number();
        P::try_store_if(&self.owner, me, &self.owner, me | KEPT) && {
            P::retook();
            true
        }
    }

    /// Releases the mutex if the front is covered, and keeps it reserved if it had best
    /// stay so.
    #[inline(always)]
    pub(crate) fn release_at_once(&self) -> bool {
        match P::keeps(self.address()) {
            true => self.release_kept(),
            false => self.release_unkept(),
        }
    }

    /// Releases the mutex if the front is covered, and keeps it reserved.
    #[inline(always)]
    pub(crate) fn release_kept(&self) -> bool {
        let front = self.queue.front();
        Self::is_covered(front) && self.release_kept_from(front)
    }

    /// The same, if nobody waits.
    #[inline(always)]
    pub(crate) fn release_kept_alone(&self) -> bool {
        self.release_kept_from(Front(0))
    }

    #[inline(always)]
    fn release_kept_from(&self, front: Front) -> bool {
        let me = P::number(); // not 0, since the caller has reservations
        self.owner.load(Relaxed) == me // the caller's own store, or misuse
            // (M1), (M3) the store releases, for the Acquire of who takes it next.
            && P::try_store_if(&self.owner, me | KEPT, &self.queue.front, front.0)
    }

    /// Takes the mutex if it is free, even if it is reserved.
    ///
    /// # Errors
    /// The owner word that kept the caller from it. Who waits for it to change
    /// must not read it again: it may be 0 by then, and stay so.
    #[inline]
    pub(crate) fn take_or_owner(&self, me: TaskId) -> Result<u32, u32> {
        loop {
            match self.take_from(0, me) {
                Err(word) if is_free(word) => {
                    if self.revoke(word, me) {
                        return Ok(word);
                    }
                }
                taken => return taken,
            }
        }
    }

    /// Takes the mutex, which is reserved, unless its keeper comes first or it
    /// is not reserved any more.
    #[cold]
    #[inline(never)]
    fn revoke(&self, kept: u32, me: TaskId) -> bool {
        if kept == me.number() | KEPT {
            return P::store_if(&self.owner, me.number(), &self.owner, kept); // (K1)
        }
        let busy = P::spin_until(
            &self.owner,
            Relaxed, // only a hint: `take_from` acquires
            Look::Poll,
            KEEPER_LOOKS,
            |now| now != kept,
            || false,
        );
        if busy.is_some() || self.take_from(kept, me).is_err() {
            return false;
        }
        P::quiesce(); // (K2)
        let mine = self.owner() == Some(me);
        if mine {
            P::event(Event::Revoked);
        }
        mine
    }

    /// Asks who holds the mutex not to keep it.
    pub(super) fn recall(&self) {
        if !self.queue.front().has(RECALL) {
            // Relaxed: it tells no more than itself, and hands on what others released.
            self.queue.front.fetch_or(RECALL, Relaxed);
        }
    }
}

/// Whether the mutex is free with this owner word.
#[inline(always)]
pub(crate) const fn is_free(owner: u32) -> bool {
    owner == 0 || owner & KEPT != 0
}

/// The task that an owner word names, whether it has the mutex or has it reserved.
#[inline(always)]
pub(crate) const fn named(owner: u32) -> Option<TaskId> {
    TaskId::new(owner & TaskId::MAX)
}
