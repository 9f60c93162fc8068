//! How soon the priority arrived at the end of each chain.

use lockyard_torture::chains::Shape;
use serde::Serialize;

use super::{
    realtime::{Run, complete},
    standing::{Standing, middle},
};
use crate::pi_stress::{self, Row, Times};

/// A lock's chains of one depth: medians over its runs.
#[derive(Clone, Serialize)]
#[serde(tag = "type", rename = "chain")]
pub struct ChainAt {
    /// Locks from the high thread to the owner that runs; null for random trees.
    pub depth: Option<usize>,
    /// The lock.
    pub lock: &'static str,
    /// The rounds in which every lock ran.
    pub runs: usize,
    /// How often a high thread asked in all of them.
    pub asked: u64,
    /// From the high thread's call until the owner ran.
    pub owner_runs: Times,
    /// From the high thread's call until it had its lock.
    pub high_has_it: Times,
    /// Runs in which the high thread waited beyond the limit, of all there were.
    pub unbounded: usize,
    /// How it stands beside the rival, by the median time until the owner ran.
    pub in_owner_runs: Standing,
}

/// Summarises every shape of which there is a round with every lock.
pub fn summarise(runs: &[Run<Shape, Row>], clock_ns: u64) -> Vec<ChainAt> {
    let at = |shape| {
        let locks = complete(runs, shape);
        let (_, rival) = locks[locks.len() - 1].clone(); // it stands last
        let of = move |(lock, these): (_, Vec<&Row>)| {
            let all = runs
                .iter()
                .filter(|run| (run.setting, run.lock) == (shape, lock));
            let unbounded = all.filter(|run| run.run.unbounded).count();
            ChainAt::new(&these, &rival, unbounded, clock_ns)
        };
        locks.into_iter().filter_map(of)
    };
    pi_stress::shapes().flat_map(at).collect()
}

impl ChainAt {
    fn new(rows: &[&Row], rival: &[&Row], unbounded: usize, clock_ns: u64) -> Option<Self> {
        let times = |of: fn(&Row) -> &Times| {
            let at = |quantile: fn(&Times) -> Option<u64>| {
                middle(rows.iter().map(|row| quantile(of(row))))
            };
            Times {
                p50_ns: at(|times| times.p50_ns),
                p99_ns: at(|times| times.p99_ns),
                max_ns: at(|times| times.max_ns),
            }
        };
        let p50s = |rows: &[&Row]| {
            let all = rows.iter().map(|row| row.owner_runs.p50_ns);
            all.collect::<Vec<_>>()
        };
        let first = rows.first()?;
        Some(Self {
            depth: first.depth,
            lock: first.lock,
            runs: rows.len(),
            asked: rows.iter().map(|row| row.rounds).sum(),
            owner_runs: times(|row| &row.owner_runs),
            high_has_it: times(|row| &row.high_has_it),
            unbounded,
            in_owner_runs: Standing::of_times(&p50s(rows), &p50s(rival), clock_ns),
        })
    }
}
