//! What a slow unlock does, before the mutex is released and after, when it may be gone.

use super::{
    Body,
    batch::{Sent, came_together},
};
use crate::{
    platform::{Event, Look, Ordering::*, Platform, TaskId, Word},
    quick::Quick,
    wait_queue::{AWAKE, Front, HANDOFF, RECALL},
};

/// How long the keeper of a mutex that was recalled stays away from it, in
/// looks: a hand-over, so that who recalled it gets it.
const RECALLED_LOOKS: u32 = 5;

/// Looks for a promise: a fraction of what it costs to wake somebody.
const COVER_LOOKS: u32 = 12;

/// How long a waiter was overtaken for whom the one that wakes it makes way, in microseconds:
/// well over [`PATIENCE_MICROS`](super::PATIENCE_MICROS), for among many waiters nearly all have
/// waited that long, and to make way for each is to exchange one for another all the time.
const HURRY_MICROS: u32 = 10_000;

/// Whom a slow unlock has to see to, once the mutex is released.
#[derive(Default)]
pub(crate) struct Leaving {
    pub(crate) woken: Option<TaskId>,
    /// A spinner asked for the mutex on its behalf.
    asked: bool,
    /// Whom to wake with that one.
    pub(super) sent: Sent,
    pub(crate) recalled: bool,
    /// Who recalled it did so for this one, which waits for a CPU.
    pub(crate) late: Option<TaskId>,
}

impl Leaving {
    /// Wakes who was found, lets who is late run, and pauses for who recalled the mutex, which
    /// may be gone.
    ///
    /// Who was woken may have to wait for the caller's CPU until its slice has ended, though
    /// another is idle. If it has been overtaken for very long, the caller lets it run at once.
    pub(crate) fn see_to<P: Platform>(self) {
        if let Some(first) = self.woken {
            P::event(Event::WokeFirst);
            // Awake, it may leave.
            let hurries = self.asked || Body::<P>::was_overtaken(first, HURRY_MICROS);
            P::unpark(first);
            self.sent.send::<P>();
            if hurries {
                P::event(Event::MadeWay);
                P::yield_to(first);
            }
        } else if let Some(first) = self.late {
            P::event(Event::MadeWay);
            P::yield_to(first);
        } else if self.recalled {
            P::event(Event::Recalled);
            let mine = &P::task(P::me()).wait.since;
            // Nobody writes to it: a pause.
            P::spin_until(
                mine,
                Relaxed,
                Look::Poll,
                RECALLED_LOOKS,
                |_| false,
                || false,
            );
        }
    }
}

impl<P: Platform> Body<P> {
    /// After the caller took the mutex by an exchange.
    #[inline(always)]
    pub(super) fn took(&self) {
        match P::keeps(self.address()) {
            true => P::took(Some(self.address())),
            false => _ = self.took_unkept().seen(|| self.see()),
        }
    }

    /// The same, of one that [`Platform::keeps`] says is not reserved for the caller.
    #[inline(always)]
    pub(super) fn took_unkept(&self) -> Quick {
        Quick::took(P::took_unkept(), P::waited(self.address()))
    }

    /// After [`Platform::may_inspect`]: looks now and then after a first waiter that is late, which
    /// may wait for the caller's own CPU. Nobody else may be awake to see that.
    #[cold]
    #[inline(never)]
    pub(super) fn see(&self) {
        if P::sees(self.address()) {
            self.recall_for_late();
        }
    }

    #[cold]
    #[inline(never)]
    fn recall_for_late(&self) {
        if Self::late(self.queue.front()).is_some() {
            P::event(Event::FoundLate);
            self.recall();
        }
    }

    /// A step of a slow unlock. Returns whether it was the last: the mutex is
    /// released, and may be gone.
    pub(crate) fn leave(&self, front: Front, leaving: &mut Leaving) -> bool {
        if front.has(RECALL) {
            leaving.recalled = self.queue.mark(front, front.without(RECALL));
            leaving.late = Self::late(front);
        } else if front.has(HANDOFF) && front.has(AWAKE) {
            return self.hand_over();
        } else if Self::is_covered(front) {
            return self.release(front);
        } else if front.first().is_some_and(|first| !P::exists(first)) {
            self.queue.enter(|queue| self.bury(&queue));
        } else if !front.has(HANDOFF) && self.is_about_to_be_covered(front) {
            // The next step sees how.
        } else if self.queue.mark(front, front.with(AWAKE).without(HANDOFF)) {
            leaving.woken = front.first();
            leaving.asked = front.has(HANDOFF);
            if let Some(first) = front.first().filter(|&first| came_together::<P>(first)) {
                let sent = &mut leaving.sent; // of an earlier step: the first may have slept again
                (self.queue).enter(|queue| self.take_along(&queue, first, sent));
            }
        }
        false
    }

    /// Where the mutex changes hands seldom, who had it before is about to come back when it has
    /// just done so, and to promise to look: waits for that for a moment, and returns whether the
    /// front is another. It may not come. That is no worse than never to have waited.
    fn is_about_to_be_covered(&self, front: Front) -> bool {
        let changed = |now| now != front.0;
        P::looks_seldom(super::HAND_OVER)
            && P::spin_until(
                &self.queue.front,
                Relaxed, // only a hint: who marks it acquires
                Look::Poll,
                COVER_LOOKS,
                changed,
                || false,
            )
            .is_some()
    }

    /// Hands the mutex to the first waiter; `false` if there is none. The new
    /// owner must enter the gate to leave the queue, so the mutex is there
    /// until the gate opens.
    pub(super) fn hand_over(&self) -> bool {
        let heir = self.queue.enter(|queue| {
            self.bury(&queue);
            let first = queue.first()?;
            let mine = P::me().number();
            // (M3) Release pairs with the Acquire in wait_first and cancel. It fails
            // only where the kernel marks the word.
            self.owner
                .compare_exchange(mine, first.number(), Release, Relaxed)
                .ok()?;
            let front = Front(self.queue.front.fetch_and(!HANDOFF, AcqRel)); // (Q1)
            Some((first, front.has(AWAKE)))
        });
        // From here on the mutex may be gone.
        if let Some((first, awake)) = heir {
            P::event(Event::HandedOff);
            if !awake {
                P::unpark(first);
                P::yield_to(first);
            }
        }
        heir.is_some()
    }
}
