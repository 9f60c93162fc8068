//! The seam between a lock and the world it runs in.
//!
//! A lock is written once, generic over [`Platform`]. Linux user space, the
//! simulated machine and the model checker each implement it; a kernel is a
//! fourth world. This is the only file of the crate that names
//! `core::sync::atomic`.

mod event;
mod kernel_futex;
mod kernel_pi;
mod prio;
mod record;
mod settle;

use core::num::NonZeroU32;
pub use core::sync::atomic::Ordering;

pub use event::Event;
pub use kernel_futex::{KernelFutex, SLOT_OWNER};
pub use kernel_pi::{KERNEL_OWNER_DIED, KERNEL_WAITERS, KernelPi, LockPi};
pub use prio::Prio;
pub use record::TaskRecord;
pub(crate) use settle::settle;

/// A 32-bit word of shared memory. Its only constructor is [`Word::ZERO`], so
/// that a lock of zero bytes is an unlocked lock.
pub trait Word: Send + Sync + 'static {
    /// The zero word.
    const ZERO: Self;
    /// Reads the word.
    fn load(&self, order: Ordering) -> u32;
    /// Writes the word.
    fn store(&self, value: u32, order: Ordering);
    /// Writes the word and returns what it held.
    fn swap(&self, value: u32, order: Ordering) -> u32;
    /// Writes `new` if the word holds `old`. Never fails spuriously.
    ///
    /// # Errors
    /// What the word held, if that was not `old`.
    fn compare_exchange(&self, old: u32, new: u32, ok: Ordering, err: Ordering)
    -> Result<u32, u32>;
    /// Adds, wrapping, and returns what the word held.
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    /// Sets bits and returns what the word held.
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32;
    /// Keeps only the bits of `mask` and returns what the word held.
    fn fetch_and(&self, mask: u32, order: Ordering) -> u32;
}

/// The word of tests that need no world.
#[cfg(test)]
pub(crate) type NativeWord = core::sync::atomic::AtomicU32;

impl Word for core::sync::atomic::AtomicU32 {
    const ZERO: Self = Self::new(0);
    #[inline(always)]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }
    #[inline(always)]
    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }
    #[inline(always)]
    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.swap(value, order)
    }
    #[inline(always)]
    fn compare_exchange(
        &self,
        old: u32,
        new: u32,
        ok: Ordering,
        err: Ordering,
    ) -> Result<u32, u32> {
        self.compare_exchange(old, new, ok, err)
    }
    #[inline(always)]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.fetch_add(value, order)
    }
    #[inline(always)]
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        self.fetch_or(bits, order)
    }
    #[inline(always)]
    fn fetch_and(&self, mask: u32, order: Ordering) -> u32 {
        self.fetch_and(mask, order)
    }
}

/// A small, dense number for a task. It is reused after the task has ended,
/// and it indexes task records that are never freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct TaskId(NonZeroU32);

impl TaskId {
    /// The largest task number: a lock word has other bits for flags.
    pub const MAX: u32 = (1 << 23) - 1;

    /// The task of this number, or `None` for 0, which in a word means no task.
    #[inline(always)]
    pub const fn new(number: u32) -> Option<Self> {
        debug_assert!(number <= Self::MAX);
        match NonZeroU32::new(number) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// The number, at least 1 and at most [`TaskId::MAX`].
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The number to store in a word that may name no task.
    #[inline(always)]
    pub(crate) const fn encode(task: Option<Self>) -> u32 {
        match task {
            Some(t) => t.number(),
            None => 0,
        }
    }
}

/// Whether a task is on a CPU at this moment, as far as the world can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Running {
    /// It is.
    Yes,
    /// It is not: who waits for it should sleep.
    No,
    /// Not known, or not known yet.
    Unknown,
}

/// Why [`Platform::park`] returned. Either may be spurious.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// Somebody called [`Platform::unpark`], or nobody did.
    Unparked,
    /// The deadline has passed.
    TimedOut,
}

/// How a spinner looks at the word it waits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Again and again, with the world's shortest pause in between.
    Poll,
    /// When the line changes, asleep lightly in between (`WFE`, `UMWAIT`),
    /// where the hardware can; else as [`Look::Poll`].
    Event,
    /// About once in so many nanoseconds: in between the line stays with the
    /// owner, who can take the lock again while it is hot.
    Every(u32),
}

/// As many looks as it takes.
pub const FOREVER: u32 = u32::MAX;

/// A moment on the world's clock, in nanoseconds from an origin of its own. A world may have
/// several clocks, so which of two moments comes first it alone can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline(pub u64);

/// A world that locks run in.
pub trait Platform: Sized + Send + Sync + 'static {
    /// A word of shared memory.
    type U32: Word;

    /// Whether a wait for an event ends, within a bounded time, when [`Platform::running`] of the
    /// task waited for changes. Where it does not (as `WFE` without an event stream does not see a
    /// vCPU preempted), the spin queue must poll; [`crate::osq::Event`] refuses to compile.
    const EVENT_SEES_RUNNING: bool;

    /// The calling task.
    fn me() -> TaskId;

    /// The record of a task. It stays valid memory for ever, even when the task has ended.
    fn task(task: TaskId) -> &'static TaskRecord<Self>;

    /// The record of the calling task.
    #[inline(always)]
    fn mine() -> &'static TaskRecord<Self> {
        Self::task(Self::me())
    }

    /// The same, for a fast path: `None` if it has never called [`Platform::me`].
    #[inline(always)]
    fn known() -> Option<&'static TaskRecord<Self>> {
        Some(Self::mine())
    }

    /// Shows the records of all tasks that have asked for their own, also of those that have ended.
    fn each_task(show: impl FnMut(&'static TaskRecord<Self>));

    /// The same, but perhaps not of those that are not on the list of readers: on it are those
    /// that were put there by [`Platform::lists_reader`], until their slots are found unbound
    /// ([`TaskRecord::unbinds_slots`]). A world finds them so as a task parks, and as it ends.
    fn each_reader(show: impl FnMut(&'static TaskRecord<Self>)) {
        Self::each_task(show);
    }

    /// Puts the caller on the list of readers, in a world that has one.
    fn lists_reader() {}

    /// Whether `task` is on a CPU. A hint: it may be wrong and it may be late.
    /// It is called by spinners at every look, so a world rations what costs.
    fn running(task: TaskId) -> Running;

    /// Whether `task` can still wake up: not if it is gone from a fork's child.
    fn exists(task: TaskId) -> bool;

    /// Whether the address space may be copied while tasks are at work in it, without them.
    const FORKS: bool = false;
    /// Whether this is such a copy: a fork's child.
    fn is_fork() -> bool {
        false
    }

    /// The number of a record that is nobody's, for the calling task to use besides its own
    /// until [`Platform::give_back`]; `None` in a world without such.
    fn borrow() -> Option<TaskId> {
        None
    }

    /// Ends that. Nobody will write to the record who does not say so before.
    fn give_back(_record: TaskId) {
        unreachable!("this world has no records to borrow")
    }

    /// The calling task's number, for a fast path: or 0, which is no task's, if it has
    /// never called [`Platform::me`].
    #[inline(always)]
    fn number() -> u32 {
        Self::me().number()
    }

    /// The calling task took a lock; this one, if it is of those that can be kept. So a world
    /// knows how a spinner had best look at it, and what [`Platform::keeps`] should say.
    #[inline(always)]
    fn took(_lock: Option<usize>) {}

    /// The same, of one that is not reserved for the caller ([`Platform::keeps`]), which has not
    /// waited for it lately. Returns as [`Platform::may_inspect`].
    #[inline(always)]
    fn took_unkept() -> bool {
        Self::took(None);
        Self::may_inspect()
    }

    /// Before a futex table uses memory of its own that nobody has touched, from there on:
    /// whether it may. If not, it does not grow.
    fn provide(_from: *const u8, _bytes: usize) -> bool {
        true
    }

    /// The calling task has to wait for the lock.
    #[inline(always)]
    fn waits(_lock: usize) {}

    /// Whether the calling task has waited for the lock lately, so that others likely have its
    /// cache line. Any answer is sound.
    #[inline(always)]
    fn waited(_lock: usize) -> bool {
        true
    }

    /// The calling task, which holds the lock, does not keep it.
    #[inline(always)]
    fn gives_up(_lock: usize) {}

    /// Whether the lock, which the calling task wants, may be reserved for it; or, which
    /// it releases, had best stay so: it comes back for it again and again, and nobody
    /// else does. Any answer is sound.
    #[inline(always)]
    fn keeps(_lock: usize) -> bool {
        false
    }

    /// The calling task took a lock that was reserved for it.
    #[inline(always)]
    fn retook() {}

    /// Whether the calling task, which has just taken a lock, is to call [`Platform::sees`].
    #[inline(always)]
    fn may_inspect() -> bool {
        false
    }

    /// The calling task takes note of the lock, which it has. Returns whether it may look whether the
    /// first waiter gets to run: now and then, for a look takes some time. Any answer is sound.
    fn sees(_lock: usize) -> bool {
        true
    }

    /// Whether the calling task, a reader that is about to leave a lock, may look whether
    /// its readers had best not write to it: now and then, for a look takes some time; and only
    /// if it is `worth` it, which is asked then. Any answer is sound.
    #[inline(always)]
    fn may_bias(_worth: impl FnOnce() -> bool) -> bool {
        false
    }

    /// What a lock at this address is known by: another multiple of 8, if the world has
    /// names that are its own.
    #[inline(always)]
    fn name_of(lock: usize) -> usize {
        lock
    }

    /// How a spinner had best look at a lock that tasks like the caller take
    /// again and again, and that takes so many halves of a transfer of a cache line to change
    /// hands; 0 if it is not handed from one to the next.
    fn pace(half_transfers: u32) -> Look;

    /// Whether spinners had best look seldom at such a lock, as far as the caller knows.
    fn looks_seldom(_half_transfers: u32) -> bool {
        false
    }

    /// What the calling task gains, of late, each time that it has a lock together with others,
    /// by a fence, and not in turns with them, in hundredths of a transfer of a cache line; if
    /// that is known.
    fn gain() -> Option<u32> {
        None
    }

    /// A spin starts: [`Platform::need_resched`] speaks of the time from now on.
    fn spin_begin();

    /// Whether a spinner should stop: it was descheduled, its slice is gone,
    /// or there is only one CPU.
    fn need_resched() -> bool;

    /// Waits until `done` accepts the word's value, and returns that value; or
    /// `None` after `looks` looks, unless these are [`FOREVER`], or when `stop`
    /// says so. What `stop` says may depend only on what it reads of words and asks of the
    /// platform: a world leaves out looks that cannot see anything new.
    fn spin_until(
        word: &Self::U32,
        order: Ordering,
        look: Look,
        looks: u32,
        done: impl FnMut(u32) -> bool,
        stop: impl FnMut() -> bool,
    ) -> Option<u32>;

    /// Sleeps until [`Platform::unpark`] of the calling task or the deadline.
    /// An unpark that came before the park makes it return at once: one is
    /// remembered. What happened before the unpark happens before the return.
    fn park(deadline: Option<Deadline>) -> Woken;

    /// Wakes `task`, or makes its next park return at once. The task may have
    /// ended, and its number may belong to another: parks are always in loops.
    fn unpark(task: TaskId);

    /// Sleeps until [`Platform::unpark_on`] of the word or the deadline if the word holds
    /// `expected`. There is a full barrier before the comparison; to
    /// compare and to fall asleep is one step towards the other. May return for no reason.
    ///
    /// A world without such sleep parks: then nothing but this is to unpark the caller.
    fn park_on(word: &Self::U32, expected: u32, deadline: Option<Deadline>) -> Woken {
        Self::fence();
        match word.load(Ordering::Relaxed) == expected {
            true => Self::park(deadline),
            false => Woken::Unparked,
        }
    }

    /// Wakes `task` if it sleeps by [`Platform::park_on`] of the word, and perhaps others that
    /// do; a comparison there that comes later finds what the caller stored to the word before.
    /// The word may be gone: then perhaps those that sleep on another at its address.
    fn unpark_on(_word: *const Self::U32, task: TaskId) {
        Self::unpark(task);
    }

    /// Lets `task`, which was just woken or is overdue, run if it waits for the caller's CPU.
    fn yield_to(task: TaskId);

    /// The calling task is about to read the word and then to write to it, or to
    /// its neighbours: a world that can fetches their line for that at once.
    #[inline(always)]
    fn about_to_write(_word: &Self::U32) {}

    /// Runs `fetch`, which may read words to learn what to fetch by
    /// [`Platform::about_to_write`], and does nothing else, in a world that can fetch.
    #[inline(always)]
    fn fetch_ahead(_fetch: impl FnOnce()) {}

    /// Whether the calling task may hold what it took as another, before it got its number: a
    /// thread that ends.
    fn was_another() -> bool {
        false
    }

    /// A word that is 0 until a task first counts readers of a lock that another may have
    /// suspended. `None` says that this is not known.
    fn meddled() -> Option<&'static Self::U32> {
        None
    }

    /// The calling task is about to unpark `task`: as [`Platform::about_to_write`].
    #[inline(always)]
    fn about_to_unpark(_task: TaskId) {}

    /// Stores `value` to `word` with `Release` if `guard` holds `expected`, which it
    /// reads with `Acquire`. `false` if it does not, or for no reason.
    ///
    /// The test and the store are one step towards [`Platform::quiesce`] alone; an interrupted pair
    /// starts over with the test. On Linux this is a restartable sequence: no atomic
    /// read-modify-write, no barrier, and nothing is touched after the store.
    fn store_if(word: &Self::U32, value: u32, guard: &Self::U32, expected: u32) -> bool;

    /// [`Platform::store_if`] for a fast path, small where it stands: `false` also
    /// where that would be a long way.
    #[inline(always)]
    fn try_store_if(word: &Self::U32, value: u32, guard: &Self::U32, expected: u32) -> bool {
        Self::store_if(word, value, guard, expected)
    }

    /// Replaces both words by `after` if they are `before`, as one step towards all, with a full
    /// barrier; returns what they were. `None` in a world that cannot, or where nothing
    /// would be gained.
    ///
    /// For who lets go of a lock that others want, at whose address the words lie: between
    /// the arrival of their cache line and a store that comes behind a test, somebody often
    /// looks, and has the line again. Whoever uses it also has a way without, of which this
    /// is the case in which nobody comes in between: what holds for that holds for this.
    #[inline(always)]
    fn replace_pair(
        _words: [&Self::U32; 2],
        _before: [u32; 2],
        _after: impl FnOnce() -> [u32; 2],
    ) -> Option<[u32; 2]> {
        None
    }

    /// Waits until no task is inside [`Platform::store_if`] or [`PerCpu::add_if`] with a test from
    /// before this call. The stores and additions of those that passed are visible to the caller,
    /// and later tests see the caller's writes from before this call.
    fn quiesce();

    /// Whether the world has locks of its own for the few accesses to a wait queue:
    /// where it can lend their holder the priority of who waits.
    const OWN_GATES: bool = false;

    /// Takes such a lock, if it `wait`s or finds it free, and acquires. Returns
    /// whether it did.
    fn lock_gate(_gate: &Self::U32, _wait: bool) -> bool {
        unreachable!("this world has no gates of its own")
    }

    /// Releases such a lock, with its last access to it.
    fn unlock_gate(_gate: &Self::U32) {
        unreachable!("this world has no gates of its own")
    }

    /// A `SeqCst` fence, for pairs in which each side writes one word and then
    /// reads the other's.
    fn fence();

    /// [`Word::swap`], and then [`Platform::fence`]: in many worlds the one is the other.
    fn swap_fenced(word: &Self::U32, value: u32, order: Ordering) -> u32 {
        let old = word.swap(value, order);
        Self::fence();
        old
    }

    /// [`Word::compare_exchange`] and, if it was made, [`Platform::fence`], which also acquires
    /// what the exchange read: likewise. Returns whether it was made.
    fn compare_exchange_fenced(word: &Self::U32, old: u32, new: u32) -> bool {
        let made = word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        if made.is_ok() {
            Self::fence();
        }
        made.is_ok()
    }

    /// The moment `nanos` nanoseconds from now.
    fn after(nanos: u64) -> Deadline;

    /// The deadline if it comes within so many nanoseconds from now on; else that moment.
    fn sooner(deadline: Option<Deadline>, nanos: u64) -> Deadline {
        let soon = Self::after(nanos);
        deadline.filter(|at| at.0 <= soon.0).unwrap_or(soon)
    }

    /// A coarse clock of microseconds that wraps.
    fn stamp() -> u32;

    /// Whether more than `micros` have passed since `stamp` was taken.
    fn elapsed(stamp: u32, micros: u32) -> bool;

    /// Whether the deadline has passed.
    fn passed(deadline: Deadline) -> bool;

    /// A lock took a rare path.
    fn event(event: Event);
}

/// A world with counters that are spread over its CPUs.
pub trait PerCpu: Platform {
    /// A number modulo 2^64, or 2^32 where nobody adds so often: the sum of parts, of which
    /// each CPU has its own. It lies in a lock, so all its bytes are zero until it is first
    /// used.
    type Counter: Send + Sync + 'static;

    /// The counter that nobody has added to.
    const ZERO: Self::Counter;

    /// Adds `delta`, wrapping, to a part of the caller's CPU if `guard` holds
    /// `expected`. `false` if it does not, or for no reason.
    ///
    /// The test acquires and the addition releases. Both are one step towards
    /// [`Platform::quiesce`] alone, as in [`Platform::store_if`]; and the addition
    /// is the last access to the counter. On Linux this is a restartable sequence:
    /// no atomic read-modify-write, no barrier, no line that another CPU writes.
    fn add_if(counter: &Self::Counter, delta: i64, guard: &Self::U32, expected: u32) -> bool;

    /// Sees to it that [`PerCpu::add_if`] has room for the parts, or says why there is none.
    fn make_room(_counter: &Self::Counter) -> Result<(), &'static str> {
        Ok(())
    }

    /// The sum of the parts, each of which it acquires one after the other: what
    /// happens meanwhile may be in it or not.
    fn sum(counter: &Self::Counter) -> u64;
}

/// A world with priorities, which one task can lend to another.
///
/// A world that changes the own priority of a task calls
/// [`rtmutex::adjust`](crate::rtmutex::adjust) afterwards.
pub trait Priority: Platform {
    /// The task's own priority, whatever it is lent.
    fn own(task: TaskId) -> Prio;

    /// From now on `task` runs at `prio` if that is above its own priority; with
    /// [`Prio::FAIR`] it is lent nothing. Calls for one task do not overlap, and
    /// each happens before the next. The caller holds a gate, so this must not
    /// wait for a task.
    fn lend(task: TaskId, prio: Prio);
}

/// A world whose moments in time have a type of their own.
pub trait Clock: Platform {
    /// That type.
    type Instant;
    /// The deadline of that moment.
    fn deadline(at: &Self::Instant) -> Deadline;
    /// The moment so long from now, if the type can name it.
    fn checked_after(duration: core::time::Duration) -> Option<Self::Instant>;
}

/// A pointer in shared memory, to be read and written under a lock.
pub(crate) struct Pointer<T>(core::sync::atomic::AtomicPtr<T>);

impl<T> Pointer<T> {
    pub(crate) const fn new() -> Self {
        Self(core::sync::atomic::AtomicPtr::new(core::ptr::null_mut()))
    }

    pub(crate) fn get(&self) -> *const T {
        self.0.load(Ordering::Relaxed) // the lock orders it
    }

    pub(crate) fn set(&self, to: *const T) {
        self.0.store(to.cast_mut(), Ordering::Relaxed); // the lock orders it
    }
}
