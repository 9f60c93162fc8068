//! The files of `--out`.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::failure::{self, Failure};

/// Where the runs, the summary and the machine are written.
pub struct Out {
    directory: PathBuf,
    raw: File,
    summary: File,
    machine: PathBuf,
}

impl Out {
    /// Makes the directory, if it is not there, and the files in it; `machine`
    /// is what the machine's is called.
    ///
    /// # Errors
    /// They cannot be written, or they are there already.
    pub fn create(directory: &Path, machine: &str) -> Result<Self, Failure> {
        let refuse = |why: String| {
            let name = directory.display();
            Failure::Usage(format!(
                "--out '{name}' {why}: name a new directory, or a writable one"
            ))
        };
        if directory.exists() && !directory.is_dir() {
            return Err(refuse("is not a directory".into()));
        }
        let (raw, summary) = ("raw.jsonl", "summary.jsonl");
        // Looked for first, so that none is made where another stands.
        let names = [raw, summary, machine];
        if let Some(name) = names.iter().find(|name| directory.join(name).exists()) {
            return Err(refuse(format!("holds a {name} already")));
        }
        let file = |name: &str| File::create_new(directory.join(name));
        let open = || {
            fs::create_dir_all(directory)?;
            io::Result::Ok(Self {
                directory: directory.into(),
                raw: file(raw)?,
                summary: file(summary)?,
                machine: directory.join(machine),
            })
        };
        open().map_err(|why| refuse(format!("cannot be written ({why})")))
    }

    /// Writes the machine's description.
    pub fn machine(&mut self, text: &str) -> io::Result<()> {
        let written = File::create_new(&self.machine)
            .and_then(|mut machine| machine.write_all(text.as_bytes()));
        written.map_err(|why| failure::named(&self.directory, &why))
    }

    /// Writes a run, at once: an interrupt loses none.
    pub fn raw(&mut self, raw: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(raw)? + "\n";
        let written = self.raw.write_all(line.as_bytes());
        written.map_err(|why| failure::named(&self.directory, &why))
    }

    /// Writes the summary.
    pub fn summary(&mut self, objects: &str) -> io::Result<()> {
        let written = self.summary.write_all(objects.as_bytes());
        written.map_err(|why| failure::named(&self.directory, &why))
    }
}
