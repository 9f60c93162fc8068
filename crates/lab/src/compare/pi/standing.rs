//! How a lock stands beside the rival, in rounds that both ran.

use serde::Serialize;

use super::super::summary::{self, MARGIN, median};

/// What becomes of a lock beside another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It is ahead: by more than the margin in the medians and in two thirds of the rounds.
    Wins,
    /// Neither is.
    Ties,
    /// The other is.
    Loses,
}

impl Standing {
    /// Of numbers of the same rounds, the more the better.
    pub fn of_rates(ours: &[f64], theirs: &[f64]) -> Self {
        let better = |more: f64, less: f64| more > less * (1.0 + MARGIN);
        Self::new(ours, theirs, |all| median(all.to_vec()), better)
    }

    /// Of times in nanoseconds, the shorter the better. Nobody knows of one that was
    /// not measured.
    pub fn of_times(ours: &[Option<u64>], theirs: &[Option<u64>], clock_ns: u64) -> Self {
        let better = |short: Option<u64>, long: Option<u64>| {
            let both = short.zip(long);
            both.is_some_and(|(short, long)| summary::longer(long, short, clock_ns))
        };
        Self::new(ours, theirs, |all| middle(all.iter().copied()), better)
    }

    fn new<T: Copy>(
        ours: &[T],
        theirs: &[T],
        middle: impl Fn(&[T]) -> T,
        better: impl Fn(T, T) -> bool,
    ) -> Self {
        let ahead = |these: &[T], those: &[T]| {
            let rounds = these.iter().zip(those);
            let wins = rounds.clone().filter(|(this, that)| better(**this, **that));
            better(middle(these), middle(those)) && 3 * wins.count() >= 2 * rounds.len()
        };
        match (ahead(ours, theirs), ahead(theirs, ours)) {
            (true, _) => Self::Wins,
            (_, true) => Self::Loses,
            _ => Self::Ties,
        }
    }

    /// The standing in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wins => "wins",
            Self::Ties => "ties",
            Self::Loses => "loses",
        }
    }
}

/// The median of the times that are known.
pub fn middle(times: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let known: Vec<f64> = times.flatten().map(|ns| ns as f64).collect();
    (!known.is_empty()).then(|| median(known) as u64)
}
