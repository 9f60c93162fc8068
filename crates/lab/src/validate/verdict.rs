//! How far the simulator is off.

use std::collections::BTreeMap;

use serde::Serialize;

use super::grid::Cell;
use crate::{
    compare::{Point, median},
    record::rounded,
};

/// The median of the errors, without their signs, may be this large.
pub const ERROR_BOUND: f64 = 0.25;
/// This share of the pairs must come in the order in which they are.
pub const SHARE_BOUND: f64 = 0.9;
/// Two locks of which the faster is not faster by more have no order.
pub const MARGIN: f64 = 0.2;

/// A lock at a point, as `--json` prints it; rates in thousands per second.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "point")]
pub struct Compared {
    /// The lock.
    pub lock: &'static str,
    /// The point.
    #[serde(flatten)]
    pub at: Point,
    /// The median of this host's rounds.
    pub native_kops: f64,
    /// The slowest round.
    pub native_min: f64,
    /// The fastest round.
    pub native_max: f64,
    /// On the simulated machine; `None` when an interrupt came first.
    pub sim_kops: Option<f64>,
    /// How much more that is, over the native rate. Infinite when the lock got
    /// nowhere on this host, but did simulated.
    pub error: Option<f64>,
}

impl Compared {
    /// What a cell says, if it was measured.
    pub fn new(cell: &Cell) -> Option<Self> {
        let all = cell.native.iter().copied();
        let (min, max) = (all.clone().reduce(f64::min)?, all.reduce(f64::max)?);
        let native = rounded(median(cell.native.clone()), 1e3);
        let error = |sim| rounded(ratio(sim, native) - 1.0, 1e4);
        Some(Self {
            lock: cell.lock,
            at: cell.at,
            native_kops: native,
            native_min: min,
            native_max: max,
            sim_kops: cell.simulated,
            error: cell.simulated.map(error),
        })
    }

    /// How far the rounds lie apart, over their median.
    pub fn spread(&self) -> f64 {
        ratio(self.native_max, self.native_kops) - ratio(self.native_min, self.native_kops)
    }
}

/// Twice nothing is equal.
fn ratio(a: f64, b: f64) -> f64 {
    if a == b { 1.0 } else { a / b }
}

/// Two locks that the simulator orders otherwise than this host.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// Where.
    #[serde(flatten)]
    pub at: Point,
    /// The faster one on this host.
    pub faster: &'static str,
    /// The slower one.
    pub slower: &'static str,
    /// The rate of the faster over that of the slower, on this host.
    pub native_ratio: f64,
    /// And simulated.
    pub sim_ratio: f64,
}

/// What was to be measured.
pub struct Scope {
    /// The name of the simulated machine.
    pub machine: String,
    /// Points of all locks together.
    pub points: usize,
    /// Rounds on this host.
    pub rounds: u32,
}

/// What all points together say.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "verdict")]
pub struct Verdict {
    /// The simulated machine.
    pub machine: String,
    /// Rounds on this host that were to be.
    pub rounds: u32,
    /// Points that were to be, of all locks together.
    pub points_planned: usize,
    /// Points that were measured and simulated.
    pub points: usize,
    /// The median of the errors without their signs.
    pub median_abs_error: Option<f64>,
    /// What it may be.
    pub error_bound: f64,
    /// The same for each number of threads.
    pub error_by_threads: BTreeMap<usize, f64>,
    /// And for each lock.
    pub error_by_lock: BTreeMap<&'static str, f64>,
    /// How far this host's rounds lie apart, over their median: in the middle
    /// of all points.
    pub native_spread: f64,
    /// Pairs of locks at the same point of which one is faster on this host by
    /// more than the margin.
    pub pairs: usize,
    /// The margin.
    pub margin: f64,
    /// How many of them are in the same order simulated.
    pub ordered_right: usize,
    /// Which share that is; `None` of no pairs.
    pub share: Option<f64>,
    /// What it must be.
    pub share_bound: f64,
    /// Whether both bounds are kept; `None` unless everything was measured.
    pub holds: Option<bool>,
    /// The pairs in the wrong order.
    pub wrong_pairs: Vec<Pair>,
}

impl Verdict {
    /// Draws it from the points alone.
    pub fn new(scope: Scope, points: &[Compared]) -> Self {
        let compared = points.iter().filter(|p| p.error.is_some()).count();
        let pairs = pairs(points);
        let wrong = pairs.iter().filter(|p| p.sim_ratio <= 1.0);
        let right = pairs.len() - wrong.clone().count();
        let wrong = wrong.map(|p| Pair {
            native_ratio: rounded(p.native_ratio, 1e4),
            sim_ratio: rounded(p.sim_ratio, 1e4),
            ..p.clone()
        });
        let error = error(points);
        let share = (!pairs.is_empty()).then(|| rounded(right as f64 / pairs.len() as f64, 1e4));
        let all_there = compared == scope.points;
        let kept = error.is_some_and(|error| error <= ERROR_BOUND)
            && share.is_none_or(|share| share >= SHARE_BOUND);
        Self {
            machine: scope.machine,
            rounds: scope.rounds,
            points_planned: scope.points,
            points: compared,
            median_abs_error: error,
            error_bound: ERROR_BOUND,
            error_by_threads: errors_by(points, |p| p.at.threads),
            error_by_lock: errors_by(points, |p| p.lock),
            native_spread: rounded(median(points.iter().map(Compared::spread).collect()), 1e4),
            pairs: pairs.len(),
            margin: MARGIN,
            ordered_right: right,
            share,
            share_bound: SHARE_BOUND,
            holds: all_there.then_some(kept),
            wrong_pairs: wrong.collect(),
        }
    }
}

/// The median of the errors without their signs.
fn error<'a>(points: impl IntoIterator<Item = &'a Compared>) -> Option<f64> {
    let errors: Vec<f64> = points.into_iter().filter_map(|p| p.error).collect();
    let sizes = errors.iter().map(|error| error.abs()).collect();
    (!errors.is_empty()).then(|| rounded(median(sizes), 1e4))
}

fn errors_by<K: Ord>(points: &[Compared], key: impl Fn(&Compared) -> K) -> BTreeMap<K, f64> {
    let mut groups: BTreeMap<K, Vec<&Compared>> = BTreeMap::new();
    for point in points {
        groups.entry(key(point)).or_default().push(point);
    }
    let errors = groups.into_iter();
    errors
        .filter_map(|(key, group)| Some((key, error(group)?)))
        .collect()
}

/// Every two locks at the same point that this host decides between.
fn pairs(points: &[Compared]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (number, a) in points.iter().enumerate() {
        let here = points[number + 1..].iter().filter(|b| b.at == a.at);
        pairs.extend(here.filter_map(|b| pair(a, b)));
    }
    pairs
}

fn pair(a: &Compared, b: &Compared) -> Option<Pair> {
    let (fast, slow) = if a.native_kops > b.native_kops {
        (a, b)
    } else {
        (b, a)
    };
    let native_ratio = ratio(fast.native_kops, slow.native_kops);
    let sim_ratio = ratio(fast.sim_kops?, slow.sim_kops?);
    (native_ratio > 1.0 + MARGIN).then_some(Pair {
        at: fast.at,
        faster: fast.lock,
        slower: slow.lock,
        native_ratio,
        sim_ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{validate::text, values::Work};

    /// That lock with so many threads, once each of the native rates and
    /// simulated.
    fn cell(lock: &'static str, threads: usize, native: &[f64], sim: f64) -> Cell {
        let work = Work { load: 50, gap: 7 };
        Cell {
            lock,
            at: Point::new(work, threads),
            native: native.to_vec(),
            simulated: Some(sim),
        }
    }

    fn judged(cells: &[Cell]) -> (Vec<Compared>, Verdict) {
        let scope = Scope {
            machine: "m".into(),
            points: cells.len(),
            rounds: 3,
        };
        let points: Vec<_> = cells.iter().filter_map(Compared::new).collect();
        let verdict = Verdict::new(scope, &points);
        (points, verdict)
    }

    #[test]
    fn errors_are_relative_to_the_median_round() {
        let cells = [
            cell("a", 1, &[100.0, 900.0, 90.0], 110.0),
            cell("a", 2, &[100.0, 50.0, 200.0], 60.0),
            cell("b", 2, &[10.0, 10.0, 10.0], 12.0),
        ];
        let (points, verdict) = judged(&cells);
        let errors: Vec<_> = points.iter().map(|p| p.error).collect();
        assert_eq!(errors, [Some(0.1), Some(-0.4), Some(0.2)]);
        assert_eq!((points[0].native_min, points[0].native_max), (90.0, 900.0));
        assert_eq!(verdict.median_abs_error, Some(0.2));
        assert_eq!(verdict.error_by_threads, [(1, 0.1), (2, 0.3)].into());
        assert_eq!(verdict.error_by_lock, [("a", 0.25), ("b", 0.2)].into());
        assert_eq!(verdict.native_spread, 1.5);
        assert_eq!((verdict.holds, verdict.pairs), (Some(true), 1));
    }

    #[test]
    fn only_pairs_that_differ_by_more_than_the_margin_are_ordered() {
        let rates = |native, sim| cell("b", 2, &[native; 3], sim);
        let against = |native, sim| {
            let other = [cell("a", 2, &[100.0; 3], 100.0), rates(native, sim)];
            let verdict = judged(&other).1;
            (verdict.pairs, verdict.ordered_right)
        };
        assert_eq!(against(120.0, 50.0), (0, 0), "at the margin");
        assert_eq!(against(121.0, 100.1), (1, 1));
        assert_eq!(against(121.0, 100.0), (1, 0), "level is no order");
        assert_eq!(against(121.0, 99.0), (1, 0));
        assert_eq!(against(80.0, 70.0), (1, 1));
        assert_eq!(against(84.0, 170.0), (0, 0));
        let elsewhere = [
            cell("a", 2, &[100.0; 3], 100.0),
            cell("b", 4, &[10.0; 3], 200.0),
        ];
        assert_eq!(judged(&elsewhere).1.pairs, 0, "other points");
    }

    #[test]
    fn a_missed_bound_is_said_with_the_pairs() {
        let cells = [
            cell("a", 2, &[100.0; 3], 100.0),
            cell("b", 2, &[200.0; 3], 90.0),
            cell("c", 2, &[400.0; 3], 600.0),
        ];
        let (points, verdict) = judged(&cells);
        assert_eq!((verdict.pairs, verdict.ordered_right), (3, 2));
        assert_eq!(verdict.share, Some(0.6667));
        assert_eq!(verdict.median_abs_error, Some(0.5));
        assert_eq!(verdict.holds, Some(false));
        let wrong = &verdict.wrong_pairs[0];
        assert_eq!((wrong.faster, wrong.slower), ("b", "a"));
        assert_eq!((wrong.native_ratio, wrong.sim_ratio), (2.0, 0.9));
        let text = text::table(&points) + &text::summary(&verdict);
        for line in [
            "Median absolute error at 3 points: 50.0 % (bound: at most 25 %)",
            "  with 2 threads: 50.0 %",
            "  c: 50.0 %",
            "  50/7 with 2 threads: b has 2.00x the rate of a, but 0.900x simulated",
            "The simulator does not hold on this host: both bounds are missed.",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
        }
        assert_eq!(
            text::missed(&verdict),
            "the simulator misses its bounds: median absolute error 50.0 % (at most 25 %), \
             pairs ordered right 66.7 % (at least 90 %)"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn bounds_are_inclusive_and_no_pairs_miss_none() {
        let alone = |sim| judged(&[cell("a", 1, &[100.0; 3], sim)]).1;
        assert_eq!(alone(125.0).holds, Some(true));
        assert_eq!(alone(75.0).holds, Some(true));
        assert_eq!(alone(125.1).holds, Some(false));
        assert_eq!(alone(125.0).share, None);
        let said = text::missed(&alone(200.0));
        assert!(said.contains("error 100.0 %") && !said.contains("pairs"));
    }

    #[test]
    fn what_an_interrupt_left_is_shown_without_a_verdict() {
        let mut cells = [
            cell("a", 1, &[100.0; 3], 100.0),
            cell("b", 1, &[50.0], 400.0),
            cell("c", 1, &[], 0.0),
        ];
        cells[1].simulated = None;
        let (points, verdict) = judged(&cells);
        assert_eq!((points.len(), points[1].error), (2, None));
        assert_eq!((verdict.points, verdict.pairs), (1, 0));
        assert_eq!((verdict.median_abs_error, verdict.holds), (Some(0.0), None));
        let text = text::table(&points) + &text::summary(&verdict);
        assert!(text.contains("No verdict: 1 of 3 points"), "{text}");

        cells = cells.map(|cell| Cell {
            native: Vec::new(),
            ..cell
        });
        let (points, verdict) = judged(&cells);
        assert_eq!((points.len(), verdict.holds), (0, None));
        let text = text::table(&points) + &text::summary(&verdict);
        assert_eq!(text.trim().lines().count(), 1, "{text}");
    }

    #[test]
    fn locks_that_get_nowhere_do_not_break_the_arithmetic() {
        let cells = [
            cell("a", 2, &[0.0; 3], 0.0),
            cell("b", 2, &[0.0; 3], 5.0),
            cell("c", 2, &[9.0; 3], 0.0),
        ];
        let (points, verdict) = judged(&cells);
        assert_eq!(points[0].error, Some(0.0));
        assert_eq!(points[1].error, Some(f64::INFINITY));
        assert_eq!((verdict.pairs, verdict.ordered_right), (2, 0));
        assert_eq!(verdict.median_abs_error, Some(1.0));
        text::summary(&verdict);
    }
}
