//! A lock as this crate sees it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::stack::mix;

/// What lies in a lock for this crate: its number, 0 as long as nothing is known of it.
///
/// It lies in the lock, and is not looked up by the lock's address: who makes a lock in
/// memory that had another writes zero here, and so makes it a lock of which nothing is
/// known.
#[derive(Default)]
#[repr(transparent)]
pub struct Tag(AtomicU32);

impl Tag {
    /// Of a lock of which nothing is known.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

/// What a report calls a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A reader-writer lock.
    Rwlock,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwlock => "rwlock",
        }
    }

    pub(crate) fn from_u8(kind: u8) -> Self {
        [Self::Mutex, Self::Rwlock][usize::from(kind)]
    }
}

/// A lock.
#[derive(Clone, Copy)]
pub struct Lock<'a> {
    /// By what a report names it.
    pub address: usize,
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub tag: &'a Tag,
}

/// A lock that has a number.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// Of the number and the address: one that was copied or moved is another lock.
    pub key: u64,
    pub address: usize,
    pub kind: Kind,
}

impl Lock<'_> {
    /// The lock, if it has a number.
    pub(crate) fn known(self) -> Option<Known> {
        let number = self.tag.0.load(Relaxed); // it tells no more than itself, here and below
        (number != 0).then(|| self.with(number))
    }

    /// The lock, with a number now.
    pub(crate) fn make_known(self) -> Known {
        static LATEST: AtomicU32 = AtomicU32::new(0);
        self.known().unwrap_or_else(|| {
            let next = LATEST.fetch_add(1, Relaxed).wrapping_add(1).max(1);
            let given = self.tag.0.compare_exchange(0, next, Relaxed, Relaxed);
            self.with(given.map_or_else(|another| another, |_| next))
        })
    }

    fn with(self, number: u32) -> Known {
        Known {
            // Mixed first: `mix` shifts the small number over an address's bits as it is.
            key: mix(mix(1, u64::from(number)), self.address as u64) | 1,
            address: self.address,
            kind: self.kind,
        }
    }

    /// It is no more: what comes to lie here is another.
    pub(crate) fn make_unknown(self) {
        self.tag.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn locks_far_apart_are_not_one() {
        let tag = &Tag::new();
        let key = |number, address| {
            let kind = Kind::Mutex;
            Lock { address, kind, tag }.with(number).key
        };
        // Neighbours in number, and multiples of 8 MB apart, as mappings are.
        let far = |number| (0..64).map(move |at| key(number, 0x7f00_0000_0000 + (at << 23)));
        let keys: HashSet<u64> = (1..=64).flat_map(far).collect();
        assert_eq!(keys.len(), 64 * 64);
    }
}
