//! Times by their size: eight classes to each power of two, so that a quantile is at most
//! an eighth too long.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counter::Counting;

const CLASSES_BITS: u32 = 3;
const CLASSES: u64 = 1 << CLASSES_BITS;
/// The last class has all from 69 minutes on.
const LARGEST_BITS: u32 = 42;
const BUCKETS: usize = ((LARGEST_BITS - CLASSES_BITS + 1) << CLASSES_BITS) as usize;

/// Times in nanoseconds, each with a weight. All zeros is an empty one.
pub struct Histogram {
    sum: AtomicU64,
    max: AtomicU64,
    counts: [AtomicU64; BUCKETS],
}

impl Histogram {
    /// An empty one.
    #[cfg(test)]
    const fn new() -> Self {
        Self {
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
            counts: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Adds a time that stands for `weight` of its kind.
    pub fn add(&self, ns: u64, weight: u64, counting: Counting) {
        counting.add(&self.counts[bucket(ns)], weight);
        counting.add(&self.sum, ns.saturating_mul(weight));
        if self.max.load(Relaxed) < ns {
            self.max.fetch_max(ns, Relaxed);
        }
    }

    /// Makes it empty, while nobody adds.
    pub fn clear(&self) {
        let all = self.counts.iter().chain([&self.sum, &self.max]);
        all.filter(|counter| counter.load(Relaxed) != 0)
            .for_each(|counter| counter.store(0, Relaxed)); // alone, as the caller says
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Relaxed) == 0)
    }

    /// The sum, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    /// The longest, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// The time that a share `quantile` of all does not exceed, in nanoseconds; 0 if there
    /// is none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let count: u64 = self.counts.iter().map(|count| count.load(Relaxed)).sum();
        let wanted = ((count as f64 * quantile).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.counts.iter().position(|count| {
            below += count.load(Relaxed);
            below >= wanted
        });
        reached.map_or(0, |bucket| largest(bucket).min(self.max()))
    }
}

/// Where a time is counted.
const fn bucket(ns: u64) -> usize {
    if ns < CLASSES {
        return ns as usize;
    }
    let bits = ns.ilog2();
    if bits >= LARGEST_BITS {
        return BUCKETS - 1;
    }
    let class = (ns >> (bits - CLASSES_BITS)) & (CLASSES - 1);
    (((bits - CLASSES_BITS + 1) as usize) << CLASSES_BITS) + class as usize
}

/// The longest time that is counted there.
const fn largest(bucket: usize) -> u64 {
    let (power, class) = (bucket as u64 >> CLASSES_BITS, bucket as u64 & (CLASSES - 1));
    match power {
        0 => class,
        _ => ((CLASSES + class + 1) << (power - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another() {
        let mut last = 0;
        for bucket_number in 1..BUCKETS {
            let first = largest(bucket_number - 1) + 1;
            assert_eq!(bucket(first), bucket_number);
            assert_eq!(bucket(largest(bucket_number)), bucket_number);
            assert!(first > last);
            last = first;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_long() {
        let histogram = Histogram::new();
        (1..=1000).for_each(|n| histogram.add(n * 100, 1, Counting::Alone));
        histogram.add(5, 1000, Counting::Shared);
        assert_eq!(histogram.quantile(0.5), 5);
        let p75 = histogram.quantile(0.75);
        assert!((50_000..=56_250).contains(&p75), "{p75}");
        assert_eq!(histogram.quantile(1.0), 100_000);
        assert_eq!(histogram.sum(), 50_050_000 + 5_000);
        histogram.clear();
        assert_eq!((histogram.quantile(0.99), histogram.max()), (0, 0));
        assert!(histogram.is_empty());
        histogram.add(0, 1, Counting::Alone);
        assert!(!histogram.is_empty());
    }
}
