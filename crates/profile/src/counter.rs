//! Counters, and which occasions are sampled.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who may count at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// Nobody else: the caller has the lock that is counted for.
    Alone,
    /// Others, too.
    Shared,
}

impl Counting {
    /// Adds to a counter; returns what it was.
    #[inline(always)]
    pub fn add(self, counter: &AtomicU64, n: u64) -> u64 {
        match self {
            Self::Alone => {
                let before = counter.load(Relaxed); // statistics, in the owner's hands
                counter.store(before.wrapping_add(n), Relaxed); // likewise
                before
            }
            Self::Shared => counter.fetch_add(n, Relaxed), // it tells no more than itself
        }
    }
}

/// Which of many occasions are looked at closely: the first few, then one of some.
pub struct Sampling {
    /// So many first ones.
    pub first: u64,
    /// Later one in two to this power.
    pub bits: u32,
}

impl Sampling {
    /// How many occasions the one with this number stands for, 0 if it is not looked at.
    /// The distances differ, so that no pattern of the program's is always met or missed.
    #[inline(always)]
    pub const fn weight(&self, number: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 over the golden ratio
        if number < self.first {
            1
        } else if number.wrapping_mul(GOLDEN) >> (64 - self.bits) == 0 {
            1 << self.bits
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_the_occasions() {
        let sampling = Sampling { first: 64, bits: 4 };
        let weights = (0..100_064).map(|n| sampling.weight(n));
        let sum: u64 = weights.clone().sum();
        assert!(sum.abs_diff(100_064) < 200, "{sum}");
        assert!(weights.take(64).all(|weight| weight == 1));
    }
}
