//! Every lock that the lab knows, by name.

use clap::builder::PossibleValuesParser;
use lockyard::osq;
use lockyard_rivals as rivals;
use lockyard_torture::{
    Lock, Native,
    locktest::{self, Config, Report},
};
use serde::Serialize;

use crate::{failure::Failure, ours::Mutex};

/// Our lock when none is named.
pub const DEFAULT: &str = "mutex";

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
    /// The bytes that one lock takes, without what it protects.
    pub size: usize,
    /// What it is, in a line.
    pub about: &'static str,
    available: fn() -> Result<(), String>,
    locktest: fn(&Config) -> Report,
}

impl Entry {
    fn ours<L: Lock>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Ours,
            size: size_of::<L>(),
            about,
            available: || Ok(()),
            locktest: locktest::run::<Native, L>,
        }
    }

    /// Why the lock cannot run here, if it cannot.
    pub fn unavailable(&self) -> Option<String> {
        (self.available)().err()
    }

    /// Runs the microbenchmark on it.
    ///
    /// # Panics
    /// When the lock let two threads in at once.
    pub fn locktest(&self, config: &Config) -> Report {
        (self.locktest)(config)
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
            size: entry.size,
            about: entry.about,
            available: entry.available,
            locktest: entry.locktest,
        }
    }
}

/// Every lock: ours first.
pub fn all() -> Vec<Entry> {
    let ours = [
        Entry::ours::<Mutex<osq::Event>>(
            DEFAULT,
            "spins in a queue while the owner runs, sleeps when not",
        ),
        Entry::ours::<Mutex<osq::Poll>>(
            "mutex:poll",
            "the same, but polling in its queue (before seed 001)",
        ),
    ];
    let rivals = rivals::mutexes().into_iter().map(Entry::from);
    ours.into_iter().chain(rivals).collect()
}

/// The parser of `--lock`: a name, or an error that lists the valid ones.
pub fn parser() -> PossibleValuesParser {
    PossibleValuesParser::new(all().into_iter().map(|entry| entry.name))
}

/// The locks of these names, in this order, each once.
///
/// # Errors
/// One of them cannot run here.
pub fn named(names: &[String]) -> Result<Vec<Entry>, Failure> {
    let all = all();
    let mut found: Vec<Entry> = Vec::new();
    for name in crate::values::distinct(names) {
        let entry = all.iter().find(|entry| entry.name == name);
        let entry = entry.expect("the parser lets only known names through");
        if let Some(why) = entry.unavailable() {
            return Err(Failure::Usage(format!(
                "--lock '{name}' cannot run here: {why}"
            )));
        }
        found.push(entry.clone());
    }
    Ok(found)
}
