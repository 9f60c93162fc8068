//! Locks that inherit priority: how they are held against each other, and what
//! ours promises.

use super::{
    super::{
        Raw,
        pi::{
            OURS, PLAIN, RIVAL, STRICT,
            bounds::{Bounds, Evidence},
            chains::ChainAt,
            groups::GroupsAt,
            ordinary::{judge, points},
            realtime::{LEAST, PINNED, Run, complete},
            standing::Standing,
            tables,
        },
        sentences,
    },
    CLOCK_NS, raw,
};
use crate::pi_stress::Times;

const LOCKS: [&str; 4] = [OURS, STRICT, PLAIN, RIVAL];

/// Three rounds at a point with such throughputs.
fn rounds(load: u32, threads: usize, kops: [f64; 4]) -> Vec<Raw> {
    let locks = LOCKS.into_iter().zip(kops);
    let round = |round| {
        let locks = locks.clone();
        locks.map(move |(lock, kops)| raw(round, load, threads, lock, kops, 1000))
    };
    (1..=3).flat_map(round).collect()
}

fn group(pinned: bool, lock: &'static str) -> GroupsAt {
    GroupsAt {
        pinned,
        lock,
        groups: 1,
        runs: LEAST,
        inversions_per_s: 42_000.0,
        wait_p50_ns: Some(6_000),
        wait_max_ns: Some(20_000),
        longest_wait_ns: Some(123_000_000),
        unbounded: 0,
        in_inversions: Standing::Ties,
        in_longest_wait: Standing::Ties,
    }
}

fn chain(depth: Option<usize>, lock: &'static str) -> ChainAt {
    let times = || Times {
        p50_ns: Some(12_300),
        p99_ns: Some(45_600),
        max_ns: Some(12_300_000),
    };
    ChainAt {
        depth,
        lock,
        runs: 3,
        asked: 999,
        owner_runs: times(),
        high_has_it: times(),
        unbounded: 0,
        in_owner_runs: Standing::Ties,
    }
}

/// What was measured of locks that hold all bounds just so.
struct Measured {
    unit_ns: f64,
    raws: Vec<Raw>,
    groups: Vec<GroupsAt>,
    chains: Vec<ChainAt>,
}

fn just_so() -> Measured {
    let groups = PINNED
        .into_iter()
        .flat_map(|pinned| [OURS, STRICT, RIVAL].map(|lock| group(pinned, lock)));
    let chains = [Some(1), None]
        .into_iter()
        .flat_map(|depth| [OURS, STRICT, RIVAL].map(|lock| chain(depth, lock)));
    let raws = [
        rounds(0, 1, [98.1, 1.0, 900.0, 100.0]),
        rounds(0, 2, [90.0, 1.0, 100.0, 100.0]),
        rounds(500, 64, [3000.0, 1.0, 3333.0, 100.0]),
        // Promised are neither so many threads nor such work.
        rounds(0, 65, [1.0, 1.0, 100.0, 100.0]),
        rounds(7, 4, [1.0, 1.0, 100.0, 100.0]),
        rounds(7, 1, [1.0, 1.0, 100.0, 100.0]),
    ];
    Measured {
        unit_ns: 0.5,
        raws: raws.concat(),
        groups: groups.collect(),
        chains: chains.collect(),
    }
}

impl Measured {
    fn bounds(&self) -> Bounds {
        let judged = judge(&self.raws, 6, 3, CLOCK_NS);
        Bounds::new(&Evidence {
            unit_ns: self.unit_ns,
            raws: &self.raws,
            judged: &judged,
            groups: &self.groups,
            chains: &self.chains,
        })
    }

    /// The names of the bounds of which this is so.
    fn that(&self, holds: Option<bool>) -> Vec<&'static str> {
        let bounds = self.bounds();
        assert_eq!(
            bounds.check().is_err(),
            bounds.bounds.iter().any(|b| b.holds == Some(false))
        );
        let those = bounds.bounds.iter().filter(|b| b.holds == holds);
        those.map(|b| b.bound).collect()
    }

    /// What is missed with other throughputs at a point.
    fn missed_with(load: u32, threads: usize, kops: [f64; 4]) -> Vec<&'static str> {
        let mut these = just_so();
        let at = |raw: &Raw| (raw.record.load, raw.record.threads) == (load, threads);
        these.raws.retain(|raw| !at(raw));
        these.raws.extend(rounds(load, threads, kops));
        these.that(Some(false))
    }
}

#[test]
fn each_bound_is_missed_for_its_own_reason() {
    assert_eq!(just_so().bounds().holds, Some(true));
    let missed = Measured::missed_with;
    assert_eq!(
        missed(500, 64, [2999.0, 1.0, 3300.0, 100.0]),
        ["pi-contended"]
    );
    // Of a section of 500 units of 1 ns there are 2,000 in a millisecond: 20 times 100.
    let mut slow = just_so();
    slow.unit_ns = 1.0;
    assert_eq!(slow.that(None), ["pi-contended"]);
    assert_eq!(missed(0, 2, [89.9, 1.0, 100.0, 1.0]), ["pi-mutex"]);
    assert_eq!(missed(0, 1, [97.9, 1.0, 1.0, 100.0]), ["pi-alone"]);

    let spoilt = |spoil: fn(&mut Measured)| {
        let mut these = just_so();
        spoil(&mut these);
        these.that(Some(false))
    };
    assert_eq!(
        spoilt(|m| m.groups[3].in_longest_wait = Standing::Loses),
        ["fifo-wait"]
    );
    assert_eq!(
        spoilt(|m| m.groups[0].in_inversions = Standing::Loses),
        ["fifo-rate"]
    );
    // Strict, unpinned; and in a tree.
    assert_eq!(spoilt(|m| m.groups[4].unbounded = 1), ["fifo-bounded"]);
    assert_eq!(spoilt(|m| m.chains[3].unbounded = 1), ["fifo-bounded"]);
    // The rival promises nothing here, and strict no speed.
    assert!(spoilt(|m| m.groups[5].unbounded = 1).is_empty());
    assert!(spoilt(|m| m.groups[1].in_inversions = Standing::Loses).is_empty());
}

#[test]
fn what_was_not_measured_neither_holds_nor_is_missed() {
    let fifo = ["fifo-bounded", "fifo-wait", "fifo-rate"];
    let mut these = just_so();
    these.groups[0].runs -= 1;
    assert_eq!(these.that(None), fifo);
    assert_eq!(these.bounds().holds, None);
    these.groups.clear();
    these.chains.clear();
    assert_eq!(these.that(None), fifo);
    // One unbounded inversion is enough.
    these.chains = vec![chain(Some(1), OURS)];
    these.chains[0].unbounded = 1;
    assert_eq!(these.that(Some(false)), ["fifo-bounded"]);

    // An interrupt came in the third round.
    let mut these = just_so();
    these.raws.pop();
    assert_eq!(these.that(None), ["pi-contended", "pi-alone"]);
    these.raws.clear();
    assert_eq!(these.that(None), ["pi-contended", "pi-mutex", "pi-alone"]);
}

#[test]
fn a_difference_is_one_in_the_medians_and_in_most_rounds() {
    use Standing::{Loses, Ties, Wins};
    let rates = |ours: [f64; 3], theirs: [f64; 3]| Standing::of_rates(&ours, &theirs);
    assert_eq!(rates([103.0; 3], [100.0; 3]), Wins);
    assert_eq!(rates([100.0; 3], [103.0; 3]), Loses);
    assert_eq!(rates([101.9; 3], [100.0; 3]), Ties);
    assert_eq!(
        rates([200.0, 200.0, 1.0], [100.0; 3]),
        Wins,
        "one bad round"
    );
    assert_eq!(rates([200.0, 100.0, 300.0], [100.0, 200.0, 150.0]), Wins);
    assert_eq!(rates([9.0, 1.0, 5.0], [1.0, 5.0, 4.0]), Wins);
    assert_eq!(
        rates([9.0, 5.0, 1.0], [1.0, 5.0, 4.0]),
        Ties,
        "one round each"
    );
    let waits = |ours, theirs| Standing::of_times(&[ours; 3], &[theirs; 3], CLOCK_NS);
    assert_eq!(waits(Some(1000), Some(2000)), Wins);
    assert_eq!(waits(Some(2000), Some(1000)), Loses);
    assert_eq!(
        waits(Some(40), Some(40 + CLOCK_NS)),
        Ties,
        "less than the clock takes"
    );
    assert_eq!(waits(None, Some(1)), Ties, "nobody knows");
}

#[test]
fn only_rounds_with_every_lock_count() {
    let run = |round, lock, run| Run {
        run,
        round,
        setting: true,
        lock,
    };
    let all = [
        run(1, RIVAL, 1),
        run(1, OURS, 2),
        run(1, STRICT, 3),
        run(2, OURS, 4),
    ];
    let locks = complete(&all, true);
    assert_eq!(
        locks,
        [(OURS, vec![&2]), (STRICT, vec![&3]), (RIVAL, vec![&1])]
    );
    assert!(
        complete(&all, false)
            .iter()
            .all(|(_, runs)| runs.is_empty())
    );
}

#[test]
fn everything_is_told_and_fits_into_100_columns() {
    let mut these = just_so();
    for at in &mut these.chains {
        at.in_owner_runs = Standing::Loses;
    }
    these.groups[1].in_longest_wait = Standing::Wins;
    let points = points(&these.raws, &LOCKS, CLOCK_NS);
    let judged = judge(&these.raws, 6, 3, CLOCK_NS);
    let text = tables::points(&points)
        + &judged
            .iter()
            .map(|(_, v)| sentences::text(v))
            .collect::<String>()
        + &tables::groups(&these.groups)
        + &tables::chains(&these.chains)
        + &these.bounds().text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    for line in [
        "Ordinary threads at 500/500, medians over the rounds",
        "  500/500 with 64 threads: 30.00x pthread-pi",
        "  0/0 with 2 threads: 0.90x mutex",
        "pimutex:strict pinned: ties in inversions (1.00x pthread-pi), wins in the longest wait (1.00x).",
        "  trees: 12.3 µs against 12.3 µs of pthread-pi",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line:?} in\n{text}");
    }
    let json = serde_json::to_value(&points[2]).expect("plain data");
    assert_eq!(
        (&json["type"], &json["threads"]),
        (&"point".into(), &64.into())
    );
    let ours = &json["locks"][0];
    assert_eq!(
        (&ours["lock"], &ours["over_pthread_pi"], &ours["over_mutex"]),
        (&OURS.into(), &30.0.into(), &0.9001.into())
    );
}
