//! Readers in a row, with no writer between: how many of those have come that look.
//!
//! A lock may be one of many, each of which is read by several tasks, and seldom by two at a time.
//! Then nobody finds itself in company, and yet each takes the lock's line from another. So who
//! looks, a reader that is in, says so in the owner word, which means nothing else while readers
//! have the lock: beside [`READERS`] its number, and how many have looked before. A writer stores
//! itself there, and it begins anew. A hint: a writer that is there already must not be
//! replaced, so it changes by exchange.

use super::{OWNER_SHIFT, READERS, RawRwLock, WakeCheck, keep::SEQUENCE};
use crate::{
    osq,
    platform::{Ordering::*, Platform, TaskId, Word},
};

/// So many readers that look, each another than the one before, are enough for a bias.
const BIASES: u32 = 8;

/// The owner word of readers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Run(u32);

impl Run {
    const NUMBERS: u32 = TaskId::MAX << OWNER_SHIFT;

    /// The last of them that looked, or who wrote last; 0 if that is not known.
    pub(super) const fn last(self) -> u32 {
        match self.0 & READERS {
            0 => 0,
            _ => (self.0 & Self::NUMBERS) >> OWNER_SHIFT,
        }
    }

    /// How many have looked.
    pub(super) const fn length(self) -> u32 {
        match self.0 & READERS {
            0 => 0,
            _ => self.0 / SEQUENCE,
        }
    }

    /// Whether no writer is there, nor is about to be, and nothing else is said.
    const fn is_of_readers(self) -> bool {
        let said = self.0 % SEQUENCE;
        said == 0 || said & !Self::NUMBERS == READERS
    }

    /// One more has, and this is the last.
    const fn longer(self, last: u32) -> Self {
        let length = self.length() + (self.length() < u32::MAX / SEQUENCE) as u32;
        Self(length * SEQUENCE + (last << OWNER_SHIFT | READERS))
    }
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    pub(super) fn run(&self) -> Run {
        Run(self.owner.load(Relaxed)) // a hint
    }

    /// One reader more has looked, and the last is this.
    pub(super) fn lengthen(&self, run: Run, last: u32) {
        if run.is_of_readers() {
            let longer = run.longer(last);
            // Relaxed: a hint
            self.owner
                .compare_exchange(run.0, longer.0, Relaxed, Relaxed)
                .ok();
        }
    }

    /// The caller, one of its readers, looks whether others read it in turns with it, and nobody
    /// writes.
    #[cold]
    pub(super) fn others_read(&self) -> bool {
        let (run, me) = (self.run(), P::number());
        if run.last() != me {
            self.lengthen(run, me);
        }
        run.length() >= BIASES
    }
}
