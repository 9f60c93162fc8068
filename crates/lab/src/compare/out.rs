//! The files of `--out`.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use super::{Raw, ground::Ground};
use crate::failure::Failure;

const NAMES: [&str; 3] = ["raw.jsonl", "summary.jsonl", "machine.json"];

/// The files, open.
pub struct Out {
    raw: File,
    summary: File,
    machine: File,
}

impl Out {
    /// Makes the directory, if it is not there, and the files in it.
    ///
    /// # Errors
    /// They cannot be written, or they hold an earlier comparison.
    pub fn create(directory: &Path) -> Result<Self, Failure> {
        let refuse = |why: String| {
            let name = directory.display();
            Failure::Usage(format!(
                "--out '{name}' {why}: name a new directory, or a writable one"
            ))
        };
        // Looked for first, so that none is made where another stands.
        if let Some(name) = NAMES.iter().find(|name| directory.join(name).exists()) {
            return Err(refuse(format!("holds a {name} already")));
        }
        let file = |name: &str| File::create_new(directory.join(name));
        let open = || {
            fs::create_dir_all(directory)?;
            let [raw, summary, machine] = NAMES.map(file);
            io::Result::Ok(Self {
                raw: raw?,
                summary: summary?,
                machine: machine?,
            })
        };
        open().map_err(|why| refuse(format!("cannot be written ({why})")))
    }

    /// Writes the machine's description.
    pub fn machine(&mut self, machine: &Ground) -> io::Result<()> {
        serde_json::to_writer_pretty(&self.machine, machine)?;
        self.machine.write_all(b"\n")
    }

    /// Writes a run, at once: an interrupt loses none.
    pub fn raw(&mut self, raw: &Raw) -> io::Result<()> {
        let line = serde_json::to_string(raw)? + "\n";
        self.raw.write_all(line.as_bytes())
    }

    /// Writes the summary.
    pub fn summary(&mut self, objects: &str) -> io::Result<()> {
        self.summary.write_all(objects.as_bytes())
    }
}
