//! Readers and writers under locktest in the simulated world, and locks with one
//! fault each that it must catch.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use lock_api::{Mutex, RwLock};
use lockyard_core::{RawMutex, RawRwLock, Word, osq};
use lockyard_sim::{Machine, Scenario, Sim, SimWord};
use lockyard_torture::{
    Lock, Simulated,
    locktest::{self, Config, Report},
};

type Writers = Mutex<RawMutex<Sim, osq::Event>, ()>;

/// Ours, without a fault.
type Sound = RwLock<RawRwLock<Sim>, ()>;

/// A reader waits for the writer, but a writer does not wait for readers.
struct WriterBesideReaders(Writers);

impl Lock for WriterBesideReaders {
    fn new() -> Self {
        Self(Mutex::new(()))
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        drop(self.0.lock());
        section()
    }
}

/// A writer waits for readers, but a reader does not wait for the writer.
struct ReaderBesideWriter {
    writers: Writers,
    readers: SimWord,
}

impl Lock for ReaderBesideWriter {
    fn new() -> Self {
        Self {
            writers: Mutex::new(()),
            readers: SimWord::ZERO,
        }
    }
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.writers.lock();
        while self.readers.load(Relaxed) != 0 {}
        section()
    }
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.readers.fetch_add(1, Relaxed);
        let result = section();
        self.readers.fetch_add(1u32.wrapping_neg(), Relaxed);
        result
    }
}

fn run<L: Lock>(read_pct: u32) -> Report {
    let config = Config {
        threads: 4,
        duration: Duration::from_millis(2),
        load: 500,
        gap: 1_000, // with more the tasks fall into step, and out of each other's way
        read_pct,
        lines: 3,
        sample: 4,
        seed: 7,
    };
    let machine = Machine::find("x86-32c").expect("it comes with the simulator");
    let scenario = Scenario { machine, seed: 7 };
    Simulated::on(scenario, || locktest::run::<Simulated, L>(&config)).0
}

fn caught<L: Lock>() -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| run::<L>(50))).expect_err("the fault was missed");
    let text = panic.downcast_ref::<String>();
    text.expect("an assertion formats its message").clone()
}

#[test]
fn a_writer_beside_readers_is_caught() {
    let why = caught::<WriterBesideReaders>();
    assert!(why.contains("a writer in beside a reader"), "{why}");
}

#[test]
fn a_reader_beside_a_writer_is_caught() {
    let why = caught::<ReaderBesideWriter>();
    assert!(why.contains("a writer in beside a reader"), "{why}");
}

#[test]
fn operations_and_waits_are_those_of_readers_and_writers() {
    for read_pct in [0, 50, 100] {
        let report = run::<Sound>(read_pct);
        let share = 100.0 * report.reads as f64 / report.total() as f64;
        assert!((share - f64::from(read_pct)).abs() < 10.0, "{share} %");
        assert_eq!(report.reads + report.writes(), report.total());
        assert_eq!(report.read_waits.is_empty(), read_pct == 0);
        assert_eq!(report.write_waits.is_empty(), read_pct == 100);
        let both = report.read_waits.len() + report.write_waits.len();
        assert_eq!(report.waits().len(), both);
    }
}
