//! Schedules of our locks on the simulated machine: none may fail. The broken
//! twins say which of these catches them.

use lockyard_core::{
    osq,
    percpu_rwsem::{Barging, Bounded, Handoff},
    rtmutex::{Block, Policy, Spin},
    rwsem::{Lockless, Trylock},
};
use lockyard_torture::{
    explore::{self, Checks, Subject},
    subjects::{Guarded, Mutex, Percpu, RtMutexes, Rwsem, Urgent},
};

/// Schedules of each number of tasks, from two on.
const SCHEDULES: u64 = 1_500;

/// The same, for many tasks, and for the other policies of a lock.
const FEW: u64 = 400;

/// The same, where tasks take several locks each time.
const NESTED: u64 = 100;

/// Returns what the probes have checked.
fn survives<S: Subject>(name: &str, most_tasks: usize, schedules: u64) -> Checks {
    let mut before = 0;
    let mut checks = Checks::default();
    for tasks in 2..=most_tasks {
        let explored = explore::run::<S>(tasks, 0..schedules, || false);
        if let Some(explore::Failure { schedule, what }) = explored.failure {
            panic!(
                "{name} with {tasks} tasks: {what}\nin execution {}: schedule {schedule}",
                before + explored.schedules
            );
        }
        assert_eq!(explored.schedules, schedules);
        before += explored.schedules;
        checks.lent += explored.checks.lent;
        checks.deep += explored.checks.deep;
    }
    checks
}

/// Those whose owners are due a priority, some through several locks.
fn inherits<W: Policy>(name: &str) {
    let checks = survives::<RtMutexes<W>>(name, 5, NESTED);
    println!("{name}: {checks:?}");
    assert!(checks.lent > 0 && checks.deep > 0, "{checks:?}");
}

#[test]
fn mutex() {
    survives::<Mutex<osq::Event>>("mutex", 4, SCHEDULES);
}

#[test]
fn mutex_poll() {
    survives::<Mutex<osq::Poll>>("mutex:poll", 4, FEW);
}

#[test]
fn condvar() {
    survives::<Guarded<osq::Event>>("condvar", 4, FEW);
}

#[test]
fn rwsem() {
    survives::<Rwsem<Lockless>>("rwsem", 5, FEW);
}

#[test]
fn rwsem_urgent() {
    survives::<Urgent>("rwsem, urgent writers", 4, FEW);
}

#[test]
fn rwsem_trylock() {
    survives::<Rwsem<Trylock>>("rwsem:trylock", 4, FEW);
}

#[test]
fn percpu() {
    survives::<Percpu<Bounded>>("percpu", 4, FEW);
}

#[test]
fn percpu_barging() {
    survives::<Percpu<Barging>>("percpu:barging", 4, FEW);
}

#[test]
fn percpu_handoff() {
    survives::<Percpu<Handoff>>("percpu:handoff", 4, FEW);
}

#[test]
fn rtmutex() {
    inherits::<Spin>("rtmutex");
}

#[test]
fn rtmutex_block() {
    inherits::<Block>("rtmutex:block");
}

#[test]
fn a_schedule_is_the_same_each_time() {
    let run = || explore::replay::<Mutex<osq::Event>>(4, 7);
    let ((first, first_timeline), (second, second_timeline)) = (run(), run());
    assert_eq!(first, second);
    let text = first_timeline.to_string();
    assert!(text.contains("mutex.owner"), "{text}");
    assert_eq!(text, second_timeline.to_string());
}
