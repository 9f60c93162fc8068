//! Groups of tasks find whether a lock inherits priority, on simulated machines;
//! so do chains.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use lockyard_core::{Platform, RawMutex, RawRtMutex};
use lockyard_sim::{Machine, Policy, Scenario, Sim, Stats, set_policy};
use lockyard_torture::{
    Lock, Simulated,
    chains::{self, Shape},
    pistress::{self, Config, Report},
};

const LIMIT: Duration = Duration::from_millis(20);

const CONFIG: Config<'_> = Config {
    groups: 2,
    pinned: true,
    mediums: 1,
    round_robin: false,
    duration: Duration::from_secs(1),
    inversions: 50,
    limit: Some(LIMIT),
    hung: &|tasks| panic!("{tasks}"),
};

fn scenario(cpus: usize) -> Scenario {
    let machine = Machine::find("x86-32c").expect("a preset");
    let machine = machine.resized(cpus, 1);
    Scenario { machine, seed: 1 }
}

fn simulated<L: Lock>(cpus: usize, config: Config<'_>) -> (Report, Stats) {
    Simulated::on(scenario(cpus), || pistress::run::<Simulated, L>(&config))
}

/// A lock that inherits nothing.
struct Plain(lock_api::Mutex<RawMutex<Sim>, ()>);

impl Lock for Plain {
    fn new() -> Self {
        Self(lock_api::Mutex::new(()))
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}

/// A lock that lends whoever has it the highest priority, even if nobody waits:
/// the low task, which is each group's first, and so not for more mediums than one.
struct Ceiling(Plain);

impl Lock for Ceiling {
    fn new() -> Self {
        Self(Plain::new())
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let is_low = Sim::me().number() % 3 == 1;
        let result = self.0.with(|| {
            set_policy(Policy::Fifo(3));
            section()
        });
        set_policy(Policy::Fifo(if is_low { 1 } else { 3 }));
        result
    }
}

/// A lock that inherits.
struct Inherits(lock_api::Mutex<RawRtMutex<Sim>, ()>);

impl Lock for Inherits {
    fn new() -> Self {
        Self(lock_api::Mutex::new(()))
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}

/// Lets nobody in twice.
struct Once(std::sync::atomic::AtomicBool);

impl Lock for Once {
    fn new() -> Self {
        Self(false.into())
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        while self.0.swap(true, std::sync::atomic::Ordering::Relaxed) {
            Sim::park(None);
        }
        section()
    }
}

#[test]
fn a_lock_that_inherits_nothing_is_found_at_once() {
    let (report, _) = simulated::<Plain>(3, CONFIG);
    assert!(report.unbounded.is_some(), "{report:?}");
    assert_eq!(report.total(), 0);
    let limit = LIMIT.as_nanos() as u64;
    assert!((limit..2 * limit).contains(&report.longest_inversion_ns));
    // High waits for that long, and no longer: then medium lets low run.
    let longest = report.waits.max();
    assert!((limit..2 * limit).contains(&longest), "{longest}");
    assert!(report.inverted >= 1);
}

#[test]
fn without_pinning_it_takes_a_medium_task_for_each_cpu() {
    let run = |mediums| {
        let config = Config {
            groups: 1,
            pinned: false,
            mediums,
            ..CONFIG
        };
        simulated::<Plain>(3, config).0
    };
    assert_eq!(run(3).unbounded, Some(0));
    let fewer = run(1);
    assert_eq!((fewer.unbounded, fewer.total()), (None, 50));
    // It runs while high waits, on another CPU than low.
    assert!((1..=50).contains(&fewer.inverted), "{fewer:?}");
    assert!(fewer.longest_inversion_ns > 0 && fewer.waits.max() < 1_000_000);
}

#[test]
fn a_lock_that_lends_priority_resolves_every_inversion() {
    for round_robin in [false, true] {
        let config = Config {
            round_robin,
            ..CONFIG
        };
        let (report, _) = simulated::<Ceiling>(3, config);
        assert_eq!((report.unbounded, report.inverted), (None, 0));
        assert_eq!(report.inversions, [50, 50]);
        assert_eq!((report.longest_inversion_ns, report.waits.len()), (0, 100));
        assert!(report.waits.max() < 1_000_000 && report.elapsed_ns > 0);
    }
}

#[test]
fn pinned_with_inheritance_the_rounds_are_those_of_rt_tests() {
    let run = |limit| {
        let config = Config { limit, ..CONFIG };
        simulated::<Inherits>(3, config).0
    };
    let (computes, straight) = (run(Some(LIMIT)), run(None));
    // No medium task gets to compute, so it is all the same whether it would.
    assert_eq!((computes.unbounded, computes.inverted), (None, 0));
    assert_eq!(straight.inversions, [50, 50]);
    let [computes, straight] = [computes, straight].map(|report| report.elapsed_ns as f64);
    assert!(
        (computes / straight - 1.0).abs() < 0.01,
        "{computes} {straight}"
    );
}

#[test]
fn in_the_rounds_of_rt_tests_every_inversion_ends() {
    for pinned in [true, false] {
        let config = Config {
            limit: None,
            pinned,
            ..CONFIG
        };
        let (report, _) = simulated::<Plain>(3, config);
        assert_eq!((report.unbounded, report.inverted), (None, 0));
        assert_eq!(report.inversions, [50, 50]);
    }
}

#[test]
fn the_run_ends_after_its_time() {
    let config = Config {
        duration: Duration::from_millis(5),
        inversions: u64::MAX,
        ..CONFIG
    };
    let (report, _) = simulated::<Ceiling>(3, config);
    let ended = Duration::from_nanos(report.elapsed_ns);
    assert!((4..7).contains(&ended.as_millis()), "{ended:?}");
    assert!(report.inversions.iter().all(|&each| each > 50));
}

#[test]
fn a_simulation_is_the_same_each_time() {
    let run = || simulated::<Plain>(2, CONFIG);
    assert_eq!(run(), run());
}

#[test]
fn a_lock_that_lets_nobody_in_is_stuck() {
    let run = AssertUnwindSafe(|| simulated::<Once>(2, CONFIG));
    let panic = catch_unwind(run).expect_err("high waits for ever");
    let said = panic.downcast::<String>().expect("a message");
    assert!(said.contains("task 2 (fifo 3) is parked"), "{said}");
    // The next one is not disturbed by those that sleep for ever.
    assert_eq!(simulated::<Ceiling>(2, CONFIG).0.total(), 100);
}

#[test]
fn chains_and_forests_find_it_too() {
    for shape in [Shape::Chain(1), Shape::Chain(4), Shape::Forest] {
        let config = chains::Config {
            shape,
            round_robin: false,
            duration: Duration::from_secs(1),
            limit: LIMIT,
            seed: 1,
            hung: &|tasks| panic!("{tasks}"),
        };
        let run = || chains::run::<Simulated, Plain>(&config);
        let (report, _) = Simulated::on(scenario(2), run);
        assert!(report.unbounded && report.waits.is_empty(), "{report:?}");
    }
}
