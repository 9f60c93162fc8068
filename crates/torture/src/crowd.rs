//! A crowd: as many waiters as one likes, each at a word of its own, in a futex's table
//! that is the library's. What the table does for each is counted in accesses of words,
//! which are the same in every run.
//!
//! A million threads are more than most machines can start. So this is a world with one
//! thread, in which a task that parks calls the next: all tasks stand on one stack. The
//! last to come wakes them all, and then each returns to the one before it.

use std::{
    cell::{Cell, RefCell},
    num::NonZeroU32,
    rc::Rc,
    sync::{atomic::AtomicU32, mpsc},
    thread,
    time::{Duration, Instant},
};

use lockyard_core::{
    Deadline, Event, Look, Ordering, Platform, Running, TaskId, TaskRecord, Woken, Word,
    futex::{Key, Table, Waited, Waiter},
};

use crate::interrupted;

thread_local! {
    static WORLD: World = const { World::new() };
}

/// What a task does, by its number.
type Body = Rc<dyn Fn(u32)>;

/// What the tasks of a thread are.
struct World {
    /// The one that runs.
    me: Cell<u32>,
    records: Cell<&'static [TaskRecord<Nested>]>,
    body: RefCell<Option<Body>>,
    /// The accesses of words so far.
    accesses: Cell<u64>,
}

impl World {
    const fn new() -> Self {
        Self {
            me: Cell::new(0),
            records: Cell::new(&[]),
            body: RefCell::new(None),
            accesses: Cell::new(0),
        }
    }

    /// Runs the task behind the one that runs.
    fn next(&self) {
        let me = self.me.get();
        self.me.set(me + 1);
        let body = self.body.borrow().clone();
        body.expect("tasks have something to do")(me + 1);
        self.me.set(me);
    }
}

fn accesses() -> u64 {
    WORLD.with(|world| world.accesses.get())
}

/// A word whose accesses are counted.
struct Counted(AtomicU32);

impl Counted {
    fn counted(&self) -> &AtomicU32 {
        WORLD.with(|world| world.accesses.update(|accesses| accesses + 1));
        &self.0
    }
}

impl Word for Counted {
    const ZERO: Self = Self(AtomicU32::new(0));

    fn load(&self, order: Ordering) -> u32 {
        self.counted().load(order)
    }
    fn store(&self, value: u32, order: Ordering) {
        self.counted().store(value, order);
    }
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.counted().swap(value, order)
    }
    fn compare_exchange(
        &self,
        old: u32,
        new: u32,
        ok: Ordering,
        err: Ordering,
    ) -> Result<u32, u32> {
        self.counted().compare_exchange(old, new, ok, err)
    }
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.counted().fetch_add(value, order)
    }
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.counted().fetch_or(bits, order)
    }
    fn fetch_and(&self, mask: u32, order: Ordering) -> u32 {
        self.counted().fetch_and(mask, order)
    }
}

/// The world of nested tasks. It has what a futex's table asks of a world.
struct Nested;

impl Platform for Nested {
    type U32 = Counted;

    const EVENT_SEES_RUNNING: bool = true;

    fn me() -> TaskId {
        TaskId::new(Self::number()).expect("a task asks")
    }
    fn number() -> u32 {
        WORLD.with(|world| world.me.get())
    }
    fn task(task: TaskId) -> &'static TaskRecord<Self> {
        WORLD.with(|world| &world.records.get()[task.number() as usize])
    }
    fn each_task(_: impl FnMut(&'static TaskRecord<Self>)) {
        unreachable!("a futex's table does not look for tasks")
    }
    fn running(_: TaskId) -> Running {
        Running::No
    }
    fn exists(_: TaskId) -> bool {
        true
    }
    fn pace(_half_transfers: u32) -> Look {
        Look::Poll
    }
    fn spin_begin() {}
    fn need_resched() -> bool {
        true
    }
    /// Nobody else runs: to look once is enough.
    fn spin_until(
        word: &Counted,
        order: Ordering,
        _: Look,
        _: u32,
        mut done: impl FnMut(u32) -> bool,
        _: impl FnMut() -> bool,
    ) -> Option<u32> {
        Some(word.load(order)).filter(|&value| done(value))
    }
    fn park(_: Option<Deadline>) -> Woken {
        WORLD.with(World::next);
        Woken::Unparked
    }
    fn unpark(_: TaskId) {}
    fn yield_to(_: TaskId) {}
    /// Nobody comes between the test and the store.
    fn store_if(word: &Counted, value: u32, guard: &Counted, expected: u32) -> bool {
        let passes = guard.load(Ordering::Acquire) == expected;
        if passes {
            word.store(value, Ordering::Release);
        }
        passes
    }
    fn quiesce() {
        unreachable!("nobody finds a gate closed")
    }
    fn fence() {}
    fn after(nanos: u64) -> Deadline {
        Deadline(nanos)
    }
    fn stamp() -> u32 {
        0
    }
    fn elapsed(_: u32, _: u32) -> bool {
        false
    }
    fn passed(_: Deadline) -> bool {
        false
    }
    fn event(_: Event) {}
}

/// What so many calls cost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// The accesses of words, in all.
    pub accesses: u64,
    /// Those of the call that had the most.
    pub most: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// What a crowd was.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The buckets that the table had in the end.
    pub buckets: usize,
    /// To come, and to go to sleep.
    pub wait: Cost,
    /// To be woken, one call for each.
    pub wake: Cost,
}

/// Has so many wait, each for a word of its own, and then wakes one after the other, in
/// a table of these sizes. Their records are never freed. `None` after
/// [`interrupt`](crate::interrupt): the thread of the crowd is then left to itself.
///
/// # Panics
/// There is no memory for so many, or somebody was not woken.
pub fn run<const FIRST: usize, const MOST: usize>(waiters: u32) -> Option<Report> {
    run_in(empty::<FIRST, MOST>(), waiters)
}

/// A table in which nobody waits. It may be too large for a stack.
fn empty<const FIRST: usize, const MOST: usize>() -> Box<Table<Nested, FIRST, MOST>> {
    let table = Box::new_zeroed();
    // SAFETY: a table says that zero bytes are one in which nobody waits.
    unsafe { table.assume_init() }
}

fn run_in<const FIRST: usize, const MOST: usize>(
    table: Box<Table<Nested, FIRST, MOST>>,
    waiters: u32,
) -> Option<Report> {
    /// More than a task needs of the stack, and than all need together.
    const FRAME: usize = 2 << 10;
    const BASE: usize = 1 << 20;
    const LOOK: Duration = Duration::from_millis(10);
    let stack = BASE + waiters as usize * FRAME;
    let thread = thread::Builder::new().stack_size(stack);
    let (alive, ended) = mpsc::channel::<()>();
    let thread = thread.spawn(move || {
        let _alive = alive;
        gather(table, waiters)
    });
    let thread = thread.unwrap_or_else(|why| panic!("no memory for so many stacks ({why})"));
    while ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        if interrupted() {
            return None;
        }
    }
    Some(thread.join().expect("everybody was woken"))
}

/// Each waiter is a task, and one more wakes them.
fn gather<const FIRST: usize, const MOST: usize>(
    table: Box<Table<Nested, FIRST, MOST>>,
    waiters: u32,
) -> Report {
    let report = Rc::new(Cell::new(None));
    let meter = Cell::new(Meter::begin());
    let said = Rc::clone(&report);
    let body = move |task: u32| {
        if task > 1 {
            meter.set(meter.get().call()); // the one before has come to sleep
        }
        if task <= waiters {
            let waited = table.wait(&key(task), Waiter::ANY, || true, None);
            assert_eq!(waited, Waited::Woken);
            return;
        }
        said.set(Some(Report {
            wait: meter.get().cost(),
            wake: wake_all(&table, waiters),
            buckets: table.buckets(),
        }));
    };
    let records = (0..waiters + 2).map(|_| TaskRecord::new());
    let records: Vec<_> = records.collect();
    WORLD.with(|world| {
        world.records.set(records.leak());
        world.body.replace(Some(Rc::new(body)));
        world.next();
        world.body.take();
    });
    report.get().expect("the last task has reported")
}

/// Wakes them in an order of its own.
fn wake_all<const FIRST: usize, const MOST: usize>(
    table: &Table<Nested, FIRST, MOST>,
    waiters: u32,
) -> Cost {
    let mut order: Vec<u32> = (1..=waiters).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let meter = order.into_iter().fold(Meter::begin(), |meter, task| {
        assert_eq!(table.wake(&key(task), 1, NonZeroU32::MAX), 1);
        meter.call()
    });
    meter.cost()
}

/// Words beside each other.
fn key(task: u32) -> Key {
    Key::private(0, (1 << 32) + u64::from(task) * 4)
}

/// Counts the accesses of calls.
#[derive(Clone, Copy)]
struct Meter {
    begin: Instant,
    /// The accesses at the begin, and when the last call ended.
    accesses: (u64, u64),
    most: u64,
}

impl Meter {
    fn begin() -> Self {
        Self {
            begin: Instant::now(),
            accesses: (accesses(), accesses()),
            most: 0,
        }
    }

    /// A call has ended.
    fn call(mut self) -> Self {
        let now = accesses();
        self.most = self.most.max(now - self.accesses.1);
        self.accesses.1 = now;
        self
    }

    fn cost(self) -> Cost {
        Cost {
            accesses: self.accesses.1 - self.accesses.0,
            most: self.most,
            elapsed: self.begin.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full<const FIRST: usize, const MOST: usize>(waiters: u32) -> Report {
        run::<FIRST, MOST>(waiters).expect("nobody interrupts")
    }

    /// The accesses of each of so many, to wait and to be woken.
    fn each<const FIRST: usize, const MOST: usize>(waiters: u32) -> f64 {
        let report = full::<FIRST, MOST>(waiters);
        let accesses = report.wait.accesses + report.wake.accesses;
        accesses as f64 / f64::from(waiters)
    }

    #[test]
    fn a_waiter_costs_the_same_however_many_there_are() {
        let few = each::<32, 4096>(100);
        let many = each::<32, 4096>(10_000);
        assert!(many < few * 2.0, "{many} accesses each, {few} of few");
        // It can fail: this table does not grow.
        let crowded = each::<32, 32>(10_000);
        assert!(crowded > many * 4.0, "{crowded} accesses each, {many}");
    }

    #[test]
    fn a_table_grows_with_those_that_wait_for_words_of_their_own() {
        assert_eq!(full::<32, 4096>(32).buckets, 32);
        assert_eq!(full::<32, 4096>(10_000).buckets, 4096);
        let most = full::<32, 4096>(10_000).wait.most;
        assert!(most < 64 * 100, "{most} accesses of one that split buckets");
    }

    /// As in a fork's child: some buckets are split, and others are not.
    #[test]
    fn a_table_is_forgotten_while_it_grows() {
        let table = empty::<128, 1024>();
        table.grow();
        table.forget();
        assert_eq!(table.buckets(), 256);
        table.grow();
        assert_eq!(table.buckets(), 512, "it had stopped");
        let report = run_in(table, 3_000).expect("nobody interrupts");
        assert_eq!(report.buckets, 1024);
    }
}
