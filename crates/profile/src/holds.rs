//! The holds of a thread that are timed, from the acquisition to the release.

use std::cell::Cell;

use crate::{
    Profile, Timed,
    locks::{Key, Mode},
};

/// So many holds of a thread are timed at once. What is taken within these is not, unless one
/// of them is seen to be over: another thread has released the lock, or it was destroyed.
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
    /// How many there are.
    length: Cell<usize>,
    /// In the order in which they began; the rest is free.
    holds: [Cell<Option<Hold>>; HOLDS],
}

impl Holds {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bits: Cell::new(0),
            length: Cell::new(0),
            holds: [const { Cell::new(None) }; HOLDS],
        }
    }

    /// Whether a hold of the lock at an address may be timed: if it is, surely.
    #[inline(always)]
    pub fn may_time(&self, address: usize) -> bool {
        self.bits.get() & bit(address) != 0
    }

    /// The thread has taken the lock, and the hold is timed from now on, if there is room.
    pub fn begin(&self, profile: &Profile, key: Key, timed: Timed, now: u64) {
        if self.length.get() == HOLDS {
            self.remove_over(profile);
        }
        let length = self.length.get();
        let Some(free) = self.holds.get(length) else {
            return self.nest(key);
        };
        self.length.set(length + 1);
        free.set(Some(Hold {
            key,
            began: now,
            timed,
            nested: 0,
        }));
        self.bits.set(self.bits.get() | bit(key.address()));
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
        self.length.set(0);
        self.bits.set(0);
    }

    /// The latest hold of a lock, and where it is.
    fn latest(&self, key: Key) -> Option<(usize, Hold)> {
        let holds = self.holds[..self.length.get()].iter().enumerate();
        let mut latest_first = holds.rev();
        latest_first.find_map(|(at, hold)| Some((at, hold.get().filter(|h| h.key == key)?)))
    }

    fn remove_over(&self, profile: &Profile) {
        let is_over = |hold: Hold| !profile.may_last(hold.key, hold.timed);
        for at in (0..HOLDS).rev() {
            if self.holds[at].get().is_some_and(is_over) {
                self.remove(at);
            }
        }
    }

    fn remove(&self, at: usize) {
        let last = self.length.get() - 1;
        for later in at..last {
            self.holds[later].set(self.holds[later + 1].get());
        }
        self.length.set(last);
        let holds = self.holds[..last].iter().filter_map(Cell::get);
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
    use crate::Stack;

    /// A thread takes a lock, which is timed.
    fn take(profile: &Profile, holds: &Holds, key: Key, now: u64) {
        let taken = profile.took(key).expect("it is one of the first");
        let timed = profile.look(taken, || Stack::here(&(0..0)));
        holds.begin(profile, key, timed, now);
    }

    fn ended(holds: &Holds, key: Key) -> Option<u64> {
        holds.end(key).map(|(began, _)| began)
    }

    fn mutex(number: usize) -> Key {
        Key::new(0x1000 + number * 8, Mode::Mutex)
    }

    /// A thread has as many holds as are timed, the first by now of lock 0.
    fn full(profile: &Profile) -> Holds {
        let holds = Holds::new();
        for number in 0..HOLDS {
            take(profile, &holds, mutex(number), number as u64);
        }
        holds
    }

    #[test]
    fn a_nested_read_that_is_not_timed_does_not_end_the_hold_around_it() {
        let (profile, holds) = (Profile::map().unwrap(), Holds::new());
        let key = Key::new(0x1000, Mode::Read);
        holds.nest(key);
        take(profile, &holds, key, 5);
        holds.nest(key);
        take(profile, &holds, key, 6);
        holds.nest(key);
        assert_eq!(ended(&holds, key), None);
        assert_eq!(ended(&holds, key), Some(6));
        assert_eq!(ended(&holds, key), None);
        assert_eq!(ended(&holds, key), Some(5));
        assert_eq!(ended(&holds, key), None);
        assert!(!holds.may_time(key.address()));
    }

    #[test]
    fn of_more_nested_holds_than_are_timed_the_outermost_are() {
        let profile = Profile::map().unwrap();
        let holds = full(profile);
        take(profile, &holds, mutex(HOLDS), 99);
        assert_eq!(ended(&holds, mutex(HOLDS)), None);
        for number in (0..HOLDS).rev() {
            assert_eq!(ended(&holds, mutex(number)), Some(number as u64));
        }
    }

    #[test]
    fn a_read_for_which_there_is_no_room_ends_no_other() {
        let (profile, holds) = (Profile::map().unwrap(), Holds::new());
        let key = Key::new(0x1000, Mode::Read);
        (0..=HOLDS as u64).for_each(|now| take(profile, &holds, key, now));
        assert_eq!(ended(&holds, key), None);
        assert_eq!(ended(&holds, key), Some(HOLDS as u64 - 1));
    }

    #[test]
    fn a_hold_that_is_over_gives_way() {
        let over: [fn(&Profile, Key); 2] = [
            |profile, key| {
                profile.took(key); // another thread has released it, and takes it
            },
            |profile, key| profile.destroyed(key),
        ];
        for over in over {
            let profile = Profile::map().unwrap();
            let holds = full(profile);
            over(profile, mutex(3));
            take(profile, &holds, mutex(HOLDS), 99);
            assert_eq!(ended(&holds, mutex(3)), None);
            assert_eq!(ended(&holds, mutex(HOLDS)), Some(99));
            assert_eq!(ended(&holds, mutex(0)), Some(0));
        }
    }
}
