//! The timeline of a failing execution, for people.

use std::fmt;

use crate::{
    memory::{Memory, THREADS},
    op::{Call, Op, Update},
    word::CheckWord,
};

/// What happened, in the order in which it was explored.
#[derive(Default)]
pub(crate) struct Timeline {
    lines: Vec<(usize, String)>,
    names: Vec<(usize, usize, &'static str)>,
}

impl Timeline {
    /// The address that stands for a thread's token.
    pub(crate) fn token(thread: usize) -> usize {
        thread
    }

    pub(crate) fn push(&mut self, thread: usize, text: String) {
        self.lines.push((thread, text));
    }

    /// Names the words between two addresses.
    pub(crate) fn name(&mut self, start: usize, end: usize, name: &'static str) {
        self.names.push((start, end, name));
    }

    /// What to call the word.
    pub(crate) fn word(&self, memory: &Memory, word: usize) -> String {
        let address = memory.address(word);
        if address < THREADS {
            return format!("task {address}'s token");
        }
        let known = self
            .names
            .iter()
            .find(|(start, end, _)| (*start..*end).contains(&address));
        match known {
            Some((start, _, name)) => {
                format!("{name}[{}]", (address - start) / size_of::<CheckWord>())
            }
            None => format!("word {word}"),
        }
    }

    /// The text of a step that takes message `option`.
    pub(crate) fn step(&self, memory: &Memory, op: Op, option: u16) -> String {
        let read = |word: usize| {
            let value = memory.message(word, option).value;
            match memory.staleness(word, option) {
                0 => format!("{value:#x}"),
                newer => format!("{value:#x} (missing {newer} newer)"),
            }
        };
        let behind = |word: usize| match memory.staleness(word, option) {
            0 => String::new(),
            newer => format!(" (before {newer} newer)"),
        };
        match op {
            Op::Load { word, order } => {
                format!("{} = {}, {order:?}", self.word(memory, word), read(word))
            }
            Op::Await { word, order, .. } => {
                format!(
                    "{} spun to {}, {order:?}",
                    self.word(memory, word),
                    read(word)
                )
            }
            Op::Store { word, value, order } => {
                let name = self.word(memory, word);
                format!("{name} := {value:#x}{}, {order:?}", behind(word))
            }
            Op::Update {
                word,
                update,
                order,
                err,
            } => {
                let name = self.word(memory, word);
                let what = match update {
                    Update::Swap(_) => "swap",
                    Update::Exchange { .. } => "exchange",
                    Update::Add(_) => "add",
                    Update::Or(_) => "or",
                    Update::And(_) => "and",
                };
                match update.apply(memory.message(word, option).value) {
                    Some(new) => format!("{name} {what} {} -> {new:#x}, {order:?}", read(word)),
                    None => format!("{name} {what} failed at {}, {err:?}", read(word)),
                }
            }
            Op::StoreIf {
                word,
                value,
                guard,
                expected,
            } => {
                let (name, guard_name) = (self.word(memory, word), self.word(memory, guard));
                let seen = read(guard);
                format!("{name} := {value:#x}, Release, if {guard_name} = {seen} is {expected:#x}")
            }
            Op::AddIf {
                word,
                delta,
                guard,
                expected,
            } => {
                let (name, guard_name) = (self.word(memory, word), self.word(memory, guard));
                let (seen, delta) = (read(guard), delta.cast_signed());
                format!("{name} add {delta}, Release, if {guard_name} = {seen} is {expected:#x}")
            }
            Op::ReplacePair {
                words: [first, second],
                before,
                after,
            } => {
                let newest = memory.message(second, memory.newest(second)).value;
                let pair = |[a, b]: [u32; 2]| format!("({a:#x}, {b:#x})");
                format!(
                    "({}, {}) = ({}, {newest:#x}) := {} if {}",
                    self.word(memory, first),
                    self.word(memory, second),
                    read(first),
                    pair(after),
                    pair(before)
                )
            }
            Op::Quiesce => "quiesce".to_owned(),
            Op::Fence => "fence SeqCst".to_owned(),
            Op::Park { .. } => "park returned".to_owned(),
            Op::Unpark { thread } => format!("unpark task {thread}"),
            Op::Call { call, .. } => match call {
                Call::Lock { word } => {
                    format!("kernel, lock {} = {}", self.word(memory, word), read(word))
                }
                Call::Unlock { word } => {
                    format!(
                        "kernel, unlock {} = {}",
                        self.word(memory, word),
                        read(word)
                    )
                }
                Call::Wait { .. } => "kernel, waits no longer".to_owned(),
                Call::AwaitLent { level } => format!("kernel, is lent level {level}"),
                Call::Sleep { word, expected, .. } => {
                    let (name, seen) = (self.word(memory, word), read(word));
                    format!("kernel, sleep if {name} = {seen} is {expected:#x}")
                }
                Call::Wake { word, most, .. } => {
                    format!("kernel, wake {most} of {}", self.word(memory, word))
                }
            },
        }
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMN: usize = 4;
        for (thread, text) in &self.lines {
            writeln!(
                f,
                "  {:indent$}{thread}: {text}",
                "",
                indent = thread * COLUMN
            )?;
        }
        Ok(())
    }
}
