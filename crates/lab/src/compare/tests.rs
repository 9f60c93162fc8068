//! The summary must be true, above all where our lock loses: made-up runs go
//! in, and what comes out is held against them.

mod again;
mod pi;
mod rw;

use super::{
    Raw,
    plan::Point,
    sentences,
    summary::{PointSummary, summarise},
    tables,
    verdict::{Scope, Verdict},
};
use crate::{
    record::Record,
    values::{Work, World},
};

const CLOCK_NS: u64 = 30;

/// A run of `lock` with that throughput and tail.
pub fn raw(round: u32, load: u32, threads: usize, lock: &'static str, kops: f64, tail: u64) -> Raw {
    let record = Record {
        world: World::Native,
        lock,
        threads,
        seconds: 0.1,
        load,
        gap: load,
        read_pct: 0,
        lines: 0,
        ops_min: 1,
        ops_mean: 1.0,
        ops_max: 1,
        rate_kops: kops,
        wait_p50_ns: Some(40),
        wait_p999_ns: Some(tail),
        wait_max_ns: Some(2 * tail),
        jain: 0.5,
        run: 1,
        seed: 1,
        sample: 32,
        wait_samples: 5000,
        apart: None,
        events: None,
        simulation: None,
    };
    Raw {
        record,
        round,
        transfer_ns: None,
        point: Point::new(Work { load, gap: load }, threads),
    }
}

/// Three rounds of a point: throughput and tail of ours, `a` and `b`.
fn point(load: u32, threads: usize, runs: [[(f64, u64); 3]; 3]) -> Vec<Raw> {
    let rounds = runs.into_iter().zip(1..);
    rounds
        .flat_map(|(runs, round)| {
            let named = ["ours", "a", "b"].into_iter().zip(runs);
            named.map(move |(lock, (kops, tail))| raw(round, load, threads, lock, kops, tail))
        })
        .collect()
}

/// The same in each round.
fn steady(load: u32, threads: usize, runs: [(f64, u64); 3]) -> Vec<Raw> {
    point(load, threads, [runs; 3])
}

fn judged(raws: &[Raw], points: usize) -> (Vec<PointSummary>, Verdict) {
    let scope = Scope {
        locks: vec!["ours", "a", "b"],
        left_out: Vec::new(),
        points,
        rounds: 3,
    };
    super::judged(&scope, raws, &[], CLOCK_NS)
}

#[test]
fn a_lock_that_loses_everywhere_is_said_to() {
    let mut raws = steady(0, 1, [(100.0, 400), (200.0, 200), (150.0, 100)]);
    raws.extend(steady(0, 2, [(100.0, 4000), (50.0, 200), (400.0, 100)]));
    raws.extend(steady(0, 64, [(10.0, 4000), (40.0, 9000), (20.0, 100)]));
    let (points, verdict) = judged(&raws, 3);

    assert!(verdict.wins.is_empty() && verdict.ties.is_empty());
    assert_eq!(verdict.ratio_uncontended, Some(0.5));
    assert_eq!(verdict.geomean_ratio_multi, Some(0.25));
    assert_eq!(points[0].dominated_by, ["a", "b"]);
    assert_eq!(verdict.collapse[0].kept["ours"], 0.1);

    let text = sentences::text(&verdict);
    for line in [
        "Summary of 3 of 3 rounds",
        "  with 2 or more threads: 0.25x",
        "  with 1 thread: 0.50x",
        "ours wins nowhere by more than 2 %.",
        "ours loses by more than 2 % at 3 of 3 points:",
        "  0/0 with 1 thread: 0.50x a",
        "  0/0 with 2 threads: 0.25x b",
        "  0/0 with 64 threads: 0.25x a",
        "ours is not on the Pareto front at 3 of 3 points; dominated by:",
        "  0/0 with 1 thread: a, b",
        "  0/0 with 2 threads: b",
        "  0/0 with 64 threads: b",
        "Its p99.9 wait is longer than that of the best rival at 2 of 3 points:",
        "  0/0 with 2 threads: 4.00 µs against 100 ns of b",
        "  0/0 with 64 threads: 0.100x; the least of the rivals: 0.050x b",
    ] {
        assert!(
            text.lines().any(|l| l == line),
            "no line {line:?} in\n{text}"
        );
    }
    assert!(!text.contains("level"), "{text}");
}

#[test]
fn wins_ties_and_losses_are_told_apart() {
    let mut raws = steady(0, 2, [(150.0, 100), (100.0, 100), (90.0, 50)]);
    raws.extend(steady(0, 8, [(99.0, 100), (100.0, 100), (90.0, 50)]));
    raws.extend(steady(50, 8, [(97.0, 100), (100.0, 200), (90.0, 50)]));
    let (points, verdict) = judged(&raws, 3);

    let threads = |outcomes: &[super::verdict::Outcome]| {
        let all = outcomes.iter();
        all.map(|o| (o.point.setting.work.load, o.point.threads, o.ratio))
            .collect::<Vec<_>>()
    };
    assert_eq!(threads(&verdict.wins), [(0, 2, 1.5)]);
    assert_eq!(threads(&verdict.ties), [(0, 8, 0.99)]);
    assert_eq!(threads(&verdict.losses), [(50, 8, 0.97)]);
    // Faster but with the longer tail, or slower: neither dominates.
    assert!(points.iter().all(|p| p.on_pareto_front == Some(true)));
    assert_eq!(verdict.ratio_uncontended, None);
    let text = sentences::text(&verdict);
    assert!(text.contains("ours is on the Pareto front at every point."));
    assert!(text.contains("  with 1 thread: not measured"));
}

#[test]
fn medians_ignore_one_bad_round_and_chance_two() {
    let good = [(100.0, 100), (90.0, 1000), (80.0, 1000)];
    let bad = [(10.0, 5000), (90.0, 1000), (80.0, 1000)];
    let at = |rounds| {
        let (points, _) = judged(&point(0, 2, rounds), 1);
        (points[0].ratio, points[0].on_pareto_front)
    };
    assert_eq!(at([good, bad, good]), (1.1111, Some(true)));
    assert_eq!(at([bad, good, bad]), (0.1111, Some(true)));
    assert_eq!(at([bad, bad, bad]), (0.1111, Some(false)));
}

#[test]
fn a_rival_dominates_in_more_rounds_than_chance_has_it() {
    let front = |bad: u32, rounds: u32| {
        let tails = (1..=rounds).map(|round| if round <= bad { 5000 } else { 100 });
        let all = tails.zip(1..).flat_map(|(tail, round)| {
            let ours = raw(round, 0, 2, "ours", 50.0, tail);
            let others = ["a", "b"].map(|lock| raw(round, 0, 2, lock, 60.0, 1000));
            [ours].into_iter().chain(others)
        });
        judged(&all.collect::<Vec<_>>(), 1).0[0].on_pareto_front
    };
    for (least, rounds) in [(3, 3), (4, 5), (5, 7), (8, 15)] {
        assert_eq!(front(least, rounds), Some(false), "{least} of {rounds}");
        assert_eq!(front(least - 1, rounds), Some(true), "{least} of {rounds}");
    }
    assert_eq!([front(1, 1), front(2, 2)], [None, None]);
}

#[test]
fn of_two_rounds_the_front_is_not_known() {
    let runs = [(100.0, 400), (200.0, 200), (150.0, 100)];
    let raws = &steady(0, 2, runs)[..6];
    let text = sentences::text(&judged(raws, 1).1);
    let said =
        "At 1 of 1 points the rounds are too few to say whether ours is on the Pareto front.";
    assert!(text.lines().any(|line| line == said), "{text}");
    assert!(!text.contains("at every point"), "{text}");
}

#[test]
fn what_the_clock_cannot_tell_apart_does_not_dominate() {
    let tails = |ours, theirs| {
        let runs = [(100.0, ours), (200.0, theirs), (50.0, 900)];
        judged(&steady(0, 2, runs), 1).0[0].on_pareto_front
    };
    assert_eq!(tails(41 + CLOCK_NS, 41), Some(true));
    assert_eq!(tails(42 + CLOCK_NS, 41), Some(false));
}

#[test]
fn only_rounds_with_every_lock_count() {
    let mut raws = steady(0, 1, [(100.0, 100), (50.0, 100), (50.0, 100)]);
    // Interrupted: one lock is missing in the third round, two in another's first.
    raws.pop();
    raws.push(raw(1, 0, 2, "ours", 900.0, 100));
    let (_, only) = judged(&raws, 1);
    let text = sentences::text(&only);
    assert!(text.starts_with("\nSummary of 2 of 3 rounds\n"), "{text}");

    let (points, verdict) = judged(&raws, 2);
    assert_eq!(points.len(), 1);
    assert_eq!(points[0].rounds, 2);
    assert_eq!((verdict.rounds_complete, verdict.points), (0, 1));
    let text = sentences::text(&verdict);
    assert!(text.contains("every lock was measured at 1 of 2 points, and only these count"));
    // What there is of the other stands apart.
    let apart = "\nNot every lock was measured at 0/0 with 2 threads; kop/s of those that were, of \
                 one round:\n  ours: 900\n";
    assert!(text.contains(apart), "{text}");
    assert_eq!(text.matches("900").count(), 1, "{text}");
}

#[test]
fn rounds_that_sampled_nothing_are_not_part_of_a_tail() {
    let mut raws = steady(0, 2, [(100.0, 400), (50.0, 100), (50.0, 100)]);
    for raw in raws.iter_mut().filter(|raw| raw.record.lock == "ours") {
        let sampled = raw.round == 2;
        raw.record.wait_p999_ns = raw.record.wait_p999_ns.filter(|_| sampled);
    }
    let (points, verdict) = judged(&raws, 1);
    assert_eq!(points[0].ours().wait_p999_ns, Some(400));
    assert_eq!(verdict.longer_tails.len(), 1);
}

#[test]
fn one_round_has_no_spread() {
    let raws = steady(0, 2, [(100.0, 100), (50.0, 100), (50.0, 100)]);
    let rounds = |rounds| {
        let raws = raws.iter().filter(|raw| raw.round <= rounds).cloned();
        sentences::text(&judged(&raws.collect::<Vec<_>>(), 1).1)
    };
    let (one, two) = (rounds(1), rounds(2));
    assert!(
        one.contains("How far rounds differ in throughput was not measured"),
        "{one}"
    );
    assert!(two.contains("Rounds differ in throughput by 0 %"), "{two}");
}

#[test]
fn points_that_are_a_round_ahead_are_counted() {
    let runs = [(100.0, 100), (50.0, 100), (50.0, 100)];
    let mut raws = steady(0, 1, runs);
    raws.extend(steady(0, 2, runs).into_iter().filter(|raw| raw.round < 3));
    let text = sentences::text(&judged(&raws, 2).1);
    let head = "\nSummary of 2 of 3 rounds; 1 of 2 points have one round more\n";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn nothing_measured_is_said_in_a_line() {
    let (points, verdict) = judged(&[], 4);
    assert_eq!(tables::text(&[&points], &points), "");
    let text = sentences::text(&verdict);
    assert_eq!(text.trim().lines().count(), 1, "{text}");
    assert!(text.contains("0 of 3 rounds"), "{text}");
}

#[test]
fn locks_that_get_nowhere_do_not_break_the_arithmetic() {
    let (points, verdict) = judged(&steady(0, 2, [(0.0, 0); 3]), 1);
    assert_eq!(points[0].ratio, 1.0);
    assert_eq!(verdict.geomean_ratio_multi, Some(1.0));
    let (_, verdict) = judged(&steady(0, 2, [(0.0, 0), (5.0, 0), (1.0, 0)]), 1);
    assert_eq!(verdict.geomean_ratio_multi, Some(0.0));
    assert_eq!(verdict.losses.len(), 1);
}

#[test]
fn everything_fits_into_100_columns() {
    let locks = [
        "ours",
        "parking_lot-0.12",
        "pthread-adaptive",
        "c",
        "d",
        "e",
        "f",
    ];
    let mut raws = Vec::new();
    for threads in [1, 2, 224, 896, 7168, 8192, 8000, 8001] {
        for (lock, faster) in locks.into_iter().zip(1..) {
            let (kops, tail) = (123_456.0 * f64::from(faster), 923_000_000 / faster as u64);
            raws.extend((1..=3).map(|round| raw(round, 10_000, threads, lock, kops, tail)));
        }
    }
    let scope = Scope {
        locks: locks.to_vec(),
        left_out: Vec::new(),
        points: 8,
        rounds: 3,
    };
    let points = summarise(&raws, &scope.locks, CLOCK_NS);
    assert_eq!(points[0].dominated_by, locks[1..]);
    let verdict = Verdict::new(&scope, &points, CLOCK_NS);
    let text = tables::text(&[&points], &points) + &sentences::text(&verdict);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
}
