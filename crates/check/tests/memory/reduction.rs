//! The reduction loses nothing: random programs of everything that a lock may
//! do, explored with it and without it.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use lockyard_check::{Check, CheckCounter, CheckWord, Explorer, Wakes, afterwards, fence, spawn};
use lockyard_core::{
    Deadline, FOREVER, Look,
    Ordering::{self, *},
    PerCpu, Platform, TaskId, Woken, Word,
};

use crate::random;

/// When a wait may end without its value.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Never,
    Whim,
    /// When this word is not 0.
    Sees(usize),
    /// When this word is not 0 and the checker likes.
    Either(usize),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(usize, u32, Ordering),
    Load(usize, Ordering),
    Swap(usize, u32, Ordering),
    Exchange(usize, u32, u32),
    Fence,
    /// Waits for anything but this value.
    Await(usize, u32, Stop),
    Park(Option<Deadline>),
    Unpark(u32),
    StoreIf(usize, u32, usize, u32),
    /// To the counter, if this word holds that.
    AddIf(u32, usize, u32),
    Sum,
    Quiesce,
    /// Replaces this word and the other, if both hold that.
    ReplacePair(usize, u32, u32),
    Whim,
}

/// What the threads of a program share.
struct Shared {
    words: [CheckWord; 2],
    counter: CheckCounter,
}

fn take(step: Step, shared: &Shared) -> Option<u32> {
    let Shared { words, counter } = shared;
    match step {
        Step::Store(at, value, order) => {
            words[at].store(value, order);
            None
        }
        Step::Load(at, order) => Some(words[at].load(order)),
        Step::Swap(at, value, order) => Some(words[at].swap(value, order)),
        Step::Exchange(at, old, new) => {
            let result = words[at].compare_exchange(old, new, AcqRel, Relaxed);
            Some(result.unwrap_or_else(|found| found))
        }
        Step::Fence => {
            fence(SeqCst);
            None
        }
        Step::Await(at, value, stop) => Check::spin_until(
            &words[at],
            Acquire,
            Look::Poll,
            FOREVER,
            |now| now != value,
            || match stop {
                Stop::Never => false,
                Stop::Whim => Check::need_resched(),
                Stop::Sees(other) => words[other].load(Relaxed) != 0,
                Stop::Either(other) => words[other].load(Relaxed) != 0 || Check::need_resched(),
            },
        )
        .or(Some(1000)),
        Step::Park(deadline) => Some(u32::from(Check::park(deadline) == Woken::TimedOut)),
        Step::Unpark(task) => {
            Check::unpark(TaskId::new(task).expect("a task"));
            None
        }
        Step::StoreIf(word, value, guard, expected) => Some(u32::from(Check::store_if(
            &words[word],
            value,
            &words[guard],
            expected,
        ))),
        Step::AddIf(delta, guard, expected) => {
            let passed = Check::add_if(counter, delta, &words[guard], expected);
            Some(u32::from(passed))
        }
        Step::Sum => Some(Check::sum(counter)),
        Step::Quiesce => {
            Check::quiesce();
            None
        }
        Step::ReplacePair(at, before, after) => {
            let pair = [&words[at], &words[1 - at]];
            Check::replace_pair(pair, [before; 2], || [after; 2])
                .map(|[first, second]| first + 100 * second)
        }
        Step::Whim => Some(u32::from(Check::need_resched())),
    }
}

type Outcomes = BTreeSet<(Vec<Vec<u32>>, Vec<u32>)>;

/// The outcomes; `None` when some execution gets stuck. And the number of
/// executions, if they were all explored.
fn explore(explorer: &Explorer, program: &Rc<Vec<Vec<Step>>>) -> (Option<Outcomes>, Option<u64>) {
    let outcomes = Rc::new(RefCell::new(Outcomes::new()));
    let (seen, program) = (Rc::clone(&outcomes), Rc::clone(program));
    let result = explorer.check(move || {
        let shared = Rc::new(Shared {
            words: [const { CheckWord::ZERO }; 2],
            counter: Check::ZERO,
        });
        let results = Rc::new(RefCell::new(vec![Vec::new(); program.len()]));
        for thread in 0..program.len() {
            let (program, shared, results) = (program.clone(), shared.clone(), results.clone());
            spawn(move || {
                for &step in &program[thread] {
                    if let Some(result) = take(step, &shared) {
                        results.borrow_mut()[thread].push(result);
                    }
                }
            });
        }
        let seen = seen.clone();
        afterwards(move || {
            let finals = shared.words.iter().map(|word| word.load(Relaxed)).collect();
            seen.borrow_mut().insert((results.take(), finals));
        });
    });
    match result {
        Ok(report) => {
            let all = (!report.truncated).then_some(report.executions);
            (Some(outcomes.take()), all)
        }
        Err(_) => (None, Some(0)),
    }
}

#[test]
fn nothing_is_lost() {
    let mut below = random(1);
    let explorer = Explorer::new()
        .whims(1)
        .wakes(Wakes::Permissive(1))
        .executions(100_000);
    let (mut compared, mut stuck, mut reduced, mut unreduced) = (0, 0, 0, 0);
    for _ in 0..1_000 {
        let threads = 2 + below(2);
        let mut program = Vec::new();
        for _ in 0..threads {
            let mut steps = Vec::new();
            for _ in 0..1 + below(if threads == 2 { 4 } else { 2 }) {
                let at = below(2);
                let value = below(3) as u32;
                let store = [Relaxed, Release][below(2)];
                steps.push(match below(17) {
                    0 | 1 => Step::Store(at, value, store),
                    2 => Step::Load(at, Acquire),
                    3 => Step::Swap(at, value, AcqRel),
                    4 => Step::Exchange(at, value, below(3) as u32),
                    5 => Step::Fence,
                    6 => Step::Await(at, value, Stop::Whim),
                    7 => {
                        let stop = [Stop::Never, Stop::Sees(1 - at), Stop::Either(1 - at)];
                        Step::Await(at, value, stop[below(3)])
                    }
                    8 => Step::Park([None, Some(Deadline(1))][below(2)]),
                    9 => Step::Unpark(1 + below(threads) as u32),
                    10 => Step::StoreIf(at, value, 1 - at, below(2) as u32),
                    11 => Step::Quiesce,
                    12 => Step::AddIf(1 + value, at, below(2) as u32),
                    13 => Step::Sum,
                    14 | 15 => Step::ReplacePair(at, below(2) as u32, value),
                    _ => Step::Whim,
                });
            }
            program.push(steps);
        }
        let pairs = |step: &Step| matches!(step, Step::ReplacePair(..));
        let explorer = match program.iter().flatten().any(pairs) {
            true => explorer.pairing(),
            false => explorer,
        };
        let program = Rc::new(program);
        let (without, count) = explore(&explorer.preemptions(Some(u32::MAX)), &program);
        let Some(count) = count else { continue };
        let (with, fewer) = explore(&explorer, &program);
        assert_eq!(with, without, "{program:?}");
        compared += 1;
        stuck += u64::from(with.is_none());
        reduced += fewer.unwrap_or(u64::MAX);
        unreduced += count;
    }
    println!("{compared} programs, {stuck} of them get stuck: {reduced} instead of {unreduced}");
}
