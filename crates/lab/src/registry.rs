//! Every lock that the lab knows, by name.

use clap::builder::PossibleValuesParser;
use lockyard_core::{
    osq::{Event, Poll, Wait},
    percpu_rwsem::{Barging, Bounded, Grant, Handoff},
    pimutex::{self, Adaptive, Strict},
    rtmutex::{Block, Policy, Spin},
    rwsem::{Lockless, Trylock, WakeCheck},
};
use lockyard_linux::Linux;
use lockyard_rivals as rivals;
use lockyard_sim::Sim;
use lockyard_torture::{InSimulation, Lock, OnThreads};
use serde::Serialize;

use crate::{
    failure::Failure,
    ours::{Mutex, Patient, PercpuRwLock, PiMutex, RtMutex, RwLock},
    values::World,
};

/// Our lock when none is named.
pub const DEFAULT: &str = "mutex";
/// The lock whose priorities are inverted when none is named: one that inherits.
pub const DEFAULT_PI: &str = "pimutex";
/// And in the simulated world, where that does not run.
pub const DEFAULT_PI_IN_SIMULATION: &str = "rtmutex";
/// Our locks for readers and writers when none is named.
pub const DEFAULT_RW: [&str; 2] = ["rwsem", "percpu"];

/// Where a lock comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// This project's.
    Ours,
    /// Somebody else's, in use in the field.
    Rival,
    /// A textbook's: worth a look, not worth a use.
    Toy,
}

impl Kind {
    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Rival => "rival",
            Self::Toy => "toy",
        }
    }
}

/// A lock and how to load it.
#[derive(Clone)]
pub struct Entry {
    /// What `--lock` calls it; a policy stands after a colon.
    pub name: &'static str,
    /// Where it comes from.
    pub kind: Kind,
    /// Whether readers share it.
    pub shared: bool,
    /// The bytes that one lock takes, without what it protects.
    pub size: usize,
    /// What it is, in a line.
    pub about: &'static str,
    on_threads: Option<OnThreads>,
    available: fn() -> Result<(), String>,
    in_simulation: Option<InSimulation>,
}

impl Entry {
    /// A lock of ours, which is `N` on this machine and `S` in the simulated
    /// world.
    fn ours<N: Lock, S: Lock>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Ours,
            shared: false,
            size: size_of::<N>(),
            about,
            available: || Ok(()),
            on_threads: Some(OnThreads::of::<N>()),
            in_simulation: Some(InSimulation::of::<S>()),
        }
    }

    fn mutex<W: Wait<Linux> + Wait<Sim>>(name: &'static str, about: &'static str) -> Self {
        Self::ours::<Mutex<Linux, W>, Mutex<Sim, W>>(name, about)
    }

    fn rwsem<C: WakeCheck>(name: &'static str, about: &'static str) -> Self {
        Self {
            shared: true,
            ..Self::ours::<RwLock<Linux, C>, RwLock<Sim, C>>(name, about)
        }
    }

    fn percpu<G: Grant>(name: &'static str, about: &'static str) -> Self {
        Self {
            shared: true,
            ..Self::ours::<PercpuRwLock<Linux, G>, PercpuRwLock<Sim, G>>(name, about)
        }
    }

    /// A mutex with priority inheritance by the kernel's, which no other world has.
    fn pimutex<S: pimutex::Policy>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Ours,
            shared: false,
            size: size_of::<PiMutex<S>>(),
            about,
            available: || Ok(()),
            on_threads: Some(OnThreads::of::<PiMutex<S>>()),
            in_simulation: None,
        }
    }

    /// A real-time mutex. No thread of this machine can lend another a priority
    /// but through the kernel's own lock.
    fn rtmutex<W: Policy>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Ours,
            shared: false,
            size: size_of::<RtMutex<Sim, W>>(),
            about,
            available: || Ok(()),
            on_threads: None,
            in_simulation: Some(InSimulation::of::<RtMutex<Sim, W>>()),
        }
    }

    /// The worlds that the lock runs in.
    pub fn worlds(&self) -> Vec<World> {
        let native = self.on_threads.map(|_| World::Native);
        let simulated = self.in_simulation.map(|_| World::Sim);
        native.into_iter().chain(simulated).collect()
    }

    /// Why the lock cannot run here, if it cannot.
    pub fn unavailable(&self) -> Option<String> {
        (self.available)().err()
    }

    /// How to load it with this machine's threads.
    ///
    /// # Panics
    /// When the lock does not run there.
    pub fn on_threads(&self) -> OnThreads {
        (self.on_threads).expect("the lock runs on this machine")
    }

    /// How to load it on a simulated machine.
    ///
    /// # Panics
    /// When the lock does not run there.
    pub fn in_simulation(&self) -> InSimulation {
        (self.in_simulation).expect("the lock runs in the simulated world")
    }
}

impl From<rivals::Entry> for Entry {
    fn from(entry: rivals::Entry) -> Self {
        Self {
            name: entry.name,
            kind: match entry.kind {
                rivals::Kind::Rival => Kind::Rival,
                rivals::Kind::Toy => Kind::Toy,
            },
            shared: entry.shared,
            size: entry.size,
            about: entry.about,
            available: entry.available,
            on_threads: Some(entry.on_threads),
            in_simulation: entry.in_simulation,
        }
    }
}

/// Every lock: ours first.
pub fn all() -> Vec<Entry> {
    let ours = [
        Entry::mutex::<Event>(
            DEFAULT,
            "spins in a queue while the owner runs, sleeps when not",
        ),
        Entry::mutex::<Poll>(
            "mutex:poll",
            "the same, but polling in its queue (before seed 001)",
        ),
        Entry::rwsem::<Lockless>(
            "rwsem",
            "for readers and writers; writers spin as the mutex does",
        ),
        Entry::rwsem::<Trylock>(
            "rwsem:trylock",
            "the same, but with the wake check of before seed 003",
        ),
        Entry::percpu::<Bounded>(
            "percpu",
            "for readers, who share nothing; they may overtake for 4 ms",
        ),
        Entry::percpu::<Patient>("percpu:3s", "the same, but they may overtake for 3 s"),
        Entry::percpu::<Barging>(
            "percpu:barging",
            "the same, but they may overtake for ever (seed 002)",
        ),
        Entry::percpu::<Handoff>(
            "percpu:handoff",
            "the same, but the waker takes it for the waiter (before seed 002)",
        ),
        Entry::pimutex::<Adaptive>(
            "pimutex",
            "the mutex, and its owner runs at its waiters' priority",
        ),
        Entry::pimutex::<Strict>(
            "pimutex:strict",
            "the same, but whoever waits does so in the kernel",
        ),
        Entry::rtmutex::<Spin>(
            "rtmutex",
            "lends its owner its waiters' priority; the top waiter spins",
        ),
        Entry::rtmutex::<Block>(
            "rtmutex:block",
            "the same, but the top waiter sleeps (before seed 000)",
        ),
    ];
    let rivals = rivals::mutexes().into_iter().chain(rivals::rwlocks());
    ours.into_iter().chain(rivals.map(Entry::from)).collect()
}

/// The parser of `--lock`: a name, or an error that lists the valid ones.
pub fn parser() -> PossibleValuesParser {
    PossibleValuesParser::new(all().into_iter().map(|entry| entry.name))
}

/// The locks of these names, in this order, each once.
///
/// # Errors
/// One of them does not run in that world, or cannot on this machine.
pub fn named(names: &[String], world: World) -> Result<Vec<Entry>, Failure> {
    let all = all();
    let mut found: Vec<Entry> = Vec::new();
    for name in crate::values::distinct(names) {
        let entry = all.iter().find(|entry| entry.name == name);
        let entry = entry.expect("the parser lets only known names through");
        if !entry.worlds().contains(&world) {
            let those = all.iter().filter(|entry| entry.worlds().contains(&world));
            let those: Vec<_> = those.map(|entry| entry.name).collect();
            return Err(Failure::Usage(format!(
                "--lock '{name}' does not run with --world {}: use one of {}",
                world.name(),
                those.join(", ")
            )));
        }
        if let Some(why) = entry.unavailable() {
            return Err(Failure::Usage(format!(
                "--lock '{name}' cannot run here: {why}"
            )));
        }
        found.push(entry.clone());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{measure, place::Place};
    use lockyard_core::Platform;
    use lockyard_sim::Machine;
    use lockyard_torture::locktest::Config;

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

    /// Lets nobody in.
    struct Shut;

    impl Lock for Shut {
        fn new() -> Self {
            Self
        }
        fn with<R>(&self, section: impl FnOnce() -> R) -> R {
            while Sim::stamp() < u32::MAX {
                Sim::park(None);
            }
            section()
        }
    }

    /// Gives up.
    struct Faulty;

    impl Lock for Faulty {
        fn new() -> Self {
            Self
        }
        fn with<R>(&self, _: impl FnOnce() -> R) -> R {
            panic!("on purpose,\non two lines")
        }
    }

    /// What is said when `L` fails in a simulation.
    fn failure<L: Lock>() -> String {
        let entry = Entry {
            name: "broken",
            in_simulation: Some(InSimulation::of::<L>()),
            ..all().swap_remove(0)
        };
        let config = Config {
            threads: 2,
            duration: Duration::from_millis(1),
            load: 1000, // longer than a core may keep a line to itself
            gap: 0,
            read_pct: 0,
            lines: 0,
            sample: 32,
            seed: 7,
        };
        let machine = Machine::find("x86-32c").expect("it comes with the simulator");
        match measure::locktest(&Place::Simulated(Box::new(machine)), &entry, &config) {
            Err(Failure::Check(line)) => line,
            _ => panic!("a broken lock passed"),
        }
    }

    #[test]
    fn a_simulation_that_fails_is_one_line_that_says_how_to_repeat_it() {
        let lines = [
            (failure::<Open>(), "two tasks in at once"),
            (
                failure::<Shut>(),
                "stuck: task 1 (fair) is parked, task 2 (fair) is parked",
            ),
            (failure::<Faulty>(), "on purpose,"),
        ];
        for (line, why) in lines {
            let head = "broken failed with 2 threads on x86-32c with seed 7: ";
            let said = line.strip_prefix(head).expect(&line);
            assert!(said.contains(why) && !said.contains('\n'), "{line}");
        }
    }

    #[test]
    fn every_lock_that_is_generic_over_its_world_runs_in_both() {
        let both = all().into_iter().filter(|e| e.worlds().len() == 2);
        let names: Vec<_> = both.map(|entry| entry.name).collect();
        let expected = [
            "mutex",
            "mutex:poll",
            "rwsem",
            "rwsem:trylock",
            "percpu",
            "percpu:3s",
            "percpu:barging",
            "percpu:handoff",
            "tas",
            "ticket",
            "mcs",
            "drepper",
        ];
        assert_eq!(names, expected);
        let simulated = all().into_iter().filter(|e| e.worlds() == [World::Sim]);
        let names: Vec<_> = simulated.map(|entry| entry.name).collect();
        assert_eq!(names, ["rtmutex", "rtmutex:block"]);
    }
}
