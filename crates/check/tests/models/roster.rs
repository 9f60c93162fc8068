//! Models of how threads come by their numbers. A number that two have at once is a data race.

use std::rc::Rc;

use lockyard_check::{CheckWord, Explorer, Tracked, afterwards, name, spawn};
use lockyard_core::{
    Ordering::{Acquire, Relaxed, Release},
    Word,
    roster::{Entry, Membership, Roster},
};

use crate::explore;

/// More than there are threads at a time.
const NUMBERS: usize = 4;

struct Shared {
    roster: Roster<CheckWord, 1>,
    entries: [Entry<CheckWord>; NUMBERS],
    /// What the threads do by their numbers.
    work: [Tracked<u32>; NUMBERS],
    /// What the world knows: which threads are gone. Thread 0 is none.
    gone: [CheckWord; NUMBERS],
}

impl Shared {
    fn new() -> Rc<Self> {
        let shared = Rc::new(Self {
            roster: Roster::new(),
            entries: [const { Entry::new() }; NUMBERS],
            work: [const { Tracked::new(0) }; NUMBERS],
            gone: [const { CheckWord::ZERO }; NUMBERS],
        });
        name(&shared.roster, "roster");
        name(&shared.entries, "entries");
        name(&shared.gone, "gone");
        shared
    }

    fn take(&self) -> Option<u32> {
        let lost = || {
            self.roster.take_lost(
                |number| self.entries.get(number as usize),
                |thread| self.gone[thread as usize].load(Acquire) == 1,
            )
        };
        self.roster.take_free().or_else(lost)
    }

    /// What an execution left: no number is free twice, and none is lost.
    fn count(&self) {
        // Lost ones are looked for when there are so many.
        let has_doubled = || self.roster.ever_taken().is_power_of_two();
        let fresh = || (!has_doubled()).then(|| self.roster.take_fresh());
        let mut found: Vec<u32> = std::iter::from_fn(|| self.take().or_else(fresh)).collect();
        found.sort_unstable();
        let all: Vec<u32> = (0..self.roster.ever_taken()).collect();
        assert_eq!(found, all, "the numbers that can be had at the end");
    }
}

/// A thread, and what it set for its destructor, in its stack.
struct Thread<'a> {
    shared: &'a Shared,
    id: u32,
    membership: Membership,
    stack: &'a mut u32,
}

impl<'a> Thread<'a> {
    fn new(shared: &'a Shared, id: u32, stack: &'a mut u32) -> Self {
        shared.gone[id as usize].store(0, Relaxed); // the world's
        Self {
            shared,
            id,
            membership: Membership::new(),
            stack,
        }
    }

    /// Takes a lock, and first a number unless it has one.
    fn locks(&mut self) {
        let roster = &self.shared.roster;
        if self.membership.number() == 0 {
            let number = self.shared.take().unwrap_or_else(|| roster.take_fresh());
            let entry = &self.shared.entries[number as usize];
            roster.enter(entry, self.id);
            self.membership.join(number + 1);
            *self.stack = number + 1;
        }
        let work = &self.shared.work[self.membership.number() as usize - 1];
        work.set(work.get() + 1);
    }

    /// The C library calls back, with what stands in the stack.
    fn is_told(&mut self) {
        let told = *self.stack;
        if self.membership.leave(told) {
            self.shared.entries[told as usize - 1].leave();
            self.shared.roster.give_back(told - 1);
        }
    }

    fn dies(self) {
        self.shared.gone[self.id as usize].store(1, Release);
    }
}

/// A life of a thread.
type Life = fn(Thread);

fn on_time(mut thread: Thread) {
    thread.locks();
    thread.is_told();
    thread.dies();
}

/// It locks when it has been told for the last time.
fn late(mut thread: Thread) {
    thread.is_told();
    thread.locks();
    thread.dies();
}

/// It locks again when it has been told, and is not told again.
fn again(mut thread: Thread) {
    thread.locks();
    thread.is_told();
    thread.locks();
    thread.dies();
}

/// It is told again.
fn late_and_told(mut thread: Thread) {
    thread.locks();
    thread.is_told();
    thread.locks();
    thread.is_told();
    thread.dies();
}

/// It never locks; but it is told, if the stack has something to tell.
fn idle(mut thread: Thread) {
    thread.is_told();
    thread.dies();
}

/// Threads live side by side, or one after the other in the same stack: each with its number
/// in the world.
fn live(stacks: &[&[(u32, Life)]]) {
    let shared = Shared::new();
    for lives in stacks {
        let (shared, lives) = (Rc::clone(&shared), lives.to_vec());
        spawn(move || {
            let mut stack = 0;
            for (id, life) in lives {
                life(Thread::new(&shared, id, &mut stack));
            }
        });
    }
    afterwards(move || shared.count());
}

#[test]
fn numbers_are_given_back() {
    explore("roster of 3", &Explorer::new(), &[], || {
        live(&[&[(1, on_time)], &[(2, on_time)], &[(3, on_time)]]);
    });
}

/// Two may find the number of a third that is gone.
#[test]
fn a_late_thread_is_found_once() {
    explore("roster, late", &Explorer::new(), &[], || {
        live(&[&[(1, again)], &[(2, on_time)], &[(3, late)]]);
    });
}

/// It is found only when it is gone, and not when it has given back its number.
#[test]
fn a_late_thread_that_is_told() {
    explore("roster, told", &Explorer::new(), &[], || {
        live(&[&[(1, late_and_told)], &[(2, again)]]);
    });
}

/// A value that the last thread of a stack left there is not the next thread's.
#[test]
fn a_stack_that_has_a_value() {
    explore("roster, stack", &Explorer::new(), &[], || {
        live(&[&[(1, late), (3, idle), (3, on_time)], &[(2, on_time)]]);
    });
}

/// The world gives the number of a thread that is gone to another, which may also get the
/// number that was lost.
#[test]
fn a_thread_with_the_number_of_another() {
    explore("roster, again", &Explorer::new(), &[], || {
        live(&[&[(1, late), (3, on_time), (1, late)], &[(2, on_time)]]);
    });
}
