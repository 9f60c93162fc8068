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

/// Which of many occasions are looked at closely: the first few, then fewer the more there
/// were, so that however many there are the latest count as much as the first.
pub struct Sampling {
    /// So many first ones; of those around number `n` so many of `n`.
    pub first: u64,
    /// At last one in two to this power.
    pub bits: u32,
}

impl Sampling {
    /// How many occasions the one with this number stands for, 0 if it is not looked at.
    /// The distances differ, so that no pattern of the program's is always met or missed.
    #[inline(always)]
    pub const fn weight(&self, number: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 over the golden ratio
        let random = number.wrapping_mul(GOLDEN); // as good as that
        if number >= self.first << self.bits {
            return ((random >> (64 - self.bits) == 0) as u64) << self.bits;
        }
        // A random part of the number: it is below `first` with that chance, of `number`.
        let part = ((number as u128 * random as u128) >> 64) as u64;
        if part >= self.first {
            0
        } else if number < self.first {
            1
        } else {
            (number + self.first / 2) / self.first // to the nearest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_the_occasions_however_many() {
        for (first, bits, error) in [(8, 12, 0.18), (64, 4, 0.063), (64, 6, 0.063)] {
            let sampling = Sampling { first, bits };
            let mut sum = 0;
            for number in 0..200_000 {
                sum += sampling.weight(number);
                let all = number + 1;
                assert!(all > first || sum == all, "{sum} of {all}");
                let wrong = sum.abs_diff(all) as f64 / all as f64;
                assert!(wrong < error, "{sum} of {all}");
            }
        }
    }

    #[test]
    fn what_is_sampled_less_is_sampled_of_what_is_sampled_more() {
        let [more, less] = [(64, 6), (8, 12)].map(|(first, bits)| Sampling { first, bits });
        let missed = |number: &u64| less.weight(*number) > 0 && more.weight(*number) == 0;
        assert_eq!((0..1_000_000).find(missed), None);
    }
}
