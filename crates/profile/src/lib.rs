//! The profile of a program's locks: how often each is taken, how long it is waited for
//! and held, and by which lines of the program.
//!
//! Who takes a lock tells a [`Profile`] so, from within the lock: it allocates nothing,
//! waits for nobody and has room for so many locks and stacks; what finds none it counts.
//! Every acquisition and every wait is counted, and how long each wait was. How long a
//! lock is held, and by what stacks it is taken, is sampled. At the end the profile makes a
//! [`Report`], which finds symbols and allocates.

mod counter;
mod histogram;
mod holds;
mod locks;
mod report;
mod stacks;
mod symbols;

use std::{
    io, ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use counter::Sampling;
pub use holds::Holds;
pub use locks::{Key, Mode, Wait};
use locks::{Lock, Locks};
pub use report::{Report, Times};
pub use stacks::Stack;
use stacks::{Sampled, Stacks};
pub use symbols::Frame;

/// Which acquisitions of a lock have their hold timed. It costs two looks at the clock.
const HOLDS: Sampling = Sampling { first: 64, bits: 6 };
/// Which have their stack taken, if they did not wait: some of these. It costs microseconds.
const STACKS: Sampling = Sampling { first: 8, bits: 12 };
/// Which waits have their stack taken.
const WAITS: Sampling = Sampling { first: 64, bits: 4 };

/// The profile of one process.
pub struct Profile {
    locks: Locks,
    stacks: Stacks,
    /// Acquisitions of locks that have no record.
    dropped: AtomicU64,
}

/// An acquisition that is looked at closely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The lock's number.
    lock: u32,
    /// How many there were before.
    before: u64,
}

/// A hold that is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    taken: Taken,
    /// How many holds it stands for.
    weight: u64,
}

/// Who waits, if that is sampled.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    stack: Stack,
    /// How many waits it stands for.
    weight: u64,
}

impl Profile {
    /// An empty one, in memory of its own that is there for ever.
    ///
    /// # Errors
    /// What the kernel says when there is no memory for it.
    pub fn map() -> io::Result<&'static Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no
        // other memory.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), size_of::<Self>(), protection, flags) }?;
        // SAFETY: it is as large, aligned to a page, never unmapped, and all zeros, of which
        // the atomics that a profile is made of are valid.
        Ok(unsafe { &*mapped.cast::<Self>() })
    }

    /// The lock was made by the caller, and nobody uses it yet.
    pub fn made(&self, key: Key, stack: &Stack) {
        let created = self.stacks.number(stack);
        if !self.locks.made(key, created) {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// The caller has taken the lock without waiting. Now and then it is to be looked at
    /// closely.
    pub fn took(&self, key: Key) -> Option<Taken> {
        let Some((lock, record)) = self.locks.find(key) else {
            self.dropped.fetch_add(1, Relaxed);
            return None;
        };
        Self::counted(key, lock, record)
    }

    /// The same, if the lock's record is found at once; else `None`, and nothing is counted.
    #[inline(always)]
    pub fn took_known(&self, key: Key) -> Option<Option<Taken>> {
        let (lock, record) = self.locks.find_at_once(key)?;
        Some(Self::counted(key, lock, record))
    }

    #[inline(always)]
    fn counted(key: Key, lock: u32, record: &Lock) -> Option<Taken> {
        let before = record.acquired(key);
        (HOLDS.weight(before) > 0).then_some(Taken { lock, before })
    }

    /// Looks at it. `stack` is asked for now and then.
    pub fn look(&self, taken: Taken, stack: impl FnOnce() -> Stack) -> Timed {
        let Taken { lock, before } = taken;
        let acquisitions = STACKS.weight(before);
        if acquisitions > 0 {
            let stack = self.stacks.number(&stack());
            self.stacks.add(Sampled {
                lock,
                stack,
                acquisitions,
                ..Sampled::default()
            });
        }
        let weight = HOLDS.weight(before);
        Timed { taken, weight }
    }

    /// The caller is about to wait for the lock. `stack` is asked for now and then: before
    /// the wait, for it would make the hold longer.
    pub fn waits(&self, key: Key, stack: impl FnOnce() -> Stack) -> Option<Waiter> {
        let (_, lock) = self.locks.find(key)?;
        let weight = WAITS.weight(lock.contended());
        (weight > 0).then(|| Waiter {
            stack: stack(),
            weight,
        })
    }

    /// The caller has taken the lock after a wait. Returns whether its hold is to be timed.
    pub fn waited(&self, key: Key, wait: Wait, waiter: Option<&Waiter>) -> Option<Timed> {
        let Some((number, lock)) = self.locks.find(key) else {
            self.dropped.fetch_add(1, Relaxed);
            return None;
        };
        if let Some(&Waiter { ref stack, weight }) = waiter {
            self.stacks.add(Sampled {
                lock: number,
                stack: self.stacks.number(stack),
                acquisitions: weight,
                contended: weight,
                wait_ns: wait.ns.saturating_mul(weight),
            });
        }
        lock.waited(wait);
        let before = lock.acquired(key);
        let weight = HOLDS.weight(before);
        let taken = Taken {
            lock: number,
            before,
        };
        (weight > 0).then_some(Timed { taken, weight })
    }

    /// The caller is about to release the lock that it has held for so long: or another has,
    /// and it was taken since.
    pub fn held(&self, key: Key, ns: u64, timed: Timed) {
        if self.may_last(key, timed) {
            self.locks.lock(timed.taken.lock).held(ns, timed.weight);
        }
    }

    /// Whether a hold may not be over yet.
    fn may_last(&self, key: Key, timed: Timed) -> bool {
        let Taken { lock, before } = timed.taken;
        self.locks.lock(lock).may_be_held(key, before)
    }

    /// The lock is destroyed: nobody uses it any more.
    pub fn destroyed(&self, key: Key) {
        self.locks.destroyed(key);
    }

    /// In a fork's child, which counts its own from 0. The locks stay known.
    pub fn clear(&self) {
        self.locks.clear();
        self.stacks.clear();
        self.dropped.store(0, Relaxed); // alone
    }
}
