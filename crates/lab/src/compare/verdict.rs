//! What all points together say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    plan::{LeftOut, Point, Setting},
    summary::{self, CutShort, LockAt, MARGIN, PointSummary},
};
use crate::{record::rounded, values};

/// What was to be compared.
pub struct Scope {
    /// The locks, ours first.
    pub locks: Vec<&'static str>,
    /// The rivals that cannot run here.
    pub left_out: Vec<LeftOut>,
    /// The points of the grid.
    pub points: usize,
    /// The rounds.
    pub rounds: u32,
}

/// Our lock against the best rival at a point.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The best rival there, by throughput.
    pub rival: &'static str,
    /// Our throughput over the rival's.
    pub ratio: f64,
}

/// A point at which rivals are better in both throughput and tail.
#[derive(Clone, Debug, Serialize)]
pub struct Miss {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The rivals.
    pub rivals: Vec<&'static str>,
}

/// A point at which our p99.9 wait is longer than that of the best rival.
#[derive(Clone, Debug, Serialize)]
pub struct Tail {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Whose waits, where those of readers and of writers are apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whose: Option<&'static str>,
    /// The best rival there, by throughput.
    pub rival: &'static str,
    /// Our p99.9 wait.
    pub wait_p999_ns: u64,
    /// The rival's.
    pub rival_wait_p999_ns: u64,
}

/// What becomes of the locks when many threads come.
#[derive(Clone, Debug, Serialize)]
pub struct Collapse {
    /// What each thread does.
    #[serde(flatten)]
    pub setting: Setting,
    /// The most threads measured.
    pub threads: usize,
    /// Each lock's throughput with them over that with two threads.
    pub kept: BTreeMap<&'static str, f64>,
    /// Whether our lock's is that of more rounds, in which the two took turns.
    pub measured_again: bool,
}

impl Collapse {
    /// The points that it compares: that with two threads first.
    pub fn points(&self) -> [Point; 2] {
        let setting = self.setting;
        [2, self.threads].map(|threads| Point { setting, threads })
    }
}

/// The longest sampled wait at a point, of each lock that has one.
#[derive(Clone, Debug, Serialize)]
pub struct LongestWait {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Nanoseconds by lock.
    pub wait_max_ns: BTreeMap<&'static str, u64>,
}

/// The whole comparison. Each point stands in one of wins, ties and losses.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "verdict")]
pub struct Verdict {
    /// The lock that is compared.
    pub lock: &'static str,
    /// Those it is compared with.
    pub rivals: Vec<&'static str>,
    /// Those that could not run.
    pub left_out: Vec<LeftOut>,
    /// Rounds that were to be.
    pub rounds_planned: u32,
    /// Rounds in which every lock ran at every point.
    pub rounds_complete: usize,
    /// Points that have a round more than these: an interrupt came in between.
    pub points_ahead: usize,
    /// Points that were to be.
    pub points_planned: usize,
    /// Points at which every lock completed a round.
    pub points: usize,
    /// Nanoseconds that every wait includes for reading the clock.
    pub clock_ns: u64,
    /// Geometric mean of the ratio over the points of two and more threads.
    pub geomean_ratio_multi: Option<f64>,
    /// Geometric mean of the ratio over the points of one thread.
    pub ratio_uncontended: Option<f64>,
    /// Ratio above one by more than the margin.
    pub wins: Vec<Outcome>,
    /// Ratio one, give or take the margin.
    pub ties: Vec<Outcome>,
    /// Ratio below one by more than the margin.
    pub losses: Vec<Outcome>,
    /// Where our lock is not on the Pareto front.
    pub pareto_misses: Vec<Miss>,
    /// Where rivals seemed to dominate our lock, and more rounds did not confirm it.
    pub unconfirmed: Vec<Miss>,
    /// Points at which the rounds are too few to say.
    pub pareto_unknown: usize,
    /// Where our tail is longer than the best rival's, by more than the margin.
    pub longer_tails: Vec<Tail>,
    /// How far the rounds' throughputs lie apart, over their median: in the
    /// middle of all locks and of the points that have two rounds and more.
    pub spread: Option<f64>,
    /// And that of our lock at its worst point.
    pub worst_spread: Option<f64>,
    /// Throughput with the most threads over that with two, for each setting
    /// that has both.
    pub collapse: Vec<Collapse>,
    /// The longest sampled waits.
    pub longest_waits: Vec<LongestWait>,
    /// What there is of a point that does not count, because of an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<CutShort>,
}

impl Verdict {
    /// Draws it from the points alone. Reading the clock for a wait took
    /// `clock_ns`.
    pub fn new(scope: &Scope, points: &[PointSummary], clock_ns: u64) -> Self {
        let least = points.iter().map(|p| p.rounds).min();
        let all_there = points.len() == scope.points;
        let complete = least.filter(|_| all_there).unwrap_or(0);
        let again = points.iter().filter(|p| p.rounds > 1);
        let spreads = again.clone().flat_map(|p| &p.locks).map(LockAt::spread);
        let spreads: Vec<f64> = spreads.collect();
        let worst = again.map(|p| p.ours().spread()).max_by(f64::total_cmp);
        Self {
            lock: scope.locks[0],
            rivals: scope.locks[1..].to_vec(),
            left_out: scope.left_out.clone(),
            rounds_planned: scope.rounds,
            rounds_complete: complete,
            points_ahead: points.iter().filter(|p| p.rounds > complete).count(),
            points_planned: scope.points,
            points: points.len(),
            clock_ns,
            geomean_ratio_multi: geomean(points, |threads| threads > 1),
            ratio_uncontended: geomean(points, |threads| threads == 1),
            wins: outcomes(points, |ratio| ratio - 1.0 > MARGIN),
            ties: outcomes(points, |ratio| (ratio - 1.0).abs() <= MARGIN),
            losses: outcomes(points, |ratio| 1.0 - ratio > MARGIN),
            pareto_misses: misses(points, |p| &p.dominated_by),
            unconfirmed: misses(points, |p| &p.unconfirmed),
            pareto_unknown: points
                .iter()
                .filter(|p| p.on_pareto_front.is_none())
                .count(),
            longer_tails: longer_tails(points, clock_ns),
            spread: worst.map(|_| rounded(summary::median(spreads), 1e4)),
            worst_spread: worst.map(|spread| rounded(spread, 1e4)),
            collapse: collapse(points),
            longest_waits: points.iter().map(longest_waits).collect(),
            cut_short: None,
        }
    }
}

fn geomean(points: &[PointSummary], counts: impl Fn(usize) -> bool) -> Option<f64> {
    let counted = points.iter().filter(|p| counts(p.point.threads));
    let logs: Vec<f64> = counted.map(|p| p.ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    (!logs.is_empty()).then(|| rounded(mean.exp(), 1e4))
}

fn outcomes(points: &[PointSummary], counts: impl Fn(f64) -> bool) -> Vec<Outcome> {
    let counted = points.iter().filter(|p| counts(p.ratio));
    counted
        .map(|p| Outcome {
            point: p.point,
            rival: p.best_rival,
            ratio: p.ratio,
        })
        .collect()
}

fn misses(points: &[PointSummary], by: fn(&PointSummary) -> &Vec<&'static str>) -> Vec<Miss> {
    let missed = points.iter().filter(|p| !by(p).is_empty());
    missed
        .map(|p| Miss {
            point: p.point,
            rivals: by(p).clone(),
        })
        .collect()
}

fn longer_tails(points: &[PointSummary], clock_ns: u64) -> Vec<Tail> {
    let at = |p: &PointSummary| {
        let pairs = p.ours().tails().into_iter().zip(p.best().tails());
        let longer = pairs.filter(|(ours, best)| ours.longer(best, clock_ns));
        let tail = |(ours, best): (summary::Tail, summary::Tail)| {
            Some(Tail {
                point: p.point,
                whose: ours.whose,
                rival: p.best_rival,
                wait_p999_ns: ours.ns?,
                rival_wait_p999_ns: best.ns?,
            })
        };
        longer.filter_map(tail).collect::<Vec<_>>()
    };
    points.iter().flat_map(at).collect()
}

fn collapse(points: &[PointSummary]) -> Vec<Collapse> {
    let settings: Vec<Setting> = points.iter().map(|p| p.point.setting).collect();
    let of = |setting: Setting| {
        let mut here = points.iter().filter(move |p| p.point.setting == setting);
        let two = here.clone().find(|p| p.point.threads == 2)?;
        let most = here.by_ref().max_by_key(|p| p.point.threads)?;
        let threads = most.point.threads;
        let pairs = most.locks.iter().zip(&two.locks);
        (threads > 2).then(|| Collapse {
            setting,
            threads,
            kept: pairs
                .map(|(most, two)| (most.lock, rounded(most.rate_kops / two.rate_kops, 1e4)))
                .collect(),
            measured_again: false,
        })
    };
    values::distinct(&settings)
        .into_iter()
        .filter_map(of)
        .collect()
}

fn longest_waits(p: &PointSummary) -> LongestWait {
    let sampled = |at: &LockAt| Some((at.lock, at.wait_max_ns?));
    LongestWait {
        point: p.point,
        wait_max_ns: p.locks.iter().filter_map(sampled).collect(),
    }
}
