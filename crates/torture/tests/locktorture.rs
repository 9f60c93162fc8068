//! Torture finds what locks get wrong, and does to the tasks what it says.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use lockyard_core::{Platform, RawPercpuRwLock, RawRwLock};
use lockyard_sim::{Machine, Scenario, Sim, Spending, Stats};
use lockyard_torture::{
    Lock, Native, Simulated,
    locktorture::{self, Config, Delays, Report},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

const CONFIG: Config<'_> = Config {
    writers: 3,
    readers: 2,
    duration: Duration::from_millis(20),
    delays: Delays::None,
    long_hold: Duration::from_millis(20),
    gap: Duration::ZERO,
    stutter: Duration::ZERO,
    shuffle: Duration::ZERO,
    boost: false,
    seed: 1,
    hung: &|tasks| panic!("{tasks}"),
};

/// Tortures a lock on a simulated machine with so many CPUs.
fn simulated<L: Lock>(cpus: usize, config: Config<'_>) -> (Report, Stats) {
    let machine = Machine::find("x86-32c").expect("a preset");
    let scenario = Scenario {
        machine: machine.resized(cpus, 1),
        seed: config.seed,
    };
    Simulated::on(scenario, || locktorture::run::<Simulated, L>(&config))
}

/// Lets everybody in.
struct Open;

impl Lock for Open {
    fn new() -> Self {
        Self
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

/// Lets readers in beside a writer, but only one writer at a time.
struct Careless(std::sync::Mutex<()>);

impl Lock for Careless {
    fn new() -> Self {
        Self(std::sync::Mutex::new(()))
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().expect("no section panics");
        section()
    }
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

// These are right.
type Rwsem = lock_api::RwLock<RawRwLock<Sim>, ()>;
type Percpu = lock_api::RwLock<RawPercpuRwLock<Sim>, ()>;

#[test]
fn a_lock_that_lets_everybody_in_is_found_in_both_worlds() {
    let (report, _) = simulated::<Open>(4, CONFIG);
    assert!(report.writes.failures > 0 && report.reads.failures > 0);
    // How soon depends on the machine.
    while locktorture::run::<Native, Open>(&CONFIG).failures() == 0 {}
}

#[test]
fn a_reader_beside_a_writer_is_found() {
    while locktorture::run::<Native, Careless>(&CONFIG).failures() == 0 {}
}

#[test]
fn our_locks_survive_all_of_it() {
    let config = Config {
        duration: Duration::from_millis(200),
        stutter: 10 * MS,
        shuffle: 7 * MS,
        boost: true,
        ..CONFIG
    };
    for seed in 1..=3 {
        for cpus in [2, 4] {
            let config = Config { seed, ..config };
            let (rwsem, _) = simulated::<Rwsem>(cpus, config);
            let (percpu, _) = simulated::<Percpu>(cpus, config);
            for report in [rwsem, percpu] {
                assert_eq!(report.failures(), 0);
                let each = (report.writes.per_task.iter()).chain(&report.reads.per_task);
                assert!(each.copied().all(|rounds| rounds > 0), "{report:?}");
                assert_eq!(report.writes.per_task.len(), 3);
                assert!(report.writes.longest_wait_ns > 0 && report.elapsed_ns > 0);
            }
        }
    }
}

#[test]
fn threads_survive_all_of_it() {
    let config = Config {
        stutter: 3 * MS,
        shuffle: 2 * MS,
        ..CONFIG
    };
    struct Shared(std::sync::RwLock<()>);
    impl Lock for Shared {
        fn new() -> Self {
            Self(std::sync::RwLock::new(()))
        }
        fn with<R>(&self, section: impl FnOnce() -> R) -> R {
            let _held = self.0.write().expect("no section panics");
            section()
        }
        fn read<R>(&self, section: impl FnOnce() -> R) -> R {
            let _held = self.0.read().expect("no section panics");
            section()
        }
    }
    assert_eq!(locktorture::run::<Native, Shared>(&config).failures(), 0);
}

#[test]
fn a_seed_gives_the_same_run_each_time_and_another_another() {
    let config = Config {
        shuffle: 3 * MS,
        boost: true,
        ..CONFIG
    };
    let run = |seed| simulated::<Percpu>(2, Config { seed, ..config });
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Lets everybody in a few hundred times, and then nobody any more.
struct Shuts(AtomicU32);

impl Lock for Shuts {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Relaxed);
        while self.0.load(Relaxed) > 500 {
            Sim::park(None);
        }
        section()
    }
}

/// What is said of tasks that are stuck.
fn stuck(config: Config<'_>) -> String {
    let run = AssertUnwindSafe(|| simulated::<Shuts>(4, config));
    let panic = catch_unwind(run).expect_err("nobody gets through");
    *panic.downcast::<String>().expect("a message")
}

#[test]
fn a_lock_that_never_lets_in_is_stuck() {
    let said = stuck(Config {
        shuffle: 2 * MS,
        ..CONFIG
    });
    // Whoever shuffles them has ended.
    let tasks: Vec<_> = (1..=5)
        .map(|task| format!("task {task} (fair) is parked"))
        .collect();
    assert_eq!(said, format!("stuck: {}", tasks.join(", ")));
}

#[test]
fn writers_get_real_time_priorities_for_a_while() {
    let boosted = |seed| {
        let config = Config {
            boost: true,
            seed,
            ..CONFIG
        };
        let said = stuck(config);
        assert!(said.contains("task 5 (fair)"), "a reader got one: {said}");
        said.matches("(fifo 1)").count()
    };
    let all: Vec<_> = (1..=8).map(boosted).collect();
    assert!(
        all.contains(&0) && all.iter().any(|&writers| writers > 0),
        "{all:?}"
    );
}

/// The milliseconds that all tasks spent so.
fn spent(stats: &Stats, on: Spending) -> u64 {
    let all = stats.spent.iter().map(|spent| spent[on as usize]);
    all.sum::<u64>() / 1_000_000_000
}

#[test]
fn tasks_stutter() {
    let asleep = |stutter| {
        let config = Config {
            duration: SECOND,
            delays: Delays::Old,
            stutter,
            ..CONFIG
        };
        spent(&simulated::<Open>(5, config).1, Spending::Sleep)
    };
    // Five tasks sleep for half of the time, but for the end of a stay.
    let (without, with) = (asleep(Duration::ZERO), asleep(100 * MS));
    assert!(
        without < 10 && (2_300..=2_500).contains(&with),
        "{without} {with}"
    );
}

#[test]
fn a_shuffle_leaves_a_cpu_to_others() {
    let ready = |shuffle| {
        let config = Config {
            writers: 2,
            readers: 0,
            duration: SECOND,
            delays: Delays::Old,
            shuffle,
            ..CONFIG
        };
        let (_, stats) = simulated::<Open>(2, config);
        spent(&stats, Spending::Ready)
    };
    // Two tasks share a CPU while the other one is left out: twice out of three.
    let (without, with) = (ready(Duration::ZERO), ready(50 * MS));
    assert!(
        without < 1 && (500..800).contains(&with),
        "{without} {with}"
    );
}

#[test]
fn holds_take_as_long_as_they_should() {
    let writes = |delays| {
        let config = Config {
            writers: 1,
            readers: 0,
            duration: 2 * SECOND,
            delays,
            long_hold: 100 * MS,
            ..CONFIG
        };
        simulated::<Open>(1, config).0.writes.total()
    };
    // 10 ms each, and a second seldom.
    let slow = writes(Delays::Old);
    assert!((90..=201).contains(&slow), "{slow}");
    assert!(writes(Delays::New) > 100 * slow);
}
