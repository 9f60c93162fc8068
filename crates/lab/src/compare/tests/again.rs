//! Who dominates our lock, but not clearly, is measured again.

use super::{
    super::{Judged, again, judged, sentences, verdict::Scope},
    CLOCK_NS, Raw, point, raw, steady,
};

fn judge(raws: &[Raw], again: &[Raw]) -> Judged {
    let scope = Scope {
        locks: vec!["ours", "a", "b"],
        left_out: Vec::new(),
        points: 2,
        rounds: 3,
    };
    judged(&scope, raws, again, CLOCK_NS)
}

/// Rounds of one point, the last of which is faster.
fn uneven(runs: [(f64, u64); 3]) -> Vec<Raw> {
    let fast = runs.map(|(kops, tail)| (1.2 * kops, tail));
    point(0, 2, [runs, runs, fast])
}

/// At one point `a` and `b` are ahead, `b` far of all that ours does; at another nobody dominates.
fn three_rounds() -> Vec<Raw> {
    let mut raws = uneven([(100.0, 400), (131.0, 100), (241.0, 100)]);
    raws.extend(steady(50, 2, [(100.0, 100), (109.0, 400), (90.0, 400)]));
    raws
}

/// So many rounds of the first point in which `a` has that throughput.
fn more(rounds: u32, kops: f64) -> Vec<Raw> {
    let numbers = 4..4 + rounds;
    let runs = [("ours", 100.0, 400), ("a", kops, 100)];
    let both = |round| runs.map(|(lock, kops, tail)| raw(round, 0, 2, lock, kops, tail));
    numbers.flat_map(both).collect()
}

#[test]
fn who_is_not_far_ahead_of_our_fastest_round_is_measured_again() {
    let calls = again::calls(&[judge(&three_rounds(), &[])]);
    let [call] = &calls[..] else {
        panic!("{} calls", calls.len());
    };
    assert_eq!((call.point.setting.work.load, call.point.threads), (0, 2));
    assert_eq!(call.locks, ["ours", "a"], "b is clearly ahead");
}

#[test]
fn several_of_ours_share_the_rounds_of_a_point() {
    let raws = uneven([(100.0, 400), (99.0, 400), (125.0, 100)]);
    let of = |ours, b| {
        let scope = Scope {
            locks: vec![ours, b],
            left_out: Vec::new(),
            points: 1,
            rounds: 3,
        };
        judged(&scope, &raws, &[], CLOCK_NS)
    };
    let calls = again::calls(&[of("ours", "b"), of("a", "b")]);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].locks, ["ours", "b", "a"]);
}

#[test]
fn more_rounds_decide_and_the_first_ones_do_not_count() {
    let raws = three_rounds();
    let (points, verdict) = judge(&raws, &more(again::ROUNDS, 101.0));
    assert_eq!(points[0].dominated_by, ["b"]);
    assert_eq!(points[0].unconfirmed, ["a"]);
    assert_eq!(points[0].on_pareto_front, Some(false), "because of b");
    assert_eq!(points[0].rounds, 3);
    let text = sentences::text(&verdict);
    let said = "Rivals that seemed to dominate it did not in 12 more rounds at 1 of 2 points:\n  0/0 with 2 threads: a\n";
    assert!(text.contains(said), "{text}");

    let (points, verdict) = judge(&raws, &more(again::ROUNDS, 103.0));
    assert_eq!(points[0].dominated_by, ["a", "b"]);
    assert!(points[0].unconfirmed.is_empty() && verdict.unconfirmed.is_empty());
    assert!(!sentences::text(&verdict).contains("more rounds"));
}

#[test]
fn what_was_cut_short_takes_nothing_back() {
    let (points, _) = judge(&three_rounds(), &more(again::ROUNDS - 1, 50.0));
    assert_eq!(points[0].dominated_by, ["a", "b"]);
}

#[test]
fn who_is_no_more_dominated_is_on_the_front() {
    let raws = uneven([(100.0, 400), (129.0, 100), (90.0, 100)]);
    let (points, verdict) = judge(&raws, &more(again::ROUNDS, 100.0));
    assert_eq!(points[0].on_pareto_front, Some(true));
    assert!(verdict.pareto_misses.is_empty());
}

#[test]
fn a_lock_that_seems_to_collapse_is_measured_again_in_turns() {
    let mut raws = steady(0, 2, [(100.0, 100); 3]);
    raws.extend(steady(0, 64, [(79.0, 100), (10.0, 100), (100.0, 100)]));
    let calls = again::collapsed(&[judge(&raws, &[])]);
    let [("ours", points)] = calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!(points.map(|point| point.threads), [2, 64]);

    let turns = |rounds, kops| {
        let numbers = 16..16 + rounds;
        let both = move |round| {
            [(2, 100.0), (64, kops)]
                .map(|(threads, kops)| raw(round, 0, threads, "ours", kops, 100))
        };
        numbers.flat_map(both).collect::<Vec<_>>()
    };
    let (_, verdict) = judge(&raws, &turns(again::ROUNDS, 90.0));
    let [collapse] = &verdict.collapse[..] else {
        panic!("one setting has both");
    };
    assert_eq!(
        (collapse.kept["ours"], collapse.measured_again),
        (0.9, true)
    );
    assert_eq!(collapse.kept["a"], 0.1, "it was not");
    let text = sentences::text(&verdict);
    assert!(
        text.contains("64 threads: 0.900x in 12 more rounds;"),
        "{text}"
    );

    let (_, verdict) = judge(&raws, &turns(again::ROUNDS - 1, 90.0));
    assert_eq!(verdict.collapse[0].kept["ours"], 0.79, "cut short");
}
