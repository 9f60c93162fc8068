//! The holds of a thread that are timed, from the acquisition to the release.

use std::cell::Cell;

use crate::{
    Timed,
    locks::{Key, Mode},
};

/// So many holds of a thread are timed at once; the oldest gives way, for it may have been
/// released by another thread.
const HOLDS: usize = 8;

/// A hold that is timed.
#[derive(Clone, Copy)]
struct Hold {
    key: Key,
    /// When, by the caller's clock.
    began: u64,
    timed: Timed,
    /// How often the thread has taken the lock within it, to read, and not released it since.
    nested: u32,
}

/// What a thread keeps for itself. No destructor: it can be used as long as it runs.
#[derive(Default)]
pub struct Holds {
    /// The bits of the locks.
    bits: Cell<u64>,
    /// In the order in which they began; the rest is free.
    holds: [Cell<Option<Hold>>; HOLDS],
}

impl Holds {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bits: Cell::new(0),
            holds: [const { Cell::new(None) }; HOLDS],
        }
    }

    /// Whether a hold of the lock at an address may be timed: if it is, surely.
    #[inline(always)]
    pub fn may_time(&self, address: usize) -> bool {
        self.bits.get() & bit(address) != 0
    }

    /// The thread has taken the lock, and the hold is timed from now on.
    pub fn begin(&self, key: Key, timed: Timed, now: u64) {
        if self.holds[HOLDS - 1].get().is_some() {
            self.remove(0);
        }
        let free = self.holds.iter().find(|hold| hold.get().is_none());
        if let Some(free) = free {
            free.set(Some(Hold {
                key,
                began: now,
                timed,
                nested: 0,
            }));
            self.bits.set(self.bits.get() | bit(key.address()));
        }
    }

    /// The thread has taken the lock, and the hold is not timed: it may lie within one that is.
    pub fn nest(&self, key: Key) {
        let around = self.latest(key).filter(|_| key.mode() == Mode::Read);
        if let Some((at, mut hold)) = around {
            hold.nested += 1;
            self.holds[at].set(Some(hold));
        }
    }

    /// The thread releases the lock. Of what it has taken more than once, that is the latest.
    /// Returns since when it was held, if that was timed.
    pub fn end(&self, key: Key) -> Option<(u64, Timed)> {
        let (at, mut hold) = self.latest(key)?;
        if hold.nested > 0 {
            hold.nested -= 1;
            self.holds[at].set(Some(hold));
            return None;
        }
        self.remove(at);
        Some((hold.began, hold.timed))
    }

    /// In a fork's child, which times its own.
    pub fn clear(&self) {
        self.holds.iter().for_each(|hold| hold.set(None));
        self.bits.set(0);
    }

    /// The latest hold of a lock, and where it is.
    fn latest(&self, key: Key) -> Option<(usize, Hold)> {
        let holds = self.holds.iter().map(Cell::get).enumerate();
        let mut of_it = holds.filter_map(|(at, hold)| Some((at, hold.filter(|h| h.key == key)?)));
        of_it.next_back()
    }

    fn remove(&self, at: usize) {
        self.holds[at].set(None);
        for later in at + 1..HOLDS {
            self.holds[later - 1].swap(&self.holds[later]);
        }
        let holds = self.holds.iter().filter_map(Cell::get);
        let bits = holds.fold(0, |bits, hold| bits | bit(hold.key.address()));
        self.bits.set(bits);
    }
}

/// The bit of a lock. A thread may hold one lock for long while it takes others.
#[inline(always)]
const fn bit(address: usize) -> u64 {
    1 << (address >> 3 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMED: Timed = Timed {
        weight: 1,
        before: 0,
    };

    fn ended(holds: &Holds, key: Key) -> Option<u64> {
        holds.end(key).map(|(began, _)| began)
    }

    #[test]
    fn a_nested_read_that_is_not_timed_does_not_end_the_hold_around_it() {
        let holds = Holds::new();
        let key = Key::new(0x1000, Mode::Read);
        holds.nest(key);
        holds.begin(key, TIMED, 5);
        holds.nest(key);
        holds.begin(key, TIMED, 6);
        holds.nest(key);
        assert_eq!(ended(&holds, key), None);
        assert_eq!(ended(&holds, key), Some(6));
        assert_eq!(ended(&holds, key), None);
        assert_eq!(ended(&holds, key), Some(5));
        assert_eq!(ended(&holds, key), None);
        assert!(!holds.may_time(key.address()));
    }
}
