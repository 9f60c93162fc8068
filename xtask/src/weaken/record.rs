//! Which model caught each weakening.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::sites::Site;
use crate::variants::Catch;

/// Where it is written down.
pub const FILE: &str = "crates/check/caught.toml";

const HEAD: &str = "\
# Of each weakening of crates/core the model that catches it, and in which of its executions.
# `cargo xtask weaken LOCK` asks that model first, and writes what it found here.

";

/// A model, and in which execution it failed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Caught(pub String, pub u64);

impl From<&Catch> for Caught {
    fn from(catch: &Catch) -> Self {
        Self(catch.model.clone(), catch.execution)
    }
}

/// By file, then by the rest of the site.
#[derive(Serialize, Deserialize, Default, PartialEq, Eq, Debug)]
pub struct Record(BTreeMap<String, BTreeMap<String, Caught>>);

impl Record {
    /// The committed one.
    ///
    /// # Errors
    /// There is none, or none that can be understood.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("no {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("{FILE} is malformed"))
    }

    /// Writes it in place of the committed one.
    ///
    /// # Errors
    /// Of the file.
    pub fn write(&self, root: &Path) -> anyhow::Result<()> {
        let text = HEAD.to_owned() + &toml::to_string(self)?;
        fs::write(root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }

    /// What caught this one.
    pub fn of(&self, site: &Site) -> Option<&Caught> {
        self.0.get(&site.file)?.get(&key(site))
    }

    /// Notes what caught this one, or that nothing did.
    pub fn note(&mut self, site: &Site, caught: Option<Caught>) {
        let file = self.0.entry(site.file.clone()).or_default();
        match caught {
            Some(caught) => file.insert(key(site), caught),
            None => file.remove(&key(site)),
        };
    }

    /// Forgets those of a file that are not among these.
    pub fn keep(&mut self, file: &str, sites: &[Site]) {
        if let Some(known) = self.0.get_mut(file) {
            let keys: Vec<String> = sites
                .iter()
                .filter(|site| site.file == file)
                .map(key)
                .collect();
            known.retain(|known, _| keys.contains(known));
        }
        self.0.retain(|_, known| !known.is_empty());
    }

    /// How many are caught by this model.
    pub fn catches(&self, model: &str) -> usize {
        let all = self.0.values().flat_map(BTreeMap::values);
        all.filter(|caught| caught.0 == model).count()
    }

    /// All, each as its file and the rest of the site.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.0.iter();
        files.flat_map(|(file, known)| known.keys().map(|key| (file.as_str(), key.as_str())))
    }
}

/// A site within its file.
pub fn key(site: &Site) -> String {
    format!("{} ({}) {}", site.function, site.label, site.change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(function: &str) -> Site {
        Site {
            file: "a.rs".to_owned(),
            function: function.to_owned(),
            label: "M2 Q1".to_owned(),
            change: "AcqRel -> Acquire".to_owned(),
        }
    }

    #[test]
    fn what_is_noted_is_written_and_read() {
        let (one, other) = (site("f"), site("g"));
        let caught = Caught("osq::a".to_owned(), 3);
        let mut record = Record::default();
        record.note(&one, Some(caught.clone()));
        record.note(&other, Some(Caught("osq::b".to_owned(), 1)));
        let again: Record = toml::from_str(&toml::to_string(&record).unwrap()).unwrap();
        assert_eq!(again, record);
        assert_eq!(record.of(&one), Some(&caught));
        assert_eq!(record.catches("osq::a"), 1);
        record.note(&other, None);
        assert_eq!(record.of(&other), None);
        record.keep("a.rs", &[other]);
        assert_eq!(record.of(&one), None);
        assert_eq!(record, Record::default());
    }
}
