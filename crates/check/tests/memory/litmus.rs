//! Published litmus tests. The outcomes that the explorer reaches are exactly
//! those that RC11 allows, according to the oracle in `program/axioms.rs`, and
//! the weak outcome that each test is known for is among them or not.

use std::collections::BTreeSet;

use lockyard_check::Explorer;
use lockyard_core::Ordering::{self, *};

use crate::{
    axioms,
    program::{Instr, Outcome, Program, explore, *},
    random,
};

const X: usize = 0;
const Y: usize = 1;

const EVERYTHING: Explorer = Explorer::new();

/// Explores the program and holds it against the oracle.
fn outcomes(program: &[&[Instr]]) -> BTreeSet<Outcome> {
    let program: Program = program.iter().map(|thread| thread.to_vec()).collect();
    let (reached, report) = explore(&EVERYTHING, &program);
    assert_eq!(reached, axioms::allowed(&program), "{program:?}");
    let (unreduced, _) = explore(&EVERYTHING.preemptions(Some(u32::MAX)), &program);
    assert_eq!(reached, unreduced, "{program:?}");
    assert!(!report.truncated);
    reached
}

fn reads(program: &[&[Instr]]) -> BTreeSet<Vec<u32>> {
    outcomes(program)
        .into_iter()
        .map(|(reads, _)| reads)
        .collect()
}

fn finals(program: &[&[Instr]]) -> BTreeSet<Vec<u32>> {
    outcomes(program)
        .into_iter()
        .map(|(_, finals)| finals)
        .collect()
}

fn set<const N: usize, const M: usize>(outcomes: [[u32; N]; M]) -> BTreeSet<Vec<u32>> {
    outcomes.iter().map(|outcome| outcome.to_vec()).collect()
}

#[test]
fn store_buffering() {
    let sb = |w, r| reads(&[&[W(X, 1, w), R(Y, r)], &[W(Y, 1, w), R(X, r)]]);
    let all = set([[0, 0], [0, 1], [1, 0], [1, 1]]);
    assert_eq!(sb(Relaxed, Relaxed), all);
    assert_eq!(sb(Release, Acquire), all);
}

#[test]
fn store_buffering_with_fences() {
    let sb = |a, b| {
        reads(&[
            &[W(X, 1, Relaxed), F(a), R(Y, Relaxed)],
            &[W(Y, 1, Relaxed), F(b), R(X, Relaxed)],
        ])
    };
    assert_eq!(sb(SeqCst, SeqCst), set([[0, 1], [1, 0], [1, 1]]));
    assert!(sb(SeqCst, AcqRel).contains(&vec![0, 0]));
}

#[test]
fn message_passing() {
    let mp = |w, r| reads(&[&[W(X, 1, Relaxed), W(Y, 1, w)], &[R(Y, r), R(X, Relaxed)]]);
    let strong = set([[0, 0], [0, 1], [1, 1]]);
    assert_eq!(mp(Release, Acquire), strong);
    for (w, r) in [(Relaxed, Relaxed), (Release, Relaxed), (Relaxed, Acquire)] {
        assert!(mp(w, r).contains(&vec![1, 0]), "{w:?} {r:?}");
    }
}

#[test]
fn message_passing_with_fences() {
    let mp = |a, b| {
        reads(&[
            &[W(X, 1, Relaxed), F(a), W(Y, 1, Relaxed)],
            &[R(Y, Relaxed), F(b), R(X, Relaxed)],
        ])
    };
    assert_eq!(mp(Release, Acquire), set([[0, 0], [0, 1], [1, 1]]));
    assert!(mp(Acquire, Acquire).contains(&vec![1, 0]));
    assert!(mp(Release, Release).contains(&vec![1, 0]));
}

/// The model's limit: RC11 forbids what hardware may do here.
#[test]
fn load_buffering_never() {
    let lb = reads(&[
        &[R(X, Relaxed), W(Y, 1, Relaxed)],
        &[R(Y, Relaxed), W(X, 1, Relaxed)],
    ]);
    assert_eq!(lb, set([[0, 0], [0, 1], [1, 0]]));
}

#[test]
fn independent_reads_of_independent_writes() {
    let weak = vec![1, 0, 1, 0];
    let iriw = |fences: Option<Ordering>| {
        let reader = |a, b| {
            let mut thread = vec![R(a, Acquire)];
            thread.extend(fences.map(F));
            thread.push(R(b, Acquire));
            thread
        };
        reads(&[
            &[W(X, 1, Release)],
            &[W(Y, 1, Release)],
            &reader(X, Y),
            &reader(Y, X),
        ])
    };
    assert!(iriw(None).contains(&weak));
    assert!(iriw(Some(AcqRel)).contains(&weak));
    assert!(!iriw(Some(SeqCst)).contains(&weak));
}

#[test]
fn two_plus_two_writes() {
    let weak = vec![1, 1];
    let wxy = |order| {
        finals(&[
            &[W(X, 1, Relaxed), W(Y, 2, order)],
            &[W(Y, 1, Relaxed), W(X, 2, order)],
        ])
    };
    assert!(wxy(Relaxed).contains(&weak));
    assert!(wxy(Release).contains(&weak));
    let fenced = finals(&[
        &[W(X, 1, Relaxed), F(SeqCst), W(Y, 2, Relaxed)],
        &[W(Y, 1, Relaxed), F(SeqCst), W(X, 2, Relaxed)],
    ]);
    assert!(!fenced.contains(&weak));
}

#[test]
fn coherence() {
    let corr = reads(&[&[W(X, 1, Relaxed)], &[R(X, Relaxed), R(X, Relaxed)]]);
    assert_eq!(corr, set([[0, 0], [0, 1], [1, 1]]));
    // Two readers agree on the order of two writes.
    let corr2 = reads(&[
        &[W(X, 1, Relaxed)],
        &[W(X, 2, Relaxed)],
        &[R(X, Relaxed), R(X, Relaxed)],
        &[R(X, Relaxed), R(X, Relaxed)],
    ]);
    assert!(!corr2.contains(&vec![1, 2, 2, 1]));
    // CoWR: a thread does not read behind its own store.
    let cowr = reads(&[&[W(X, 1, Relaxed), R(X, Relaxed)], &[W(X, 2, Relaxed)]]);
    assert_eq!(cowr, set([[1], [2]]));
    // CoRW: nor store behind what it read.
    let corw = outcomes(&[&[R(X, Relaxed), W(X, 1, Relaxed)], &[W(X, 2, Relaxed)]]);
    assert!(!corw.contains(&(vec![2], vec![2])));
    // CoWW.
    assert_eq!(finals(&[&[W(X, 1, Relaxed), W(X, 2, Relaxed)]]), set([[2]]));
}

#[test]
fn write_to_read_causality() {
    let wrc = |w, r| {
        reads(&[
            &[W(X, 1, Relaxed)],
            &[R(X, Relaxed), W(Y, 1, w)],
            &[R(Y, r), R(X, Relaxed)],
        ])
    };
    assert!(!wrc(Release, Acquire).contains(&vec![1, 1, 0]));
    assert!(wrc(Relaxed, Acquire).contains(&vec![1, 1, 0]));
    assert!(wrc(Release, Relaxed).contains(&vec![1, 1, 0]));
}

#[test]
fn a_read_modify_write_extends_a_release_sequence() {
    let chain = reads(&[
        &[W(X, 1, Relaxed), W(Y, 1, Release)],
        &[Add(Y, 1, Relaxed)],
        &[R(Y, Acquire), R(X, Relaxed)],
    ]);
    // Two in Y: through the addition to the release.
    assert!(!chain.contains(&vec![1, 2, 0]));
    assert!(
        chain.contains(&vec![0, 1, 0]),
        "an addition before the release"
    );
}

#[test]
fn a_plain_store_breaks_a_release_sequence() {
    let others = reads(&[
        &[W(X, 1, Relaxed), W(Y, 1, Release)],
        &[R(Y, Relaxed), W(Y, 2, Relaxed)],
        &[R(Y, Acquire), R(X, Relaxed)],
    ]);
    assert!(others.contains(&vec![1, 2, 0]));
    // As in C++20, even one of the same thread.
    let own = reads(&[
        &[W(X, 1, Relaxed), W(Y, 1, Release), W(Y, 2, Relaxed)],
        &[R(Y, Acquire), R(X, Relaxed)],
    ]);
    assert!(own.contains(&vec![2, 0]));
}

#[test]
fn read_modify_writes_are_atomic() {
    let add = [Add(X, 1, Relaxed)];
    assert_eq!(
        reads(&[&add, &add, &add]),
        set([
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0]
        ])
    );
    let exchanges = outcomes(&[&[Cas(X, 0, 1, AcqRel)], &[Cas(X, 0, 2, AcqRel)]]);
    assert_eq!(
        exchanges,
        [(vec![0, 1], vec![1]), (vec![2, 0], vec![2])].into()
    );
}

/// A swap may read something old, as long as nobody else swapped it away.
#[test]
fn a_read_modify_write_may_be_late() {
    let late = reads(&[
        &[W(X, 1, Relaxed), W(Y, 1, Relaxed)],
        &[R(Y, Relaxed), Swap(X, 2, Relaxed)],
    ]);
    assert!(late.contains(&vec![1, 0]));
}

#[test]
fn s_and_r() {
    let s = outcomes(&[
        &[W(X, 2, Relaxed), W(Y, 1, Release)],
        &[R(Y, Acquire), W(X, 1, Relaxed)],
    ]);
    assert!(!s.contains(&(vec![1], vec![2, 1])));
    let s = outcomes(&[
        &[W(X, 2, Relaxed), W(Y, 1, Relaxed)],
        &[R(Y, Relaxed), W(X, 1, Relaxed)],
    ]);
    assert!(s.contains(&(vec![1], vec![2, 1])));
    let r = |fence| {
        outcomes(&[
            &[W(X, 1, Relaxed), F(fence), W(Y, 1, Relaxed)],
            &[W(Y, 2, Relaxed), F(fence), R(X, Relaxed)],
        ])
    };
    assert!(r(AcqRel).contains(&(vec![0], vec![1, 2])));
    assert!(!r(SeqCst).contains(&(vec![0], vec![1, 2])));
}

#[test]
fn z6() {
    const Z: usize = 2;
    // Z6.3: write, write, read around three locations.
    let z6 = |fence| {
        outcomes(&[
            &[W(X, 1, Relaxed), F(fence), W(Y, 1, Relaxed)],
            &[W(Y, 2, Relaxed), F(fence), W(Z, 1, Relaxed)],
            &[R(Z, Relaxed), F(fence), R(X, Relaxed)],
        ])
    };
    let weak = (vec![1, 0], vec![1, 2, 1]);
    assert!(z6(AcqRel).contains(&weak));
    assert!(!z6(SeqCst).contains(&weak));
}

/// Random programs of up to three threads, against the oracle.
#[test]
fn random_programs() {
    let mut below = random(1);
    let mut explored = 0;
    for _ in 0..1_500 {
        let mut value = 0;
        let mut program = Program::new();
        for _ in 0..2 + below(3) {
            let mut thread = Vec::new();
            for _ in 0..1 + below(4) {
                value += 1;
                let at = below(2);
                let load = [Relaxed, Acquire][below(2)];
                let store = [Relaxed, Release][below(2)];
                let both = [Relaxed, Acquire, Release, AcqRel][below(4)];
                thread.push(match below(10) {
                    0..=2 => W(at, value, store),
                    3..=5 => R(at, load),
                    6 => Swap(at, value, both),
                    7 => Add(at, 100, both),
                    8 => Cas(at, 0, value, both),
                    _ => F([Acquire, Release, SeqCst, SeqCst][below(4)]),
                });
            }
            program.push(thread);
        }
        if program.iter().map(Vec::len).sum::<usize>() > 8 {
            continue;
        }
        let (reached, report) = explore(&EVERYTHING, &program);
        assert_eq!(reached, axioms::allowed(&program), "{program:?}");
        explored += report.executions;
    }
    println!("{explored} executions");
}
