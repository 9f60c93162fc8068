//! Random programs of two words and a table that may grow: whoever is counted as woken is told.

use fastrand::Rng;

use super::*;
use crate::programs::{self, Deed};

type Growing = SharedIn<1, 4>;

struct Words {
    shared: Rc<Growing>,
    /// How many wakers have said that they woke, and how many have been told.
    woke: Cell<u32>,
    told: Cell<u32>,
}

fn add(to: &Cell<u32>, count: u32) {
    to.set(to.get() + count);
}

impl Words {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            shared: Growing::new(A, another(A, usize::gt)),
            woke: Cell::new(0),
            told: Cell::new(0),
        })
    }

    fn place(&self, at: usize) -> &Place {
        [&self.shared.a, &self.shared.b][at]
    }

    fn key(&self, at: usize) -> Key {
        self.place(at).key
    }

    fn is_unchanged(&self, at: usize) -> bool {
        self.place(at).word.load(Acquire) == 0
    }

    fn wait(&self, at: usize, waiter: Waiter, deadline: Option<Deadline>) {
        let waited = self.shared.wait_as(self.place(at), waiter, deadline);
        add(&self.told, u32::from(waited == Waited::Woken));
    }

    fn wait_any(&self, waiter: Waiter, deadline: Option<Deadline>) {
        let (key, unchanged) = (|at| self.key(at), |at| self.is_unchanged(at));
        let waited = (self.shared.futex).wait_any(2, key, waiter, unchanged, deadline);
        if let WaitedAny::Woken(words) = waited {
            add(&self.told, words.count_ones());
        }
    }

    /// Waits whatever the word says, and lets another task go on meanwhile.
    fn wait_after(&self, at: usize, waiter: Waiter) {
        let release = || {
            self.wake(1 - at, 1);
        };
        let (key, deadline) = (self.key(at), Some(DEADLINE));
        let (stop, mutex) = (|| false, None::<&RawMutex<Check>>);
        let futex = &self.shared.futex;
        // SAFETY: what unwinds is abandoned, with the other tasks.
        let waited = unsafe { futex.wait_after(&key, waiter, mutex, release, stop, deadline) };
        add(&self.told, u32::from(waited == WaitedAfter::Woken));
    }

    fn wake(&self, at: usize, most: u32) {
        let woken = self.shared.futex.wake(&self.key(at), most, EVERY_BIT);
        add(&self.woke, woken);
    }

    fn wake_op(&self, at: usize, most: u32) {
        let change = || self.place(at).word.swap(1, Relaxed) == 0;
        let (one, two) = (self.key(1 - at), self.key(at));
        let woken = (self.shared.futex).wake_op((&one, most), (&two, ALL), change);
        add(&self.woke, woken);
    }

    fn requeue(&self, from: usize, wake: u32, most: u32) {
        let (source, target) = (self.key(from), self.key(1 - from));
        let unchanged = || self.is_unchanged(from);
        let requeued = (self.shared.futex).requeue(&source, &target, (wake, most), unchanged);
        add(&self.woke, requeued.map_or(0, |requeued| requeued.woken));
    }

    /// After this nobody waits.
    fn wake_everybody(&self) {
        (0..2).for_each(|at| self.place(at).word.store(1, Release));
        (0..2).for_each(|at| self.wake(at, ALL));
    }
}

/// The first task wakes everybody, again and again, so that none waits for ever.
fn any_deed(random: &mut Rng, task: u32) -> Deed<Words> {
    let (at, is_late) = (random.usize(..2), random.bool());
    let deadline = is_late.then_some(DEADLINE);
    let waiter = if random.bool() { Waiter::ANY } else { RANKED };
    let (wake, most) = (random.u32(..2), if random.bool() { ALL } else { 1 });
    match random.u32(..10) {
        _ if task == 0 => Rc::new(Words::wake_everybody),
        0..3 => Rc::new(move |words| words.wait(at, waiter, deadline)),
        3 => Rc::new(move |words| words.wait_any(waiter, deadline)),
        4 => Rc::new(move |words| words.wait_after(at, waiter)),
        5 => Rc::new(move |words| words.wake(at, most)),
        6 => Rc::new(move |words| words.wake_op(at, most)),
        7 | 8 => Rc::new(move |words| words.requeue(at, wake, most)),
        _ => Rc::new(|words| words.shared.futex.grow()),
    }
}

fn explore_programs(numbers: std::ops::Range<u64>) {
    let at_end = |words: &Words| assert_eq!(words.woke.get(), words.told.get());
    let events = [
        Event::Parked,
        Event::Requeued,
        Event::BucketSplit,
        Event::CancelGranted,
    ];
    programs::explore("futex", numbers, &events, any_deed, Words::new, at_end);
}

#[test]
fn random_programs() {
    explore_programs(0..200);
}

#[test]
#[ignore = "20 times the programs of the test above"]
fn random_programs_for_long() {
    explore_programs(1_000..5_000);
}
