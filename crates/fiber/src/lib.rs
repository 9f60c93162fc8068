//! Tasks that take turns on one thread: stackful coroutines that pause
//! anywhere, and whose panics are values.
//!
//! ```
//! use lockyard_fiber::{Fiber, Stop, pause};
//!
//! let mut fiber = Fiber::new(|| pause());
//! assert_eq!(fiber.resume(), Stop::Paused);
//! assert_eq!(fiber.resume(), Stop::Finished);
//! ```

use std::{
    any::Any,
    cell::{Cell, RefCell},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};

/// Enough for a panic that prints a backtrace.
const STACK_BYTES: usize = 256 * 1024;

thread_local! {
    /// The way back from the fiber that runs.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
    static UNWINDING: Cell<bool> = const { Cell::new(false) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Whether the caller is inside a fiber, or in a destructor of one.
pub fn inside() -> bool {
    !YIELDER.get().is_null() || UNWINDING.get()
}

/// Stops the running fiber until it is resumed.
///
/// # Panics
/// Outside a fiber. It aborts when a destructor pauses while its fiber is being
/// dropped.
pub fn pause() {
    let yielder = YIELDER.get();
    if UNWINDING.get() {
        // A panic here would be one inside a destructor that unwinds.
        eprintln!("a destructor waited while its task was being abandoned");
        std::process::abort();
    }
    assert!(!yielder.is_null(), "only a fiber pauses");
    // SAFETY: `yielder` is dereferenced while it is valid: corosensei passes it
    // to a coroutine's body as a reference for as long as the body runs. It is
    // that of the running coroutine: `body` and this function, the two places
    // that a coroutine comes back to, set YIELDER to its own, and `resume`
    // clears it when the coroutine stops.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}

/// Why a fiber stopped.
#[derive(PartialEq, Eq, Debug)]
pub enum Stop {
    /// It called [`pause`].
    Paused,
    /// Its body returned.
    Finished,
    /// Its body panicked, with this message.
    Panicked(String),
}

/// A task. One that is dropped before it has finished unwinds.
pub struct Fiber<'body> {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    body: PhantomData<&'body ()>,
}

impl<'body> Fiber<'body> {
    /// A task that will run `body`.
    ///
    /// # Panics
    /// When there is no memory for its stack.
    pub fn new(body: impl FnOnce() + 'body) -> Self {
        let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("memory for the stack of a task")
        });
        let run = move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            body();
        };
        // SAFETY: what `body` borrows is valid until the coroutine is completed
        // or dropped: it lives for 'body, which outlives this fiber; and if the
        // fiber is forgotten, its stack is never reused and never runs again.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        Self {
            coroutine: Some(coroutine),
            body: PhantomData,
        }
    }

    /// Lets the task run until it pauses or ends.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resume(&mut self) -> Stop {
        let coroutine = self.coroutine.as_mut().expect("only a drop takes it");
        assert!(!coroutine.done(), "a task that has ended does not go on");
        let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
        YIELDER.set(ptr::null());
        match result {
            Ok(CoroutineResult::Yield(())) => Stop::Paused,
            Ok(CoroutineResult::Return(())) => Stop::Finished,
            Err(payload) => Stop::Panicked(message_of(payload.as_ref())),
        }
    }
}

impl Drop for Fiber<'_> {
    fn drop(&mut self) {
        if let Some(mut coroutine) = self.coroutine.take() {
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_panic_is_a_value() {
        let mut fiber = Fiber::new(|| panic!("on purpose"));
        assert_eq!(fiber.resume(), Stop::Panicked("on purpose".to_owned()));
    }

    #[test]
    fn what_has_ended_does_not_go_on() {
        for body in [|| (), || panic!("on purpose")] {
            let mut fiber = Fiber::new(body);
            assert_ne!(fiber.resume(), Stop::Paused);
            catch_unwind(AssertUnwindSafe(|| fiber.resume())).expect_err("it has ended");
        }
    }

    #[test]
    fn a_fiber_that_is_dropped_unwinds() {
        let token = Rc::new(());
        let held = Rc::clone(&token);
        let mut fiber = Fiber::new(move || {
            let _held = held;
            pause();
        });
        assert_eq!(fiber.resume(), Stop::Paused);
        drop(fiber);
        assert_eq!(Rc::strong_count(&token), 1);
        assert!(!inside());
    }

    #[test]
    fn a_body_may_borrow() {
        let count = Cell::new(0);
        let mut fibers: Vec<Fiber> = (0..3)
            .map(|_| {
                Fiber::new(|| {
                    count.set(count.get() + 1);
                    pause();
                    count.set(count.get() + 10);
                })
            })
            .collect();
        for _ in 0..2 {
            fibers.iter_mut().for_each(|fiber| drop(fiber.resume()));
        }
        assert_eq!(count.get(), 33);
    }
}
