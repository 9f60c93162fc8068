//! Small straight-line programs, and the outcomes the explorer reaches.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use lockyard_check::{CheckWord, Explorer, Report, afterwards, fence, spawn};
use lockyard_core::{Ordering, Word};

/// An instruction on a location.
#[derive(Clone, Copy, Debug)]
pub enum Instr {
    W(usize, u32, Ordering),
    R(usize, Ordering),
    Swap(usize, u32, Ordering),
    Add(usize, u32, Ordering),
    Cas(usize, u32, u32, Ordering),
    F(Ordering),
}

pub use Instr::*;

/// The instructions of each thread.
pub type Program = Vec<Vec<Instr>>;

/// What the reads return, thread by thread, and what the locations hold in the
/// end.
pub type Outcome = (Vec<u32>, Vec<u32>);

pub fn locations(program: &Program) -> usize {
    program
        .iter()
        .flatten()
        .filter_map(|instr| match *instr {
            W(at, ..) | R(at, ..) | Swap(at, ..) | Add(at, ..) | Cas(at, ..) => Some(at + 1),
            F(_) => None,
        })
        .max()
        .unwrap_or(0)
}

fn execute(instr: Instr, words: &[CheckWord]) -> Option<u32> {
    use Ordering::Relaxed;
    match instr {
        W(at, value, order) => {
            words[at].store(value, order);
            None
        }
        R(at, order) => Some(words[at].load(order)),
        Swap(at, value, order) => Some(words[at].swap(value, order)),
        Add(at, value, order) => Some(words[at].fetch_add(value, order)),
        Cas(at, old, new, order) => match words[at].compare_exchange(old, new, order, Relaxed) {
            Ok(found) | Err(found) => Some(found),
        },
        F(order) => {
            fence(order);
            None
        }
    }
}

/// Explores the program.
pub fn explore(explorer: &Explorer, program: &Program) -> (BTreeSet<Outcome>, Report) {
    let outcomes = Rc::new(RefCell::new(BTreeSet::new()));
    let seen = Rc::clone(&outcomes);
    let program = Rc::new(program.clone());
    let report = explorer
        .check(move || {
            let count = locations(&program);
            let words: Rc<[CheckWord]> = (0..count).map(|_| CheckWord::ZERO).collect();
            let reads: Rc<RefCell<Vec<Vec<u32>>>> =
                Rc::new(RefCell::new(vec![Vec::new(); program.len()]));
            for thread in 0..program.len() {
                let (program, words, reads) =
                    (Rc::clone(&program), Rc::clone(&words), Rc::clone(&reads));
                spawn(move || {
                    for &instr in &program[thread] {
                        if let Some(read) = execute(instr, &words) {
                            reads.borrow_mut()[thread].push(read);
                        }
                    }
                });
            }
            let seen = Rc::clone(&seen);
            afterwards(move || {
                let finals = words.iter().map(|word| word.load(Ordering::Relaxed));
                let outcome = (reads.borrow().concat(), finals.collect());
                seen.borrow_mut().insert(outcome);
            });
        })
        .unwrap();
    (outcomes.take(), report)
}
