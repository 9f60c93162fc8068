//! What readers of a lock are held against: loops that run like a lock's but
//! lock nothing. They are not among the locks, and taken in rounds of their own.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard_torture::{
    Lock, Native,
    locktest::{self, Config, Report},
};

use super::plan::Point;
use crate::{
    failure::Failure,
    measure::{self, Measured},
    place::Place,
    record::Record,
    registry::Entry,
    values::Work,
};

/// What counts readers as cheaply as can be.
pub const LIMIT: Gauge = Gauge {
    name: "limit",
    locktest: locktest::run::<Native, Limit>,
};

/// What does nothing: the loop itself.
pub const LOOP: Gauge = Gauge {
    name: "loop",
    locktest: locktest::run::<Native, Loop>,
};

/// Threads that the gauges are taken with.
pub const THREADS: [usize; 2] = [1, 2];

/// Rounds in which they are taken, in turns with the lock that is held against them and with
/// nobody else: a moment's difference between neighbours is as large as what is judged.
pub const ROUNDS: u32 = 12;

/// Where so many threads only read and do nothing else.
pub const fn readers(threads: usize) -> Point {
    Point::new(Work { load: 0, gap: 0 }, threads).reading(100)
}

/// A loop that is measured as a lock is.
#[derive(Clone, Copy)]
pub struct Gauge {
    /// What its runs are called where those of locks have the lock's name.
    pub name: &'static str,
    locktest: fn(&Config) -> Report,
}

/// What runs at a point.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// A lock.
    Lock(&'a Entry),
    /// A gauge.
    Gauge(Gauge),
}

impl Part<'_> {
    /// What its runs are called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lock(lock) => lock.name,
            Self::Gauge(gauge) => gauge.name,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// The lock let two threads in at once.
    pub fn run(&self, place: &Place, config: &Config, run: u32) -> Result<Record, Failure> {
        let measured = match self {
            Self::Lock(lock) => measure::locktest(place, lock, config)?,
            Self::Gauge(gauge) => Measured {
                report: (gauge.locktest)(config),
                stats: None,
            },
        };
        Ok(Record::new(place, self.name(), config, run, &measured))
    }
}

/// A reader adds 1 to a word of its own thread, and takes it back: by plain
/// loads and stores, on a cache line that no other thread uses.
struct Limit;

#[repr(align(128))]
struct Line(AtomicU32);

thread_local! {
    static READERS: Line = const { Line(AtomicU32::new(0)) };
}

impl Lock for Limit {
    fn new() -> Self {
        Self
    }

    fn with<R>(&self, _: impl FnOnce() -> R) -> R {
        unreachable!("the limit is measured with readers alone")
    }

    #[inline]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let add =
            |n: u32| READERS.with(|of| of.0.store(of.0.load(Relaxed).wrapping_add(n), Relaxed));
        add(1);
        let result = section();
        add(1u32.wrapping_neg());
        result
    }
}

/// A reader only runs its section.
struct Loop;

impl Lock for Loop {
    fn new() -> Self {
        Self
    }

    fn with<R>(&self, _: impl FnOnce() -> R) -> R {
        unreachable!("the loop is measured with readers alone")
    }

    #[inline]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}
