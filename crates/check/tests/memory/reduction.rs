//! The reduction loses nothing: random programs of everything that a lock may
//! do, explored with it and without it.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use lockyard_check::{
    Check, CheckCounter, CheckWord, Explorer, Wakes, afterwards, fence, history, spawn,
    spawn_in_child,
};
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
    /// When the first word is 1 and the second is not 0: of that it reads only then.
    Both,
    /// After so many looks.
    Tires,
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
            if let Stop::Tires = stop { 8 } else { FOREVER },
            |now| now != value,
            || match stop {
                Stop::Never | Stop::Tires => false,
                Stop::Whim => Check::need_resched(),
                Stop::Sees(other) => words[other].load(Relaxed) != 0,
                Stop::Either(other) => words[other].load(Relaxed) != 0 || Check::need_resched(),
                Stop::Both => words[0].load(Relaxed) == 1 && words[1].load(Relaxed) != 0,
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
            let passed = Check::add_if(counter, i64::from(delta), &words[guard], expected);
            Some(u32::from(passed))
        }
        Step::Sum => Some(Check::sum(counter) as u32),
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

/// What the steps of each thread return, and all that each word has held.
type Outcomes = BTreeSet<(Vec<Vec<u32>>, Vec<Vec<u32>>)>;

/// What the threads do, and how many of them, the last ones, are in a fork's child.
type Program = (Vec<Vec<Step>>, usize);

/// The outcomes; `None` when some execution gets stuck. And the number of
/// executions, if they were all explored.
fn explore(explorer: &Explorer, program: &Rc<Program>) -> (Option<Outcomes>, Option<u64>) {
    let outcomes = Rc::new(RefCell::new(Outcomes::new()));
    let (seen, program) = (Rc::clone(&outcomes), Rc::clone(program));
    let result = explorer.check(move || {
        let shared = Rc::new(Shared {
            words: [const { CheckWord::ZERO }; 2],
            counter: Check::ZERO,
        });
        let (threads, in_child) = (program.0.len(), program.1);
        let results = Rc::new(RefCell::new(vec![Vec::new(); threads]));
        for thread in 0..threads {
            let (program, shared, results) = (program.clone(), shared.clone(), results.clone());
            let spawn: fn(_) = match thread + in_child < threads {
                true => spawn,
                false => spawn_in_child,
            };
            spawn(move || {
                for &step in &program.0[thread] {
                    if let Some(result) = take(step, &shared) {
                        results.borrow_mut()[thread].push(result);
                    }
                }
            });
        }
        let seen = seen.clone();
        afterwards(move || {
            let values = [0, 1].map(|at| history(&shared.words, at)).to_vec();
            seen.borrow_mut().insert((results.take(), values));
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

/// The outcomes are the same with the reduction and without it. Returns how many
/// executions that took, or `None` where they are too many without.
fn compare(explorer: &Explorer, program: Vec<Vec<Step>>) -> Option<[u64; 2]> {
    compare_forking(explorer, (program, 0))
}

fn compare_forking(explorer: &Explorer, program: Program) -> Option<[u64; 2]> {
    let pairs = |step: &Step| matches!(step, Step::ReplacePair(..));
    let explorer = match program.0.iter().flatten().any(pairs) {
        true => explorer.pairing(),
        false => *explorer,
    };
    let program = Rc::new(program);
    let (without, count) = explore(&explorer.preemptions(Some(u32::MAX)), &program);
    let count = count?;
    let (with, fewer) = explore(&explorer, &program);
    assert_eq!(with, without, "{program:?}");
    Some([fewer.unwrap_or(u64::MAX), count])
}

#[test]
fn a_spinner_stops_by_an_older_value() {
    // It stops between the two stores, or after them; and either may come before the load.
    let program = vec![
        vec![Step::Await(0, 0, Stop::Sees(1)), Step::Swap(0, 2, AcqRel)],
        vec![
            Step::Store(1, 1, Relaxed),
            Step::Store(1, 0, Relaxed),
            Step::Load(0, Acquire),
            Step::Store(0, 1, Relaxed),
        ],
    ];
    compare(&Explorer::new(), program).expect("few executions");
}

#[test]
fn a_spinner_stops_by_a_word_behind_an_older_value() {
    // By the newest values it reads the first word alone.
    let program = vec![
        vec![Step::Store(0, 1, Relaxed), Step::Await(1, 2, Stop::Both)],
        vec![Step::Swap(0, 2, Release)],
        vec![Step::Swap(1, 1, AcqRel)],
    ];
    compare(&Explorer::new(), program).expect("few executions");
}

#[test]
fn a_spinner_stops_behind_who_told_it() {
    // It stops, and replaces both words before the other one's exchange, or behind it.
    let program = vec![
        vec![Step::Await(0, 2, Stop::Sees(1)), Step::ReplacePair(0, 1, 2)],
        vec![Step::Load(0, Acquire), Step::Exchange(0, 0, 1)],
        vec![Step::Exchange(1, 0, 1)],
    ];
    compare(&Explorer::new(), program).expect("few executions");
}

#[test]
fn any_of_two_spinners_tires_first() {
    let tires = |me, other| vec![Step::Await(me, 0, Stop::Tires), Step::Exchange(other, 0, 1)];
    for whims in [0, 1] {
        let program = vec![tires(0, 1), tires(1, 0)];
        compare(&Explorer::new().whims(whims), program).expect("few executions");
    }
}

#[test]
fn a_spinner_tires_when_nobody_else_can_go_on() {
    let tires = vec![Step::Await(0, 1, Stop::Tires)]; // although its value is there
    let program = vec![tires, vec![Step::Load(1, Acquire)]];
    compare(&Explorer::new(), program).expect("few executions");
}

#[test]
fn nothing_is_lost() {
    compare_many(1, &ALL, 2, 0);
    if std::env::var_os("MODELS_IN_FULL").is_some() {
        for seed in 2..=10 {
            compare_many(seed, &ALL, 3, 0);
            compare_many(seed, &SPINNERS, 3, 0);
        }
    }
}

#[test]
fn nothing_is_lost_where_a_process_forks() {
    compare_many(1, &ALL, 2, 1);
    if std::env::var_os("MODELS_IN_FULL").is_some() {
        for (seed, in_child) in (2..=10).zip([1, 2].into_iter().cycle()) {
            compare_many(seed, &ALL, 2, in_child);
            compare_many(seed, &SPINNERS, 2, in_child);
        }
    }
}

/// The kinds of steps, each as often as it stands there.
const ALL: [u32; 17] = [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14];

/// Those in which spinners stop.
const SPINNERS: [u32; 8] = [0, 1, 2, 3, 3, 5, 6, 13];

/// Compares random programs of these kinds of steps, so many at most in each of three
/// threads, so many of them in a fork's child.
fn compare_many(seed: u64, kinds: &[u32], most: usize, in_child: usize) {
    let mut below = random(seed);
    let explorer = Explorer::new()
        .wakes(Wakes::Permissive(1))
        .executions(100_000);
    let (mut compared, mut reduced, mut unreduced) = (0, 0, 0);
    for _ in 0..1_000 {
        let explorer = explorer.whims(below(2) as u32);
        let threads = 2 + below(2);
        let mut program = Vec::new();
        for _ in 0..threads {
            let mut steps = Vec::new();
            for _ in 0..1 + below(if threads == 2 { 4 } else { most }) {
                let at = below(2);
                let value = below(3) as u32;
                let store = [Relaxed, Release][below(2)];
                steps.push(match kinds[below(kinds.len())] {
                    0 => Step::Store(at, value, store),
                    1 => Step::Load(at, Acquire),
                    2 => Step::Swap(at, value, AcqRel),
                    3 => Step::Exchange(at, value, below(3) as u32),
                    4 => Step::Fence,
                    5 => Step::Await(at, value, [Stop::Whim, Stop::Tires][below(2)]),
                    6 => {
                        let stop = [Stop::Never, Stop::Sees(1 - at), Stop::Either(1 - at)];
                        Step::Await(at, value, stop[below(3)])
                    }
                    7 => Step::Park([None, Some(Deadline(1))][below(2)]),
                    8 => Step::Unpark(1 + below(threads) as u32),
                    9 => Step::StoreIf(at, value, 1 - at, below(2) as u32),
                    10 => Step::Quiesce,
                    11 => Step::AddIf(1 + value, at, below(2) as u32),
                    12 => Step::Sum,
                    13 => Step::ReplacePair(at, below(2) as u32, value),
                    _ => Step::Whim,
                });
            }
            program.push(steps);
        }
        if let Some([fewer, count]) = compare_forking(&explorer, (program, in_child)) {
            compared += 1;
            reduced += fewer;
            unreduced += count;
        }
    }
    println!("{compared} programs: {reduced} executions instead of {unreduced}");
}
