//! The locks, by address and mode, in a table of fixed size that only grows.
//!
//! A lock that is made again where another was goes on with the record of one that was
//! made at the same place of the program, or has a new one: the older keeps what it
//! counted, and is found by nobody.

use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use serde::Serialize;

use crate::{counter::Counting, histogram::Histogram};

/// So many locks have a record.
const LOCKS: usize = 1 << 15;
/// Twice as many places, so that a search ends soon.
const PLACES: usize = 2 * LOCKS;

/// What a lock is taken for. Each has a record of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// To be alone, of a mutex.
    Mutex,
    /// To read, of a reader-writer lock.
    Read,
    /// To write.
    Write,
}

impl Mode {
    #[inline(always)]
    const fn counting(self) -> Counting {
        match self {
            Self::Read => Counting::Shared,
            _ => Counting::Alone,
        }
    }
}

/// An address and a mode; the address is a multiple of four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Key(usize);

impl Key {
    /// Of the lock at an address.
    #[inline(always)]
    pub const fn new(address: usize, mode: Mode) -> Self {
        Self(address & !3 | mode as usize)
    }

    /// Where the lock is.
    #[inline(always)]
    pub const fn address(self) -> usize {
        self.0 & !3
    }

    /// What it is taken for.
    #[inline(always)]
    pub const fn mode(self) -> Mode {
        match self.0 & 3 {
            1 => Mode::Read,
            2 => Mode::Write,
            _ => Mode::Mutex,
        }
    }

    const fn place(self) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        ((self.0 as u64).wrapping_mul(GOLDEN) >> (64 - PLACES.ilog2())) as usize
    }
}

/// What is known of a lock in a mode.
#[repr(align(64))]
pub struct Lock {
    /// Its key while it is found by that, else 0.
    live: AtomicUsize,
    /// Its key.
    key: AtomicUsize,
    /// The stack that made it, 0 if it was not seen.
    created: AtomicU32,
    acquisitions: AtomicU64,
    /// Those that had to wait, ...
    contended: AtomicU64,
    /// ... that slept, ...
    slept: AtomicU64,
    /// ... and that saw the owner off its CPU.
    owner_off: AtomicU64,
    /// Of those that had to wait.
    pub(crate) wait: Histogram,
    /// Of a sample of all.
    pub(crate) hold: Histogram,
}

/// How a lock was waited for.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// How long.
    pub ns: u64,
    /// Whether the thread slept, or else spun.
    pub slept: bool,
    /// Whether the owner was seen off its CPU.
    pub owner_off: bool,
}

impl Lock {
    pub(crate) fn key(&self) -> Key {
        Key(self.key.load(Relaxed)) // constant
    }

    pub(crate) fn created(&self) -> u32 {
        self.created.load(Relaxed) // constant
    }

    /// Those that waited, so far.
    pub(crate) fn contended(&self) -> u64 {
        self.contended.load(Relaxed) // statistics
    }

    /// Acquisitions; those that waited, that slept, and that saw the owner off its CPU.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.counters().map(|counter| counter.load(Relaxed)) // statistics
    }

    const fn counters(&self) -> [&AtomicU64; 4] {
        [
            &self.acquisitions,
            &self.contended,
            &self.slept,
            &self.owner_off,
        ]
    }

    /// Counts an acquisition by the caller, who has the lock; returns how many there were.
    /// The key is its own, which the caller has at hand.
    #[inline(always)]
    pub(crate) fn acquired(&self, key: Key) -> u64 {
        key.mode().counting().add(&self.acquisitions, 1)
    }

    /// Counts how the caller, who has the lock, waited for it.
    pub(crate) fn waited(&self, wait: Wait) {
        let counting = self.counting();
        counting.add(&self.contended, 1);
        counting.add(&self.slept, wait.slept.into());
        counting.add(&self.owner_off, wait.owner_off.into());
        self.wait.add(wait.ns, 1, counting);
    }

    /// Whether who took the lock when it had been taken so often may have it still. Not if it
    /// was destroyed, nor if it was taken since, unless to read.
    pub(crate) fn may_be_held(&self, key: Key, before: u64) -> bool {
        let is_there = self.live.load(Relaxed) == key.0; // constant while it is held
        let is_latest = || self.acquisitions.load(Relaxed) == before + 1; // likewise
        is_there && (key.mode() == Mode::Read || is_latest())
    }

    /// Counts how long the caller, who has the lock still, has held it.
    pub(crate) fn held(&self, ns: u64, weight: u64) {
        self.hold.add(ns, weight, self.counting());
    }

    fn counting(&self) -> Counting {
        self.key().mode().counting()
    }

    fn clear(&self) {
        for counter in self.counters() {
            counter.store(0, Relaxed); // alone
        }
        self.wait.clear();
        self.hold.clear();
    }
}

/// All of them. All zeros is an empty table.
pub struct Locks {
    used: AtomicU32,
    places: [AtomicU32; PLACES],
    locks: [Lock; LOCKS],
}

impl Locks {
    /// The lock of a key, if its record is at the first place where it is looked for.
    #[inline(always)]
    pub(crate) fn find_at_once(&self, key: Key) -> Option<(u32, &Lock)> {
        let number = self.places[key.place()].load(Acquire); // (L1) as in find
        let lock = self.locks.get((number as usize).wrapping_sub(1))?; // 0: none is there
        (lock.live.load(Relaxed) == key.0).then_some((number, lock))
    }

    /// The lock of a key, which has a record from now on. `None` if there is no room.
    ///
    /// Who made it may not have been seen: then it goes on with the record of an earlier one
    /// of those.
    pub(crate) fn find(&self, key: Key) -> Option<(u32, &Lock)> {
        let mut place = key.place();
        let mut unseen = None;
        loop {
            let number = self.places[place].load(Acquire); // (L1) pairs with enter's Release
            if number == 0 {
                if let Some((number, lock)) = unseen {
                    let lock: &Lock = lock;
                    lock.live.store(key.0, Relaxed); // who comes at the same time does the same
                    return Some((number, lock));
                }
                if let Some(entered) = self.enter(place, key, 0)? {
                    return Some(entered);
                }
                continue; // another came first
            }
            let lock = self.lock(number);
            if lock.live.load(Relaxed) == key.0 {
                return Some((number, lock));
            }
            if lock.key() == key && lock.created() == 0 {
                unseen = Some((number, lock));
            }
            place = (place + 1) % PLACES;
        }
    }

    /// A lock is destroyed: who finds another there does not go on with its record.
    pub(crate) fn destroyed(&self, key: Key) {
        let mut place = key.place();
        loop {
            let number = self.places[place].load(Acquire); // (L1)
            if number == 0 {
                return;
            }
            let lock = self.lock(number);
            if lock.key() == key {
                lock.live.store(0, Relaxed); // nobody uses it any more
            }
            place = (place + 1) % PLACES;
        }
    }

    /// A lock was made, by a stack. `false` if there is no room.
    pub(crate) fn made(&self, key: Key, created: u32) -> bool {
        let mut place = key.place();
        let mut is_known = false;
        loop {
            let number = self.places[place].load(Acquire); // (L1)
            if number == 0 {
                if is_known {
                    return true;
                }
                match self.enter(place, key, created) {
                    None => return false,
                    Some(Some(_)) => return true,
                    Some(None) => continue,
                }
            }
            let lock = self.lock(number);
            if lock.key() == key {
                let same = lock.created() == created;
                lock.live.store(if same { key.0 } else { 0 }, Relaxed); // nobody uses it yet
                is_known |= same;
            }
            place = (place + 1) % PLACES;
        }
    }

    /// Gives a lock a record. `None` without room, and `Some(None)` if the place is taken.
    #[cold]
    #[inline(never)]
    fn enter(&self, place: usize, key: Key, created: u32) -> Option<Option<(u32, &Lock)>> {
        if self.used.load(Relaxed) >= LOCKS as u32 {
            return None;
        }
        let number = self.used.fetch_add(1, Relaxed) + 1;
        let lock = self.locks.get(number as usize - 1)?;
        lock.live.store(key.0, Relaxed); // published by the exchange
        lock.key.store(key.0, Relaxed); // likewise
        lock.created.store(created, Relaxed); // likewise
        // (L1) Release pairs with the Acquire of who finds it.
        let entered = self.places[place].compare_exchange(0, number, Release, Relaxed);
        if entered.is_err() {
            lock.key.store(0, Relaxed); // nobody's: it is lost
        }
        Some(entered.is_ok().then_some((number, lock)))
    }

    pub(crate) fn lock(&self, number: u32) -> &Lock {
        &self.locks[number as usize - 1]
    }

    /// All that were taken, with their numbers.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (u32, &Lock)> {
        self.all().filter(|(_, lock)| lock.counts()[0] > 0)
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Lock)> {
        let used = self.used.load(Relaxed).min(LOCKS as u32); // one on its way is all zeros, or new
        (1..=used).map(|number| (number, self.lock(number)))
    }

    /// Sets all counts to 0, while nobody counts.
    pub(crate) fn clear(&self) {
        self.taken().for_each(|(_, lock)| lock.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Mode};
    use crate::{Profile, Stack};

    const ADDRESS: usize = 0x1000;

    #[test]
    fn a_lock_where_another_was_destroyed_has_a_record_of_its_own() {
        let profile = Profile::map().unwrap();
        let key = Key::new(ADDRESS, Mode::Mutex);
        let number = || profile.locks.find(key).unwrap().0;
        profile.made(key, &Stack::here(&(0..0)));
        let made = number();
        profile.destroyed(key);
        let unseen = number();
        assert_ne!(unseen, made);
        profile.destroyed(key);
        assert_eq!(number(), unseen, "nor is the next of those seen to be made");
        profile.made(key, &Stack::here(&(0..0)));
        assert_ne!(number(), unseen);
        assert_eq!(number(), number());
    }

    #[test]
    fn a_hold_that_another_ended_is_not_counted() {
        let profile = Profile::map().unwrap();
        let key = Key::new(ADDRESS, Mode::Mutex);
        let holds = || profile.locks.find(key).unwrap().1.hold.max();
        let stack = || Stack::here(&(0..0));
        let first = profile.look(profile.took(key).unwrap(), stack);
        let second = profile.look(profile.took(key).unwrap(), stack);
        profile.held(key, 1_000_000, first);
        assert_eq!(holds(), 0);
        profile.held(key, 1, second);
        assert_eq!(holds(), 1);
    }

    #[test]
    fn the_sites_of_a_lock_add_up_however_often_it_is_taken() {
        let profile = Profile::map().unwrap();
        let key = Key::new(ADDRESS, Mode::Mutex);
        for all in 1..=4000 {
            if let Some(taken) = profile.took(key) {
                profile.look(taken, || Stack::here(&(0..0)));
            }
            if [10, 100, 400, 1000, 4000].contains(&all) {
                let sites = profile.stacks.sampled();
                let sampled: u64 = sites.map(|site| site.acquisitions).sum();
                assert!(sampled.abs_diff(all) * 5 < all, "{sampled} of {all}");
            }
        }
    }
}
