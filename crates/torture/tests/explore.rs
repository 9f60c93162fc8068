//! Schedules of our locks on the simulated machine: none may fail. The broken
//! twins say which of these catches them.

use lockyard_core::{
    osq,
    percpu_rwsem::{Barging, Bounded, Handoff},
    rtmutex::{Block, Spin},
    rwsem::{Lockless, Trylock},
};
use lockyard_torture::{
    explore::{self, Subject},
    subjects::{Guarded, Mutex, Percpu, RtMutexes, Rwsem, Urgent},
};

/// Schedules of each number of tasks, from two on.
const SCHEDULES: u64 = 1_500;

/// The same, for many tasks, and for the other policies of a lock.
const FEW: u64 = 400;

/// The same, where tasks take several locks each time.
const NESTED: u64 = 100;

fn survives<S: Subject>(name: &str, most_tasks: usize, schedules: u64) {
    let mut before = 0;
    for tasks in 2..=most_tasks {
        let (done, failure) = explore::run::<S>(tasks, 0..schedules, || false);
        if let Some(explore::Failure { schedule, what }) = failure {
            panic!(
                "{name} with {tasks} tasks: {what}\nin execution {}: schedule {schedule}",
                before + done
            );
        }
        assert_eq!(done, schedules);
        before += done;
    }
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
    survives::<RtMutexes<Spin>>("rtmutex", 5, NESTED);
}

#[test]
fn rtmutex_block() {
    survives::<RtMutexes<Block>>("rtmutex:block", 5, NESTED);
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
