//! What our locks for readers and writers promise, held against what was
//! measured. Nothing here is built on a number that another run had.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Raw,
    bound::{self, Bound, ROUNDS, Side},
    gauges::{self, LIMIT, LOOP},
    idle::Idle,
    plan::{MANY_READERS, Point},
    summary::{PointSummary, median},
    verdict::{LongestWait, Verdict},
};
use crate::{failure::Failure, format, record::Record, screen};

/// The two locks of ours that promise something.
pub const PERCPU: &str = "percpu";
const RWSEM: &str = "rwsem";

/// `percpu`'s read lock and unlock may take so many times as long as the limit.
const OF_THE_LIMIT: f64 = 2.5;
/// Its readers get so many times as far as those of the best rival.
const OF_THE_BEST: f64 = 3.0;
/// The mean of `rwsem`'s ratios to the best rivals.
const MEAN: f64 = 1.05;
/// Its writers wait no longer, with many readers.
const LONGEST_MS: f64 = 50.0;
/// `percpu`'s writer waits no longer, in membarriers, while readers are idle.
const MEMBARRIERS: f64 = 5.0;

/// All of them.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "bounds")]
pub struct Bounds {
    /// Whether all hold: null when none is missed but not all were measured.
    pub holds: Option<bool>,
    /// Each.
    pub bounds: Vec<Bound>,
    /// The longest waits of writers with many readers, each wait timed.
    pub longest_writer_waits: Vec<LongestWait>,
}

/// What a comparison measured.
pub struct Evidence<'a> {
    /// The runs of a lock of ours in turns with the gauges.
    pub gauged: &'a [Raw],
    /// Each of our locks beside its rivals; empty where there are none.
    pub judged: &'a [(Vec<PointSummary>, Verdict)],
    /// The runs in which every wait was timed.
    pub timed: &'a [(Point, Record)],
    /// How many of these were to be.
    pub to_be_timed: usize,
    /// A writer while the readers are idle.
    pub idle: Option<&'a Idle>,
}

impl Bounds {
    /// Judges each.
    pub fn new(evidence: &Evidence) -> Self {
        let mut bounds: Vec<Bound> = (gauges::THREADS
            .into_iter()
            .map(|threads| cost(evidence, threads)))
        .collect();
        bounds.extend([
            readers(evidence),
            front(evidence),
            mean(evidence),
            longest_wait(evidence),
            idle(evidence),
        ]);
        Self {
            holds: bound::hold(&bounds),
            longest_writer_waits: longest_waits(evidence.timed),
            bounds,
        }
    }

    /// Makes sure that none is missed.
    ///
    /// # Errors
    /// Some are.
    pub fn check(&self) -> Result<(), Failure> {
        bound::check(&self.bounds)
    }

    /// The bounds for people.
    pub fn text(&self) -> String {
        waits_text(&self.longest_writer_waits) + &bound::text(&self.bounds)
    }
}

/// What a reader pays, beside the limit: in each round, and of these the median. Nothing is
/// subtracted from what is judged; net of the loop it is told, too.
fn cost(evidence: &Evidence, threads: usize) -> Bound {
    let of = |name| operation_ns(evidence.gauged, name, threads);
    let (lock, limit, empty) = (of(PERCPU), of(LIMIT.name), of(LOOP.name));
    let all: Vec<[f64; 3]> = lock
        .into_iter()
        .filter_map(|(round, ns)| Some([ns, *limit.get(&round)?, *empty.get(&round)?]))
        .filter(|all| all.iter().all(|ns| ns.is_finite()))
        .collect();
    let middle = |of: &dyn Fn(&[f64; 3]) -> f64| {
        (all.len() >= ROUNDS).then(|| median(all.iter().map(of).collect()))
    };
    let numbers = [
        ("percpu_ns", middle(&|[lock, ..]| *lock)),
        ("limit_ns", middle(&|[_, limit, _]| *limit)),
        ("loop_ns", middle(&|[.., empty]| *empty)),
        ("net_percpu_ns", middle(&|[lock, _, empty]| lock - empty)),
        ("net_limit_ns", middle(&|[_, limit, empty]| limit - empty)),
    ];
    let s = if threads == 1 { "" } else { "s" };
    Bound::new(
        if threads == 1 {
            "percpu-read-1"
        } else {
            "percpu-read-2"
        },
        format!("a read of percpu over a plain +1/-1, {threads} thread{s}, the loop included"),
        Side::AtMost(OF_THE_LIMIT),
        middle(&|[lock, limit, _]| lock / limit),
        numbers
            .into_iter()
            .filter_map(|(name, ns)| Some((name, ns?))),
    )
}

/// What an operation takes a thread where all read, by rounds.
fn operation_ns(raws: &[Raw], name: &str, threads: usize) -> BTreeMap<u32, f64> {
    let here = raws
        .iter()
        .filter(|raw| raw.point == gauges::readers(threads) && raw.record.lock == name);
    here.map(|raw| (raw.round, 1e6 * threads as f64 / raw.record.rate_kops))
        .collect()
}

/// The points and the verdict of one of our locks, if enough rounds are complete.
fn of<'a>(evidence: &'a Evidence, lock: &str) -> Option<(&'a [PointSummary], &'a Verdict)> {
    let mut judged = evidence
        .judged
        .iter()
        .map(|(points, verdict)| (&points[..], verdict));
    judged.find(|(_, verdict)| verdict.lock == lock && verdict.rounds_complete >= ROUNDS)
}

fn readers(evidence: &Evidence) -> Bound {
    let point = of(evidence, PERCPU)
        .and_then(|(points, _)| points.iter().find(|p| p.point == gauges::readers(2)));
    let numbers = point.into_iter().flat_map(|p| {
        [
            ("percpu_kops", p.ours().rate_kops),
            ("best_rival_kops", p.best().rate_kops),
        ]
    });
    let rival = point.map_or("the best rival", |p| p.best_rival);
    Bound::new(
        "percpu-readers",
        format!("readers of percpu over those of {rival}, 2 threads"),
        Side::AtLeast(OF_THE_BEST),
        point.map(|p| p.ratio),
        numbers,
    )
}

fn front(evidence: &Evidence) -> Bound {
    let verdict = of(evidence, RWSEM).map(|(_, verdict)| verdict);
    Bound::new(
        "rwsem-front",
        "points at which a rival beats rwsem in both throughput and p99.9 wait",
        Side::AtMost(0.0),
        verdict.map(|v| v.pareto_misses.len() as f64),
        verdict.map(|v| ("points", v.points as f64)),
    )
}

fn mean(evidence: &Evidence) -> Bound {
    let verdict = of(evidence, RWSEM).map(|(_, verdict)| verdict);
    let contended = of(evidence, RWSEM)
        .map(|(points, _)| points.iter().filter(|p| p.point.threads > 1).count() as f64);
    Bound::new(
        "rwsem-mean",
        "geometric mean of rwsem over each point's best rival, 2 or more threads",
        Side::AtLeast(MEAN),
        verdict.and_then(|v| v.geomean_ratio_multi),
        contended.map(|points| ("points", points)),
    )
}

fn longest_wait(evidence: &Evidence) -> Bound {
    let runs = evidence.timed.iter().filter(|(_, run)| run.lock == RWSEM);
    let waits: Vec<(u64, u64)> = runs
        .filter_map(|(_, run)| run.apart.as_ref())
        .filter_map(|apart| Some((apart.write_wait_max_ns?, apart.write_wait_samples)))
        .collect();
    let longest = waits
        .iter()
        .map(|(ns, _)| *ns as f64 / 1e6)
        .reduce(f64::max);
    // Of some of the runs it is known only that they miss it.
    let all = evidence.timed.len() == evidence.to_be_timed;
    let longest = longest.filter(|&ms| all || ms > LONGEST_MS);
    Bound::new(
        "rwsem-writer-wait",
        format!(
            "longest wait of a writer of rwsem with {MANY_READERS} % readers, each timed, in ms"
        ),
        Side::AtMost(LONGEST_MS),
        longest,
        longest.map(|_| ("writes", waits.iter().map(|(_, n)| *n as f64).sum())),
    )
}

/// A write that began no grace period does not count as one to an idle lock.
fn idle(evidence: &Evidence) -> Bound {
    let begun = |idle: &&Idle| idle.grace_periods == idle.writes;
    let idle = evidence.idle.filter(begun);
    let numbers = idle.into_iter().flat_map(|idle| {
        [
            ("write_ns", idle.write_ns),
            ("membarrier_ns", idle.membarrier_ns),
            ("writes", idle.writes as f64),
            ("grace_periods", idle.grace_periods as f64),
        ]
    });
    Bound::new(
        "percpu-writer",
        "wait of a writer of percpu over a membarrier, no reader active",
        Side::AtMost(MEMBARRIERS),
        idle.map(|idle| idle.write_ns / idle.membarrier_ns),
        numbers,
    )
}

fn longest_waits(timed: &[(Point, Record)]) -> Vec<LongestWait> {
    let points: Vec<Point> = timed.iter().map(|(point, _)| *point).collect();
    let at = |point| {
        let here = timed.iter().filter(move |(at, _)| *at == point);
        let wait =
            |(_, run): &(Point, Record)| Some((run.lock, run.apart.as_ref()?.write_wait_max_ns?));
        LongestWait {
            point,
            wait_max_ns: here.filter_map(wait).collect(),
        }
    };
    crate::values::distinct(&points)
        .into_iter()
        .map(at)
        .collect()
}

fn waits_text(waits: &[LongestWait]) -> String {
    let Some(first) = waits.first() else {
        return String::new();
    };
    let mut table = screen::table();
    let threads = waits.iter().map(|at| at.point.threads.to_string());
    table.set_header(["lock".into()].into_iter().chain(threads));
    for &lock in first.wait_max_ns.keys() {
        let wait = |at: &LongestWait| {
            at.wait_max_ns
                .get(lock)
                .map_or("-".into(), |ns| format::time(*ns))
        };
        table.add_row([lock.into()].into_iter().chain(waits.iter().map(wait)));
    }
    format!(
        "\nLongest wait of a writer at {}, each wait timed, by number of threads\n{}",
        first.point.setting,
        screen::rendered(table)
    )
}
