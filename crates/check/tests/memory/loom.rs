//! The explorer held against loom, where loom's memory is the same: no
//! two writes out of order, no read-modify-write that comes late.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use ::loom::sync::atomic::{AtomicU32, fence};
use lockyard_check::Explorer;
use lockyard_core::Ordering::*;

use crate::program::{Instr, Outcome, Program, explore, *};

fn by_loom(program: &Program) -> BTreeSet<Outcome> {
    let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&outcomes);
    let program = Arc::new(program.clone());
    ::loom::model(move || {
        let words: Arc<Vec<AtomicU32>> = Arc::new(
            (0..locations(&program))
                .map(|_| AtomicU32::new(0))
                .collect(),
        );
        let threads: Vec<_> = (0..program.len())
            .map(|thread| {
                let (program, words) = (Arc::clone(&program), Arc::clone(&words));
                ::loom::thread::spawn(move || {
                    let mut reads = Vec::new();
                    for &instr in &program[thread] {
                        match instr {
                            W(at, value, order) => words[at].store(value, order),
                            R(at, order) => reads.push(words[at].load(order)),
                            Swap(at, value, order) => reads.push(words[at].swap(value, order)),
                            Add(at, value, order) => {
                                reads.push(words[at].fetch_add(value, order));
                            }
                            Cas(at, old, new, order) => {
                                let result = words[at].compare_exchange(old, new, order, Relaxed);
                                reads.push(result.unwrap_or_else(|found| found));
                            }
                            F(order) => fence(order),
                        }
                    }
                    reads
                })
            })
            .collect();
        let reads: Vec<Vec<u32>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let finals = words.iter().map(|word| word.load(Relaxed)).collect();
        seen.lock().unwrap().insert((reads.concat(), finals));
    });
    std::mem::take(&mut *outcomes.lock().unwrap())
}

fn agree(program: &[&[Instr]]) {
    let program: Program = program.iter().map(|thread| thread.to_vec()).collect();
    let (ours, _) = explore(&Explorer::new(), &program);
    assert_eq!(ours, by_loom(&program), "{program:?}");
}

const X: usize = 0;
const Y: usize = 1;

#[test]
fn store_buffering() {
    agree(&[
        &[W(X, 1, Relaxed), R(Y, Relaxed)],
        &[W(Y, 1, Relaxed), R(X, Relaxed)],
    ]);
    agree(&[
        &[W(X, 1, Relaxed), F(SeqCst), R(Y, Relaxed)],
        &[W(Y, 1, Relaxed), F(SeqCst), R(X, Relaxed)],
    ]);
}

#[test]
fn message_passing() {
    agree(&[
        &[W(X, 1, Relaxed), W(Y, 1, Release)],
        &[R(Y, Acquire), R(X, Relaxed)],
    ]);
    agree(&[
        &[W(X, 1, Relaxed), W(Y, 1, Relaxed)],
        &[R(Y, Relaxed), R(X, Relaxed)],
    ]);
    agree(&[
        &[W(X, 1, Relaxed), F(Release), W(Y, 1, Relaxed)],
        &[R(Y, Relaxed), F(Acquire), R(X, Relaxed)],
    ]);
}

#[test]
fn load_buffering() {
    agree(&[
        &[R(X, Relaxed), W(Y, 1, Relaxed)],
        &[R(Y, Relaxed), W(X, 1, Relaxed)],
    ]);
}

#[test]
fn coherence() {
    agree(&[&[W(X, 1, Relaxed)], &[R(X, Relaxed), R(X, Relaxed)]]);
}

#[test]
fn causality() {
    for (w, r) in [(Release, Acquire), (Relaxed, Acquire), (Release, Relaxed)] {
        agree(&[
            &[W(X, 1, Relaxed)],
            &[R(X, Relaxed), W(Y, 1, w)],
            &[R(Y, r), R(X, Relaxed)],
        ]);
    }
}

#[test]
fn release_sequences() {
    agree(&[
        &[W(X, 1, Relaxed), W(Y, 1, Release)],
        &[Add(Y, 1, Relaxed), R(Y, Acquire), R(X, Relaxed)],
    ]);
}

#[test]
fn read_modify_writes() {
    agree(&[&[Add(X, 1, Relaxed)], &[Add(X, 1, Relaxed)]]);
    agree(&[&[Cas(X, 0, 1, AcqRel)], &[Cas(X, 0, 2, AcqRel)]]);
    agree(&[
        &[Swap(X, 1, AcqRel), R(Y, Relaxed)],
        &[W(Y, 1, Relaxed), Swap(X, 2, AcqRel)],
    ]);
}
