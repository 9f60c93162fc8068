//! The values that flags take. Each parser's error says what would be valid.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use lockyard_torture::{Host, Native, Simulated};
use serde::Serialize;

/// The most threads that a run may ask for: 32 for each of 256 CPUs. A thread
/// takes four memory maps, and Linux allows a process 65,530 unless told else;
/// std aborts when they run out.
pub const MAX_THREADS: usize = 8_192;

/// Where locks run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum World {
    // On this machine. (A doc comment would be part of the help.)
    Native,
    // On a simulated one.
    Sim,
}

impl World {
    /// The world's name, as `--world` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => Native::NAME,
            Self::Sim => Simulated::NAME,
        }
    }
}

/// Work units inside the critical section, and between two of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Work {
    /// Inside.
    pub load: u32,
    /// Outside.
    pub gap: u32,
}

impl Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}/{}", self.load, self.gap))
    }
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    whole(text, 1..=MAX_THREADS)
}

/// A number of readers, of whom there may be none.
pub fn readers(text: &str) -> Result<usize, String> {
    whole(text, 0..=MAX_THREADS)
}

/// A number of threads whose schedules are explored. The more there are, the
/// smaller the part of their schedules that anybody can run.
pub fn tasks(text: &str) -> Result<usize, String> {
    whole(text, 2..=16)
}

/// A number of schedules.
pub fn schedules(text: &str) -> Result<u64, String> {
    whole(text, 1..=1_000_000_000)
}

/// A number of runs.
pub fn runs(text: &str) -> Result<u32, String> {
    whole(text, 1..=1000)
}

/// A number of rounds. With fewer than three a median says nothing.
pub fn rounds(text: &str) -> Result<u32, String> {
    whole(text, 3..=1000)
}

/// A seed.
pub fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0..=u64::MAX)
}

/// One acquisition in so many.
pub fn sample(text: &str) -> Result<u32, String> {
    whole(text, 1..=1_000_000)
}

/// Work units: at most about 10 ms of them.
pub fn units(text: &str) -> Result<u32, String> {
    whole(text, 0..=10_000_000)
}

/// A percentage.
pub fn percentage(text: &str) -> Result<u32, String> {
    whole(text, 0..=100)
}

/// A number of cache lines, of which there may be none.
pub fn lines(text: &str) -> Result<u32, String> {
    whole(text, 0..=65_536)
}

/// A time in seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.001..=86_400.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("use a number of seconds from 0.001 to 86400".into()),
    }
}

/// A time in seconds after which something happens, or 0 if it never does.
pub fn period(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => seconds(text).map_err(|why| format!("{why}, or 0")),
    }
}

/// The unit of long holds, in milliseconds.
pub fn hold(text: &str) -> Result<Duration, String> {
    whole(text, 1..=5_000).map(Duration::from_millis)
}

/// A number of groups of threads.
pub fn groups(text: &str) -> Result<usize, String> {
    whole(text, 1..=1_000)
}

/// A number of inversions.
pub fn inversions(text: &str) -> Result<u64, String> {
    whole(text, 1..=1_000_000_000_000)
}

/// A number of futexes of each thread.
pub fn futexes(text: &str) -> Result<usize, String> {
    whole(text, 1..=65_536)
}

/// A number of waiters in a world where they cost nothing but memory.
pub fn waiters(text: &str) -> Result<u32, String> {
    whole(text, 1..=4_000_000)
}

/// How long an inversion may last, in milliseconds.
pub fn limit(text: &str) -> Result<Duration, String> {
    whole(text, 1..=10_000).map(Duration::from_millis)
}

/// Work as `LOAD/GAP`.
pub fn work(text: &str) -> Result<Work, String> {
    let parsed = text.split_once('/').and_then(|(load, gap)| {
        Some(Work {
            load: units(load).ok()?,
            gap: units(gap).ok()?,
        })
    });
    parsed.ok_or_else(|| "use LOAD/GAP, work units from 0 to 10000000 each, as in 50/1000".into())
}

fn whole<T: FromStr + PartialOrd + Display>(
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    match text.parse() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(format!(
            "use a whole number from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

/// `values` without repetitions, in their order.
pub fn distinct<T: PartialEq + Clone>(values: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}
