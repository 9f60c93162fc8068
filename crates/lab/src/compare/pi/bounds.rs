//! What `pimutex` promises, held against what was measured.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::{
    super::{
        Judged, Raw,
        bound::{self, Bound, ROUNDS, Side},
        plan::Point,
        summary::{PointSummary, median},
    },
    OURS, PLAIN, RIVAL, STRICT,
    chains::ChainAt,
    groups::GroupsAt,
    ordinary::WORKS,
    realtime::{LEAST, LIMIT},
    standing::Standing,
};
use crate::{failure::Failure, values::Work};

/// Where threads contend, it makes so many times as many operations as the rival.
const OF_THE_RIVAL: f64 = 30.0;
const CONTENDED: RangeInclusive<usize> = 4..=64;
/// It has so much of the throughput of the lock that inherits nothing.
const OF_THE_PLAIN: f64 = 0.9;
const SHARED: RangeInclusive<usize> = 2..=64;
/// Where a thread is alone, it pays for no work but the lock's.
const ALONE: Point = Point::new(Work { load: 0, gap: 0 }, 1);

/// All of them.
#[derive(Serialize)]
#[serde(tag = "type", rename = "bounds")]
pub struct Bounds {
    /// Whether all hold: null when none is missed but not all were measured.
    pub holds: Option<bool>,
    /// Each.
    pub bounds: Vec<Bound>,
}

/// What a comparison measured.
pub struct Evidence<'a> {
    /// Nanoseconds that a unit of work takes.
    pub unit_ns: f64,
    /// The runs of ordinary threads.
    pub raws: &'a [Raw],
    /// Each of ours beside one other lock.
    pub judged: &'a [Judged],
    /// Groups of real-time threads.
    pub groups: &'a [GroupsAt],
    /// Chains of them.
    pub chains: &'a [ChainAt],
}

impl Bounds {
    /// Judges each.
    pub fn new(evidence: &Evidence) -> Self {
        let bounds = vec![
            throughput("pi-contended", evidence, RIVAL, CONTENDED, OF_THE_RIVAL),
            throughput("pi-mutex", evidence, PLAIN, SHARED, OF_THE_PLAIN),
            alone(evidence),
            bounded(evidence),
            wait(evidence),
            inversions(evidence),
        ];
        Self {
            holds: bound::hold(&bounds),
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
        bound::text(&self.bounds)
    }
}

/// Ours beside one other lock, if enough rounds are complete.
fn beside<'a>(evidence: &Evidence<'a>, other: &'static str) -> &'a [PointSummary] {
    let mut judged = evidence.judged.iter();
    let judged = judged.find(|(_, v)| (v.lock, &v.rivals[..]) == (OURS, &[other]));
    let enough = judged.filter(|(_, verdict)| verdict.rounds_complete >= ROUNDS);
    enough.map_or(&[], |(points, _)| points)
}

/// What a lock could make at most of the other's throughput: no time passes but in
/// critical sections, one at a time.
fn limit(point: &PointSummary, unit_ns: f64) -> f64 {
    let section_ns = f64::from(point.point.setting.work.load) * unit_ns;
    1e6 / section_ns / point.best().rate_kops // 1e6: a section a nanosecond, in kop/s
}

/// The least ratio to a lock, of the points with so many threads. Points at which
/// critical sections alone allow no lock such a ratio are only counted: there ours can
/// be held against the lock that inherits nothing.
fn throughput(
    name: &'static str,
    evidence: &Evidence,
    other: &'static str,
    threads: RangeInclusive<usize>,
    least: f64,
) -> Bound {
    let promised = |p: &&PointSummary| {
        threads.contains(&p.point.threads) && WORKS.contains(&p.point.setting.work)
    };
    let points = beside(evidence, other).iter().filter(promised);
    let (within, beyond): (Vec<_>, Vec<_>) =
        points.partition(|p| limit(p, evidence.unit_ns) >= least);
    let ratios = within
        .into_iter()
        .map(|p| (paired(evidence, p.point, other), p));
    let ratios: Vec<_> = ratios.collect();
    let worst = ratios.iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    let limits = beyond.iter().map(|p| limit(p, evidence.unit_ns));
    let numbers = worst.into_iter().flat_map(|(_, p)| {
        [
            ("ours_kops", p.ours().rate_kops),
            ("other_kops", p.best().rate_kops),
            ("points", ratios.len() as f64),
        ]
    });
    let allowed = limits.reduce(f64::max).into_iter().flat_map(|most| {
        [
            ("points_beyond_any_lock", beyond.len() as f64),
            ("most_they_allow", most),
        ]
    });
    let at = worst.map_or(String::new(), |(_, p)| format!(", {}", p.point));
    Bound::new(
        name,
        format!("throughput over {other}'s at the worst point{at}"),
        Side::AtLeast(least),
        worst.map(|(ratio, _)| *ratio),
        numbers.chain(allowed),
    )
}

/// The median of the rounds' ratios of throughput. In a round the two ran one after the
/// other: whatever made the machine slow then, made it so for both.
fn paired(evidence: &Evidence, point: Point, other: &str) -> f64 {
    let rates = |lock| rates(evidence, point, lock);
    let rounds = rates(OURS).into_iter().zip(rates(other));
    median(rounds.map(|(ours, theirs)| ours / theirs).collect())
}

/// A lock's throughput in each round.
fn rates(evidence: &Evidence, point: Point, lock: &str) -> Vec<f64> {
    let here = evidence.raws.iter();
    let here = here.filter(|raw| (raw.point, raw.record.lock) == (point, lock));
    here.map(|raw| raw.record.rate_kops).collect()
}

/// A thread alone: of what differs so little the medians are not enough.
fn alone(evidence: &Evidence) -> Bound {
    let point = beside(evidence, RIVAL).iter().find(|p| p.point == ALONE);
    let rates = |lock| rates(evidence, ALONE, lock);
    let standing = point.map(|_| Standing::of_rates(&rates(OURS), &rates(RIVAL)));
    let numbers = point.into_iter().flat_map(|p| {
        [
            ("ours_kops", p.ours().rate_kops),
            ("other_kops", p.best().rate_kops),
        ]
    });
    Bound::new(
        "pi-alone",
        format!(
            "points of a thread alone, {}, where it is slower than {RIVAL}",
            ALONE.setting
        ),
        Side::AtMost(0.0),
        standing.map(|standing| f64::from(u8::from(standing == Standing::Loses))),
        numbers,
    )
}

/// One unbounded inversion is enough; that there is none takes all runs.
fn bounded(evidence: &Evidence) -> Bound {
    let groups = evidence
        .groups
        .iter()
        .map(|at| (at.lock, at.runs, at.unbounded));
    let chains = evidence
        .chains
        .iter()
        .map(|at| (at.lock, at.runs, at.unbounded));
    let ours = groups
        .chain(chains)
        .filter(|(lock, ..)| [OURS, STRICT].contains(lock));
    let (runs, unbounded) = ours.fold((0, 0), |sum, (_, runs, n)| (sum.0 + runs, sum.1 + n));
    let enough = both(evidence).is_some();
    Bound::new(
        "fifo-bounded",
        format!(
            "runs of ours in which a high thread waited beyond {} ms",
            LIMIT.as_millis()
        ),
        Side::AtMost(0.0),
        (enough || unbounded > 0).then_some(unbounded as f64),
        (runs > 0).then_some(("runs", runs as f64)),
    )
}

/// Ours and the rival's groups, pinned and not, if they ran often enough.
fn both<'a>(evidence: &Evidence<'a>) -> Option<[[&'a GroupsAt; 2]; 2]> {
    let at = |pinned, lock| {
        let mut all = evidence.groups.iter();
        all.find(|at| (at.pinned, at.lock) == (pinned, lock) && at.runs >= LEAST)
    };
    let pair = |pinned| Some([at(pinned, OURS)?, at(pinned, RIVAL)?]);
    Some([pair(true)?, pair(false)?])
}

/// In how many of the settings, pinned and not, ours loses.
fn losses(evidence: &Evidence, standing: fn(&GroupsAt) -> Standing) -> Option<f64> {
    let both = both(evidence)?.into_iter();
    let lost = both.filter(|[ours, _]| standing(ours) == Standing::Loses);
    Some(lost.count() as f64)
}

fn wait(evidence: &Evidence) -> Bound {
    let numbers = both(evidence).map(|[pinned, not]| {
        let ns = |at: &GroupsAt| at.wait_max_ns.unwrap_or(0) as f64;
        [
            ("pinned_ns", ns(pinned[0])),
            ("pinned_other_ns", ns(pinned[1])),
            ("unpinned_ns", ns(not[0])),
            ("unpinned_other_ns", ns(not[1])),
        ]
    });
    Bound::new(
        "fifo-wait",
        format!("settings in which the longest wait of a high thread is longer than {RIVAL}'s"),
        Side::AtMost(0.0),
        losses(evidence, |at| at.in_longest_wait),
        numbers.into_iter().flatten(),
    )
}

fn inversions(evidence: &Evidence) -> Bound {
    let numbers = both(evidence).map(|[pinned, not]| {
        [
            ("pinned_hz", pinned[0].inversions_per_s),
            ("pinned_other_hz", pinned[1].inversions_per_s),
            ("unpinned_hz", not[0].inversions_per_s),
            ("unpinned_other_hz", not[1].inversions_per_s),
        ]
    });
    Bound::new(
        "fifo-rate",
        format!("settings in which fewer inversions are resolved per second than {RIVAL}'s"),
        Side::AtMost(0.0),
        losses(evidence, |at| at.in_inversions),
        numbers.into_iter().flatten(),
    )
}
