//! The threads of a model: coroutines that ask the explorer for everything.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};

use crate::op::{Answer, Request};

/// Enough for a panic that prints a backtrace.
const STACK_BYTES: usize = 256 * 1024;

thread_local! {
    /// The way back from the thread of the model that runs.
    static YIELDER: Cell<*const Yielder<Answer, Request>> = const { Cell::new(ptr::null()) };
    static UNWINDING: Cell<bool> = const { Cell::new(false) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Asks the explorer, which answers when it likes.
///
/// # Panics
/// Outside a thread of a model.
pub(crate) fn ask(request: Request) -> Answer {
    let yielder = YIELDER.get();
    if yielder.is_null() {
        if UNWINDING.get() {
            // A panic here would be one inside a destructor that unwinds.
            eprintln!("a destructor used the model while its execution was being abandoned");
            std::process::abort();
        }
        panic!("the words, cells and functions of a model belong inside Explorer::check");
    }
    // SAFETY: `yielder` is dereferenced while it is valid: corosensei passes it
    // to a coroutine's body as a reference for as long as the body runs. It is
    // that of the running coroutine: `body` and this function, the two places
    // that a coroutine comes back to, set YIELDER to its own, and `resume`
    // clears it when the coroutine stops.
    let answer = unsafe { (*yielder).suspend(request) };
    YIELDER.set(yielder);
    answer
}

/// What a thread did when it was let run.
pub(crate) enum Stop {
    Asked(Request),
    Finished,
    /// It panicked, with this message.
    Panicked(String),
}

/// A thread of a model.
pub(crate) struct Fiber(Option<Coroutine<Answer, Request, (), DefaultStack>>);

impl Fiber {
    /// A thread that will run `body`.
    pub(crate) fn new(body: impl FnOnce() + 'static) -> Self {
        let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("memory for the stack of a thread")
        });
        Self(Some(Coroutine::with_stack(stack, |yielder, _| {
            YIELDER.set(yielder);
            body();
        })))
    }

    /// Lets the thread run until it asks or ends. The answer to a thread that
    /// has not asked yet is ignored.
    pub(crate) fn resume(&mut self, answer: Answer) -> Stop {
        let coroutine = self.0.as_mut().expect("a finished thread does not run");
        let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(answer)));
        YIELDER.set(ptr::null());
        match result {
            Ok(CoroutineResult::Yield(request)) => Stop::Asked(request),
            Ok(CoroutineResult::Return(())) => Stop::Finished,
            Err(payload) => Stop::Panicked(message_of(payload.as_ref())),
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if let Some(mut coroutine) = self.0.take() {
            UNWINDING.set(true);
            coroutine.force_unwind();
            UNWINDING.set(false);
            STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
        }
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
