//! What the runs say about each point of the grid.

use serde::Serialize;

use super::{Raw, plan::Point};
use crate::{
    record::{Record, rounded},
    values::{self, Work},
};

/// Differences within it are none.
pub const MARGIN: f64 = 0.02;

/// A lock at a point: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct LockAt {
    /// The lock.
    pub lock: &'static str,
    /// Median throughput.
    pub rate_kops: f64,
    /// Throughput of the slowest round.
    pub rate_min_kops: f64,
    /// Throughput of the fastest round.
    pub rate_max_kops: f64,
    /// Median of the rounds' median waits.
    pub wait_p50_ns: u64,
    /// Median of the rounds' 99.9th percentile waits.
    pub wait_p999_ns: u64,
    /// The longest sampled wait of all rounds.
    pub wait_max_ns: u64,
    /// The samples of the round that has the fewest.
    pub wait_samples: u64,
    /// Median of Jain's index.
    pub jain: f64,
}

/// A point of the grid: our lock and the best rival there.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "point")]
pub struct PointSummary {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The rounds in which every lock ran here.
    pub rounds: usize,
    /// The lock that is compared.
    pub lock: &'static str,
    /// The rival with the highest median throughput.
    pub best_rival: &'static str,
    /// Our median throughput over the best rival's.
    pub ratio: f64,
    /// Whether no rival dominates our lock: is better in both throughput and
    /// p99.9 wait, in the medians and in at least two thirds of the rounds.
    pub on_pareto_front: bool,
    /// The rivals that do.
    pub dominated_by: Vec<&'static str>,
    /// Every lock, ours first.
    pub locks: Vec<LockAt>,
}

impl PointSummary {
    /// Our lock here.
    pub fn ours(&self) -> &LockAt {
        &self.locks[0]
    }

    /// The rival with the highest median throughput here.
    pub fn best(&self) -> &LockAt {
        let mut all = self.locks.iter();
        all.find(|at| at.lock == self.best_rival)
            .expect("the best rival is one of the locks")
    }
}

/// Summarises every point at which each of `locks` completed a round; the
/// first lock is ours. Reading the clock for a wait took `clock_ns`.
pub fn summarise(raws: &[Raw], locks: &[&'static str], clock_ns: u64) -> Vec<PointSummary> {
    let points: Vec<Point> = raws.iter().map(Raw::point).collect();
    let points = values::distinct(&points).into_iter();
    points
        .filter_map(|point| {
            let here: Vec<&Raw> = raws.iter().filter(|raw| raw.point() == point).collect();
            at_point(point, &here, locks, clock_ns)
        })
        .collect()
}

impl Raw {
    fn point(&self) -> Point {
        let Record {
            load, gap, threads, ..
        } = self.record;
        Point {
            work: Work { load, gap },
            threads,
        }
    }
}

fn at_point(
    point: Point,
    here: &[&Raw],
    locks: &[&'static str],
    clock_ns: u64,
) -> Option<PointSummary> {
    let rounds = complete_rounds(here, locks);
    if rounds.is_empty() {
        return None;
    }
    let all: Vec<LockAt> = (0..locks.len())
        .map(|lock| LockAt::new(&rounds.iter().map(|round| round[lock]).collect::<Vec<_>>()))
        .collect();
    let (ours, others) = all.split_first()?;
    let best = others
        .iter()
        .max_by(|a, b| a.rate_kops.total_cmp(&b.rate_kops))?;
    let dominates = |rival: &usize| {
        let each = rounds.iter();
        let wins = each.filter(|r| better(r[*rival].rating(), r[0].rating(), clock_ns));
        better(all[*rival].rating(), ours.rating(), clock_ns)
            && 3 * wins.count() >= 2 * rounds.len()
    };
    let dominated_by: Vec<_> = (1..all.len())
        .filter(dominates)
        .map(|rival| all[rival].lock)
        .collect();
    Some(PointSummary {
        point,
        rounds: rounds.len(),
        lock: ours.lock,
        best_rival: best.lock,
        // Where nobody got anywhere, nobody is ahead.
        ratio: match best.rate_kops {
            0.0 => 1.0,
            best => rounded(ours.rate_kops / best, 1e4),
        },
        on_pareto_front: dominated_by.is_empty(),
        dominated_by,
        locks: all,
    })
}

/// The rounds in which every lock ran, each as the locks' records in order.
fn complete_rounds<'a>(here: &[&'a Raw], locks: &[&str]) -> Vec<Vec<&'a Record>> {
    let numbers: Vec<u32> = here.iter().map(|raw| raw.round).collect();
    let round = |number| {
        let runs = here.iter().filter(move |raw| raw.round == number);
        let of = |lock: &&str| runs.clone().find(|raw| raw.record.lock == *lock);
        locks
            .iter()
            .map(|lock| of(lock).map(|raw| &raw.record))
            .collect()
    };
    let numbers = values::distinct(&numbers).into_iter();
    numbers.filter_map(round).collect()
}

/// Throughput in kop/s and p99.9 wait in nanoseconds.
type Rating = (f64, u64);

/// Whether `a` is better than `b` in both.
fn better(a: Rating, b: Rating, clock_ns: u64) -> bool {
    a.0 > b.0 * (1.0 + MARGIN) && longer(b.1, a.1, clock_ns)
}

/// Whether the wait `a` is longer than `b`. Waits that differ by less than it
/// takes to measure one do not differ.
pub fn longer(a: u64, b: u64, clock_ns: u64) -> bool {
    a as f64 > b as f64 * (1.0 + MARGIN) && a > b + clock_ns
}

impl Record {
    fn rating(&self) -> Rating {
        (self.rate_kops, self.wait_p999_ns)
    }
}

impl LockAt {
    fn new(runs: &[&Record]) -> Self {
        let middle =
            |of: fn(&Record) -> f64| median(runs.iter().map(|record| of(record)).collect());
        let rates = runs.iter().map(|record| record.rate_kops);
        Self {
            lock: runs[0].lock,
            rate_kops: rounded(middle(|record| record.rate_kops), 1e3),
            rate_min_kops: rates.clone().fold(f64::INFINITY, f64::min),
            rate_max_kops: rates.fold(0.0, f64::max),
            wait_p50_ns: middle(|record| record.wait_p50_ns as f64) as u64,
            wait_p999_ns: middle(|record| record.wait_p999_ns as f64) as u64,
            wait_max_ns: runs.iter().map(|r| r.wait_max_ns).max().unwrap_or(0),
            wait_samples: runs.iter().map(|r| r.wait_samples).min().unwrap_or(0),
            jain: rounded(middle(|record| record.jain), 1e6),
        }
    }

    fn rating(&self) -> Rating {
        (self.rate_kops, self.wait_p999_ns)
    }

    /// Whether a round has so few samples that its p99.9 is its longest wait.
    pub fn sparse(&self) -> bool {
        self.wait_samples < 1000
    }

    /// How far the throughputs of the rounds lie apart, over their median.
    pub fn spread(&self) -> f64 {
        (self.rate_max_kops - self.rate_min_kops) / self.rate_kops.max(f64::MIN_POSITIVE)
    }
}

/// The middle of `values`, or between the two in the middle; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (0, 0) => 0.0,
        (middle, 1) => values[middle],
        (middle, _) => (values[middle - 1] + values[middle]) / 2.0,
    }
}
