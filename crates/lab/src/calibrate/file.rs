//! Parameters, and the machine file that they make up.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

use comfy_table::{Cell, CellAlignment};
use lockyard_sim::Machine;
use serde::Serialize;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

use super::samples::{Samples, short};
use crate::{
    failure::{self, Failure},
    format, screen,
};

/// A parameter of the machine, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Its table and its name in the file, with a dot between.
    key: &'static str,
    value: Value,
    /// `None` for a number of things and for a share.
    unit: Option<&'static str>,
    source: String,
    /// Where most of the samples lie; `None` where there are none.
    p10: Option<f64>,
    p90: Option<f64>,
}

/// What a parameter is.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    Count(u32),
    Number(f64),
    Numbers(Vec<f64>),
}

impl Parameter {
    /// A time in nanoseconds: the median of `samples`, which were taken as
    /// `how` says.
    pub fn time(key: &'static str, samples: &Samples, how: &str) -> Self {
        let [low, median, high] = [0.1, 0.5, 0.9].map(|share| short(samples.quantile(share)));
        Self {
            // A difference may come out as nothing; the simulator counts in
            // picoseconds, and does not take 0 for what must pass.
            value: Value::Number(median.max(0.001)),
            unit: Some("ns"),
            source: format!("measured: {how}, {}", samples.spread()),
            p10: Some(low),
            p90: Some(high),
            ..Self::given(key, Value::Count(0), "")
        }
    }

    /// A time in nanoseconds that was not sampled.
    pub fn given_time(key: &'static str, ns: f64, source: &str) -> Self {
        Self {
            unit: Some("ns"),
            ..Self::given(key, Value::Number(ns), source)
        }
    }

    /// A number that was not sampled.
    pub fn given(key: &'static str, value: Value, source: &str) -> Self {
        Self {
            key,
            value,
            unit: None,
            source: source.into(),
            p10: None,
            p90: None,
        }
    }

    fn inline(&self) -> InlineTable {
        let number = match &self.value {
            Value::Count(n) => i64::from(*n).into(),
            Value::Number(x) => (*x).into(),
            Value::Numbers(all) => toml_edit::Value::Array(all.iter().copied().collect::<Array>()),
        };
        let mut table = InlineTable::new();
        table.insert("value", number);
        table.insert("source", self.source.as_str().into());
        table
    }

    fn shown(&self) -> String {
        let one = |x: &f64| format::number(*x);
        match &self.value {
            Value::Count(n) => n.to_string(),
            Value::Number(x) => one(x),
            Value::Numbers(all) => all.iter().map(one).collect::<Vec<_>>().join(" "),
        }
    }
}

/// The machine file of these parameters.
pub fn toml(name: &str, about: &str, parameters: &[Parameter]) -> String {
    let mut document = DocumentMut::new();
    document["name"] = value(name);
    document["about"] = value(about);
    for parameter in parameters {
        let (table, key) = parameter.key.split_once('.').expect("keys have a table");
        let table = document
            .entry(table)
            .or_insert(Item::Table(Table::new()))
            .as_table_mut()
            .expect("it was put there as a table");
        table.insert(key, value(parameter.inline()));
    }
    document.to_string()
}

/// The parameters, readable in 100 columns.
pub fn table(parameters: &[Parameter]) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = screen::wrapping_table();
    table.set_header([
        Cell::new("parameter"),
        right("value".into()),
        Cell::new("unit"),
        Cell::new("source"),
    ]);
    for parameter in parameters {
        table.add_row([
            Cell::new(parameter.key),
            right(parameter.shown()),
            Cell::new(parameter.unit.unwrap_or_default()),
            Cell::new(&parameter.source),
        ]);
    }
    screen::rendered(table)
}

/// The file of `--out`.
pub struct Out {
    pub path: PathBuf,
    /// What is written first.
    beside: PathBuf,
}

impl Out {
    /// Makes sure that the file can be written. One that is there may only be a
    /// machine file, or empty.
    ///
    /// # Errors
    /// It is something else, or it cannot be written.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let refuse = |why: &str| {
            let name = path.display();
            Failure::Usage(format!(
                "--out '{name}' {why}: name a new file, or a machine file to replace"
            ))
        };
        // Where a link leads to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or(path.into());
        if path.exists() && !is_replaceable(&path) {
            return Err(refuse("is not a machine file"));
        }
        let mut beside = path.clone().into_os_string();
        beside.push(format!(".{}", process::id()));
        let out = Self {
            path,
            beside: beside.into(),
        };
        let tried = out.try_to_write();
        tried.map_err(|why| refuse(&format!("cannot be written ({why})")))?;
        Ok(out)
    }

    fn try_to_write(&self) -> io::Result<()> {
        if self.path.exists() {
            OpenOptions::new().write(true).open(&self.path)?;
        }
        File::create_new(&self.beside)?;
        fs::remove_file(&self.beside)
    }

    /// Whether there is nothing in it yet.
    pub fn is_empty(&self) -> bool {
        !self.path.exists() || is_empty(&self.path)
    }

    /// Writes the machine file, in place of what was there, which stays if that
    /// fails.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let replaced = || {
            let mut file = File::create_new(&self.beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&self.beside, &self.path)
        };
        replaced().map_err(|why| {
            let _ = fs::remove_file(&self.beside); // it may not be there
            failure::named(&self.path, &why)
        })
    }
}

/// Whether a file, at an absolute path, is empty or a machine's.
fn is_replaceable(path: &Path) -> bool {
    path.is_file() && (is_empty(path) || Machine::find(path).is_ok())
}

fn is_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_all_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("host.toml");
        let out = Out::new(&path).ok().expect("it is new");
        assert!(!path.exists(), "it is not measured yet");
        out.write("of before").expect("there is room");

        // Stands where it would be written first.
        fs::create_dir(&out.beside).expect("nothing is there");
        let why = out.write("of now").expect_err("it cannot be").to_string();
        assert!(why.contains("host.toml'"), "{why}");
        assert_eq!(fs::read(&path).expect("it is there"), b"of before");
        fs::remove_dir(&out.beside).expect("it is there");

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("nothing is there");
        fs::write(&path, "").expect("there is room");
        let out = Out::new(&link).ok().expect("it is empty");
        out.write("of now").expect("there is room");
        assert_eq!(fs::read(&path).expect("it is there"), b"of now");
        let names = directory.path().read_dir().expect("it is there").count();
        assert_eq!(names, 2, "the file and the link");
    }
}
