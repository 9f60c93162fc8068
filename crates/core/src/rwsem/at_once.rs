//! A release in one step, in a world that has it ([`Platform::replace_pair`]): for a writer or a
//! counted reader that did not come by a reservation, and that has nobody to wake.
//!
//! It replaces the count and the owner word if they are as they would be read, and so is one of
//! the releases of `wake.rs` in which nobody comes in between.

use super::{Count, OWNER_SHIFT, READERS, RawRwLock, UPGRADABLE, WAITERS, WRITER, WakeCheck};
use crate::{
    osq,
    platform::{Event, Platform},
};

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    /// Releases the lock for the writer, whose part of the count is [`WRITER`], or for a
    /// reader. Returns whether it did.
    #[inline(always)]
    pub(super) fn release_at_once(&self, part: u32, fair: bool) -> bool {
        let owner = match part {
            WRITER => P::number() << OWNER_SHIFT,
            _ => READERS,
        };
        if owner == 0 {
            return false;
        }
        let mut count = Count(part); // mostly so: to look would fetch the line once more
        loop {
            let left = || match part {
                WRITER => [self.left_by(count, part).0, self.owner_left_behind()],
                _ => [self.left_by(count, part).0, READERS],
            };
            // (R1) Release pairs with the Acquire of who takes it next.
            match P::replace_pair([&self.count, &self.owner], [count.0, owner], left) {
                Some(found) if found == [count.0, owner] => {
                    if count.has(WAITERS) {
                        P::event(Event::WakeSkipped);
                    }
                    return true;
                }
                Some([now, found]) if found == owner && self.may_leave(Count(now), part, fair) => {
                    count = Count(now);
                }
                _ => return false,
            }
        }
    }

    /// Whether nobody has to be seen to, if who has this part of the count leaves.
    #[inline(always)]
    fn may_leave(&self, count: Count, part: u32, fair: bool) -> bool {
        let is_plain = count.state() == 0 && !count.has(UPGRADABLE);
        let is_in = match part {
            WRITER => count.has(WRITER),
            _ => !count.has(WRITER) && count.readers() > 0,
        };
        is_plain && is_in && {
            let after = Count(count.0 - part);
            match count.has(WAITERS) {
                true => self.skips(after, fair),
                false => after.0 == 0 || !self.rest().is_fenced(),
            }
        }
    }

    /// What the count is then.
    #[inline(always)]
    fn left_by(&self, count: Count, part: u32) -> Count {
        match Count(count.0 - part) {
            Count(0) => self.left_behind(),
            after if after.has(WAITERS) => self.kept(after),
            after => after,
        }
    }

    /// Whether a release that leaves this count need not look after those that wait.
    #[inline(always)]
    pub(super) fn skips(&self, after: Count, fair: bool) -> bool {
        Self::may_skip(after) && !fair && !C::TRIES_GATE && !self.rest().is_fenced()
    }
}
