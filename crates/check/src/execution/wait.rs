//! A wait: the explorer asks the waiting thread what would end it.

use std::ops::ControlFlow::Continue;

use super::{Execution, Flow, Mode};
use crate::{
    fiber::Stop,
    op::{Answer, Op, Request},
};

/// How a waiting thread looks at the world.
#[derive(Default)]
pub(super) struct Wait {
    /// What the thread said of each value.
    pub(super) judged: Vec<(u32, bool)>,
    /// The words that its stop condition reads.
    pub(super) watched: Vec<usize>,
    /// Whether it holds, when nothing rare happens and all loads read what is
    /// newest.
    pub(super) stops: bool,
    /// How many rare things could happen in it.
    pub(super) questions: u32,
    /// Whether a load in it could read something older.
    pub(super) stale: bool,
    /// Whether the thread looks only so often.
    pub(super) limited: bool,
}

impl Wait {
    fn accepts(&self, value: u32) -> bool {
        self.judged.contains(&(value, true))
    }

    /// Whether only the number of looks can end the wait without its value.
    pub(super) fn is_patient(&self) -> bool {
        self.limited && !self.stops && self.questions == 0 && self.watched.is_empty()
    }

    /// Whether the wait may well end without its value.
    pub(super) fn may_stop(&self, whims: u32) -> bool {
        self.stops || self.questions > 0 || self.is_patient() && whims > 0
    }
}

impl Execution<'_> {
    /// The messages that end the thread's wait.
    pub(super) fn accepted(&self, thread: usize, word: usize) -> impl Iterator<Item = u16> {
        let wait = &self.threads[thread].wait;
        self.memory
            .readable(thread, word)
            .filter(move |&message| wait.accepts(self.memory.message(word, message).value))
    }

    /// Whether the thread, if it stops without its value, gives up: no whim does it.
    pub(super) fn is_lasting(&self, thread: usize) -> bool {
        let state = &self.threads[thread];
        state.wait.is_patient() && state.whims == 0
    }

    /// Whether the thread may give up: nobody else can go on.
    pub(super) fn may_give_up(&self, thread: usize) -> bool {
        let mut others = self
            .threads
            .iter()
            .enumerate()
            .filter(|&(t, _)| t != thread);
        self.is_lasting(thread)
            && others.all(|(t, state)| !state.pending.is_some_and(|op| self.is_enabled(t, op)))
    }

    /// Tells the waiting threads that the word was written.
    pub(super) fn spread(&mut self, written: usize) -> Flow {
        for thread in 1..self.threads.len() {
            if let Some(Op::Await { word, .. }) = self.threads[thread].pending {
                if word == written {
                    self.judge(thread, word)?;
                }
                if self.threads[thread].wait.watched.contains(&written) {
                    self.peek(thread)?;
                }
            }
        }
        Continue(())
    }

    /// Asks the waiting thread which of the values it would accept.
    pub(super) fn judge(&mut self, thread: usize, word: usize) -> Flow {
        loop {
            let wait = &self.threads[thread].wait;
            let unknown = self
                .memory
                .readable(thread, word)
                .map(|message| self.memory.message(word, message).value)
                .find(|&value| !wait.judged.iter().any(|&(known, _)| known == value));
            let Some(value) = unknown else {
                return Continue(());
            };
            let verdict = self.consult(thread, Answer::Judge(value))?;
            self.threads[thread].wait.judged.push((value, verdict));
        }
    }

    /// Asks the waiting thread whether its stop condition holds.
    pub(super) fn peek(&mut self, thread: usize) -> Flow {
        let wait = &mut self.threads[thread].wait;
        wait.watched.clear();
        wait.questions = 0;
        wait.stale = false;
        self.threads[thread].wait.stops = self.consult(thread, Answer::Peek)?;
        Continue(())
    }

    fn consult(&mut self, thread: usize, question: Answer) -> Flow<bool> {
        self.threads[thread].mode = Mode::Peek;
        let mut answer = question;
        loop {
            answer = match self.threads[thread].fiber.resume(answer) {
                Stop::Asked(Request::Verdict(verdict)) => {
                    self.threads[thread].mode = Mode::Normal;
                    return Continue(verdict);
                }
                Stop::Asked(Request::Op(Op::Load { word, .. })) => {
                    let mut readable = self.memory.readable(thread, word);
                    let newest = readable.next().expect("a word has a value");
                    let wait = &mut self.threads[thread].wait;
                    wait.stale |= readable.next().is_some();
                    wait.watched.push(word);
                    Answer::Value(self.memory.message(word, newest).value)
                }
                Stop::Asked(Request::Op(_)) => {
                    return self.fail("a condition to wait for must only read");
                }
                Stop::Asked(request) => self.reply(thread, request)?,
                Stop::Finished => unreachable!("a condition returns to its wait"),
                Stop::Panicked(what) => return self.fail(what),
            };
        }
    }
}
