//! The tables' bounds, and searches that locks take long to come to.

use std::alloc::{Layout, alloc_zeroed};

use super::*;
use crate::lock::Known;

/// A graph that nothing is in, or what a thread holds that holds nothing; not on the stack.
fn zeroed<T>() -> Box<T> {
    // SAFETY: the layout is not of size zero; zero bytes are valid for the two types of which
    // this is asked; the box frees it with the same layout.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<T>()).cast()) }
}

fn graph() -> Box<Graph> {
    zeroed()
}

fn lock(number: usize) -> Known {
    Known {
        key: (number as u64) << 32 | 1,
        address: number,
        kind: Kind::Mutex,
    }
}

/// A stack of one frame.
fn at(place: usize) -> Stack {
    let mut stack = Stack::EMPTY;
    stack.push(place);
    stack
}

/// A thread, at places of its own, wants a lock while it holds others.
fn learn(graph: &mut Graph, thread: u32, held: &[usize], wanted: usize) -> Found {
    let holds: Box<Holds> = zeroed();
    for number in held {
        holds.push(&lock(*number), Mode::Exclusive, &at(thread as usize));
    }
    let stack = at(thread as usize);
    graph.learn(thread, &holds, &lock(wanted), Mode::Exclusive, &stack)
}

#[test]
fn a_ring_as_long_as_the_longest_is_found_and_no_longer_one() {
    for (length, expected) in [
        (LONGEST, Found::Cycle(LONGEST)),
        (LONGEST + 1, Found::Nothing),
    ] {
        let mut graph = graph();
        for first in 1..length {
            let found = learn(&mut graph, first as u32, &[first], first + 1);
            assert_eq!(found, Found::Nothing);
        }
        assert_eq!(learn(&mut graph, 100, &[length], 1), expected);
    }
}

#[test]
fn the_shortest_cycle_is_reported() {
    let mut graph = graph();
    for (thread, [held, wanted]) in [[1, 2], [2, 3], [3, 4], [1, 4]].into_iter().enumerate() {
        learn(&mut graph, thread as u32, &[held], wanted);
    }
    assert_eq!(learn(&mut graph, 9, &[4], 1), Found::Cycle(2));
    let threads: Vec<u32> = graph.cycle(2).map(|step| step.thread).collect();
    assert_eq!(threads, [9, 3]);
}

#[test]
fn the_same_places_are_reported_once_whatever_the_locks() {
    let mut graph = graph();
    for (pair, expected) in [(10, Found::Cycle(2)), (20, Found::Nothing)] {
        learn(&mut graph, 1, &[pair], pair + 1);
        assert_eq!(learn(&mut graph, 2, &[pair + 1], pair), expected);
    }
}

#[test]
fn a_cycle_behind_one_that_was_reported_is_found() {
    let mut graph = graph();
    learn(&mut graph, 1, &[10], 11);
    assert_eq!(learn(&mut graph, 2, &[11], 10), Found::Cycle(2));
    for (thread, [held, wanted]) in [(1, [20, 21]), (3, [20, 22]), (4, [22, 21])] {
        assert_eq!(learn(&mut graph, thread, &[held], wanted), Found::Nothing);
    }
    assert_eq!(learn(&mut graph, 2, &[21], 20), Found::Cycle(3));
}

#[test]
fn a_lock_that_is_gone_closes_no_cycle() {
    let mut graph = graph();
    learn(&mut graph, 1, &[1], 2);
    learn(&mut graph, 2, &[2], 3);
    graph.gone(lock(2).key);
    assert_eq!(learn(&mut graph, 3, &[3], 1), Found::Nothing);
}

#[test]
fn full_tables_begin_anew_and_report_nothing_that_is_not() {
    let mut graph = graph();
    let mut limits = 0;
    for number in 1..LOCKS + 100 {
        match learn(&mut graph, 1, &[number], number + 1) {
            Found::Nothing => {}
            Found::Limit(Limit::Orders) => limits += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(limits, 1);
    // What came after is known.
    let last = LOCKS + 99;
    let expected = Found::Cycle(2);
    assert_eq!(learn(&mut graph, 3, &[last + 1], last), expected);
}

/// Locks `held` and one that is gone afterwards are held, and `wanted` are wanted, until the
/// tables were full more than once. It may be forgotten by now what was known before.
#[must_use]
fn learn_of_many_that_go(graph: &mut Graph, held: &[usize], wanted: &[usize]) -> usize {
    let mut limits = 0;
    for number in 0..3 * LOCKS {
        let short = 1000 + number;
        let all = [held, &[short]].concat();
        for wanted in wanted {
            match learn(graph, 7, &all, *wanted) {
                Found::Nothing => {}
                Found::Limit(Limit::Orders) => limits += 1,
                other => panic!("{other:?}"),
            }
        }
        match learn(graph, 8, held, short) {
            Found::Nothing => {}
            Found::Limit(Limit::Orders) => limits += 1,
            other => panic!("{other:?}"),
        }
        graph.gone(lock(short).key);
    }
    limits
}

#[test]
fn locks_that_are_gone_make_room() {
    let mut graph = graph();
    learn(&mut graph, 2, &[5], 6);
    assert_eq!(learn(&mut graph, 3, &[6], 5), Found::Cycle(2));
    learn(&mut graph, 1, &[1], 2);
    assert_eq!(learn_of_many_that_go(&mut graph, &[9], &[]), 0);
    assert_eq!(learn(&mut graph, 4, &[2], 1), Found::Cycle(2));
    let steps: Vec<_> = graph
        .cycle(2)
        .map(|step| {
            let [held, wanted] = [step.held, step.wanted].map(|(address, ..)| address);
            let at = [step.held_at, step.wanted_at].map(|stack| stack.frames()[0]);
            (step.thread, held, wanted, at)
        })
        .collect();
    assert_eq!(steps, [(4, 2, 1, [4, 4]), (1, 1, 2, [1, 1])]);
    // What was said stays said.
    learn(&mut graph, 2, &[15], 16);
    assert_eq!(learn(&mut graph, 3, &[16], 15), Found::Nothing);
}

#[test]
fn an_order_that_was_seen_under_locks_that_are_gone_stays_known() {
    let mut graph = graph();
    assert_eq!(learn_of_many_that_go(&mut graph, &[1], &[2, 3]), 0);
    assert_eq!(learn(&mut graph, 1, &[3], 1), Found::Cycle(2));
    assert_eq!(learn(&mut graph, 2, &[2], 1), Found::Cycle(2));
}

#[test]
fn a_gate_that_is_gone_still_keeps_chains_apart() {
    for (gates, expected) in [([9, 9], Found::Nothing), ([8, 9], Found::Cycle(4))] {
        let mut graph = graph();
        learn(&mut graph, 1, &[1, gates[0]], 2);
        learn(&mut graph, 2, &[3, gates[1]], 4);
        for gate in gates {
            graph.gone(lock(gate).key);
        }
        assert_eq!(learn_of_many_that_go(&mut graph, &[100], &[]), 0);
        learn(&mut graph, 3, &[2], 3);
        assert_eq!(learn(&mut graph, 4, &[4], 1), expected);
    }
}

#[test]
fn a_gate_that_is_gone_stays_gone() {
    let mut graph = graph();
    learn(&mut graph, 1, &[1, 9], 2);
    learn(&mut graph, 2, &[3, 9], 4);
    graph.gone(lock(9).key);
    assert!(graph.compact());
    learn(&mut graph, 3, &[9], 5);
    assert_eq!(learn(&mut graph, 4, &[5], 9), Found::Nothing);
}

#[test]
fn a_gate_is_none_once_its_chain_is_known_without() {
    let mut graph = graph();
    learn(&mut graph, 1, &[1], 2);
    learn(&mut graph, 1, &[9, 1], 2);
    learn(&mut graph, 1, &[9, 3], 4);
    graph.gone(lock(9).key);
    assert!(graph.compact());
    assert_eq!((graph.locks, graph.chains, graph.edges), (4, 2, 2));
}

#[test]
fn a_gate_that_is_gone_keeps_its_chain_apart_from_itself() {
    for (mode, left) in [(Mode::Shared, 3), (Mode::Exclusive, 2)] {
        let mut graph = graph();
        let holds: Box<Holds> = zeroed();
        holds.push(&lock(1), mode, &at(1));
        holds.push(&lock(9), Mode::Exclusive, &at(1));
        graph.learn(1, &holds, &lock(2), Mode::Exclusive, &at(1));
        graph.gone(lock(9).key);
        assert!(graph.compact());
        assert_eq!(graph.locks, left);
    }
}

#[test]
fn locks_that_go_under_locks_that_go_make_room() {
    let mut graph = graph();
    for outer in 100..120 {
        for inner in (2000 * outer..).take(2000) {
            let found = learn(&mut graph, 1, &[outer, inner, 1], 2);
            assert_eq!(found, Found::Nothing);
            graph.gone(lock(inner).key);
        }
        graph.gone(lock(outer).key);
    }
    assert_eq!(learn(&mut graph, 2, &[2], 1), Found::Cycle(2));
}

/// Under each of some locks that go the same chains are seen, which a cycle needs all of.
#[test]
fn chains_that_are_alike_are_apart_if_they_are_enough() {
    const CHAINS: usize = 4;
    for (outer, gates, expected) in [
        (None, CHAINS - 1, Found::Nothing),
        (None, CHAINS, Found::Cycle(2 * CHAINS)),
        (None, LOCKS, Found::Cycle(2 * CHAINS)),
        (Some(999), 3 * LONGEST, Found::Nothing),
    ] {
        let mut graph = graph();
        for gate in 1000..1000 + gates {
            for first in (0..CHAINS).map(|chain| 1 + 2 * chain) {
                let held: Vec<usize> = outer.into_iter().chain([gate, first]).collect();
                let found = learn(&mut graph, 1, &held, first + 1);
                assert_eq!(found, Found::Nothing);
            }
            graph.gone(lock(gate).key);
        }
        outer.iter().for_each(|outer| graph.gone(lock(*outer).key));
        assert!(graph.compact());
        for second in (1..CHAINS).map(|chain| 2 * chain) {
            learn(&mut graph, 2, &[second], second + 1);
        }
        assert_eq!(learn(&mut graph, 3, &[2 * CHAINS], 1), expected);
    }
}

#[test]
fn locks_that_live_are_not_forgotten_while_they_are_few() {
    let mut graph = graph();
    let few = 200_000..200_000 + LOCKS / 2;
    for number in few.clone() {
        learn(&mut graph, 1, &[number], number + 1);
    }
    assert_eq!(learn_of_many_that_go(&mut graph, &[9], &[]), 0);
    assert_eq!(
        learn(&mut graph, 2, &[few.start + 1], few.start),
        Found::Cycle(2)
    );
    assert_eq!(
        learn(&mut graph, 3, &[few.end], few.end - 1),
        Found::Cycle(2)
    );
}

#[test]
fn to_compact_changes_nothing_that_is_found() {
    const MODES: [Mode; 4] = [
        Mode::Exclusive,
        Mode::Exclusive,
        Mode::Shared,
        Mode::Upgradable,
    ];
    let mut state = 1;
    let mut random = |below: usize| {
        state = mix(state, 1);
        (state >> 20) as usize % below
    };
    let [mut plain, mut compacted] = [graph(), graph()];
    let mut cycles = 0;
    for world in 1..400 {
        let mut locks: [usize; 7] = std::array::from_fn(|at| 100_000 * world + at);
        for graph in [&mut plain, &mut compacted] {
            graph.forget();
        }
        for step in 1..60 {
            let holds: Box<Holds> = zeroed();
            for _ in 0..=random(3) {
                let held = lock(locks[random(locks.len())]);
                holds.push(&held, MODES[random(4)], &at(1));
            }
            let (wanted, mode) = (lock(locks[random(locks.len())]), MODES[random(4)]);
            let is_known = compacted.knows(holds.chain(&wanted, mode));
            let [expected, found] = [&mut plain, &mut compacted].map(|graph| {
                graph.reported = 0; // all are at the same place
                graph.learn(1, &holds, &wanted, mode, &at(1))
            });
            if !is_known {
                assert_eq!(found, expected, "{world} {step}");
                cycles += usize::from(found != Found::Nothing);
            }
            if random(3) == 0 {
                let ends = random(locks.len());
                for graph in [&mut plain, &mut compacted] {
                    graph.gone(lock(locks[ends]).key);
                }
                locks[ends] = 100_000 * world + 100 * step;
            }
            if random(4) == 0 {
                assert!(compacted.compact());
            }
        }
    }
    assert!(cycles > 1000, "{cycles}");
}

#[test]
fn a_search_among_gates_ends() {
    // Layers of locks, each leading to all of the next, all under one gate: many ways, and
    // none of two chains.
    const WIDTH: usize = 12;
    let mut graph = graph();
    for layer in 0..LONGEST {
        for (from, to) in (0..WIDTH).flat_map(|from| (0..WIDTH).map(move |to| (from, to))) {
            let [from, to] = [layer * WIDTH + from, (layer + 1) * WIDTH + to].map(|n| n + 2);
            learn(&mut graph, 1, &[1, from], to);
        }
    }
    assert_eq!(learn(&mut graph, 2, &[1, 3 * WIDTH + 2], 2), Found::Nothing);
    assert_eq!(
        learn(&mut graph, 3, &[LONGEST * WIDTH + 2], 2),
        Found::Nothing
    );
}
