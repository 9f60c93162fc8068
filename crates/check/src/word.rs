//! What a model is made of: words, fences, waiting, threads.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use lockyard_core::{FOREVER, Word};

use crate::{
    fiber::ask,
    memory::Ordering,
    op::{Answer, Op, Question, Request, Update},
};

/// The low bits of a handle are an index, the others say of which execution.
const INDEX_BITS: u32 = 16;

/// Numbers executions, over all explorers of the process.
static LAST_EXECUTION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static EXECUTION: Cell<u64> = const { Cell::new(0) };
    /// Where what has a name in this execution lies, in the order of naming.
    static NAMED: RefCell<Vec<(usize, &'static str)>> = const { RefCell::new(Vec::new()) };
}

/// Starts an execution: everything that registered before is forgotten.
pub(crate) fn begin_execution() {
    EXECUTION.set(LAST_EXECUTION.fetch_add(1, Relaxed) + 1);
    NAMED.with_borrow_mut(Vec::clear);
}

/// Something that registers with the execution when it is first used in it, so
/// that it is const-constructible and starts every execution afresh.
pub(crate) struct Handle(AtomicU64);

impl Handle {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Its index in this execution.
    pub(crate) fn index(&self, register: impl FnOnce() -> Request) -> usize {
        let execution = EXECUTION.get();
        let known = self.0.load(Relaxed);
        if known >> INDEX_BITS == execution && execution != 0 {
            return (known & ((1 << INDEX_BITS) - 1)) as usize;
        }
        let Answer::Value(index) = ask(register()) else {
            unreachable!("a registration is answered with an index");
        };
        assert!(index >> INDEX_BITS == 0, "too many words or cells");
        self.0
            .store(execution << INDEX_BITS | u64::from(index), Relaxed);
        index as usize
    }
}

/// A word of the checker's memory. It holds 0 at the start of each execution,
/// whatever it held in the one before. It must not be shared by explorers that
/// run at the same time.
pub struct CheckWord(Handle);

impl CheckWord {
    pub(crate) fn index(&self) -> usize {
        self.0
            .index(|| Request::Word(std::ptr::from_ref(self).addr()))
    }

    fn update(&self, update: Update, order: Ordering, err: Ordering) -> Result<u32, u32> {
        let word = self.index();
        match ask(Request::Op(Op::Update {
            word,
            update,
            order,
            err,
        })) {
            Answer::Value(old) => Ok(old),
            Answer::Failed(old) => Err(old),
            _ => unreachable!("an update is answered with the old value"),
        }
    }

    fn update_always(&self, update: Update, order: Ordering) -> u32 {
        match self.update(update, order, Ordering::Relaxed) {
            Ok(old) | Err(old) => old,
        }
    }
}

impl Word for CheckWord {
    const ZERO: Self = Self(Handle::new());

    fn load(&self, order: Ordering) -> u32 {
        let word = self.index();
        match ask(Request::Op(Op::Load { word, order })) {
            Answer::Value(value) => value,
            _ => unreachable!("a load is answered with a value"),
        }
    }

    fn store(&self, value: u32, order: Ordering) {
        let word = self.index();
        ask(Request::Op(Op::Store { word, value, order }));
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.update_always(Update::Swap(value), order)
    }

    fn compare_exchange(
        &self,
        old: u32,
        new: u32,
        ok: Ordering,
        err: Ordering,
    ) -> Result<u32, u32> {
        self.update(Update::Exchange { old, new }, ok, err)
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.update_always(Update::Add(value), order)
    }

    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.update_always(Update::Or(bits), order)
    }

    fn fetch_and(&self, mask: u32, order: Ordering) -> u32 {
        self.update_always(Update::And(mask), order)
    }
}

/// A fence, as [`std::sync::atomic::fence`].
pub fn fence(order: Ordering) {
    ask(if order == Ordering::SeqCst {
        Request::Op(Op::Fence)
    } else {
        Request::Fence(order)
    });
}

/// Waits for a value that `done` accepts, for so many looks, or until `stop`
/// holds.
pub(crate) fn wait(
    word: &CheckWord,
    order: Ordering,
    looks: u32,
    mut done: impl FnMut(u32) -> bool,
    mut stop: impl FnMut() -> bool,
) -> Option<u32> {
    let word = word.index();
    let mut answer = ask(Request::Op(Op::Await {
        word,
        order,
        limited: looks != FOREVER,
    }));
    loop {
        let verdict = match answer {
            Answer::Value(value) => return Some(value),
            Answer::Judge(value) => done(value),
            Answer::Peek => stop(),
            Answer::Done => return None, // it has looked often enough
            Answer::Look => {
                let stops = stop();
                ask(Request::Verdict(stops)); // no answer if it is false
                return None;
            }
            _ => unreachable!("a wait is answered with a value or a question"),
        };
        answer = ask(Request::Verdict(verdict));
    }
}

/// Asks the checker to choose.
pub(crate) fn decide(question: Question) -> bool {
    matches!(ask(Request::Question(question)), Answer::Bool(true))
}

/// Adds a thread to the model. Threads run when the setup has returned.
pub fn spawn(body: impl FnOnce() + 'static) {
    ask(Request::Spawn {
        body: Box::new(body),
        in_child: false,
    });
}

/// Adds a thread to the child of the process, which forks at any moment: each of the other
/// threads is gone from it behind any of its steps. Threads of the child run from then on.
/// The locks are to be those of [`Forks`](crate::Forks).
pub fn spawn_in_child(body: impl FnOnce() + 'static) {
    ask(Request::Spawn {
        body: Box::new(body),
        in_child: true,
    });
}

/// Runs `body` when all threads have finished: it sees all they did.
pub fn afterwards(body: impl FnOnce() + 'static) {
    ask(Request::Afterwards(Box::new(body)));
}

/// Limits the rare things that the calling thread meets from now on, so that a
/// model can say to whom they happen: see [`Explorer::whims`].
///
/// [`Explorer::whims`]: crate::Explorer::whims
pub fn limit_whims(most: u32) {
    ask(Request::Whims(most));
}

fn range<T>(object: &T) -> (usize, usize) {
    let start = std::ptr::from_ref(object).addr();
    (start, start + size_of::<T>())
}

/// Names the words of `object` in timelines.
pub fn name<T>(object: &T, name: &'static str) {
    let (start, end) = range(object);
    NAMED.with_borrow_mut(|named| named.push((start, name)));
    ask(Request::Name { start, end, name });
}

/// The number of the last name of what lies there, the same for all of one name; 0 if it has
/// none.
pub(crate) fn number(address: usize) -> usize {
    NAMED
        .with_borrow(|named| {
            let &(_, name) = named.iter().rfind(|&&(start, _)| start == address)?;
            named.iter().position(|&(_, other)| other == name)
        })
        .unwrap_or(0)
}

/// The word that was made there last, freed or not.
pub(crate) fn at(address: usize) -> Option<usize> {
    match ask(Request::WordAt(address)) {
        Answer::Value(word) => Some(word as usize),
        _ => None,
    }
}

/// The values that word number `index` of `object`, which is made of words, has
/// had so far, in modification order from the first zero on.
pub fn history<T>(object: &T, index: usize) -> Vec<u32> {
    let values = Rc::new(RefCell::new(Vec::new()));
    ask(Request::History {
        address: range(object).0 + index * size_of::<CheckWord>(),
        values: Rc::clone(&values),
    });
    values.take()
}

/// Declares the memory of `object` freed: an access of one of its words that is
/// not ordered before this is a failure. What the execution puts there later counts as freed,
/// too.
pub fn free<T>(object: &T) {
    let (start, end) = range(object);
    ask(Request::Free { start, end });
}
