//! What the runs say about each point of the grid.

use std::collections::BTreeMap;

use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::{Raw, plan::Point};
use crate::{
    record::{Apart, Record, rounded},
    values,
};

/// Differences within it are none.
pub const MARGIN: f64 = 0.02;

/// A lock dominates its equal in one round of four: each of the two things is better in every
/// other, if they have nothing to do with each other.
const BY_CHANCE: f64 = 0.25;
/// What chance does no more often than this is none.
pub const SELDOM: f64 = 0.05;

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
    /// Median of the rounds' median waits, of those that sampled any.
    pub wait_p50_ns: Option<u64>,
    /// Median of the rounds' 99.9th percentile waits.
    pub wait_p999_ns: Option<u64>,
    /// The longest sampled wait of all rounds.
    pub wait_max_ns: Option<u64>,
    /// The samples of the round that has the fewest.
    pub wait_samples: u64,
    /// Median of Jain's index.
    pub jain: f64,
    /// Readers and writers apart, where there were to be readers.
    #[serde(flatten)]
    pub apart: Option<ApartAt>,
}

/// The waits of readers, and those of writers, over the rounds; of none that
/// was not sampled.
#[derive(Clone, Debug, Serialize)]
pub struct ApartAt {
    /// Median of the rounds' 99.9th percentile waits of readers.
    pub read_wait_p999_ns: Option<u64>,
    /// The longest sampled wait of a reader of all rounds.
    pub read_wait_max_ns: Option<u64>,
    /// The samples of readers in the round that has the fewest.
    pub read_wait_samples: u64,
    /// Median of the rounds' 99.9th percentile waits of writers.
    pub write_wait_p999_ns: Option<u64>,
    /// The longest sampled wait of a writer of all rounds.
    pub write_wait_max_ns: Option<u64>,
    /// The samples of writers in the round that has the fewest.
    pub write_wait_samples: u64,
}

/// A p99.9 wait.
#[derive(Clone, Copy)]
pub struct Tail {
    /// Whose, where readers and writers are apart.
    pub whose: Option<&'static str>,
    /// Nanoseconds; unknown when none was sampled.
    pub ns: Option<u64>,
    /// The samples of the round that has the fewest.
    pub samples: u64,
}

impl Tail {
    /// Whether a round has so few samples that this is its longest wait.
    pub fn sparse(&self) -> bool {
        self.ns.is_some() && self.samples < 1000
    }

    /// Whether it is longer than `other`. Nobody knows of one that was not
    /// sampled.
    pub fn longer(&self, other: &Self, clock_ns: u64) -> bool {
        let both = self.ns.zip(other.ns);
        both.is_some_and(|(a, b)| longer(a, b, clock_ns))
    }
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
    /// p99.9 wait, in the medians and in more of the rounds than an equal would be
    /// by chance one time in 20 (3 of 3, 4 of 5, 5 of 7, 8 of 15). Where
    /// readers and writers are apart, better in p99.9 wait is who is better in
    /// that of one of them and not worse in that of the other. Null where even all of
    /// the rounds are too few to say.
    pub on_pareto_front: Option<bool>,
    /// The rivals that do.
    pub dominated_by: Vec<&'static str>,
    /// The rivals that did, but not clearly, and not when they were measured again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<&'static str>,
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

/// A point at which locks ran, but not every one of them a round.
#[derive(Clone, Debug, Serialize)]
pub struct CutShort {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The throughput of each lock that ran.
    pub rate_kops: BTreeMap<&'static str, f64>,
}

/// Summarises every point at which each of `locks` completed a round; the
/// first lock is ours. Reading the clock for a wait took `clock_ns`.
pub fn summarise(raws: &[Raw], locks: &[&'static str], clock_ns: u64) -> Vec<PointSummary> {
    let points: Vec<Point> = raws.iter().map(|raw| raw.point).collect();
    let points = values::distinct(&points).into_iter();
    points
        .filter_map(|point| {
            let here: Vec<&Raw> = raws.iter().filter(|raw| raw.point == point).collect();
            at_point(point, &here, locks, clock_ns)
        })
        .collect()
}

/// The point that an interrupt kept out of `points`, which are those of `raws`.
pub fn cut_short(
    raws: &[Raw],
    locks: &[&'static str],
    points: &[PointSummary],
) -> Option<CutShort> {
    let whole = |raw: &&Raw| points.iter().any(|p| p.point == raw.point);
    let counts = |raw: &&Raw| locks.contains(&raw.record.lock) && !whole(raw);
    let point = raws.iter().find(counts)?.point;
    let here = raws.iter().filter(counts).filter(|raw| raw.point == point);
    Some(CutShort {
        point,
        rate_kops: here
            .map(|raw| (raw.record.lock, raw.record.rate_kops))
            .collect(),
    })
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
    let dominated_by: Vec<_> = (1..all.len())
        .filter(|rival| dominates(&rounds, *rival, clock_ns))
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
        on_pareto_front: beyond_chance(rounds.len(), rounds.len())
            .then_some(dominated_by.is_empty()),
        dominated_by,
        unconfirmed: Vec::new(),
        locks: all,
    })
}

/// Whether that lock dominates the first, by the runs of all in each round.
pub fn dominates(rounds: &[Vec<&Record>], rival: usize, clock_ns: u64) -> bool {
    let median = |lock: usize| {
        let runs: Vec<_> = rounds.iter().map(|round| round[lock]).collect();
        LockAt::new(&runs).rating()
    };
    let each = rounds.iter();
    let wins = each.filter(|r| better(&r[rival].rating(), &r[0].rating(), clock_ns));
    better(&median(rival), &median(0), clock_ns) && beyond_chance(wins.count(), rounds.len())
}

/// Whether equals would seldom have one dominate the other in as many of so many rounds.
fn beyond_chance(rounds: usize, of: usize) -> bool {
    let by_chance = Binomial::new(BY_CHANCE, of as u64).expect("a probability");
    let as_many = rounds.checked_sub(1).map(|less| by_chance.sf(less as u64));
    as_many.is_some_and(|chance| chance < SELDOM)
}

/// The rounds in which every lock ran, each as the locks' records in order.
pub fn complete_rounds<'a>(here: &[&'a Raw], locks: &[&str]) -> Vec<Vec<&'a Record>> {
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

/// Throughput in kop/s and p99.9 waits.
struct Rating {
    rate_kops: f64,
    tails: Vec<Tail>,
}

/// Whether `a` is better than `b` in both.
fn better(a: &Rating, b: &Rating, clock_ns: u64) -> bool {
    let longer = |these: &Rating, those: &Rating| {
        let mut pairs = these.tails.iter().zip(&those.tails);
        pairs.any(|(this, that)| this.longer(that, clock_ns))
    };
    a.rate_kops > b.rate_kops * (1.0 + MARGIN) && longer(b, a) && !longer(a, b)
}

/// Whether the wait `a` is longer than `b`. Waits that differ by less than it
/// takes to measure one do not differ.
pub fn longer(a: u64, b: u64, clock_ns: u64) -> bool {
    a as f64 > b as f64 * (1.0 + MARGIN) && a > b + clock_ns
}

impl Record {
    fn rating(&self) -> Rating {
        LockAt::new(&[self]).rating()
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
            wait_p50_ns: known_median(runs.iter().map(|run| run.wait_p50_ns)),
            wait_p999_ns: known_median(runs.iter().map(|run| run.wait_p999_ns)),
            wait_max_ns: runs.iter().filter_map(|run| run.wait_max_ns).max(),
            wait_samples: runs.iter().map(|r| r.wait_samples).min().unwrap_or(0),
            jain: rounded(middle(|record| record.jain), 1e6),
            apart: ApartAt::new(runs),
        }
    }

    fn rating(&self) -> Rating {
        Rating {
            rate_kops: self.rate_kops,
            tails: self.tails(),
        }
    }

    /// Its p99.9 wait; or that of readers and that of writers.
    pub fn tails(&self) -> Vec<Tail> {
        let tail = |whose, ns, samples| Tail { whose, ns, samples };
        match &self.apart {
            None => vec![tail(None, self.wait_p999_ns, self.wait_samples)],
            Some(of) => vec![
                tail(Some("readers"), of.read_wait_p999_ns, of.read_wait_samples),
                tail(
                    Some("writers"),
                    of.write_wait_p999_ns,
                    of.write_wait_samples,
                ),
            ],
        }
    }

    /// How far the throughputs of the rounds lie apart, over their median.
    pub fn spread(&self) -> f64 {
        (self.rate_max_kops - self.rate_min_kops) / self.rate_kops.max(f64::MIN_POSITIVE)
    }
}

impl ApartAt {
    fn new(runs: &[&Record]) -> Option<Self> {
        let all: Option<Vec<&Apart>> = runs.iter().map(|run| run.apart.as_ref()).collect();
        let all = all?;
        let each = |of: fn(&Apart) -> Option<u64>| all.iter().map(move |run| of(run));
        let fewest = |of: fn(&Apart) -> u64| all.iter().map(|run| of(run)).min().unwrap_or(0);
        Some(Self {
            read_wait_p999_ns: known_median(each(|run| run.read_wait_p999_ns)),
            read_wait_max_ns: each(|run| run.read_wait_max_ns).flatten().max(),
            read_wait_samples: fewest(|run| run.read_wait_samples),
            write_wait_p999_ns: known_median(each(|run| run.write_wait_p999_ns)),
            write_wait_max_ns: each(|run| run.write_wait_max_ns).flatten().max(),
            write_wait_samples: fewest(|run| run.write_wait_samples),
        })
    }
}

/// The median of those that are known.
fn known_median(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let known: Vec<f64> = values.flatten().map(|ns| ns as f64).collect();
    (!known.is_empty()).then(|| median(known) as u64)
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
