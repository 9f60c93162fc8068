//! Who may dominate our lock by chance, and where that seems to collapse, measured again.
//!
//! At 16 points eight rivals are held against our lock. Of equals one dominates the other in
//! each of three rounds one time in 64: twice in such a comparison, by chance alone. So a rival
//! that dominates our lock is measured again, in more rounds with nobody else, and only what
//! these say counts: the first rounds are those that it was suspected for. Unless it does so
//! clearly: its slowest round was far ahead of our fastest.
//!
//! Likewise where our lock seems to keep too little of its throughput with many threads: the two
//! points may have been measured in different moments of a busy machine, and now alternate.

use super::{
    Judged, Raw,
    plan::Point,
    summary::{self, PointSummary},
    verdict::{Collapse, Verdict},
};
use crate::values;

/// The rounds in which it is: among these even a small lead shows.
pub const ROUNDS: u32 = 12;

/// How many times as fast as our fastest round a rival's slowest is at least, where it dominates
/// clearly: a neighbour that halves each of three rounds is not that rare.
pub const FAR: f64 = 2.0;

/// What a lock is to keep of its throughput with two threads at least.
const KEEPS: f64 = 0.8;

/// A point to be measured again.
pub struct Call {
    /// The point.
    pub point: Point,
    /// The locks: some of ours, and rivals that dominate one of them, but not clearly.
    pub locks: Vec<&'static str>,
}

/// The points at which a rival was judged to dominate, but not clearly.
pub fn calls(judged: &[Judged]) -> Vec<Call> {
    let all: Vec<&PointSummary> = judged.iter().flat_map(|(points, _)| points).collect();
    let close: Vec<(Point, Vec<_>)> = all.iter().map(|p| (p.point, suspects(p))).collect();
    let points = close.iter().filter(|(_, locks)| !locks.is_empty());
    let points: Vec<Point> = points.map(|(point, _)| *point).collect();
    let of = |point: Point| {
        let here = close.iter().filter(|(at, _)| *at == point);
        let locks: Vec<_> = here.flat_map(|(_, locks)| locks).copied().collect();
        values::distinct(&locks)
    };
    let points = values::distinct(&points).into_iter();
    let call = |point| Call {
        point,
        locks: of(point),
    };
    points.map(call).collect()
}

/// Where one of our locks seems to keep too little: the points with two threads and with the most,
/// to be measured in turns.
pub fn collapsed(judged: &[Judged]) -> Vec<(&'static str, [Point; 2])> {
    let of = |v: &Verdict| {
        let low = v.collapse.iter().filter(|c| c.kept[v.lock] < KEEPS);
        low.map(|c| (v.lock, c.points())).collect::<Vec<_>>()
    };
    judged.iter().flat_map(|(_, v)| of(v)).collect()
}

/// What our lock kept in the rounds in which both points were measured `again`, if they were.
pub fn kept(collapse: &Collapse, lock: &str, again: &[Raw]) -> Option<f64> {
    let rates = collapse.points().map(|point| {
        let here = again
            .iter()
            .filter(|raw| raw.point == point && raw.record.lock == lock);
        let rates = here.map(|raw| (raw.round, raw.record.rate_kops));
        rates.collect::<Vec<_>>()
    });
    let of = |at: usize, round: u32| rates[at].iter().find(|(number, _)| *number == round);
    let both = rates[0]
        .iter()
        .filter_map(|&(round, two)| Some((two, of(1, round)?.1)));
    let (two, most): (Vec<f64>, Vec<f64>) = both.unzip();
    (two.len() >= ROUNDS as usize).then(|| summary::median(most) / summary::median(two))
}

/// Our lock, and the rivals that dominate it, but not clearly; nobody, if none does.
fn suspects(p: &PointSummary) -> Vec<&'static str> {
    let far = p.ours().rate_max_kops * FAR;
    let close = p.locks.iter().filter(|at| at.rate_min_kops <= far);
    let rivals = close.map(|at| at.lock);
    let rivals: Vec<_> = rivals
        .filter(|lock| p.dominated_by.contains(lock))
        .collect();
    let ours = (!rivals.is_empty()).then_some(p.lock);
    ours.into_iter().chain(rivals).collect()
}

/// Takes back what the rounds of those that were measured `again` do not confirm.
pub fn confirm(points: &mut [PointSummary], again: &[Raw], clock_ns: u64) {
    for p in points {
        let (ours, point) = (p.lock, p.point);
        let here: Vec<&Raw> = again.iter().filter(|raw| raw.point == point).collect();
        let confirmed = |rival: &&'static str| {
            let rounds = summary::complete_rounds(&here, &[ours, rival]);
            // It has fewer if it dominates clearly, or an interrupt came.
            rounds.len() < ROUNDS as usize || summary::dominates(&rounds, 1, clock_ns)
        };
        let all = p.dominated_by.iter().copied();
        let (dominated_by, unconfirmed) = all.partition(confirmed);
        (p.dominated_by, p.unconfirmed) = (dominated_by, unconfirmed);
        if !p.unconfirmed.is_empty() {
            p.on_pareto_front = Some(p.dominated_by.is_empty());
        }
    }
}
