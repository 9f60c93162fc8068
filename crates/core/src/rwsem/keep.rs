//! A lock that stays reserved for a task.
//!
//! Who comes back again and again to a lock, while nobody else does, may have it reserved
//! when it leaves, as its *keeper*. It then takes it and leaves it by stores, as writer and
//! as reader (lock reservation: Kawachiya, Koseki, Onodera, OOPSLA 2002).
//!
//! The count has a *virtual writer* then, who keeps all others out; the number of the
//! keeper stands where the readers do: [`Count::kept_for`]. Whether the keeper is in, the
//! owner word says, which nobody else stores to as long as that is so: `BUSY`, and as a
//! reader `READERS`.
//!
//! | keeper (K1) | who revokes (K1) |
//! |---|---|
//! | test: the count says that the lock is reserved for me | count: to [`LOSING`] |
//! | owner word: `BUSY` as I come, not as I leave | quiesce; then the owner word |
//!
//! Test and store are one `store_if`. So after the quiesce the keeper does not come by the
//! reservation any more, and leaves it by an exchange. If it is not in, who revokes
//! releases the virtual writer, as any other. If it is in, it becomes a writer or a reader
//! like others: nobody waits for it.
//!
//! | keeper (K2) | who revokes (K2) |
//! |---|---|
//! | owner word: from `BUSY`, Release; it has left | count: the keeper's part; owner word: not `BUSY`, Release |
//! | or failed, Acquire: it is in the count | or failed, Acquire: count: less that part |
//!
//! The part of a writer is that of the virtual writer; a reader's comes beside that, which
//! then goes. What the keeper did happens before the release of the virtual writer: by
//! (K1), or by (K2). A keeper that finds `BUSY` gone as it leaves looks at the count, and so
//! acquires what it finds (K3); whoever writes the owner word while readers are in has seen the
//! count that has them, and releases that, or is behind a fence.
//!
//! # Waiters
//!
//! The keeper may leave a lock reserved that is waited for, as an unlock may skip the
//! wake-up, while somebody has promised to come: `SPINNER`. That one revokes before its
//! promise ends, whoever it is; and a keeper that finds other marks in the count than it
//! may leave becomes an owner like others. Who comes then may join the waiters. Where
//! nobody has promised, who comes revokes, and does not wait.
//!
//! To revoke costs a quiesce, so who spins has a busy keeper recalled first, by a mark that
//! its next unlock heeds; and does that late where locks change hands slowly, as in the
//! mutex. The owner word counts how often the keeper has left: so others see it is busy.
//!
//! In a fork's child a keeper that is gone is in for ever if it was, as other owners; if it
//! was not, the lock can be had. If a thread was revoking, it cannot.

use super::{
    BUSY, Count, Kind, OF_WAITERS, OWNER_SHIFT, READER, READERS, RawRwLock, WRITER, WakeCheck,
    bias::REVOKING,
    count::{LOSING, RECALL},
};
use crate::{
    mutex::TURN,
    osq,
    platform::{Event, Look, Ordering::*, Platform, TaskId, Word, settle},
};

/// The owner word's number of times that the keeper has left, above the number of the task:
/// by it others see that it comes and goes.
pub(super) const SEQUENCE: u32 = (TaskId::MAX + 1) << OWNER_SHIFT;

/// Looks in a row at a keeper that is not in: after these it may be gone.
const GONE_LOOKS: u32 = 2;

/// Looks for a lock that was recalled.
const RECALL_LOOKS: u32 = 8;

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// What a world knows the lock by.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// The count that who has left leaves behind, who was the only one.
    #[inline(always)]
    pub(super) fn kept(&self, free: Count) -> Count {
        match P::keeps(self.address()) {
            true => free.reserved(P::number()),
            false => free,
        }
    }

    /// The owner word of a keeper that is in, as the writer with 0, or with [`READERS`].
    #[inline(always)]
    fn busy(how: u32) -> u32 {
        P::number() << OWNER_SHIFT | BUSY | how
    }

    /// The owner word as the keeper comes.
    #[inline(always)]
    fn came(owner: u32, how: u32) -> u32 {
        owner & !(SEQUENCE - 1) | Self::busy(how)
    }

    /// The owner word as the keeper leaves.
    #[inline(always)]
    const fn left(owner: u32) -> u32 {
        (owner & !(SEQUENCE - 1)).wrapping_add(SEQUENCE)
    }

    /// Lets the caller in, if the lock is reserved for it; also if it was recalled.
    pub(super) fn retake_recalled(&self, count: Count, kind: Kind) -> bool {
        let how = match kind {
            Kind::Read | Kind::Recursive => READERS,
            Kind::Write => 0,
            _ => return false,
        };
        count.without(RECALL | OF_WAITERS) == Count::kept_for(P::number()) && {
            let owner = self.owner.load(Relaxed); // the caller's own
            owner & BUSY == 0
                // (K1)
                && P::store_if(&self.owner, Self::came(owner, how), &self.count, count.0)
                && {
                    P::retook();
                    true
                }
        }
    }

    /// Lets the caller in, if the count says that the lock is reserved for it.
    #[inline(always)]
    pub(super) fn retake(&self, how: u32) -> bool {
        P::keeps(self.address()) && {
            let count = self.count();
            count.is_kept_for(P::number()) && self.retake_from(count, how)
        }
    }

    /// The same, if nobody waits; after [`Platform::keeps`].
    #[inline(always)]
    pub(super) fn retake_alone(&self, how: u32) -> bool {
        self.retake_from(Count::kept_for(P::number()), how)
    }

    /// Lets the caller in, if the lock still has the count, which says that it is reserved for it.
    #[inline(always)]
    fn retake_from(&self, count: Count, how: u32) -> bool {
        let owner = self.owner.load(Relaxed); // the caller's own
        owner & BUSY == 0
            // (K1)
            && P::try_store_if(&self.owner, Self::came(owner, how), &self.count, count.0)
            && {
                P::retook();
                true
            }
    }

    /// Lets the caller out, if it came by the reservation and that still stands; after
    /// [`Platform::keeps`].
    #[inline(always)]
    pub(super) fn leave_kept(&self, how: u32) -> bool {
        let owner = self.owner.load(Relaxed); // the caller's own store, or not
        owner % SEQUENCE == Self::busy(how) && {
            let count = self.count();
            count.is_kept_for(P::number()) && self.leave_kept_from(count, owner)
        }
    }

    /// The same, whichever way it came, if nobody waits.
    #[inline(always)]
    pub(super) fn leave_kept_alone(&self) -> bool {
        let owner = self.owner.load(Relaxed); // likewise
        let count = Count::kept_for(P::number());
        (owner % SEQUENCE) & !READERS == Self::busy(0) && self.leave_kept_from(count, owner)
    }

    /// Lets the caller out, if the lock still has the count, which says that it is reserved for it.
    #[inline(always)]
    fn leave_kept_from(&self, count: Count, owner: u32) -> bool {
        // (K1)
        P::try_store_if(&self.owner, Self::left(owner), &self.count, count.0)
    }

    /// Lets the caller out, if it came by the reservation and is not in the count by now;
    /// who was recalled is.
    pub(super) fn leave_kept_slow(&self, how: u32, fair: bool) -> bool {
        let owner = self.owner.load(Acquire); // (K3) I am in the count
        if owner % SEQUENCE != Self::busy(how) {
            return false;
        }
        let keeps = !fair && P::keeps(self.address()) && self.count().is_kept_for(P::number());
        if !keeps && self.own_for_real(how) {
            P::gives_up(self.address());
            P::event(Event::Recalled);
            return false;
        }
        let left = Self::left(owner);
        // (K2)
        let left = self.owner.compare_exchange(owner, left, Release, Acquire);
        left.is_ok()
    }

    /// Lets out a reader that came by the reservation as another: of a thread that is about
    /// to end, and has got another number for that. Returns whether there was one.
    #[cold]
    pub(super) fn leave_as_keeper_of_another(&self) -> bool {
        let owner = self.owner.load(Acquire); // (K3) the caller is in the count
        owner & (BUSY | READERS) == BUSY | READERS
            && self
                .owner
                // (K2)
                .compare_exchange(owner, 0, Release, Acquire)
                .is_ok()
    }

    /// Whether the caller is in by the reservation, as far as nobody has changed that.
    #[inline(always)]
    pub(super) fn is_busy_for_me(&self, how: u32) -> bool {
        self.owner.load(Relaxed) % SEQUENCE == Self::busy(how) // its own store, or not
    }

    /// Whether the keeper is in as the writer: a snapshot.
    #[cold]
    pub(super) fn is_written_by_keeper(&self) -> bool {
        // (K3) Acquire: it may be the caller, and in the count by now.
        self.owner.load(Acquire) & (BUSY | READERS) == BUSY
    }

    /// Whether the keeper is in as a reader: a snapshot.
    #[inline]
    pub(super) fn is_read_by_keeper(&self) -> bool {
        // (K3) Acquire: it may be the caller, and in the count by now.
        self.owner.load(Acquire) & (BUSY | READERS) == BUSY | READERS
    }

    /// Has the keeper of a reserved lock leave it to others, if it soon comes back to it;
    /// not at once, if the caller looks seldom.
    #[inline]
    pub(super) fn recall(&self, look: Look) {
        if self.count().is_kept() {
            self.recall_kept(look);
        }
    }

    #[cold]
    fn recall_kept(&self, look: Look) {
        if matches!(look, Look::Every(_)) && !(0..TURN).all(|_| self.is_back(look)) {
            return;
        }
        let count = self.count();
        // Relaxed: it tells no more than itself.
        if !count.is_kept() || !self.exchange(count, count.with(RECALL), Relaxed) {
            return;
        }
        P::spin_until(
            &self.count,
            Relaxed, // only a hint
            Look::Poll,
            RECALL_LOOKS,
            |count| !Count(count).is_kept(),
            || false,
        );
    }

    /// Whether the keeper comes or goes until the next looks.
    fn is_back(&self, look: Look) -> bool {
        if !self.count().is_kept() {
            return false;
        }
        let before = self.owner.load(Relaxed); // a hint
        let now = P::spin_until(
            &self.owner,
            Relaxed, // only a hint
            look,
            GONE_LOOKS,
            |owner| owner != before,
            || false,
        );
        now.is_some()
    }

    /// Ends a bias or a reservation, or waits until another has. The caller looks again.
    #[cold]
    pub(super) fn revoke(&self, count: Count) {
        if count.is_kept() {
            self.unkeep(count);
        } else if count.is_fenced() {
            self.unfence(count);
        } else if count.is_biased() {
            self.unbias(count);
        } else {
            settle::<P>(&self.count, |count| !Count(count).is_undecided(), || false);
        }
    }

    fn unkeep(&self, kept: Count) {
        // (R1) Acquire pairs with the Release of who left it reserved: what was stored to the
        // owner word before.
        if !self.exchange(kept, kept.unreserved(LOSING), Acquire) {
            return; // another does
        }
        P::quiesce(); // (K1)
        P::event(Event::Revoked);
        let owner = self.owner.load(Acquire); // (K1) what the keeper did that has left
        match (owner & BUSY, owner & READERS) {
            (0, _) => self.release_slow(LOSING, false),
            (_, 0) => self.count_writer(owner),
            _ => self.count_reader(owner),
        }
    }

    /// The keeper is in as the writer: the virtual writer's part is its own.
    fn count_writer(&self, owner: u32) {
        self.count.fetch_add(REVOKING.wrapping_neg(), Relaxed); // (K2) publishes it
        if !self.tell(owner, (owner % SEQUENCE) & !BUSY) {
            self.release_slow(WRITER, false);
        }
    }

    /// The keeper is in as a reader.
    fn count_reader(&self, owner: u32) {
        self.count.fetch_add(READER, Relaxed); // (K2) publishes it
        if !self.tell(owner, READERS) {
            self.count.fetch_add(READER.wrapping_neg(), Relaxed); // it has left
        }
        self.release_slow(LOSING, false);
    }

    /// Tells the keeper that it is in the count. Returns whether it was still in.
    fn tell(&self, owner: u32, now: u32) -> bool {
        // (K2) Release: it is in the count; Acquire: it has left.
        let told = self.owner.compare_exchange(owner, now, Release, Acquire);
        told.is_ok()
    }

    /// The caller, who came by the reservation, becomes an owner like others, unless
    /// somebody revokes.
    fn own_for_real(&self, how: u32) -> bool {
        let (part, owner) = match how {
            READERS => (READER, READERS),
            _ => (WRITER, Self::busy(0) & !BUSY),
        };
        loop {
            let count = self.count();
            if !count.is_kept() {
                return false;
            }
            // (R1) Release: who reads beside it acquires what it wrote by the reservation.
            if self.exchange(count, count.unreserved(part), Release) {
                self.owner.store(owner, Relaxed); // a hint
                return true;
            } // Who recalls it changes the count, too.
        }
    }

    /// The writer, if it came by the reservation, becomes one like others.
    pub(super) fn count_me(&self) {
        if self.is_busy_for_me(0) && !self.own_for_real(0) {
            // (K2) Who revokes is about to do so, and to say it.
            settle::<P>(&self.owner, |owner| owner & BUSY == 0, || false);
        }
    }
}
