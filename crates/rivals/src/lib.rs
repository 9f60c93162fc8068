//! The locks that lockyard is measured against, each behind
//! [`lockyard_torture::Lock`], and toy locks to learn from.
//!
//! A rival is called the way its own users call it, and with static dispatch:
//! a run measures the lock and nothing around it. Locks of C and C++ libraries
//! are found when the program runs; where the library is missing, only
//! [`Entry::available`] fails.

mod abseil;
mod dynamic;
mod nsync;
mod pthread;
mod rust;
pub mod toys;

pub use abseil::{Abseil, AbseilRw};
pub use nsync::{Nsync, NsyncRw};
pub use pthread::{Adaptive, Attributes, Inherit, Normal, Pthread, PthreadRw};
pub use rust::{ParkingLot, ParkingLot012, ParkingLotRw, Sharded, Std, StdRw, Usync, UsyncRw};

use lockyard_core::Platform;
use lockyard_linux::Linux;
use lockyard_sim::Sim;
use lockyard_torture::{InSimulation, Lock, OnThreads};
use toys::{Drepper, Mcs, Tas, Ticket};

/// What an [`Entry`] is in the list for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A lock that programs use.
    Rival,
    /// A lock from the textbook.
    Toy,
}

/// One lock of the list.
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is in the list for.
    pub kind: Kind,
    /// Whether readers share it.
    pub shared: bool,
    /// Bytes of the lock object itself: neither the padding that keeps it on a
    /// cache line of its own here, nor nodes that it keeps per task.
    pub size: usize,
    /// What it is, in a line.
    pub about: &'static str,
    /// Whether it can run on this machine; if not, one line says why and what
    /// would help.
    pub available: fn() -> Result<(), String>,
    /// How to load it with this machine's threads. Panics where
    /// [`Entry::available`] fails.
    pub on_threads: OnThreads,
    /// How to load it on a simulated machine, if it is generic over its world.
    pub in_simulation: Option<InSimulation>,
}

impl Entry {
    fn new<L: Lock>(name: &'static str, kind: Kind, size: usize, about: &'static str) -> Self {
        Self {
            name,
            kind,
            shared: false,
            size,
            about,
            available: || Ok(()),
            on_threads: OnThreads::of::<L>(),
            in_simulation: None,
        }
    }

    /// A toy `L`, which is `S` in the simulated world.
    fn toy<L: Lock, S: Lock>(name: &'static str, size: usize, about: &'static str) -> Self {
        Self {
            in_simulation: Some(InSimulation::of::<S>()),
            ..Self::new::<L>(name, Kind::Toy, size, about)
        }
    }

    /// A rival that readers share.
    fn shared<L: Lock>(name: &'static str, size: usize, about: &'static str) -> Self {
        Self {
            shared: true,
            ..Self::new::<L>(name, Kind::Rival, size, about)
        }
    }

    fn if_available(self, available: fn() -> Result<(), String>) -> Self {
        Self { available, ..self }
    }
}

/// Every mutual-exclusion lock of this crate.
pub fn mutexes() -> Vec<Entry> {
    use Kind::Rival;
    const PTHREAD: usize = size_of::<libc::pthread_mutex_t>();
    const WORD: usize = size_of::<<Linux as Platform>::U32>();
    vec![
        Entry::new::<Std>("std", Rival, Std::SIZE, "Rust's standard library"),
        Entry::new::<ParkingLot>(
            "parking_lot",
            Rival,
            ParkingLot::SIZE,
            "the crate parking_lot 0.13",
        ),
        Entry::new::<ParkingLot012>(
            "parking_lot-0.12",
            Rival,
            ParkingLot012::SIZE,
            "the crate parking_lot 0.12, with its timed fairness",
        ),
        Entry::new::<Usync>("usync", Rival, Usync::SIZE, "the crate usync 0.2"),
        Entry::new::<Pthread<Normal>>("pthread", Rival, PTHREAD, "the C library's mutex")
            .if_available(Pthread::<Normal>::available),
        Entry::new::<Pthread<Adaptive>>(
            "pthread-adaptive",
            Rival,
            PTHREAD,
            "the C library's mutex that spins a little",
        )
        .if_available(Pthread::<Adaptive>::available),
        Entry::new::<Pthread<Inherit>>(
            "pthread-pi",
            Rival,
            PTHREAD,
            "the C library's mutex with priority inheritance",
        )
        .if_available(Pthread::<Inherit>::available),
        Entry::new::<Nsync>("nsync", Rival, Nsync::SIZE, "the C library nsync")
            .if_available(Nsync::available),
        Entry::new::<Abseil>("abseil", Rival, Abseil::SIZE, "absl::Mutex of C++'s Abseil")
            .if_available(Abseil::available),
        Entry::toy::<Tas<Linux>, Tas<Sim>>("tas", WORD, "test-and-test-and-set, spins"),
        Entry::toy::<Ticket<Linux>, Ticket<Sim>>("ticket", 2 * WORD, "tickets, first come, spins"),
        Entry::toy::<Mcs<Linux>, Mcs<Sim>>("mcs", WORD, "a queue of local spinners"),
        Entry::toy::<Drepper<Linux>, Drepper<Sim>>(
            "drepper",
            3 * WORD,
            "the three-state mutex of \"Futexes Are Tricky\", sleeps",
        ),
    ]
}

/// Every lock of this crate for readers and writers.
pub fn rwlocks() -> Vec<Entry> {
    vec![
        Entry::shared::<StdRw>("std-rw", StdRw::SIZE, "Rust's standard library"),
        Entry::shared::<ParkingLotRw>(
            "parking_lot-rw",
            ParkingLotRw::SIZE,
            "the crate parking_lot 0.13",
        ),
        Entry::shared::<UsyncRw>("usync-rw", UsyncRw::SIZE, "the crate usync 0.2"),
        Entry::shared::<PthreadRw>("pthread-rw", PthreadRw::SIZE, "the C library's rwlock"),
        Entry::shared::<Sharded>(
            "sharded",
            Sharded::SIZE,
            "crossbeam's ShardedLock: eight of std's, a reader takes one",
        ),
        Entry::shared::<NsyncRw>("nsync-rw", Nsync::SIZE, "the C library nsync")
            .if_available(Nsync::available),
        Entry::shared::<AbseilRw>("abseil-rw", Abseil::SIZE, "absl::Mutex of C++'s Abseil")
            .if_available(Abseil::available),
    ]
}

/// A cache line of its own, or two: prefetchers fetch lines in pairs.
#[repr(align(128))]
struct Line<T>(T);

/// Runs `section` and then `unlock`, which also runs when `section` panics.
#[inline]
fn unlocking<R>(unlock: impl FnMut(), section: impl FnOnce() -> R) -> R {
    struct OnDrop<F: FnMut()>(F);
    impl<F: FnMut()> Drop for OnDrop<F> {
        #[inline]
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let _unlock = OnDrop(unlock);
    section()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_panics_releases_its_lock() {
        let lock = Tas::<Linux>::new();
        let section = std::panic::AssertUnwindSafe(|| lock.with(|| panic!("on purpose")));
        assert!(std::panic::catch_unwind(section).is_err());
        lock.with(|| ());
    }
}
