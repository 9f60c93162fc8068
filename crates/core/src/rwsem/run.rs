//! Readers in a row, with no writer between: how many of those have come that look
//! ([`Platform::may_bias`]).
//!
//! A lock may be one of many, each of which is read by several tasks, and seldom by two at a time.
//! Then nobody finds itself in company, and yet each takes the lock's line from another. So who
//! looks, a reader that is in, says so in the owner word, beside [`READERS`]: its number, and how
//! many have looked before. A writer stores itself there, and the row begins anew.
//!
//! While a reader is in, the lock is neither reserved nor anybody's to write, but a writer may
//! be in the owner word that awaits the readers. It must stay there, for by that it knows later that it
//! is the writer. So the word changes by an exchange, from what was seen to be of readers. It
//! continues the sequence that the release of another heads: (K2) and (K3) are not touched.
//!
//! # Locks of both kinds
//!
//! Of many locks for which a bias is just worth its while, or just not, one has it by chance and the
//! next has not. Which kind the next is that a task takes, its processor cannot foresee. When that
//! is known the line has come; and what was begun beside that for a wrong guess is lost, such as to
//! fetch the lines of the locks after it. So either kind alone does better than both together. A
//! task notes how many of the rows that it looks at a writer has ended, and where most are, longer
//! ones are needed: those then stay of one kind.

use super::{OWNER_SHIFT, READERS, RawRwLock, WakeCheck, keep::SEQUENCE};
use crate::{
    osq,
    platform::{Ordering::*, Platform, TaskId, Word},
};

/// So many readers that look, each another than the one before, are enough for a bias. One in 61
/// looks, and of two tasks every second finds the other's number: some five hundred have read
/// then.
const BIASES: u32 = 4;

/// And so many for a task that finds most rows ended by a writer. Of two tasks each does if one
/// taking in 122 or more is a write: between two looks are 61, and of those that find a row going on
/// only the half that find the other's number are counted.
const BIASES_WRITTEN: u32 = 16;

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
        run.length() >= Ended::note::<P>(run).biases()
    }
}

/// Of the rows that the calling task has looked at of late, how many a writer had ended since the
/// look before: a share of [`Ended::ALL`].
struct Ended(u32);

impl Ended {
    const ALL: u32 = 1 << 16;
    /// How many looks are of late.
    const LATE: u32 = 1 << 6;

    fn note<P: Platform>(run: Run) -> Self {
        let ended = &P::mine().rwsem.ended;
        let after = Self(ended.load(Relaxed)).after(run); // its task's own
        ended.store(after.0, Relaxed); // likewise
        after
    }

    const fn after(&self, run: Run) -> Self {
        let one = if run.length() == 0 {
            Self::ALL / Self::LATE
        } else {
            0
        };
        Self(self.0 - self.0 / Self::LATE + one)
    }

    /// How many readers are enough.
    const fn biases(&self) -> u32 {
        match self.0 > Self::ALL / 2 {
            true => BIASES_WRITTEN,
            false => BIASES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{BUSY, NONSPINNABLE},
        *,
    };

    const ME: u32 = TaskId::MAX;

    #[test]
    fn a_row_counts_who_looked_and_has_an_end() {
        let longest = u32::MAX / SEQUENCE;
        let mut run = Run(0);
        for looked in 0..=longest {
            assert_eq!(run.length(), looked);
            run = run.longer(ME);
            assert_eq!((run.last(), run.is_of_readers()), (ME, true));
        }
        assert_eq!(run.longer(1).length(), longest);
        assert_eq!(run.longer(1).last(), 1);
        assert!(longest >= super::super::fenced::SHEDS.max(BIASES_WRITTEN));
    }

    #[test]
    fn a_row_begins_anew_after_a_writer() {
        let left_behind = Run(ME << OWNER_SHIFT | READERS);
        assert_eq!((left_behind.last(), left_behind.length()), (ME, 0));
        assert_eq!(left_behind.longer(1).length(), 1);
        // A keeper left this, that had come and gone.
        let kept = Run(7 * SEQUENCE);
        assert_eq!((kept.last(), kept.length()), (0, 0));
        assert_eq!((kept.is_of_readers(), kept.longer(1).length()), (true, 1));
    }

    #[test]
    fn who_finds_most_rows_ended_wants_longer_ones() {
        let (ended, goes_on) = (Run(0), Run(0).longer(ME));
        let many = 10 * Ended::LATE;
        let look = |before: Ended, run| before.after(run);
        for (of_three, biases) in [(0, BIASES), (1, BIASES), (2, BIASES_WRITTEN)] {
            let rows = (0..many).map(|at| if at % 3 < of_three { ended } else { goes_on });
            assert_eq!(rows.fold(Ended(0), look).biases(), biases, "{of_three}");
        }
        let all = (0..many).fold(Ended(0), |before, _| look(before, ended));
        assert!(all.0 <= Ended::ALL);
        let after = (0..Ended::LATE).fold(all, |before, _| look(before, goes_on));
        assert_eq!(after.biases(), BIASES);
    }

    #[test]
    fn what_is_not_of_readers_stays() {
        let me = ME << OWNER_SHIFT;
        for word in [me, me | BUSY, me | BUSY | READERS, READERS | NONSPINNABLE] {
            assert!(!Run(word).is_of_readers(), "{word:#x}");
        }
    }
}
