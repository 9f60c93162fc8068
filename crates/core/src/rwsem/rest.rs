//! When a lock is biased, with a fence or without, and when it had better not be: a word
//! of hints.
//!
//! A lock that several tasks read is tried with a fenced bias; that lasts as long as many
//! enough read for each that writes. If nobody writes for long, and many read meanwhile, the bias
//! sheds its fence.

use crate::platform::{Ordering::Relaxed, Platform, Word};

/// A revoked bias does not come back before this many times the time that revoking it
/// took.
const PAYS: u32 = 32;
/// Times of rest are powers of two of these, in microseconds; of a bias without a fence, the
/// first and the longest: half a millisecond, and a second.
const GRAIN_MICROS: u32 = 64;
const SHORTEST: u32 = 3;
const LONGEST: u32 = 14;
/// Powers that a bias adds which was revoked before it had lasted as long as the rest
/// before it; another takes one away.
const DEARER: u32 = 3;

/// Powers that a fenced bias adds that was not worth its while; and the longest rest of one.
const FENCE_DEARER: u32 = 2;
const FENCE_LONGEST: u32 = 10;

/// How many writers more a fenced bias outlasts: at first at least, and at most. Samples are few
/// and pay for many writers each, so that goes up and down by chance. With the most at 127, chance
/// alone ended biases that were worth their while: with 511, two threads that read in nine of ten
/// cases do 8 % more (`most.jsonl` in benches/runs/rw-2cpu-xeon-300mib).
const BEGINS: u32 = 16;
const MOST: u32 = 511;
/// And for each sampled reader that is not the last writer, one for so much that it gains
/// ([`Platform::gain`]), up to [`SAMPLE_MOST`]; one, if that is not known.
///
/// A lock without the bias could stay with one that soon comes back to it. With two CPUs a writer
/// costs both together some 500 ns (`suspended-fence.jsonl` in
/// benches/runs/rw-2cpu-xeon-480mib), where a transfer takes 70 to 90; and half of the readers are
/// not the last writer, of whom one in 61 is sampled: 600 hundredths in 122. With the time that it
/// takes, such a writer counts as more than one.
const PAYS_FENCE: u32 = 4;
const SAMPLE_MOST: u32 = 51;

/// A writer counts as so many more for each microsecond in which it sees the readers off: where
/// they are many, it visits many. Of a task's writers one in so many is measured: the clock takes a
/// part of what a writer does.
const MICRO: u32 = 2;
const MEASURED: u32 = 8;

/// As how many a writer counts that has awaited them in vain: that ends a bias of which no more is
/// known, and not one for which many readers have paid.
const FAILED: u32 = BEGINS;

/// For how many writers a sampled reader pays that gains so much.
fn pays(gain: u32) -> u32 {
    gain.div_ceil(PAYS_FENCE).min(SAMPLE_MOST)
}

/// How many writers a fenced bias outlasts at first, of readers that gain so much: as many as four
/// samples pay for, if that is known.
fn begins(gain: Option<u32>) -> u32 {
    gain.map_or(BEGINS, |gain| (4 * pays(gain)).max(BEGINS))
}

/// How long the calling task took, of late, to see off the readers of a fenced bias, in
/// microseconds, and how many times it has done so since it measured that.
#[derive(Clone, Copy)]
pub(super) struct Drains(u32);

impl Drains {
    pub(super) fn of<P: Platform>() -> Self {
        Self(P::mine().rwsem.drains.load(Relaxed)) // its task's own
    }

    /// Whether the next is to be measured.
    pub(super) const fn is_measured(self) -> bool {
        self.0.is_multiple_of(MEASURED)
    }

    /// Notes one more; and if it is measured, since when it took until now.
    pub(super) fn note<P: Platform>(self, since: Option<u32>) -> Self {
        let after = self.after(since.map(|since| P::stamp().wrapping_sub(since)));
        P::mine().rwsem.drains.store(after.0, Relaxed); // its task's own
        after
    }

    /// Who was off its CPU for a while took no longer for that than the others.
    fn after(self, micros: Option<u32>) -> Self {
        let most = (2 * self.micros() + 1).min(MOST);
        match micros {
            Some(micros) => Self(micros.min(most) * MEASURED + 1),
            None => Self(self.0 - self.0 % MEASURED + (self.0 + 1) % MEASURED),
        }
    }

    pub(super) const fn micros(self) -> u32 {
        self.0 / MEASURED
    }
}

/// The last write; how long a lock rests since then until it is biased without a fence, and
/// until with one, powers of two; and how many writers more a fenced bias outlasts, 0 when
/// there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest(pub(super) u32);

impl Rest {
    const POWERS: u32 = 16;
    const WRITERS: u32 = MOST + 1;
    /// Of a time in grains, by the bits that are left.
    /// Half of them at least are past the longest rest.
    const TIMES: u32 = {
        let times = 1 << (u32::BITS - 2 * Self::POWERS.ilog2() - Self::WRITERS.ilog2());
        assert!(times >= 2 << LONGEST);
        times
    };

    const fn power(self) -> u32 {
        self.0 % Self::POWERS
    }

    const fn with_power(self, power: u32) -> Self {
        Self(self.0 - self.power() + power)
    }

    const fn fence_power(self) -> u32 {
        self.0 / Self::POWERS % Self::POWERS
    }

    const fn with_fence_power(self, power: u32) -> Self {
        Self(self.0 - self.fence_power() * Self::POWERS + power * Self::POWERS)
    }

    const UNIT: u32 = Self::POWERS * Self::POWERS;

    const fn writers(self) -> u32 {
        self.0 / Self::UNIT % Self::WRITERS
    }

    const fn with_writers(self, writers: u32) -> Self {
        Self(self.0 - self.writers() * Self::UNIT + writers * Self::UNIT)
    }

    const fn since(self) -> u32 {
        self.0 / Self::UNIT / Self::WRITERS
    }

    pub(super) fn restarted<P: Platform>(self) -> Self {
        self.restarted_at(P::stamp())
    }

    fn restarted_at(self, now: u32) -> Self {
        let rest = self.0 % (Self::UNIT * Self::WRITERS);
        Self(now / GRAIN_MICROS % Self::TIMES * Self::UNIT * Self::WRITERS + rest)
    }

    /// Whether a fenced bias is to come back.
    #[inline(always)]
    pub(super) const fn is_fenced(self) -> bool {
        self.writers() > 0
    }

    fn has_passed<P: Platform>(self, power: u32) -> bool {
        let now = P::stamp();
        let grains = (now / GRAIN_MICROS).wrapping_sub(self.since()) % Self::TIMES;
        let since = now.wrapping_sub(grains * GRAIN_MICROS);
        P::elapsed(since, GRAIN_MICROS << power)
    }

    /// Whether the bias may shed its fence; or, while it is there, whether it has paid.
    pub(super) fn is_over<P: Platform>(self) -> bool {
        self.has_passed::<P>(self.power())
    }

    /// Whether the lock may be biased with a fence, and is not.
    pub(super) fn may_fence<P: Platform>(self) -> bool {
        !self.is_fenced() && (self.is_new() || self.has_passed::<P>(self.fence_power()))
    }

    /// Of a lock that was never biased, and is to be.
    pub(super) const ASKED: Self = Self(1);

    /// Whether the lock was never biased.
    pub(super) const fn is_new(self) -> bool {
        self.0 <= Self::ASKED.0
    }

    pub(super) fn fenced<P: Platform>(self) -> Self {
        self.with_writers(begins(P::gain())).restarted::<P>()
    }

    /// After a bias without a fence that was revoked in so many microseconds.
    pub(super) fn revoked<P: Platform>(self, micros: u32) -> Self {
        let power = match self.is_over::<P>() {
            true => self.power().saturating_sub(1),
            false => self.power() + DEARER,
        };
        let least = (micros.saturating_mul(PAYS) / GRAIN_MICROS).max(1).ilog2() + 1;
        let power = power.max(least).clamp(SHORTEST, LONGEST);
        self.with_power(power).fenced::<P>()
    }

    /// A writer has seen off the readers of a fenced bias, which takes it so many microseconds.
    pub(super) fn written(self, micros: u32, now: u32) -> Self {
        self.cost(1 + micros * MICRO, now)
    }

    /// A writer has not, for one of them is off its CPU.
    pub(super) fn failed<P: Platform>(self) -> Self {
        self.cost(FAILED, P::stamp())
    }

    fn cost(self, writers: u32, now: u32) -> Self {
        let writers = self.writers().saturating_sub(writers);
        let dearer = if writers == 0 { FENCE_DEARER } else { 0 };
        let power = (self.fence_power() + dearer).min(FENCE_LONGEST);
        self.with_writers(writers)
            .with_fence_power(power)
            .restarted_at(now)
    }

    /// A sampled reader has come by a fenced bias, which gains so much.
    pub(super) fn sampled(self, gain: Option<u32>) -> Self {
        let outlasts = gain.map_or(1, pays);
        match self.writers() + outlasts {
            writers @ ..=MOST => self.with_writers(writers),
            _ => self.with_fence_power(self.fence_power().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampled_reader_pays_for_as_many_writers_as_it_gains() {
        for (gain, pays) in [
            (None, 1),
            (Some(0), 0),
            (Some(1), 1),
            (Some(80), 20),
            (Some(u32::MAX), SAMPLE_MOST),
        ] {
            let rest = Rest(7).with_writers(BEGINS);
            assert_eq!(rest.sampled(gain), Rest(7).with_writers(BEGINS + pays));
        }
    }

    #[test]
    fn one_in_so_many_is_measured_and_one_that_takes_long_says_little() {
        let mut drains = Drains(0);
        let took = [0, 5000, 0, 4, 4, 4, 4, u32::MAX, 4];
        for (micros, said) in took.into_iter().zip([0, 1, 0, 1, 3, 4, 4, 9, 4]) {
            assert!(drains.is_measured());
            drains = drains.after(Some(micros));
            assert_eq!(drains.micros(), said);
            for _ in 1..MEASURED {
                assert!(!drains.is_measured());
                drains = drains.after(None);
            }
            assert_eq!(drains.micros(), said);
        }
        let most = (0..10).fold(Drains(0), |drains, _| drains.after(Some(u32::MAX)));
        assert_eq!(most.micros(), MOST);
    }

    #[test]
    fn what_outlasts_the_most_comes_back_sooner() {
        let rest = Rest(7).with_fence_power(3).with_writers(MOST);
        assert_eq!(rest.sampled(None), rest.with_fence_power(2));
    }

    #[test]
    fn what_was_biased_is_never_new_again() {
        for writers in 1..=MOST {
            let rest = Rest(0).with_writers(writers);
            let left = [
                rest,
                rest.cost(1, 0),
                rest.cost(MOST, 0),
                rest.sampled(Some(0)),
            ];
            assert!(left.iter().all(|rest| !rest.is_new()), "{left:?}");
        }
    }

    #[test]
    fn no_bias_begins_with_more_writers_than_there_is_room_for() {
        for gain in [None, Some(0), Some(100), Some(u32::MAX)] {
            let begins = begins(gain);
            assert!((BEGINS..=MOST).contains(&begins));
            assert_eq!(Rest(0).with_writers(begins).writers(), begins);
        }
    }
}
