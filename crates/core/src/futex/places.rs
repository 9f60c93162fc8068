//! Where a task stands that waits for several words: in the nodes of its own record, and,
//! for more words than it has nodes, in those of records that it borrows meanwhile.
//!
//! A borrowed record is a task's like any other: never freed, numbered as tasks are, and
//! counted with them. What is borrowed is given back when all its nodes have left their
//! queues, or their wakers have said that they are done with them. A waker that has said so
//! looks once more who is to be unparked: it may find the record's next user, who then
//! wakes for nothing, as parks are in loops.

use super::{NODES, Node, Place};
use crate::platform::{Platform, TaskId};

/// How many words a task can wait for at a time: as many as with the kernel's `futex_waitv`.
pub const WORDS: usize = 128;

/// The places of one wait.
pub(super) struct Places<P: Platform> {
    words: usize,
    me: TaskId,
    /// Whose nodes the words have from the [`NODES`]th on.
    borrowed: [Option<TaskId>; WORDS / NODES - 1],
    of: core::marker::PhantomData<P>,
}

impl<P: Platform> Places<P> {
    /// For so many words, and the calling task.
    ///
    /// # Panics
    /// They are none or too many, or the world has no record for them.
    pub(super) fn new(me: TaskId, words: usize) -> Self {
        assert!((1..=WORDS).contains(&words), "a wait for {words} words");
        let mut places = Self {
            words,
            me,
            borrowed: [None; WORDS / NODES - 1],
            of: core::marker::PhantomData,
        };
        for record in &mut places.borrowed[..(words - 1) / NODES] {
            *record = Some(P::borrow().expect("this world has no records to borrow"));
        }
        places
    }

    pub(super) fn at(&self, index: usize) -> Place {
        let record = match index / NODES {
            0 => self.me,
            n => self.borrowed[n - 1].expect("it was borrowed for this wait"),
        };
        Place::new(record, index % NODES)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &'static Node<P>> {
        (0..self.words).map(|index| self.at(index).node())
    }

    /// Gives back what was borrowed. All nodes have left their queues, or were told.
    pub(super) fn give_back(self) {
        self.borrowed.into_iter().flatten().for_each(P::give_back);
    }
}
