//! Schedules of our locks on the simulated machine: none may fail. The broken
//! twins say which of these catches them.

use std::time::Duration;

use lock_api::RwLock;
use lockyard_core::{
    RawRwLock, osq,
    percpu_rwsem::{Barging, Bounded, Handoff},
    rtmutex::{Block, Policy, Spin},
    rwsem::{Lockless, Trylock},
};
use lockyard_sim::{Machine, Scenario, Sim};
use lockyard_torture::{
    Simulated,
    explore::{self, Checks, Subject},
    locktest::{self, Config},
    subjects::{Guarded, Mutex, Percpu, RtMutexes, Rwsem, Urgent},
};

/// Schedules of each number of tasks, from two on.
const SCHEDULES: u64 = 10_000;

/// The same, for many tasks, and for the other policies of a lock.
const FEW: u64 = 400;

/// The same, where few are such that a real-time task keeps another from its CPU.
const MANY: u64 = 15_000;

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
    survives::<Urgent>("rwsem, urgent writers", 4, MANY);
}

/// Many more tasks than CPUs read, and each writes now and then: a writer that loses its place
/// waits for some rounds of the scheduler at most.
#[test]
fn rwsem_outnumbered() {
    for seed in [1, 2] {
        let config = Config {
            threads: 32,
            duration: Duration::from_millis(100),
            load: 0,
            gap: 0,
            read_pct: 99,
            lines: 0,
            sample: 1,
            seed,
        };
        let machine = Machine::find("x86-2s256c").expect("it comes with the simulator");
        let machine = machine.resized(2, 1);
        let scenario = Scenario { machine, seed };
        let run = || locktest::run::<Simulated, RwLock<RawRwLock<Sim>, ()>>(&config);
        let (report, _) = Simulated::on(scenario, run);
        assert!(report.writes() > 10_000, "{} writes", report.writes());
        let longest = Duration::from_nanos(report.write_waits.max());
        assert!(
            longest < Duration::from_millis(50),
            "rwsem with {} tasks: a writer waits for {longest:?}\nin execution {seed}: two CPUs",
            config.threads
        );
    }
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
