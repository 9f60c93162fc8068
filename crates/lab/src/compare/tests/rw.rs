//! Locks for readers and writers: how they are rated, and what they promise.

use super::{
    super::{
        Raw,
        bound::Bound,
        bounds::{Bounds, Evidence},
        gauges,
        idle::Idle,
        judged,
        plan::Point,
        sentences,
        summary::PointSummary,
        tables,
        verdict::{Scope, Verdict},
    },
    CLOCK_NS, raw,
};
use crate::{record::Apart, values::Work};

/// A run with readers, and the tails of readers and of writers.
fn rw(at: Point, round: u32, lock: &'static str, kops: f64, tails: [Option<u64>; 2]) -> Raw {
    let [read, write] = tails;
    let apart = Apart {
        reads: 1,
        writes: 1,
        read_wait_p50_ns: read,
        read_wait_p999_ns: read,
        read_wait_max_ns: read,
        read_wait_samples: 5000,
        write_wait_p50_ns: write,
        write_wait_p999_ns: write,
        write_wait_max_ns: write.map(|ns| 2 * ns),
        write_wait_samples: 50,
    };
    let mut raw = raw(round, 0, at.threads, lock, kops, 77);
    raw.record.apart = Some(apart);
    raw.point = at;
    raw
}

/// The same in each of three rounds, with tails of a thousand nanoseconds.
fn rounds(at: Point, lock: &'static str, kops: f64) -> Vec<Raw> {
    let round = |round| rw(at, round, lock, kops, [Some(1000), Some(1000)]);
    (1..=3).map(round).collect()
}

fn work(threads: usize, read_pct: u32) -> Point {
    Point::new(Work { load: 0, gap: 0 }, threads).reading(read_pct)
}

fn judge(locks: [&'static str; 2], raws: &[Raw], points: usize) -> (Vec<PointSummary>, Verdict) {
    let scope = Scope {
        locks: locks.to_vec(),
        left_out: Vec::new(),
        points,
        rounds: 3,
    };
    judged(&scope, raws, &[], CLOCK_NS)
}

#[test]
fn waits_of_readers_and_writers_fit_beside_each_other() {
    let mut raws = Vec::new();
    for (threads, percentage) in [1, 2, 224, 896, 7168].into_iter().zip([0, 50, 90, 99, 100]) {
        let at = work(threads, percentage);
        for (lock, kops) in [("x", 123_456.0), ("parking_lot-rw", 654_321.0)] {
            let tails = [Some(12_300_000), Some(45_600_000)];
            raws.extend((1..=3).map(|round| rw(at, round, lock, kops, tails)));
        }
    }
    let (points, verdict) = judge(["x", "parking_lot-rw"], &raws, 5);
    let text = tables::text(&[&points], &points) + &sentences::text(&verdict);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
}

#[test]
fn readers_and_writers_are_rated_apart() {
    let dominated = |ours: [Option<u64>; 2], theirs: [Option<u64>; 2]| {
        let round = |n| {
            [
                rw(work(2, 50), n, "x", 100.0, ours),
                rw(work(2, 50), n, "a", 110.0, theirs),
            ]
        };
        let raws: Vec<Raw> = (1..=3).flat_map(round).collect();
        judge(["x", "a"], &raws, 1).0[0].on_pareto_front == Some(false)
    };
    let both = |read, write| [Some(read), Some(write)];
    assert!(dominated(both(1000, 1000), both(500, 500)));
    assert!(dominated(both(1000, 1000), both(1000, 500)), "level in one");
    assert!(!dominated(both(1000, 1000), both(1000, 1000)));
    assert!(
        !dominated(both(1000, 1000), both(100, 1100)),
        "worse in one"
    );
    // Where no wait of a writer was sampled, those of readers decide.
    assert!(dominated([Some(1000), None], [Some(500), None]));
    assert!(dominated([Some(1000), None], both(500, 9000)));
    assert!(!dominated([Some(1000), None], both(1000, 1)));
}

#[test]
fn points_with_readers_are_named_and_grouped_by_their_share() {
    let mut raws = Vec::new();
    for (threads, ours) in [(2, 200.0), (8, 50.0)] {
        for percentage in [0, 90] {
            raws.extend(rounds(work(threads, percentage), "x", ours));
            raws.extend(rounds(work(threads, percentage), "a", 100.0));
        }
    }
    let (points, verdict) = judge(["x", "a"], &raws, 4);
    assert_eq!(verdict.geomean_ratio_multi, Some(1.0));
    let text = tables::text(&[&points], &points) + &sentences::text(&verdict);
    for line in [
        "kop/s at 0/0, 90 % reads, by number of threads",
        "  0/0, 90 % reads with 8 threads: 0.50x a",
        "  0/0, 0 % reads with 8 threads: 0.250x; the least of the rivals: 1.00x a",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
    }
    assert!(text.contains("1.00 µs/1.00 µs*"), "{text}");
    let json = serde_json::to_value(&points[0]).expect("plain data");
    assert_eq!(json["read_pct"], 0);
    assert_eq!(json["locks"][0]["write_wait_p999_ns"], 1000);
}

/// What was measured of a `percpu` and an `rwsem` that hold all bounds just so.
struct Measured {
    percpu: f64,
    rwsem: f64,
    longest_wait_ns: u64,
    to_be_timed: usize,
    idle: Idle,
}

const JUST_SO: Measured = Measured {
    percpu: 400e3,
    rwsem: 105e3,
    longest_wait_ns: 25_000_000,
    to_be_timed: 1,
    idle: Idle {
        write_ns: 5000.0,
        membarrier_ns: 1000.0,
        writes: 301,
        grace_periods: 301,
    },
};

impl Measured {
    fn bounds(&self) -> Bounds {
        let mut raws = Vec::new();
        for threads in gauges::THREADS {
            let at = gauges::readers(threads);
            let locks = [
                ("percpu", self.percpu),
                ("rwsem", self.rwsem),
                ("a", 100e3),
                ("limit", 1e6),
                ("loop", 2e6),
            ];
            raws.extend(
                locks
                    .into_iter()
                    .flat_map(|(lock, kops)| rounds(at, lock, kops)),
            );
        }
        let at = work(8, 99);
        let wait = [Some(1), Some(self.longest_wait_ns)];
        Bounds::new(&Evidence {
            judged: &[
                judge(["rwsem", "a"], &raws, 2),
                judge(["percpu", "a"], &raws, 2),
            ],
            timed: &[(at, rw(at, 0, "rwsem", 1.0, wait).record)],
            to_be_timed: self.to_be_timed,
            idle: Some(&self.idle),
            gauged: &raws,
        })
    }

    fn missed(&self) -> Vec<&'static str> {
        let bounds = self.bounds();
        let names: Vec<_> = bounds
            .bounds
            .iter()
            .filter(|b| b.holds == Some(false))
            .map(|b| b.bound)
            .collect();
        assert_eq!(bounds.holds, Some(names.is_empty()));
        assert_eq!(bounds.check().is_ok(), names.is_empty());
        names
    }
}

#[test]
fn each_bound_is_missed_for_its_own_reason() {
    assert!(JUST_SO.missed().is_empty());
    let percpu = |percpu| Measured { percpu, ..JUST_SO }.missed();
    assert_eq!(percpu(399e3), ["percpu-read-1", "percpu-read-2"]);
    assert_eq!(
        percpu(299e3),
        ["percpu-read-1", "percpu-read-2", "percpu-readers"]
    );
    let rwsem = |rwsem| Measured { rwsem, ..JUST_SO }.missed();
    assert_eq!(rwsem(104e3), ["rwsem-mean"]);
    let wait = |longest_wait_ns| {
        Measured {
            longest_wait_ns,
            ..JUST_SO
        }
        .missed()
    };
    assert_eq!(wait(25_100_000), ["rwsem-writer-wait"]);
    let slow = Idle {
        write_ns: 5001.0,
        ..JUST_SO.idle
    };
    assert_eq!(
        Measured {
            idle: slow,
            ..JUST_SO
        }
        .missed(),
        ["percpu-writer"]
    );
}

#[test]
fn bounds_tell_the_numbers_that_they_are_made_of() {
    let bounds = JUST_SO.bounds();
    let of = |name| bounds.bounds.iter().find(|b| b.bound == name).expect(name);
    let number = |bound: &Bound, name| bound.numbers[name];
    // 400,000, 1,000,000 and 2,000,000 kop/s of two threads are 5, 2 and 1 ns each.
    let read = of("percpu-read-2");
    assert_eq!((read.measured, number(read, "percpu_ns")), (Some(2.5), 5.0));
    assert_eq!(
        (number(read, "limit_ns"), number(read, "loop_ns")),
        (2.0, 1.0)
    );
    assert_eq!(
        (number(read, "net_percpu_ns"), number(read, "net_limit_ns")),
        (4.0, 1.0)
    );
    assert_eq!(of("percpu-readers").measured, Some(4.0));
    assert_eq!(of("rwsem-writer-wait").measured, Some(50.0));
    assert_eq!(
        bounds.longest_writer_waits[0].wait_max_ns["rwsem"],
        50_000_000
    );

    let json = serde_json::to_value(&bounds).expect("plain data");
    assert_eq!(
        (&json["type"], &json["holds"]),
        (&"bounds".into(), &true.into())
    );
    assert_eq!(
        (
            &json["bounds"][2]["at_least"],
            &json["bounds"][3]["at_most"]
        ),
        (&3.0.into(), &0.0.into())
    );
    let text = bounds.text();
    assert!(text.contains("  percpu-writer: holds\n"), "{text}");
    assert!(text.contains(": 5, at most 5\n"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn what_was_not_measured_neither_holds_nor_is_missed() {
    let nothing = Bounds::new(&Evidence {
        gauged: &[],
        judged: &[],
        timed: &[],
        to_be_timed: 1,
        idle: None,
    });
    assert!(
        nothing
            .bounds
            .iter()
            .all(|b| b.holds.is_none() && b.measured.is_none())
    );
    assert!(nothing.holds.is_none() && nothing.check().is_ok());
    assert_eq!(
        nothing.text().matches("NOT MEASURED").count(),
        nothing.bounds.len()
    );
    // Two rounds of three, or one point of two: an interrupt came.
    let raws = [2, 8].map(|threads| {
        rounds(work(threads, 50), "rwsem", 1.0)
            .into_iter()
            .chain(rounds(work(threads, 50), "a", 9.0))
    });
    let raws: Vec<Raw> = raws.into_iter().flatten().collect();
    let front = |raws: &[Raw]| {
        let judged = [judge(["rwsem", "a"], raws, 2)];
        let evidence = Evidence {
            gauged: &[],
            judged: &judged,
            timed: &[],
            to_be_timed: 0,
            idle: None,
        };
        Bounds::new(&evidence).bounds[3].holds
    };
    assert_eq!(front(&raws), Some(true));
    let two: Vec<Raw> = raws.iter().filter(|raw| raw.round < 3).cloned().collect();
    assert_eq!((front(&two), front(&raws[..6])), (None, None));
    // A writer that waited for no grace period found no idle lock.
    let idle = Idle {
        grace_periods: 300,
        ..JUST_SO.idle
    };
    let bounds = Measured { idle, ..JUST_SO }.bounds();
    assert_eq!((bounds.holds, bounds.bounds[6].holds), (None, None));
}

/// Where readers and writers both wait longer, that is one point.
#[test]
fn no_more_points_have_longer_tails_than_there_are() {
    let at = work(2, 50);
    let round = |n| {
        [
            rw(at, n, "x", 100.0, [Some(9000), Some(9000)]),
            rw(at, n, "a", 100.0, [Some(1000), Some(1000)]),
        ]
    };
    let raws: Vec<Raw> = (1..=3).flat_map(round).collect();
    let (_, verdict) = judge(["x", "a"], &raws, 1);
    assert_eq!(verdict.longer_tails.len(), 2);
    let text = sentences::text(&verdict);
    assert!(text.contains("that of a at 1 of 1 points:"), "{text}");
}

/// Of waits that were not all timed it is known only that one is too long.
#[test]
fn some_of_the_timed_runs_hold_no_bound() {
    let some = |longest_wait_ns| {
        let measured = Measured {
            longest_wait_ns,
            to_be_timed: 2,
            ..JUST_SO
        };
        let bounds = measured.bounds().bounds;
        let wait = bounds
            .iter()
            .find(|bound| bound.bound == "rwsem-writer-wait");
        wait.expect("it is there").holds
    };
    assert_eq!(some(1_000_000), None);
    assert_eq!(some(25_100_000), Some(false));
}
