//! What the models of the futex are made of: two words, their table, and what became of
//! those who waited.

use std::{cell::Cell, num::NonZeroU32, rc::Rc};

use lockyard_check::{Check, CheckWord, Tracked, afterwards, history, name};
use lockyard_core::{
    Deadline,
    Ordering::{Acquire, Relaxed, Release},
    Platform, Word,
    futex::{Key, Requeued, Table, Waited, Waiter},
};

pub const SLOTS: usize = 4;
/// From one bucket's word to the next one's, in words.
const BUCKET_WORDS: usize = 64 / size_of::<CheckWord>();
/// The word that has the count, behind those of the gate.
const COUNT_AT: usize = 2;
/// The count in it.
const COUNT: u32 = (1 << 29) - 1;
pub const ALL: u32 = u32::MAX;
pub const EVERY_BIT: NonZeroU32 = NonZeroU32::MAX;

/// A word, its key, and the payload that it announces.
pub struct Place {
    pub key: Key,
    pub word: CheckWord,
    pub payload: Tracked<u32>,
}

impl Place {
    const fn new(key: Key) -> Self {
        Self {
            key,
            word: CheckWord::ZERO,
            payload: Tracked::new(0),
        }
    }
}

/// One that never stands alone: what is true of waiters in general is to be shown of both.
pub const RANKED: Waiter = Waiter {
    rank: 1,
    ..Waiter::ANY
};
/// Who waits, and the end of the model's name.
pub const WAITERS: [(Waiter, &str); 2] = [(Waiter::ANY, ""), (RANKED, ", in the queue")];

pub type Shared = SharedIn<SLOTS, SLOTS>;

/// Two words, and a table that may grow.
pub struct SharedIn<const FIRST: usize, const MOST: usize> {
    pub futex: Table<Check, FIRST, MOST>,
    pub a: Place,
    pub b: Place,
    /// How the waits of each task ended, and what the wakes of each returned: no
    /// part of what is modelled.
    pub waited: Cell<[Option<Waited>; 8]>,
    pub woke: Cell<[u32; 8]>,
}

impl<const FIRST: usize, const MOST: usize> SharedIn<FIRST, MOST> {
    pub fn new(a: Key, b: Key) -> Rc<Self> {
        let shared = Rc::new(Self {
            futex: Table::new(),
            a: Place::new(a),
            b: Place::new(b),
            waited: Cell::default(),
            woke: Cell::default(),
        });
        name(&shared.futex, "futex");
        let this = Rc::clone(&shared);
        afterwards(move || {
            for slot in 0..MOST {
                let words = history(&this.futex, slot * BUCKET_WORDS + COUNT_AT);
                assert_eq!(words.last().unwrap_or(&0) & COUNT, 0, "nobody is counted");
            }
        });
        shared
    }

    /// Waits while the word is 0.
    pub fn wait(&self, place: &Place, deadline: Option<Deadline>) -> Waited {
        self.wait_as(place, Waiter::ANY, deadline)
    }

    pub fn wait_as(&self, place: &Place, waiter: Waiter, deadline: Option<Deadline>) -> Waited {
        let unchanged = || place.word.load(Acquire) == 0;
        let waited = self.futex.wait(&place.key, waiter, unchanged, deadline);
        let mut all = self.waited.get();
        all[me()] = Some(waited);
        self.waited.set(all);
        waited
    }

    /// Changes the word, which announces the payload.
    pub fn change(&self, place: &Place) {
        place.payload.set(1);
        place.word.store(1, Release);
    }

    /// Changes the first word and wakes: the wake-up alone announces the payload.
    pub fn announce_by_wake(&self) {
        self.a.payload.set(1);
        self.a.word.store(1, Relaxed);
        self.wake(&self.a, 1);
    }

    pub fn wake(&self, place: &Place, most: u32) -> u32 {
        let woken = self.futex.wake(&place.key, most, EVERY_BIT);
        let mut all = self.woke.get();
        all[me()] += woken;
        self.woke.set(all);
        woken
    }

    /// Moves a waiter from `a` to `b` if `a` has not changed.
    pub fn requeue(&self) -> Option<Requeued> {
        let unchanged = || self.a.word.load(Relaxed) == 0;
        (self.futex).requeue(&self.a.key, &self.b.key, (0, 1), unchanged)
    }
}

fn me() -> usize {
    Check::me().number() as usize
}

/// A key whose bucket's number is so to that of `key`'s.
pub fn another(key: Key, is: fn(&usize, &usize) -> bool) -> Key {
    let futex = Table::<Check, SLOTS>::new();
    let others = (1..).map(|n| Key::private(1, n * 4));
    let fits = |other: &Key| *other != key && is(&futex.slot(other), &futex.slot(&key));
    others.into_iter().find(fits).expect("there are many")
}

pub const A: Key = Key::private(1, 4096);

pub fn apart() -> Rc<Shared> {
    Shared::new(A, another(A, usize::gt))
}
