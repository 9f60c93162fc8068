//! Which locks a task reads again and again: a world's answer to
//! [`Platform::reads_often`](crate::Platform::reads_often).

use core::cell::Cell;

/// Reads in a row that give reason to bias a lock: to revoke that costs as much as so
/// many reads.
const READS: u32 = 64;

/// Locks that a task remembers.
const SLOTS: usize = 4;

/// Locks this many bytes apart are remembered apart.
const GRAIN: usize = 16;

/// What a task remembers of the locks that it reads.
#[derive(Debug)]
pub struct Streaks([Streak; SLOTS]);

#[derive(Debug)]
struct Streak {
    lock: Cell<usize>,
    reads: Cell<u32>,
}

impl Default for Streaks {
    fn default() -> Self {
        Self::new()
    }
}

impl Streaks {
    /// Those of a task that has read nothing.
    pub const fn new() -> Self {
        Self(
            [const {
                Streak {
                    lock: Cell::new(0),
                    reads: Cell::new(0),
                }
            }; SLOTS],
        )
    }

    /// The task has read the lock. Whether that is the last of so many times in a row, but
    /// for locks that are remembered apart.
    #[inline(always)]
    pub fn reads_often(&self, lock: usize) -> bool {
        let streak = &self.0[lock / GRAIN % SLOTS];
        if streak.lock.replace(lock) != lock {
            streak.reads.set(0);
        }
        let reads = (streak.reads.get() + 1) % READS;
        streak.reads.set(reads);
        reads == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: usize = 0x1000;

    fn read(streaks: &Streaks, lock: usize, times: u32) -> u32 {
        (0..times)
            .map(|_| u32::from(streaks.reads_often(lock)))
            .sum()
    }

    #[test]
    fn every_full_streak_is_told() {
        let streaks = Streaks::new();
        assert_eq!(read(&streaks, LOCK, READS - 1), 0);
        assert_eq!(read(&streaks, LOCK, 1), 1);
        assert_eq!(read(&streaks, LOCK, 3 * READS), 3);
    }

    #[test]
    fn another_lock_of_the_same_place_ends_a_streak() {
        let streaks = Streaks::new();
        for _ in 0..READS {
            assert_eq!(read(&streaks, LOCK, READS / 2), 0);
            assert_eq!(read(&streaks, LOCK + GRAIN * SLOTS, READS / 2), 0);
        }
    }

    #[test]
    fn locks_of_other_places_do_not() {
        let streaks = Streaks::new();
        let told = (0..READS).map(|_| read(&streaks, LOCK, 1) + read(&streaks, LOCK + GRAIN, 1));
        assert_eq!(told.sum::<u32>(), 2);
    }
}
