//! What tasks do with a lock last: they say so, for the last of them to free the lock, or leave
//! it taken, for another to release it.

use std::cell::Cell;

use lockyard_check::{Check, CheckWord, free, name};
use lockyard_core::{
    FOREVER, Look,
    Ordering::{Acquire, Relaxed, Release},
    Platform, Word,
};

/// Who uses a lock for the last time says so while it has it.
pub struct Users {
    of: u32,
    done: Cell<u32>,
    /// Those of them that only read, since there was one that did not.
    readers: Cell<u32>,
    freed: Cell<bool>,
}

/// Whether the caller is the last to use a lock, and may free it once it has left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// Others are still to come.
    No,
    /// Others are done with it that may not have left, as readers.
    InCompany,
    Alone,
}

impl Users {
    pub const fn new(of: u32) -> Self {
        Self {
            of,
            done: Cell::new(0),
            readers: Cell::new(0),
            freed: Cell::new(false),
        }
    }

    /// The caller has the lock as its only owner, for the last time: who was here has left. It
    /// may go on as a reader.
    pub fn count_owner(&self, goes_on: bool) -> Last {
        self.readers.set(u32::from(goes_on));
        self.count()
    }

    /// The caller has the lock as a reader, for the last time.
    pub fn count_reader(&self) -> Last {
        self.readers.set(self.readers.get() + 1);
        match self.count() {
            Last::Alone if self.readers.get() > 1 => Last::InCompany,
            last => last,
        }
    }

    fn count(&self) -> Last {
        self.done.set(self.done.get() + 1);
        match self.done.get() == self.of {
            true => Last::Alone,
            false => Last::No,
        }
    }

    /// The last one frees the lock, which it has left.
    pub fn free<T>(&self, lock: &T) {
        free(lock);
        self.freed.set(true);
    }

    /// Whether there was a last one.
    pub const fn are_gone(&self) -> bool {
        self.freed.get()
    }
}

/// What tasks have taken and left for another to release: how often. And, above that, how many
/// of them are done.
pub struct Left {
    of: u32,
    word: CheckWord,
}

const DONE: u32 = 1 << 16;

impl Left {
    /// So many tasks may leave something, and another releases it.
    pub fn new(tasks: u32) -> Self {
        Self {
            of: tasks - 1,
            word: CheckWord::ZERO,
        }
    }

    /// For timelines, once it lies where it stays.
    pub fn name(&self) {
        name(&self.word, "left");
    }

    /// The caller leaves what it has taken, and does nothing with it any more.
    pub fn leave(&self) {
        self.word.fetch_add(1, Release);
    }

    /// The caller does nothing any more.
    pub fn finish(&self) {
        self.word.fetch_add(DONE, Relaxed);
    }

    /// Whether the caller is to release something now.
    pub fn take(&self) -> bool {
        loop {
            let left = self.word.load(Relaxed);
            if left.is_multiple_of(DONE) {
                return false;
            }
            let taken = self.word.compare_exchange(left, left - 1, Acquire, Relaxed);
            if taken.is_ok() {
                return true;
            }
        }
    }

    /// Releases all that is left, until nobody is there to leave anything.
    pub fn take_all(&self, release: impl Fn()) {
        let done = self.of * DONE;
        loop {
            while self.take() {
                release();
            }
            let changed = |left| left == done || left % DONE > 0;
            let left =
                Check::spin_until(&self.word, Relaxed, Look::Poll, FOREVER, changed, || false);
            if left == Some(done) {
                return;
            }
        }
    }
}
