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
        key: number as u64 | 1 << 40,
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
