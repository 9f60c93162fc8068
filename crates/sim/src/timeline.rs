//! What happened in a simulation, for people.

use std::fmt;

use crate::{
    agenda::TaskIndex,
    cache::LINE,
    engine::{Engine, State},
    machine::Picos,
};

/// Lines, each of a moment and a task.
#[derive(Default)]
pub struct Timeline {
    lines: Vec<(Picos, TaskIndex, String)>,
}

impl Timeline {
    pub(crate) fn push(&mut self, at: Picos, task: TaskIndex, text: String) {
        self.lines.push((at, task, text));
    }
}

impl fmt::Display for Timeline {
    /// The last lines, if there are many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 1_000;
        const COLUMN: usize = 4;
        let first = self.lines.len().saturating_sub(MOST);
        if first > 0 {
            writeln!(f, "  ({first} lines before)")?;
        }
        for (at, task, text) in &self.lines[first..] {
            let (at, indent) = (Micros(*at), task * COLUMN);
            writeln!(f, "{at:>14} us {:indent$}{}: {text}", "", task + 1)?;
        }
        Ok(())
    }
}

/// A moment, in microseconds.
pub(crate) struct Micros(pub(crate) Picos);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.3}", self.0 as f64 / 1e6))
    }
}

/// A word's value.
pub(crate) struct Value(pub(crate) u32);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            digit @ 0..10 => write!(f, "{digit}"),
            other => write!(f, "{other:#x}"),
        }
    }
}

/// What to call memory.
#[derive(Default)]
pub(crate) struct Names {
    objects: Vec<Object>,
}

struct Object {
    start: usize,
    size: usize,
    name: Name,
}

enum Name {
    Given(&'static str, &'static [&'static str]),
    Record(TaskIndex),
}

impl Names {
    /// Names an object and its words.
    pub(crate) fn object(
        &mut self,
        start: usize,
        size: usize,
        name: &'static str,
        words: &'static [&'static str],
    ) {
        let name = Name::Given(name, words);
        self.objects.push(Object { start, size, name });
    }

    /// Names what the locks keep for a task.
    pub(crate) fn record(&mut self, start: usize, size: usize, task: TaskIndex) {
        let name = Name::Record(task);
        self.objects.push(Object { start, size, name });
    }

    /// The name of an object that lies in the line, if one was given.
    pub(crate) fn in_line(&self, line: usize) -> Option<&'static str> {
        let lies_there =
            |object: &&Object| object.start < line + LINE && line < object.start + object.size;
        match self.objects.iter().find(lies_there)?.name {
            Name::Given(name, _) => Some(name),
            Name::Record(_) => None,
        }
    }

    fn at(&self, address: usize) -> Option<&Object> {
        let holds =
            |object: &&Object| (object.start..object.start + object.size).contains(&address);
        self.objects.iter().find(holds)
    }
}

impl Object {
    fn word(&self, address: usize) -> String {
        let word = (address - self.start) / size_of::<u32>();
        match self.name {
            Name::Given(name, words) => match words.get(word) {
                Some(known) => format!("{name}.{known}"),
                None if self.size == size_of::<u32>() => name.to_owned(),
                None => format!("{name}[{word}]"),
            },
            Name::Record(task) => format!("record {}[{word}]", task + 1),
        }
    }
}

impl Engine {
    /// What to call the word at an address: the same in each run of a scenario,
    /// unlike the address.
    pub(crate) fn word(&mut self, address: usize) -> String {
        match self.names.at(address) {
            Some(object) => object.word(address),
            None => {
                let line = self.cache.line(address);
                format!("line {line}[{}]", address % LINE / size_of::<u32>())
            }
        }
    }

    /// `text` with names for the addresses in it, which differ from run to run.
    pub(crate) fn without_addresses(&mut self, text: &str) -> String {
        let mut parts = text.split("0x");
        let mut clean = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_hexdigit());
            let (digits, rest) = part.split_at(end.unwrap_or(part.len()));
            match usize::from_str_radix(digits, 16) {
                // A word's value is shorter.
                Ok(address) if address > u32::MAX as usize => clean += &self.object(address),
                _ => clean += &format!("0x{digits}"),
            }
            clean += rest;
        }
        clean
    }

    fn object(&self, address: usize) -> String {
        match self.names.at(address).map(|object| &object.name) {
            Some(Name::Given(name, _)) => format!("&{name}"),
            Some(Name::Record(task)) => format!("&record {}", task + 1),
            None => "an address".to_owned(),
        }
    }

    /// Says where the tasks are at first.
    pub(crate) fn note_start(&mut self) {
        for task in 0..self.tasks.len() {
            let (policy, cpu) = (self.tasks[task].policy, self.tasks[task].cpu);
            let is = match self.tasks[task].state {
                State::Running => "runs",
                _ => "is ready",
            };
            self.note(task, |_| format!("({policy}) {is} on CPU {cpu}"));
        }
    }
}
