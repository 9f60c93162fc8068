//! The checker as a world for the locks.

use std::{cell::Cell, convert::Infallible, marker::PhantomData, num::NonZeroU32};

use lockyard_core::{
    Deadline, Event, FOREVER, KernelFutex, KernelPi, LockPi, Look, Ordering, PerCpu, Platform,
    Prio, Priority, Running, TaskId, TaskRecord, Woken, Word, futex::Waited, rwsem::Readers,
};

use crate::{
    fiber::ask,
    memory::THREADS,
    op::{Answer, Call, Op, Question, Request, Update},
    word::{CheckWord, at, decide, fence, history, number, wait},
};

/// The world of the model checker. Its tasks are the threads of a model, in
/// the order in which they were spawned, from 1 on.
pub type Check = Tasks<Whole>;

/// The same, where the process may fork: see [`spawn_in_child`](crate::spawn_in_child).
pub type Forks = Tasks<Copied>;

/// A world whose tasks are the threads of a model.
pub struct Tasks<K>(PhantomData<K>);

/// Whether the address space may be copied, and the locks of such a world.
pub trait Kind: Sized + Send + Sync + 'static {
    const FORKS: bool;
    fn locks(task: TaskId) -> &'static TaskRecord<Tasks<Self>>;
}

/// It is not.
pub struct Whole;

impl Kind for Whole {
    const FORKS: bool = false;

    fn locks(task: TaskId) -> &'static TaskRecord<Check> {
        &record(task).locks
    }
}

/// It may be.
pub struct Copied;

impl Kind for Copied {
    const FORKS: bool = true;

    fn locks(task: TaskId) -> &'static TaskRecord<Forks> {
        &record(task).forks
    }
}

/// The calling task goes on for another that has ended, and may hold what that took.
pub fn become_another() {
    record(Check::me()).was_another.store(1, Ordering::Relaxed); // the caller's own
}

/// A task, its own priority, and the one that it is lent: levels.
struct Record {
    locks: TaskRecord<Check>,
    forks: TaskRecord<Forks>,
    own: CheckWord,
    lent: CheckWord,
    /// Whether it goes on for a task that has ended.
    was_another: CheckWord,
    /// The word that the kernel wipes when the task dies.
    slot: Cell<Option<usize>>,
}

impl Record {
    const fn new() -> Self {
        Self {
            locks: TaskRecord::new(),
            forks: TaskRecord::new(),
            own: CheckWord::ZERO,
            lent: CheckWord::ZERO,
            was_another: CheckWord::ZERO,
            slot: Cell::new(None),
        }
    }
}

struct World {
    records: [Record; THREADS],
    /// Whether the last records, which are no task's, are borrowed.
    borrowed: [CheckWord; SPARE],
    /// Who may read by a slot.
    readers: Readers<CheckWord, 1>,
    /// [`Platform::meddled`].
    meddled: CheckWord,
    /// Orders the calls of the kernel.
    kernel: CheckWord,
}

/// So many records, the last ones, can be borrowed: a model has fewer threads.
const SPARE: usize = 2;

thread_local! {
    /// Type-stable for ever, and the words in it start afresh with each execution.
    static WORLD: &'static World = Box::leak(Box::new(World {
        records: [const { Record::new() }; THREADS],
        borrowed: [CheckWord::ZERO; SPARE],
        readers: Readers::new(),
        meddled: CheckWord::ZERO,
        kernel: CheckWord::ZERO,
    }));
}

fn record(task: TaskId) -> &'static Record {
    WORLD.with(|world| &world.records[index(task)])
}

fn index(task: TaskId) -> usize {
    task.number() as usize
}

/// As [`Explorer::resting`](crate::Explorer::resting) says.
fn rests() -> bool {
    matches!(ask(Request::Rests), Answer::Bool(true))
}

fn now() -> u64 {
    match ask(Request::Now) {
        Answer::Time(now) => now,
        _ => unreachable!("the time is asked for"),
    }
}

impl<K: Kind> Platform for Tasks<K> {
    type U32 = CheckWord;

    const EVENT_SEES_RUNNING: bool = true;
    const FORKS: bool = K::FORKS;

    fn me() -> TaskId {
        match ask(Request::Me) {
            Answer::Value(me) => TaskId::new(me).expect("the setup of a model is no task"),
            _ => unreachable!("a thread knows its number"),
        }
    }

    fn task(task: TaskId) -> &'static TaskRecord<Self> {
        K::locks(task)
    }

    fn each_task(show: impl FnMut(&'static TaskRecord<Self>)) {
        let tasks = match ask(Request::Tasks) {
            Answer::Value(tasks) => tasks,
            _ => unreachable!("the tasks are counted"),
        };
        let tasks = (1..=tasks).filter_map(TaskId::new);
        tasks.map(K::locks).for_each(show);
    }

    fn each_reader(show: impl FnMut(&'static TaskRecord<Self>)) {
        if !rests() {
            return Self::each_task(show);
        }
        let listed = WORLD.with(|world| world.readers.each(THREADS as u32));
        listed.filter_map(TaskId::new).map(K::locks).for_each(show);
    }

    fn lists_reader() {
        if rests() {
            WORLD.with(|world| world.readers.list(Self::me().number()));
        }
    }

    fn was_another() -> bool {
        record(Self::me()).was_another.load(Ordering::Relaxed) != 0 // the caller's own
    }

    fn meddled() -> Option<&'static CheckWord> {
        Some(WORLD.with(|world| &world.meddled))
    }

    fn borrow() -> Option<TaskId> {
        let free = |word: &CheckWord| {
            // Acquire pairs with give_back's Release: who had it is done with it.
            let taken = word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        let at = WORLD.with(|world| world.borrowed.iter().position(free))?;
        TaskId::new((THREADS - SPARE + at) as u32)
    }

    fn give_back(record: TaskId) {
        let at = index(record) - (THREADS - SPARE);
        WORLD.with(|world| world.borrowed[at].store(0, Ordering::Release));
    }

    /// `Yes` or `No`, as the checker likes: what is not known is either.
    fn running(task: TaskId) -> Running {
        let is_off = || matches!(ask(Request::IsOff), Answer::Bool(true));
        match !Self::exists(task) || is_off() {
            true => Running::No,
            false => Running::Yes,
        }
    }

    fn exists(task: TaskId) -> bool {
        !K::FORKS || matches!(ask(Request::Exists(index(task))), Answer::Bool(true))
    }

    fn is_fork() -> bool {
        K::FORKS && matches!(ask(Request::IsFork), Answer::Bool(true))
    }

    /// By events, if the lock is handed on, unless [`Explorer::polling`] or [`Explorer::seldom`]
    /// says otherwise.
    ///
    /// [`Explorer::polling`]: crate::Explorer::polling
    /// [`Explorer::seldom`]: crate::Explorer::seldom
    fn pace(half_transfers: u32) -> Look {
        if half_transfers == 0 {
            return Look::Poll;
        }
        match ask(Request::Pace) {
            Answer::Pace(look) => look,
            _ => unreachable!("a pace is answered with a look"),
        }
    }

    /// As much as half a writer costs: a fenced bias that no reader has been sampled in ends with the
    /// first writer that waits for its readers in vain.
    fn gain() -> Option<u32> {
        Some(4)
    }

    /// As [`Explorer::keeping`] says.
    ///
    /// [`Explorer::keeping`]: crate::Explorer::keeping
    fn keeps(_lock: usize) -> bool {
        matches!(ask(Request::Keeps), Answer::Bool(true))
    }

    fn retook() {
        ask(Request::Holds(true));
    }

    /// As [`Explorer::pairing`] says.
    ///
    /// [`Explorer::pairing`]: crate::Explorer::pairing
    fn waited(_lock: usize) -> bool {
        matches!(ask(Request::Waited), Answer::Bool(true))
    }

    /// As [`Explorer::biasing`] says, whether it is worth it or not.
    ///
    /// [`Explorer::biasing`]: crate::Explorer::biasing
    fn may_bias(worth: impl FnOnce() -> bool) -> bool {
        let biases = matches!(ask(Request::Biases), Answer::Bool(true));
        biases.then(worth).is_some()
    }

    /// As [`Explorer::inspecting`] says.
    ///
    /// [`Explorer::inspecting`]: crate::Explorer::inspecting
    fn may_inspect() -> bool {
        matches!(ask(Request::Inspects), Answer::Bool(true))
    }

    /// Locks of one name lie where another did. Others differ in the highest bits alone: their
    /// slots say the same but for the region.
    fn name_of(lock: usize) -> usize {
        number(lock) << 33
    }

    fn spin_begin() {}

    fn need_resched() -> bool {
        decide(Question::Whim("should stop spinning"))
    }

    fn spin_until(
        word: &CheckWord,
        order: Ordering,
        _look: Look,
        looks: u32,
        done: impl FnMut(u32) -> bool,
        stop: impl FnMut() -> bool,
    ) -> Option<u32> {
        wait(word, order, looks, done, stop)
    }

    fn park(deadline: Option<Deadline>) -> Woken {
        if rests() {
            let me = Self::me().number();
            WORLD.with(|world| {
                if world.readers.lists(me) && Self::mine().unbinds_slots() {
                    world.readers.unlist(me);
                }
            });
        }
        let deadline = deadline.map(|deadline| deadline.0);
        match ask(Request::Op(Op::Park { deadline })) {
            Answer::Bool(true) => Woken::TimedOut,
            _ => Woken::Unparked,
        }
    }

    fn unpark(task: TaskId) {
        let thread = index(task);
        ask(Request::Op(Op::Unpark { thread }));
    }

    fn park_on(word: &CheckWord, expected: u32, deadline: Option<Deadline>) -> Woken {
        Self::fence();
        match sleep_on(word, expected, NonZeroU32::MAX, deadline) {
            Waited::TimedOut => Woken::TimedOut,
            Waited::Woken | Waited::Changed => Woken::Unparked,
        }
    }

    fn unpark_on(word: *const CheckWord, _task: TaskId) {
        if let Some(word) = at(word.addr()) {
            call(Call::wake(word, u32::MAX, u32::MAX));
        }
    }

    fn stamp() -> u32 {
        0
    }

    /// As the checker likes.
    fn elapsed(_stamp: u32, _micros: u32) -> bool {
        decide(Question::Whim("finds that time has elapsed"))
    }

    /// As the checker likes, until it has.
    fn passed(deadline: Deadline) -> bool {
        decide(Question::Passed(deadline.0))
    }

    fn yield_to(_task: TaskId) {}

    fn store_if(word: &CheckWord, value: u32, guard: &CheckWord, expected: u32) -> bool {
        if decide(Question::Whim("is interrupted in a conditional store")) {
            return false;
        }
        let (word, guard) = (word.index(), guard.index());
        let op = Op::StoreIf {
            word,
            value,
            guard,
            expected,
        };
        matches!(ask(Request::Op(op)), Answer::Bool(true))
    }

    /// As [`Explorer::pairing`] says.
    ///
    /// [`Explorer::pairing`]: crate::Explorer::pairing
    fn replace_pair(
        words: [&CheckWord; 2],
        before: [u32; 2],
        after: impl FnOnce() -> [u32; 2],
    ) -> Option<[u32; 2]> {
        if !matches!(ask(Request::Pairs), Answer::Bool(true)) {
            return None;
        }
        let op = Op::ReplacePair {
            words: words.map(CheckWord::index),
            before,
            after: after(),
        };
        match ask(Request::Op(op)) {
            Answer::Pair(found) => Some(found),
            _ => unreachable!("a pair is answered by a pair"),
        }
    }

    fn quiesce() {
        ask(Request::Op(Op::Quiesce));
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn after(nanos: u64) -> Deadline {
        Deadline(now() + nanos)
    }

    fn event(event: Event) {
        ask(Request::Mark(event as usize));
    }
}

/// A counter on a machine of two CPUs.
pub struct CheckCounter([CheckWord; 2]);

impl<K: Kind> PerCpu for Tasks<K> {
    type Counter = CheckCounter;

    const ZERO: CheckCounter = CheckCounter([CheckWord::ZERO, CheckWord::ZERO]);

    /// Tasks of odd numbers are on one CPU, the others on the other, unless the
    /// checker likes to move one.
    fn add_if(counter: &CheckCounter, delta: i64, guard: &CheckWord, expected: u32) -> bool {
        if decide(Question::Whim("is interrupted in a conditional addition")) {
            return false;
        }
        let moved = decide(Question::Whim("is moved to the other CPU"));
        let part = &counter.0[(Self::me().number() as usize + usize::from(moved)) % 2];
        let (word, guard) = (part.index(), guard.index());
        let op = Op::AddIf {
            word,
            delta: delta as u32,
            guard,
            expected,
        };
        matches!(ask(Request::Op(op)), Answer::Bool(true))
    }

    fn sum(counter: &CheckCounter) -> u64 {
        let parts = counter.0.iter().map(|part| part.load(Ordering::Acquire));
        u64::from(parts.fold(0, u32::wrapping_add))
    }
}

impl Priority for Check {
    fn own(task: TaskId) -> Prio {
        Prio::real_time(record(task).own.load(Ordering::Relaxed))
    }

    fn lend(task: TaskId, prio: Prio) {
        let level = prio.level().expect("a task of a model has a level");
        record(task).lent.store(level, Ordering::Relaxed);
    }
}

fn call(call: Call) -> Answer {
    let kernel = WORLD.with(|world| &world.kernel).index();
    ask(Request::Op(Op::Call { kernel, call }))
}

/// Gates are as in every other world: that the kernel lends for them, too, changes
/// nothing of who may enter.
impl KernelPi for Check {
    fn boosts() -> bool {
        let owns = Request::Urgent { or_owns: true };
        matches!(ask(owns), Answer::Bool(true))
    }

    fn boosted() -> bool {
        let urgent = Request::Urgent { or_owns: false };
        matches!(ask(urgent), Answer::Bool(true))
    }

    /// So that it spins first. That it does not a model of the strict mutex shows.
    fn preempted(_owner: TaskId) -> bool {
        false
    }

    fn holds(_lock: usize) {
        ask(Request::Holds(true));
    }

    fn left_reserved() {
        ask(Request::Holds(false));
    }

    fn lets_go(_lock: usize) {
        ask(Request::Holds(false));
    }

    fn lock_pi(word: &CheckWord, deadline: Option<Deadline>) -> LockPi {
        let word = word.index();
        match call(Call::Lock { word }) {
            Answer::Bool(true) => return LockPi::Taken,
            Answer::Bool(_) => return LockPi::Deadlock,
            _ => {}
        }
        let deadline = deadline.map(|deadline| deadline.0);
        match call(Call::Wait { deadline }) {
            Answer::Bool(true) => LockPi::Taken,
            _ => LockPi::TimedOut,
        }
    }

    fn unlock_pi(word: &CheckWord) {
        let word = word.index();
        call(Call::Unlock { word });
    }
}

fn sleep_on(
    word: &CheckWord,
    expected: u32,
    bitset: NonZeroU32,
    deadline: Option<Deadline>,
) -> Waited {
    let (word, bits) = (word.index(), bitset.get());
    let sleep = Call::Sleep {
        word,
        expected,
        bits,
    };
    if matches!(call(sleep), Answer::Bool(false)) {
        return Waited::Changed;
    }
    let deadline = deadline.map(|deadline| deadline.0);
    match call(Call::Wait { deadline }) {
        Answer::Bool(true) => Waited::Woken,
        _ => Waited::TimedOut,
    }
}

impl KernelFutex for Check {
    type Refused = Infallible;

    fn futex_wait(
        word: &CheckWord,
        expected: u32,
        bitset: NonZeroU32,
        deadline: Option<Deadline>,
    ) -> Result<Waited, Infallible> {
        Ok(sleep_on(word, expected, bitset, deadline))
    }

    fn futex_wake(word: &CheckWord, most: u32, bitset: NonZeroU32) -> u32 {
        match call(Call::wake(word.index(), most, bitset.get())) {
            Answer::Value(woken) => woken,
            _ => unreachable!("the kernel counts whom it wakes"),
        }
    }

    fn own(slot: &CheckWord) -> Option<u32> {
        let me = Self::me();
        record(me).slot.set(Some(slot.index()));
        Some(Self::number_of_owner())
    }

    fn number_of_owner() -> u32 {
        Self::me().number()
    }

    fn disown() {
        record(Self::me()).slot.set(None);
    }

    fn look_again(deadline: Option<Deadline>) -> Option<Deadline> {
        deadline
    }
}

/// What the kernel of Linux leaves in a slot whose owner has died.
const WIPED: u32 = 1 << 30;

/// The calling task is killed: the kernel wipes the slot that it owns, and it must not do
/// anything any more.
pub fn die() {
    let me = Check::me();
    if let Some(word) = record(me).slot.take() {
        let (old, new) = (me.number(), WIPED);
        ask(Request::Op(Op::Update {
            word,
            update: Update::Exchange { old, new },
            order: Ordering::Relaxed,
            err: Ordering::Relaxed,
        }));
    }
}

/// Gives the calling task a level of its own, 0 at the start, to lend in the kernel.
pub fn be_urgent(level: u32) {
    ask(Request::Level(level));
}

/// Waits until the kernel lends the calling task this level.
pub fn await_boost(level: u32) {
    call(Call::AwaitLent { level });
}

/// Gives a task a priority of its own: a level, 0 at the start.
pub fn set_level(task: TaskId, level: u32) {
    record(task).own.store(level, Ordering::Relaxed);
}

/// The level at which a task runs: its own, or the one that it is lent.
pub fn level(task: TaskId) -> u32 {
    let Record { own, lent, .. } = record(task);
    own.load(Ordering::Relaxed)
        .max(lent.load(Ordering::Relaxed))
}

/// Waits until a task is lent this level.
pub fn await_lent(task: TaskId, level: u32) {
    let lent = &record(task).lent;
    let done = |lent| lent == level;
    Check::spin_until(lent, Ordering::Relaxed, Look::Poll, FOREVER, done, || false);
}

/// The levels that a task was lent, if ever from the first 0 on.
pub fn lent_levels(task: TaskId) -> Vec<u32> {
    history(&record(task).lent, 0)
}
