//! A copy of the workspace to change, with a target directory of its own, so
//! that a variant compiles no more than what the change reaches.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::Context;
use walkdir::WalkDir;

use crate::tidy;

/// The files that variants change.
pub const CORE: &str = "crates/core/src/";

/// A copy of the workspace, as it was when the copy was made.
pub struct Tree {
    copy: PathBuf,
    target: PathBuf,
    core: BTreeMap<String, String>,
    changed: Vec<String>,
    /// Held as long as this lives: one run at a time has the copy.
    _lock: File,
}

impl Tree {
    /// Copies the workspace; with different numbers, to different places. Waits for
    /// another run to end.
    pub fn new(root: &Path, number: usize) -> anyhow::Result<Self> {
        let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let home = root.join(target).join("variants").join(number.to_string());
        let copy = home.join("tree");
        fs::create_dir_all(&copy)?;
        let lock = File::create(home.join("lock"))?;
        lock.lock()?;
        let mut core = BTreeMap::new();
        let mut files = BTreeMap::new();
        for file in tidy::text_files(root)? {
            if let Some(path) = file.path.strip_prefix(CORE) {
                core.insert(path.to_owned(), file.text.clone());
            }
            files.insert(copy.join(file.path), file.text);
        }
        for entry in WalkDir::new(&copy) {
            let entry = entry?;
            if entry.file_type().is_file() && !files.contains_key(entry.path()) {
                fs::remove_file(entry.path())?;
            }
        }
        for (path, text) in files {
            write(&path, &text)?;
        }
        Ok(Self {
            target: home.join("target"),
            copy,
            core,
            changed: Vec::new(),
            _lock: lock,
        })
    }

    /// The unchanged text of a file of `crates/core/src`.
    pub fn core(&self, file: &str) -> anyhow::Result<&str> {
        let text = self.core.get(file);
        text.map(String::as_str)
            .with_context(|| format!("{CORE}{file} does not exist"))
    }

    /// Gives files of `crates/core/src` other texts; all others are unchanged.
    pub fn change(&mut self, texts: &BTreeMap<String, String>) -> anyhow::Result<()> {
        for file in self.changed.drain(..) {
            if !texts.contains_key(&file) {
                write(&self.copy.join(CORE).join(&file), &self.core[&file])?;
            }
        }
        for (file, text) in texts {
            write(&self.copy.join(CORE).join(file), text)?;
            self.changed.push(file.clone());
        }
        Ok(())
    }

    /// The root of the copy.
    pub fn root(&self) -> &Path {
        &self.copy
    }

    /// Where the copy is compiled to.
    pub fn target(&self) -> &Path {
        &self.target
    }
}

/// Writes a file, unless that changes nothing: what has not been written need
/// not be compiled again.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
