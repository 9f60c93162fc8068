//! A broken twin: a fault to put into the locks, as a file says it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::variants::Code;

/// Where the twins are, a file for each.
pub const TWINS: &str = "crates/torture/busted";

/// A fault, and the model that must find it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Twin {
    /// The name of its file.
    #[serde(skip)]
    pub name: String,
    /// What is broken, and where a real lock was.
    pub what: String,
    /// The model that must fail; none where only a wait that lasts shows the
    /// fault, which the checker lets end with an older value.
    pub model: Option<String>,
    /// The exploration of the simulator that must fail; none where the fault
    /// does not show under sequential consistency, or seldom.
    pub exploration: Option<String>,
    /// The lock whose torture in the simulator fails; none where it does not
    /// find the fault.
    pub torture: Option<String>,
    edits: Vec<Edit>,
}

/// A text of a function to replace, which must stand there once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: String,
    function: String,
    find: String,
    replace: String,
}

impl Twin {
    /// The lock that it breaks, if no other lock is built on what it breaks: the
    /// models of others do not run its code. (What rwsem has of the mutex, how long
    /// a first waiter is patient, no twin breaks.)
    pub fn breaks(&self) -> Option<&'static str> {
        let lock = |edit: &Edit| {
            let file = edit.file.trim_end_matches(".rs");
            match file.split_once('/').map_or(file, |(lock, _)| lock) {
                "mutex" | "condvar" | "pimutex" => Some("mutex"), // the others are built on the first
                "rwsem" => Some("rwsem"),
                "percpu_rwsem" => Some("percpu_rwsem"),
                "rtmutex" => Some("rtmutex"),
                "futex" => Some("futex"),
                _ => None,
            }
        };
        let first = lock(self.edits.first()?);
        first.filter(|_| self.edits.iter().all(|edit| lock(edit) == first))
    }

    /// The changed files, of the unchanged texts of files of `crates/core/src`.
    ///
    /// # Errors
    /// An edit that does not apply.
    pub fn texts(
        &self,
        core: impl Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let mut texts = BTreeMap::new();
        for edit in &self.edits {
            let text = match texts.remove(&edit.file) {
                Some(text) => text,
                None => core(&edit.file)?,
            };
            texts.insert(edit.file.clone(), edit.apply(&text)?);
        }
        Ok(texts)
    }
}

impl Edit {
    fn apply(&self, text: &str) -> anyhow::Result<String> {
        let Edit {
            file,
            function,
            find,
            replace,
        } = self;
        let found = Code::parse(file, text)?.find(function, find);
        ensure!(
            found.len() == 1,
            "this stands {} times in `{function}` of {file}:\n{find}",
            found.len()
        );
        let mut text = text.to_owned();
        text.replace_range(found[0].clone(), replace);
        Ok(text)
    }
}

/// All twins, by name.
pub fn read(root: &Path) -> anyhow::Result<Vec<Twin>> {
    let mut twins = Vec::new();
    for entry in fs::read_dir(root.join(TWINS)).with_context(|| format!("no {TWINS}"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let twin: Twin = toml::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("{} is malformed", path.display()))?;
        twins.push(Twin {
            name: name.into_owned(),
            ..twin
        });
    }
    twins.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(twins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::CORE;

    fn edit(find: &str) -> Edit {
        let (file, function) = ("a.rs".to_owned(), "f".to_owned());
        let (find, replace) = (find.to_owned(), "c();".to_owned());
        Edit {
            file,
            function,
            find,
            replace,
        }
    }

    #[test]
    fn an_edit_applies_once_or_fails() {
        let text = "fn f() { a(); b(); a(); }\nfn g() { d(); b(); }";
        let edited = edit("b();").apply(text).unwrap();
        assert_eq!(edited, "fn f() { a(); c(); a(); }\nfn g() { d(); b(); }");
        for (find, times) in [("a();", 2), ("d();", 0)] {
            let error = edit(find).apply(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{times} times")), "{error}");
        }
    }

    #[test]
    fn a_twin_is_a_file() {
        let text = "what = \"x\"\nmodel = \"a::b\"\n[[edits]]\nfile = \"a.rs\"\nfunction = \"f\"\nfind = '''\na();\nb();'''\nreplace = \"\"\n";
        let twin: Twin = toml::from_str(text).unwrap();
        assert_eq!(twin.edits[0].find, "a();\nb();");
        assert!(toml::from_str::<Twin>(&format!("why = 1\n{text}")).is_err());
    }

    #[test]
    fn a_twin_breaks_one_lock_or_what_locks_are_built_on() {
        let breaks = |files: &[&str]| {
            let edits = files.iter().map(|file| Edit {
                file: (*file).to_owned(),
                ..edit("a();")
            });
            let twin = Twin {
                name: String::new(),
                what: String::new(),
                model: None,
                exploration: None,
                torture: None,
                edits: edits.collect(),
            };
            twin.breaks()
        };
        assert_eq!(breaks(&["rwsem/spin.rs", "rwsem.rs"]), Some("rwsem"));
        assert_eq!(breaks(&["condvar.rs", "mutex/keep.rs"]), Some("mutex"));
        assert_eq!(breaks(&["gate.rs"]), None);
        assert_eq!(breaks(&["rwsem.rs", "gate.rs"]), None);
    }

    #[test]
    fn the_committed_twins_apply() {
        let root = &crate::root().unwrap();
        let twins = read(root).unwrap();
        assert!(twins.len() >= 10);
        let core = |file: &str| Ok(fs::read_to_string(root.join(CORE).join(file))?);
        let stale = twins
            .iter()
            .filter_map(|twin| Some(format!("{}: {:#}", twin.name, twin.texts(core).err()?)));
        assert_eq!(stale.collect::<Vec<_>>(), [""; 0]);
    }
}
