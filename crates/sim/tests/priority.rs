//! Tasks lend each other priorities.

use std::cell::{Cell, RefCell};

use lockyard_core::{
    Platform, Prio, Priority, RawRtMutex, TaskId, Woken,
    rtmutex::{Block, LONGEST, Start},
};
use lockyard_sim::{
    Machine, Policy, Scenario, Sim, Spec, Stats, busy, now_ns, runs_at, set_policy_of,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Runs real-time tasks, each of a level and on one CPU.
fn simulate(tasks: &[(u8, usize)], body: impl Fn(usize)) -> Stats {
    let machine = Machine::find("x86-32c").expect("a preset");
    let machine = machine.resized(2, 1);
    let spec = |&(level, cpu): &(u8, usize)| Spec {
        policy: Policy::Fifo(level),
        cpus: vec![cpu],
    };
    let tasks: Vec<Spec> = tasks.iter().map(spec).collect();
    let result = Scenario { machine, seed: 1 }.simulate(&tasks, None, body);
    result.expect("all end")
}

fn lend(task: usize, level: u32) {
    Sim::lend(id(task), Prio::real_time(level));
}

fn id(task: usize) -> TaskId {
    TaskId::new(task as u32 + 1).expect("counted from 1")
}

fn sleep(nanos: u64) {
    assert_eq!(Sim::park(Some(Sim::after(nanos))), Woken::TimedOut);
}

#[test]
fn a_ready_task_that_is_lent_a_priority_takes_its_cpu_at_once() {
    let ran = Cell::new(0);
    simulate(&[(1, 0), (2, 0), (1, 1)], |task| match task {
        0 => {
            sleep(MS); // and finds its CPU taken
            ran.set(now_ns());
        }
        1 => {
            sleep(MS / 2);
            busy(10 * MS);
        }
        _ => {
            busy(3 * MS);
            assert_eq!(ran.get(), 0, "nobody had lent it anything");
            let began = now_ns();
            lend(0, 3);
            assert_eq!(runs_at(0), Prio::real_time(3));
            assert_eq!(Sim::own(id(0)), Prio::real_time(1));
            busy(MS);
            let after = ran.get().saturating_sub(began);
            assert!((1..5 * US).contains(&after), "after {after} ns");
        }
    });
}

#[test]
fn who_loses_what_it_was_lent_makes_way() {
    let ran = Cell::new(0);
    simulate(&[(1, 0), (2, 0), (1, 1)], |task| match task {
        0 => busy(10 * MS),
        1 => {
            sleep(4 * MS); // and finds its CPU taken by who is above it
            ran.set(now_ns());
        }
        _ => {
            busy(2 * MS);
            lend(0, 3);
            busy(3 * MS);
            assert_eq!(ran.get(), 0, "it was not above the other");
            lend(0, 0);
            busy(MS);
            assert!(ran.get() > 0, "it was lent nothing any more");
        }
    });
}

#[test]
fn a_sleeping_task_is_woken_with_what_it_was_lent() {
    let ran = Cell::new(0);
    simulate(&[(1, 0), (2, 0), (1, 1)], |task| match task {
        0 => {
            Sim::park(None);
            ran.set(now_ns());
        }
        1 => {
            sleep(MS / 2);
            busy(5 * MS);
        }
        _ => {
            busy(MS);
            lend(0, 3);
            Sim::unpark(id(0));
            busy(MS);
            assert!((MS..2 * MS).contains(&ran.get()), "{ran:?}");
        }
    });
}

/// In which order tasks get on when the first gives back what it was lent, and then
/// wakes who lent it; on its CPU waits one that is between the two.
fn unlock(yields: bool) -> Vec<&'static str> {
    let order = RefCell::new(Vec::new());
    let did = |what| order.borrow_mut().push(what);
    simulate(&[(1, 0), (2, 0), (3, 0)], |task| match task {
        0 => {
            lend(0, 3);
            busy(2 * MS);
            lend(0, 0);
            busy(US);
            did("low wakes high");
            Sim::unpark(id(2));
            if yields {
                Sim::yield_to(id(2));
            }
            busy(10 * MS);
            did("low ends");
        }
        1 => {
            sleep(MS);
            did("medium runs");
        }
        _ => {
            Sim::park(None);
            did("high runs");
        }
    });
    order.into_inner()
}

#[test]
fn nobody_comes_between_giving_back_and_waking() {
    let order = ["low wakes high", "high runs", "medium runs", "low ends"];
    assert_eq!(unlock(true), order);
    // One that does not get to a scheduling point is found by the tick.
    assert_eq!(unlock(false), order);
}

#[test]
fn another_task_is_scheduled_anew_too() {
    let order = RefCell::new(Vec::new());
    simulate(&[(2, 0), (1, 0), (1, 1)], |task| {
        match task {
            2 => {
                busy(MS);
                set_policy_of(1, Policy::RoundRobin(3));
                assert_eq!(runs_at(1), Prio::real_time(3));
                lend(1, 5);
                assert_eq!(runs_at(1), Prio::real_time(5));
            }
            _ => busy(5 * MS),
        }
        order.borrow_mut().push(task);
    });
    assert_eq!(order.into_inner(), [2, 1, 0]);
}

#[test]
fn a_simulation_with_all_that_is_the_same_each_time() {
    let run = || {
        simulate(&[(1, 0), (2, 0), (3, 1), (1, 1)], |task| {
            for round in 0..20 {
                busy(MS / 3 * (task as u64 + 1));
                match (task + round) % 3 {
                    0 => lend((task + 1) % 4, round as u32 % 5),
                    1 => set_policy_of((task + 2) % 4, Policy::Fifo(round as u8 % 4 + 1)),
                    _ => sleep(MS / 2),
                }
            }
        })
    };
    assert_eq!(run(), run());
}

/// Each of a chain of tasks owns a lock and waits for the next one's. One more finds its
/// end if it is as long as it may be; if it is longer that one is told of a deadlock,
/// and whomever its priority had reached has lost that again.
#[test]
fn a_chain_has_a_longest_length() {
    let all = LONGEST + 3;
    let locks: Vec<_> = (0..all).map(|_| RawRtMutex::<Sim, Block>::new()).collect();
    let start = |lock: usize, task: usize| {
        // SAFETY: the task waits for nothing else, and the locks stay.
        unsafe { locks[lock].start_for(id(task)) }
    };
    let above_own = |tasks: usize| (0..tasks).filter(|&task| runs_at(task) > Sim::own(id(task)));
    let tasks: Vec<_> = (0..all)
        .map(|task| (if task == all - 1 { 2 } else { 1 }, 0))
        .collect();
    simulate(&tasks, |task| {
        if task > 0 {
            return;
        }
        let last = all - 1;
        // From the end of the chain that the last will be at: nothing is passed on yet.
        for task in (0..last).rev() {
            locks[task].lock_new_for(id(task));
        }
        for task in (2..last).rev() {
            assert_eq!(start(task - 1, task), Start::Waits);
        }
        assert_eq!(
            start(last - 1, last),
            Start::Waits,
            "{LONGEST} wait before it"
        );
        assert_eq!(
            above_own(last).count(),
            last - 1,
            "all but the first, in no chain"
        );
        // SAFETY: it waits there.
        assert!(!unsafe { locks[last - 1].cancel_for(id(last)) });
        assert_eq!(above_own(last).count(), 0);

        assert_eq!(start(0, 1), Start::Waits);
        assert_eq!(start(last - 1, last), Start::Deadlock, "one more");
        assert_eq!(above_own(last).count(), 0);
    });
}
