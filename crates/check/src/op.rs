//! What a thread asks of the explorer, and what it is told.

use std::{cell::RefCell, rc::Rc};

use lockyard_core::Look;

use crate::memory::Ordering;

/// A step: the thread stops before it, and the explorer decides who goes next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Load {
        word: usize,
        order: Ordering,
    },
    Store {
        word: usize,
        value: u32,
        order: Ordering,
    },
    Update {
        word: usize,
        update: Update,
        order: Ordering,
        /// The ordering of a compare-exchange that fails.
        err: Ordering,
    },
    /// A `SeqCst` fence; the others are no steps.
    Fence,
    /// Stores if a test of another word succeeds; one step towards `Quiesce`.
    StoreIf {
        word: usize,
        value: u32,
        guard: usize,
        expected: u32,
    },
    /// Adds if a test of another word succeeds; one step towards `Quiesce`.
    AddIf {
        word: usize,
        delta: u32,
        guard: usize,
        expected: u32,
    },
    /// Replaces both words if they are as expected, with a fence before and behind.
    ReplacePair {
        words: [usize; 2],
        before: [u32; 2],
        after: [u32; 2],
    },
    /// Waits until no test lies between its own test and its store.
    Quiesce,
    /// Waits for a value that the thread accepts, or for its stop condition.
    Await {
        word: usize,
        order: Ordering,
        /// Whether it looks only so often.
        limited: bool,
    },
    /// Waits for the thread's token.
    Park {
        deadline: Option<u64>,
    },
    /// Gives a thread its token.
    Unpark {
        thread: usize,
    },
    /// A call of the kernel that lends priorities, and has tasks sleep. The calls are
    /// in the order of the kernel's own word.
    Call {
        kernel: usize,
        call: Call,
    },
}

/// What is asked of that kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// Takes the word, or queues up for it.
    Lock { word: usize },
    /// Waits in the queue that it stands in.
    Wait { deadline: Option<u64> },
    /// Releases the word.
    Unlock { word: usize },
    /// Waits until the thread is lent this level.
    AwaitLent { level: u32 },
    /// Queues up for the word if that holds this, until woken with a common bit.
    Sleep {
        word: usize,
        expected: u32,
        bits: u32,
    },
    /// Wakes some of those who did that.
    Wake { word: usize, most: u32, bits: u32 },
}

impl Call {
    /// [`Call::Wake`].
    pub(crate) const fn wake(word: usize, most: u32, bits: u32) -> Self {
        Self::Wake { word, most, bits }
    }

    /// The word that it reads.
    pub(crate) fn read(self) -> Option<usize> {
        match self {
            Self::Sleep { word, .. } => Some(word),
            _ => self.written(),
        }
    }

    /// The word that it writes.
    pub(crate) fn written(self) -> Option<usize> {
        match self {
            Self::Lock { word } | Self::Unlock { word } => Some(word),
            _ => None,
        }
    }
}

/// A read-modify-write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Update {
    Swap(u32),
    Exchange { old: u32, new: u32 },
    Add(u32),
    Or(u32),
    And(u32),
}

impl Update {
    /// What the word holds afterwards; `None` when the exchange fails.
    pub(crate) fn apply(self, value: u32) -> Option<u32> {
        match self {
            Self::Swap(new) => Some(new),
            Self::Exchange { old, new } => (value == old).then_some(new),
            Self::Add(other) => Some(value.wrapping_add(other)),
            Self::Or(bits) => Some(value | bits),
            Self::And(mask) => Some(value & mask),
        }
    }
}

/// A choice between two things that is the checker's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// Whether a rare thing is so; the name is for the timeline. A thread gets
    /// so many in an execution.
    Whim(&'static str),
    /// Whether a moment has passed; from then on it has.
    Passed(u64),
}

/// What a thread asks.
pub(crate) enum Request {
    Op(Op),
    /// What an `Answer::Judge`, `Answer::Peek` or `Answer::Look` asked for.
    Verdict(bool),
    Question(Question),
    /// A fence that is not `SeqCst`.
    Fence(Ordering),
    /// A new word at this address.
    Word(usize),
    /// The latest word at this address, if there is one.
    WordAt(usize),
    /// A new cell.
    Cell,
    Access {
        cell: usize,
        write: bool,
    },
    Free {
        start: usize,
        end: usize,
    },
    Name {
        start: usize,
        end: usize,
        name: &'static str,
    },
    /// Asks for the values that the word at an address has had.
    History {
        address: usize,
        values: Rc<RefCell<Vec<u32>>>,
    },
    /// Limits the whims that the thread meets from now on.
    Whims(u32),
    Mark(usize),
    Me,
    /// Gives the thread a level, for the kernel that lends it.
    Level(u32),
    /// The thread took, or releases, a word of that kernel.
    Holds(bool),
    /// Whether the thread has a level of its own; and whether it owns a futex, too.
    Urgent {
        or_owns: bool,
    },
    /// How spinners look.
    Pace,
    /// Whether locks are kept.
    Keeps,
    /// Whether readers bias their locks.
    Biases,
    /// Whether who sleeps is no reader.
    Rests,
    /// Whether owners look after first waiters.
    Inspects,
    /// Whether two words are replaced at once.
    Pairs,
    /// Whether the task goes by what it expects of a lock that it has waited for.
    Waited,
    /// How many tasks there are.
    Tasks,
    /// Whether the process has forked, and this is its child.
    IsFork,
    /// Whether a fork has not left the thread behind.
    Exists(usize),
    /// Whether a task is off its CPU.
    IsOff,
    Now,
    /// Starts a thread, if `in_child` in the child of a fork.
    Spawn {
        body: Box<dyn FnOnce()>,
        in_child: bool,
    },
    Afterwards(Box<dyn FnOnce()>),
}

/// What a thread is told.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Done,
    /// A value, or whatever number was asked for.
    Value(u32),
    /// What a compare-exchange found, when it failed.
    Failed(u32),
    Bool(bool),
    Pace(Look),
    /// What two words held.
    Pair([u32; 2]),
    Time(u64),
    /// Would the thread accept this value?
    Judge(u32),
    /// Does its stop condition hold, when nothing rare happens?
    Peek,
    /// Its stop condition is to be evaluated, and should hold.
    Look,
}
