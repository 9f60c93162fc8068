//! What happened in a simulation, for people.

use std::fmt;

use crate::{agenda::TaskIndex, machine::Picos};

/// Lines, each of a moment and a task.
#[derive(Default)]
pub struct Timeline {
    lines: Vec<(Picos, TaskIndex, String)>,
    names: Vec<(usize, usize, String)>,
}

impl Timeline {
    pub(crate) fn push(&mut self, at: Picos, task: TaskIndex, text: String) {
        self.lines.push((at, task, text));
    }

    /// Names the words of an object.
    pub(crate) fn name(&mut self, start: usize, size: usize, name: String) {
        self.names.push((start, start + size, name));
    }

    /// What to call the word at an address.
    pub(crate) fn word(&self, address: usize) -> String {
        let known = self
            .names
            .iter()
            .find(|(start, end, _)| (*start..*end).contains(&address));
        match known {
            Some((start, _, name)) => format!("{name}[{}]", (address - start) / size_of::<u32>()),
            None => "a word".to_owned(),
        }
    }
}

impl fmt::Display for Timeline {
    /// The last lines, if there are many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 200;
        const COLUMN: usize = 4;
        let first = self.lines.len().saturating_sub(MOST);
        if first > 0 {
            writeln!(f, "  ({first} lines before)")?;
        }
        for (at, task, text) in &self.lines[first..] {
            let micros = *at as f64 / 1e6;
            let indent = task * COLUMN;
            writeln!(f, "{micros:14.3} us {:indent$}{}: {text}", "", task + 1)?;
        }
        Ok(())
    }
}
