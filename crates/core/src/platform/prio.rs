//! Priorities, as worlds that have them compare them.

use super::Deadline;

/// A priority: the greater, the more urgent.
///
/// The tasks that are scheduled fairly are one class, below all others. Above
/// them are the levels of real-time tasks, and above these the tasks that have a
/// deadline to keep, the sooner the more urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Prio(u64);

impl Prio {
    /// The priority of all tasks that are scheduled fairly.
    pub const FAIR: Self = Self(0);

    /// A real-time priority, the greater the more urgent; 0 is [`Prio::FAIR`].
    pub const fn real_time(level: u32) -> Self {
        Self(level as u64)
    }

    /// That of a task that must be done with its work by `deadline`.
    pub const fn due(deadline: Deadline) -> Self {
        const LAST: u64 = u64::MAX - (1 << 32);
        // Above every level; deadlines centuries away are all the same.
        Self(u64::MAX - if deadline.0 < LAST { deadline.0 } else { LAST })
    }

    /// The level of a real-time priority, or 0; `None` for one with a deadline.
    pub const fn level(self) -> Option<u32> {
        if self.0 >> 32 == 0 {
            Some(self.0 as u32)
        } else {
            None
        }
    }

    pub(crate) const fn halves(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }

    pub(crate) const fn from_halves(high: u32, low: u32) -> Self {
        Self((high as u64) << 32 | low as u64)
    }
}
