//! The threads of a model: fibers that ask the explorer for everything.

use std::cell::Cell;

use lockyard_fiber as fiber;

use crate::op::{Answer, Request};

thread_local! {
    /// What passes between the explorer and the thread that runs.
    static REQUEST: Cell<Option<Request>> = const { Cell::new(None) };
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// Asks the explorer, which answers when it likes.
///
/// # Panics
/// Outside a thread of a model.
pub(crate) fn ask(request: Request) -> Answer {
    assert!(
        fiber::inside(),
        "the words, cells and functions of a model belong inside Explorer::check"
    );
    REQUEST.set(Some(request));
    fiber::pause();
    ANSWER.take().expect("the explorer answers")
}

/// What a thread did when it was let run.
pub(crate) enum Stop {
    Asked(Request),
    Finished,
    /// It panicked, with this message.
    Panicked(String),
}

/// A thread of a model.
pub(crate) struct Fiber(fiber::Fiber<'static>);

impl Fiber {
    /// A thread that will run `body`.
    pub(crate) fn new(body: impl FnOnce() + 'static) -> Self {
        Self(fiber::Fiber::new(body))
    }

    /// Lets the thread run until it asks or ends. The answer to a thread that
    /// has not asked yet is ignored.
    pub(crate) fn resume(&mut self, answer: Answer) -> Stop {
        ANSWER.set(Some(answer));
        match self.0.resume() {
            fiber::Stop::Paused => Stop::Asked(REQUEST.take().expect("a thread stops to ask")),
            fiber::Stop::Finished => Stop::Finished,
            fiber::Stop::Panicked(what) => Stop::Panicked(what),
        }
    }
}
