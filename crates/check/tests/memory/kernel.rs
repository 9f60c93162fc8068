//! The kernel that lends priorities and has tasks sleep: a call conflicts with other
//! calls, and with everything else that is done to its word; the reduction knows that.

use std::{cell::RefCell, collections::BTreeSet, num::NonZeroU32, rc::Rc};

use lockyard_check::{Check, CheckWord, Explorer, afterwards, be_urgent, spawn};
use lockyard_core::{
    Deadline, KERNEL_WAITERS, KernelFutex, KernelPi, LockPi,
    Ordering::{Acquire, Relaxed, Release},
    Platform, Word,
    futex::Waited,
};

use crate::random;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes the kernel's word, if it is 0.
    Take,
    /// Takes it, or waits for it.
    Lock(Option<Deadline>),
    /// Releases it, if the task has it, as `pimutex.rs` does.
    Release,
    /// Releases it by the kernel, if the task has it.
    Unlock,
    /// Reads the kernel's word.
    Read,
    /// Writes to another word.
    Store(u32),
    /// Reads that.
    Load,
    /// If the other word is 0, releases the kernel's word by a store, if the task has it.
    StoreIf,
    Quiesce,
    Urgent,
    /// If the other word is 0, sleeps until it is woken.
    Sleep(Option<Deadline>),
    /// Wakes one that sleeps.
    Wake,
}

/// The kernel's word and another.
type Words = [CheckWord; 2];

/// Takes a step; `has` says whether the task has the word.
fn take(step: Step, [word, other]: &Words, has: &mut bool) -> Option<u32> {
    let me = Check::me().number();
    match step {
        Step::Take if !*has => {
            *has = word.compare_exchange(0, me, Acquire, Relaxed).is_ok();
            Some(u32::from(*has))
        }
        Step::Lock(deadline) => {
            let ended = Check::lock_pi(word, deadline);
            assert_eq!(ended == LockPi::Deadlock, *has);
            *has |= ended == LockPi::Taken;
            Some(ended as u32)
        }
        Step::Release if *has => {
            *has = false;
            if word.compare_exchange(me, 0, Release, Relaxed).is_err() {
                Check::unlock_pi(word);
            }
            None
        }
        Step::Unlock if *has => {
            *has = false;
            Check::unlock_pi(word);
            None
        }
        Step::StoreIf if *has => {
            *has = !Check::store_if(word, 0, other, 0);
            Some(u32::from(*has))
        }
        Step::Take | Step::Release | Step::Unlock | Step::StoreIf => None,
        Step::Read => Some(word.load(Relaxed)),
        Step::Store(value) => {
            other.store(value, Release);
            None
        }
        Step::Load => Some(other.load(Acquire)),
        Step::Quiesce => {
            Check::quiesce();
            None
        }
        Step::Urgent => {
            be_urgent(1);
            None
        }
        Step::Sleep(deadline) => {
            let Ok(waited) = Check::futex_wait(other, 0, NonZeroU32::MAX, deadline);
            Some(waited as u32)
        }
        Step::Wake => Some(Check::futex_wake(other, 1, NonZeroU32::MAX)),
    }
}

/// What the tasks' steps returned, and the last value of the kernel's word.
type Outcomes = BTreeSet<(Vec<Vec<u32>>, u32)>;

/// The outcomes, or what an execution fails with; and the number of executions.
fn explore(explorer: &Explorer, program: &[Vec<Step>]) -> (Result<Outcomes, ()>, Option<u64>) {
    let outcomes = Rc::new(RefCell::new(Outcomes::new()));
    let (seen, program) = (Rc::clone(&outcomes), Rc::new(program.to_vec()));
    let report = explorer.check(move || {
        let words: Rc<Words> = Rc::new([const { CheckWord::ZERO }; 2]);
        let results = Rc::new(RefCell::new(vec![Vec::new(); program.len()]));
        for thread in 0..program.len() {
            let (program, words, results) = (program.clone(), words.clone(), results.clone());
            spawn(move || {
                let mut has = false;
                for &step in &program[thread] {
                    if let Some(result) = take(step, &words, &mut has) {
                        results.borrow_mut()[thread].push(result);
                    }
                }
            });
        }
        let seen = seen.clone();
        afterwards(move || {
            let last = words[0].load(Relaxed);
            seen.borrow_mut().insert((results.take(), last));
        });
    });
    match report {
        Ok(report) => {
            let all = (!report.truncated).then_some(report.executions);
            (Ok(outcomes.take()), all)
        }
        Err(_) => (Err(()), Some(0)),
    }
}

const EVERYTHING: Explorer = Explorer::new();
const DEADLINE: Option<Deadline> = Some(Deadline(1));

/// The outcomes of a program that does not fail, with and without the reduction.
fn outcomes(program: &[&[Step]]) -> Outcomes {
    let program: Vec<_> = program.iter().map(|steps| steps.to_vec()).collect();
    let (reduced, _) = explore(&EVERYTHING, &program);
    let (all, _) = explore(&EVERYTHING.preemptions(Some(u32::MAX)), &program);
    assert_eq!(reduced, all);
    all.expect("no execution fails")
}

const TAKEN: u32 = LockPi::Taken as u32;
const TIMED_OUT: u32 = LockPi::TimedOut as u32;

/// Another task reads the word before and after each step of the kernel.
#[test]
fn a_call_is_a_step_of_its_word() {
    let reader = [Step::Read; 2];
    let seen = outcomes(&[
        &[Step::Take, Step::Unlock],
        &[Step::Lock(None), Step::Unlock],
        &reader,
    ]);
    let reads: BTreeSet<_> = seen.iter().map(|(results, _)| results[2].clone()).collect();
    let marked = |task| vec![task, task | KERNEL_WAITERS];
    for pair in [
        vec![0, 1],
        vec![1, 0],
        vec![1, 2],
        marked(1),
        marked(2),
        vec![2, 0],
        vec![0, 2],
    ] {
        let reached = reads.contains(&pair);
        // The heir's word is marked from the start; task 2 takes a free word unmarked.
        assert_eq!(reached, pair != marked(2), "{pair:x?}");
    }
    assert!(reads.contains(&vec![1 | KERNEL_WAITERS, 2 | KERNEL_WAITERS]));
    assert!(seen.iter().all(|(_, last)| *last == 0));
}

/// A waiter that leaves does so before the word is handed to it, or not at all.
#[test]
fn a_timeout_against_a_release() {
    let seen = outcomes(&[
        &[Step::Take, Step::Unlock],
        &[Step::Lock(DEADLINE), Step::Release],
    ]);
    let ends: BTreeSet<_> = seen.iter().map(|(results, _)| results[1].clone()).collect();
    assert_eq!(ends, BTreeSet::from([vec![TAKEN], vec![TIMED_OUT]]));
    assert!(seen.iter().all(|(_, last)| *last == 0));
}

/// Who has changed a word and then wakes finds who slept before, and nobody sleeps after.
#[test]
fn a_sleeper_against_a_wake() {
    let waker: &[_] = &[Step::Store(1), Step::Wake];
    let [woken, timed_out, changed] =
        [Waited::Woken, Waited::TimedOut, Waited::Changed].map(|waited| waited as u32);
    let seen = outcomes(&[&[Step::Sleep(None)], waker]);
    let ends: BTreeSet<_> = seen.into_iter().map(|(results, _)| results).collect();
    let all = [[woken, 1], [changed, 0]].map(|[sleeper, waker]| vec![vec![sleeper], vec![waker]]);
    assert_eq!(ends, BTreeSet::from(all.clone()));
    let seen = outcomes(&[&[Step::Sleep(DEADLINE)], waker]);
    let ends: BTreeSet<_> = seen.into_iter().map(|(results, _)| results).collect();
    let late = vec![vec![timed_out], vec![0]];
    assert_eq!(ends, all.into_iter().chain([late]).collect());
}

/// A store over the mark of somebody who waits is found.
#[test]
fn a_mark_is_lost() {
    let program = [vec![Step::Take, Step::StoreIf], vec![Step::Lock(DEADLINE)]];
    assert_eq!(explore(&EVERYTHING, &program).0, Err(()));
}

#[test]
fn nothing_is_lost() {
    let mut below = random(7);
    let explorer = EVERYTHING.executions(10_000);
    let (mut compared, mut failed, mut reduced, mut unreduced) = (0, 0, 0, 0);
    for _ in 0..150 {
        let threads = 2 + below(2);
        let mut program = Vec::new();
        for _ in 0..threads {
            let mut steps = Vec::new();
            for _ in 0..1 + below(if threads == 2 { 4 } else { 3 }) {
                steps.push(match below(17) {
                    0 | 1 => Step::Take,
                    2..=4 => Step::Lock([None, DEADLINE][below(2)]),
                    5 | 6 => Step::Release,
                    7 => Step::Unlock,
                    8 => Step::Read,
                    9 => Step::Store(below(2) as u32),
                    10 => Step::Load,
                    11 => Step::StoreIf,
                    12 => Step::Quiesce,
                    13 => Step::Urgent,
                    14 => Step::Wake,
                    _ => Step::Sleep(DEADLINE),
                });
            }
            steps.push(Step::Release);
            program.push(steps);
        }
        let (without, count) = explore(&explorer.preemptions(Some(u32::MAX)), &program);
        let Some(count) = count else { continue };
        let (with, fewer) = explore(&explorer, &program);
        assert_eq!(with, without, "{program:?}");
        compared += 1;
        failed += u64::from(with.is_err());
        reduced += fewer.unwrap_or(u64::MAX);
        unreduced += count;
    }
    println!("{compared} programs, {failed} of them fail: {reduced} instead of {unreduced}");
    assert!(compared > 2 * failed);
}
