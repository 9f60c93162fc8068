//! What the groups of real-time threads did.

use serde::Serialize;

use super::{
    super::summary::median,
    realtime::{PINNED, Run, complete},
    standing::{Standing, middle},
};
use crate::{pi_stress::Record, record::rounded};

/// A lock's groups: medians over its runs.
#[derive(Clone, Serialize)]
#[serde(tag = "type", rename = "groups")]
pub struct GroupsAt {
    /// Whether each group was kept on one CPU.
    pub pinned: bool,
    /// The lock.
    pub lock: &'static str,
    /// The groups of each run.
    pub groups: usize,
    /// The rounds in which every lock ran.
    pub runs: usize,
    /// Median of the inversions resolved per second.
    pub inversions_per_s: f64,
    /// Median of the runs' median waits of high threads.
    pub wait_p50_ns: Option<u64>,
    /// Median of the runs' longest waits.
    pub wait_max_ns: Option<u64>,
    /// The longest wait of all these runs.
    pub longest_wait_ns: Option<u64>,
    /// Runs in which a high thread waited beyond the limit, of all there were.
    pub unbounded: usize,
    /// How it stands beside the rival, by inversions per second.
    pub in_inversions: Standing,
    /// And by the longest wait of each round.
    pub in_longest_wait: Standing,
}

/// Summarises every setting of which there is a round with every lock.
pub fn summarise(runs: &[Run<bool, Record>], clock_ns: u64) -> Vec<GroupsAt> {
    let at = |pinned| {
        let locks = complete(runs, pinned);
        let (_, rival) = locks[locks.len() - 1].clone(); // it stands last
        let of = move |(lock, these): (_, Vec<&Record>)| {
            let all = runs
                .iter()
                .filter(|run| (run.setting, run.lock) == (pinned, lock));
            let unbounded = all.filter(|run| run.run.unbounded_group.is_some()).count();
            GroupsAt::new(pinned, &these, &rival, unbounded, clock_ns)
        };
        locks.into_iter().filter_map(of)
    };
    PINNED.into_iter().flat_map(at).collect()
}

impl GroupsAt {
    fn new(
        pinned: bool,
        runs: &[&Record],
        rival: &[&Record],
        unbounded: usize,
        clock_ns: u64,
    ) -> Option<Self> {
        let first = runs.first()?;
        let rates = |of: &[&Record]| {
            of.iter()
                .map(|run| run.inversions_per_s)
                .collect::<Vec<_>>()
        };
        let waits = |of: &[&Record]| of.iter().map(|run| run.wait_max_ns).collect::<Vec<_>>();
        Some(Self {
            pinned,
            lock: first.lock,
            groups: first.groups,
            runs: runs.len(),
            inversions_per_s: rounded(median(rates(runs)), 1e1),
            wait_p50_ns: middle(runs.iter().map(|run| run.wait_p50_ns)),
            wait_max_ns: middle(waits(runs).into_iter()),
            longest_wait_ns: runs.iter().filter_map(|run| run.wait_max_ns).max(),
            unbounded,
            in_inversions: Standing::of_rates(&rates(runs), &rates(rival)),
            in_longest_wait: Standing::of_times(&waits(runs), &waits(rival), clock_ns),
        })
    }
}
