//! Ordinary threads: the grid of every comparison, with locks that inherit.

use std::time::Duration;

use serde::Serialize;

use super::{
    super::{
        Args, Judged, Raw, judged,
        plan::{Plan, Point},
        summary::{self, LockAt, PointSummary},
        verdict::Scope,
    },
    OURS, PLAIN, RIVAL, STRICT,
};
use crate::{
    failure::Failure,
    place::Place,
    record::rounded,
    registry,
    values::{self, Work},
};

/// What these runs together should last: real-time threads need the rest of a minute.
const BUDGET: Duration = Duration::from_secs(45);

const LOCKS: [&str; 4] = [OURS, STRICT, PLAIN, RIVAL];
/// The promise is about so many threads and such work, whatever the CPUs.
const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
pub const WORKS: [Work; 2] = [
    Work { load: 0, gap: 0 },
    Work {
        load: 500,
        gap: 500,
    },
];

/// The plan that the flags ask for.
///
/// # Errors
/// One of the locks cannot run here.
pub fn plan(args: &Args, place: Place) -> Result<Plan, Failure> {
    let threads = match args.threads[..] {
        [] => THREADS.to_vec(),
        _ => values::distinct(&args.threads),
    };
    let of = |work| {
        threads
            .iter()
            .map(move |&threads| Point::new(work, threads))
    };
    Ok(Plan {
        locks: registry::named(&LOCKS.map(String::from), place.world())?,
        place,
        subjects: 2,
        points: args.works(&WORKS).into_iter().flat_map(of).collect(),
        rounds: args.rounds(),
        seed: args.seed,
        left_out: Vec::new(),
        budget: BUDGET,
        seconds: args.seconds,
        full: args.full,
        rw: false,
    })
}

/// Each of ours beside the one whose price or promise it is to have.
pub fn judge(raws: &[Raw], points: usize, rounds: u32, clock_ns: u64) -> Vec<Judged> {
    let pairs = [[OURS, RIVAL], [OURS, PLAIN], [STRICT, RIVAL]];
    let of = |pair: [&'static str; 2]| {
        let scope = Scope {
            locks: pair.to_vec(),
            left_out: Vec::new(),
            points,
            rounds,
        };
        judged(&scope, raws, &[], clock_ns)
    };
    pairs.into_iter().map(of).collect()
}

/// Every lock at a point of the grid.
#[derive(Serialize)]
#[serde(tag = "type", rename = "point")]
pub struct PointAt {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The rounds in which every lock ran here.
    pub rounds: usize,
    /// The locks.
    pub locks: Vec<Beside>,
}

/// A lock at a point, beside those that matter.
#[derive(Serialize)]
pub struct Beside {
    /// What it did.
    #[serde(flatten)]
    pub at: LockAt,
    /// Its median throughput over `pthread-pi`'s.
    pub over_pthread_pi: f64,
    /// And over `mutex`'s.
    pub over_mutex: f64,
}

/// The points at which every lock completed a round.
pub fn points(raws: &[Raw], locks: &[&'static str], clock_ns: u64) -> Vec<PointAt> {
    let points = summary::summarise(raws, locks, clock_ns);
    points.into_iter().map(PointAt::new).collect()
}

impl PointAt {
    fn new(summary: PointSummary) -> Self {
        let over = |name| {
            let mut all = summary.locks.iter();
            let of = all
                .find(|at| at.lock == name)
                .map_or(0.0, |at| at.rate_kops);
            move |at: &LockAt| match of {
                0.0 => 1.0, // as in all ratios
                of => rounded(at.rate_kops / of, 1e4),
            }
        };
        let (over_pthread_pi, over_mutex) = (over(RIVAL), over(PLAIN));
        let beside = |at: LockAt| Beside {
            over_pthread_pi: over_pthread_pi(&at),
            over_mutex: over_mutex(&at),
            at,
        };
        Self {
            point: summary.point,
            rounds: summary.rounds,
            locks: summary.locks.into_iter().map(beside).collect(),
        }
    }
}
