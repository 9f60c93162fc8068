//! Linux user space as a world for lockyard's locks: the only system calls and
//! the only target cfgs of the project.
//!
//! | a lock asks | Linux answers with |
//! |---|---|
//! | who am I | a thread-local number and a record that is never freed |
//! | does the owner run | not if the kernel last said that it is on my CPU; two samples of its thread's CPU clock: equal, it does not |
//! | should I stop spinning | a jump of the time-stamp counter: I was descheduled; or a budget |
//! | wait for a word | `pause`, `WFE`, `UMWAIT` or `MWAITX` |
//! | count without a barrier | a part of the counter for each CPU, a restartable sequence |
//! | release without a barrier | a restartable sequence, and `membarrier` for who must see it |
//! | sleep, wake | a futex in the record |
//! | lend my priority | the kernel's priority-inheriting futex |
//! | sleep on a word that other processes map | the kernel's shared futex |
//! | forget me when I am killed | the list of robust locks |
//!
//! Six modules are no answers to locks of core: [`kernel_pi`], [`robust`] and
//! [`condvar`] are the kernel's own queues, by priority; [`mod@futex`] is core's futex, for
//! the words of others; [`interrupt`] ends waits there from without; [`errno`] stays as it is.

mod arch;
pub mod clock;
pub mod condvar;
pub mod errno;
pub mod events;
pub mod exit;
pub mod futex;
pub mod interrupt;
pub mod kernel_pi;
mod loaded;
mod mapping;
mod pace;
mod park;
mod percpu;
pub mod robust;
mod rseq;
mod spin;
mod tasks;
mod urgency;
mod whereabouts;

use std::{
    marker::PhantomData,
    sync::atomic::{
        AtomicU32,
        Ordering::{self, Acquire, Relaxed, Release},
        fence,
    },
};

use kernel_pi::Scope;
use lockyard_core::{
    Clock, Deadline, Event, KernelPi, LockPi, Look, PerCpu, Platform, Running, TaskId, TaskRecord,
    Woken,
};
pub use tasks::is_gone;
use tasks::{Numbers, Tids};
use urgency::{URGENCY, Urgency};

/// Does now what the calling thread's first lock would do, some microseconds of work: gives it
/// a record, and asks by which policy it is scheduled. For a real-time thread, before its first
/// deadline, and again when its policy has changed.
pub fn prepare_thread() {
    LinuxPi::me();
    URGENCY.with(Urgency::ask);
}

/// Threads of one Linux process, by numbers of the kind `N`.
pub struct Threads<N>(PhantomData<N>);

/// Threads of one Linux process.
pub type Linux = Threads<tasks::Dense>;

/// Threads of one Linux process by the kernel's numbers: a lock word with the number
/// of its owner is one that the kernel understands.
pub type LinuxPi = Threads<tasks::Tids>;

impl<N: Numbers> Platform for Threads<N> {
    type U32 = AtomicU32;

    /// Every wait for an event also ends after 100 µs at most.
    const EVENT_SEES_RUNNING: bool = true;

    #[inline(always)]
    fn me() -> TaskId {
        N::me()
    }
    fn task(task: TaskId) -> &'static TaskRecord<Self> {
        N::locks(tasks::record(N::dense(task)))
    }
    #[inline(always)]
    fn mine() -> &'static TaskRecord<Self> {
        N::locks(tasks::mine())
    }
    #[inline(always)]
    fn known() -> Option<&'static TaskRecord<Self>> {
        tasks::known().map(N::locks)
    }
    fn each_task(show: impl FnMut(&'static TaskRecord<Self>)) {
        tasks::records().map(N::locks).for_each(show);
    }
    fn each_reader(show: impl FnMut(&'static TaskRecord<Self>)) {
        tasks::readers().map(N::locks).for_each(show);
    }
    fn lists_reader() {
        tasks::lists_reader();
    }
    fn was_another() -> bool {
        tasks::was_another()
    }
    fn meddled() -> Option<&'static AtomicU32> {
        static MEDDLED: AtomicU32 = AtomicU32::new(0);
        Some(&MEDDLED)
    }
    fn running(task: TaskId) -> Running {
        spin::running(N::dense(task), N::hurries())
    }
    fn exists(task: TaskId) -> bool {
        tasks::exists(N::dense(task))
    }
    const FORKS: bool = true;
    #[inline]
    fn is_fork() -> bool {
        tasks::is_fork()
    }
    fn borrow() -> Option<TaskId> {
        (!N::KERNEL).then(tasks::borrow)
    }
    fn give_back(record: TaskId) {
        tasks::release(record);
    }
    #[inline(always)]
    fn number() -> u32 {
        N::number()
    }
    #[inline(always)]
    fn took(lock: Option<usize>) {
        tasks::keeper().takes(lock, pace::now);
    }
    #[inline(always)]
    fn took_unkept() -> bool {
        tasks::keeper().takes_one()
    }
    fn provide(from: *const u8, bytes: usize) -> bool {
        futex::provide(from, bytes)
    }
    fn waits(lock: usize) {
        tasks::keeper().waits(lock);
    }
    #[inline(always)]
    fn waited(lock: usize) -> bool {
        tasks::keeper().waited(lock)
    }
    fn gives_up(lock: usize) {
        tasks::keeper().gives_up(lock);
    }
    #[inline(always)]
    fn keeps(lock: usize) -> bool {
        tasks::keeper().keeps(lock)
    }
    #[inline(always)]
    fn retook() {
        tasks::keeper().retakes();
    }
    #[inline(always)]
    fn may_inspect() -> bool {
        tasks::keeper().is_due()
    }
    #[inline(always)]
    fn sees(lock: usize) -> bool {
        tasks::keeper().sees(lock, pace::now)
    }
    #[inline(always)]
    fn may_bias(worth: impl FnOnce() -> bool) -> bool {
        tasks::keeper().is_sampled() && rseq::restarts() && worth()
    }
    #[inline(always)]
    fn pace(half_transfers: u32) -> Look {
        pace::look(half_transfers)
    }
    fn looks_seldom(half_transfers: u32) -> bool {
        pace::is_seldom(half_transfers)
    }
    fn gain() -> Option<u32> {
        pace::gain()
    }
    fn spin_begin() {
        spin::begin();
    }
    fn need_resched() -> bool {
        spin::need_resched()
    }
    #[inline]
    fn spin_until(
        word: &AtomicU32,
        order: Ordering,
        look: Look,
        looks: u32,
        done: impl FnMut(u32) -> bool,
        stop: impl FnMut() -> bool,
    ) -> Option<u32> {
        spin::until(word, order, look, looks, done, stop)
    }
    fn park(deadline: Option<Deadline>) -> Woken {
        tasks::park(deadline)
    }
    fn unpark(task: TaskId) {
        park::unpark(&tasks::record(N::dense(task)).parker);
    }
    #[inline]
    fn park_on(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) -> Woken {
        park::park_on(word, expected, deadline)
    }
    fn unpark_on(word: *const AtomicU32, _: TaskId) {
        park::unpark_at(word);
    }
    fn yield_to(_: TaskId) {
        spin::let_run();
    }
    #[inline(always)]
    fn about_to_write(word: &AtomicU32) {
        arch::prefetch_for_write(word);
    }
    #[inline(always)]
    fn fetch_ahead(fetch: impl FnOnce()) {
        fetch();
    }
    #[inline(always)]
    fn about_to_unpark(task: TaskId) {
        arch::prefetch_for_write(&tasks::record(N::dense(task)).parker);
    }
    #[inline(always)]
    fn store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
        rseq::store_if(word, value, guard, expected)
    }
    #[inline(always)]
    fn try_store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
        rseq::try_store_if(word, value, guard, expected)
    }
    #[inline(always)]
    fn replace_pair(
        words: [&AtomicU32; 2],
        before: [u32; 2],
        after: impl FnOnce() -> [u32; 2],
    ) -> Option<[u32; 2]> {
        // Where nobody has fetched the line, to test and store is the shorter way.
        if !tasks::keeper().waited(words[0].as_ptr().addr()) {
            return None;
        }
        arch::replace_pair(words, before, after())
    }
    fn quiesce() {
        rseq::quiesce();
    }
    const OWN_GATES: bool = N::KERNEL;

    fn lock_gate(gate: &AtomicU32, wait: bool) -> bool {
        // (G1) Acquire pairs with unlock_gate's Release.
        let free = gate.compare_exchange(0, N::me().number(), Acquire, Relaxed);
        if free.is_err() && wait {
            let ended = kernel_pi::lock_pi(gate, Scope::Private, None);
            assert_eq!(
                ended,
                LockPi::Taken,
                "who holds a gate neither waits nor ends"
            );
        }
        free.is_ok() || wait
    }
    fn unlock_gate(gate: &AtomicU32) {
        // (G1) Release pairs with lock_gate's Acquire.
        let alone = gate.compare_exchange(N::me().number(), 0, Release, Relaxed);
        if alone.is_err() {
            kernel_pi::unlock_pi(gate, Scope::Private);
        }
    }
    fn fence() {
        arch::fence();
    }
    #[inline(always)]
    fn swap_fenced(word: &AtomicU32, value: u32, order: Ordering) -> u32 {
        arch::swap_fenced(word, value, order)
    }
    #[inline(always)]
    fn compare_exchange_fenced(word: &AtomicU32, old: u32, new: u32) -> bool {
        arch::compare_exchange_fenced(word, old, new)
    }
    fn after(nanos: u64) -> Deadline {
        clock::monotonic(clock::monotonic_ns().saturating_add(nanos))
    }
    fn sooner(deadline: Option<Deadline>, nanos: u64) -> Deadline {
        clock::sooner(deadline, nanos)
    }
    fn stamp() -> u32 {
        clock::stamp()
    }
    fn elapsed(stamp: u32, micros: u32) -> bool {
        // Another CPU's stamp may be a little ahead. One that is far ahead is from
        // more than half a turn of the clock ago, 36 minutes.
        const AHEAD: i32 = -1_000_000;
        let passed = clock::stamp().wrapping_sub(stamp).cast_signed();
        passed > micros.cast_signed() || passed < AHEAD
    }
    fn passed(deadline: Deadline) -> bool {
        clock::passed(deadline)
    }
    #[inline(always)]
    fn event(event: Event) {
        if event == Event::SpinAcquired {
            pace::acquired();
        }
        if N::KERNEL && matches!(event, Event::SpinAcquired | Event::SpinOwnerOff) {
            URGENCY.with(|mine| mine.spun(event == Event::SpinAcquired));
        }
        events::count(event);
    }
}

impl<N: Numbers> PerCpu for Threads<N> {
    type Counter = percpu::Counter;

    const ZERO: percpu::Counter = percpu::Counter::new();

    #[inline(always)]
    fn add_if(counter: &percpu::Counter, delta: i64, guard: &AtomicU32, expected: u32) -> bool {
        counter.add_if(delta, guard, expected)
    }
    fn make_room(counter: &percpu::Counter) -> Result<(), &'static str> {
        counter.make_room()
    }
    fn sum(counter: &percpu::Counter) -> u64 {
        counter.sum()
    }
}

/// Not every thread's priority is worth lending: the kernel takes all that are
/// scheduled fairly for one.
impl KernelPi for LinuxPi {
    fn boosts() -> bool {
        tasks::keeper().holds_any() || URGENCY.with(Urgency::ask)
    }
    #[inline]
    fn boosted() -> bool {
        URGENCY.with(Urgency::is_urgent)
    }
    /// The owner is on the caller's CPU; or the caller's last spin was for an owner that
    /// did not run, and so have others been lately.
    fn preempted(owner: TaskId) -> bool {
        let place = &tasks::record(Tids::dense(owner)).whereabouts;
        URGENCY.with(|mine| mine.is_urgent() && (place.is_here() || mine.expects_nothing()))
    }
    #[inline(always)]
    fn holds(lock: usize) {
        tasks::keeper().holds(lock);
    }
    /// Nothing needs to be known: see `is_mine` of `tasks.rs`.
    #[inline(always)]
    fn left_reserved() {}
    #[inline(always)]
    fn lets_go(lock: usize) {
        tasks::keeper().lets_go(lock);
    }
    fn lock_pi(word: &AtomicU32, deadline: Option<Deadline>) -> LockPi {
        let ended = kernel_pi::lock_pi(word, Scope::Private, deadline);
        fence(Acquire); // what the owner before did, whatever the kernel's barriers
        // An owner that ended may have leaked its guard, with what that borrows: the mutex is
        // nobody's from then on, though its word names the caller now, and has the mark.
        let is_inherited = word.load(Relaxed) & kernel_pi::OWNER_DIED != 0;
        match ended {
            LockPi::Taken if is_inherited => LockPi::NoOwner,
            ended => ended,
        }
    }
    fn unlock_pi(word: &AtomicU32) {
        fence(Release); // likewise
        kernel_pi::unlock_pi(word, Scope::Private);
    }
}

impl<N: Numbers> Clock for Threads<N> {
    type Instant = std::time::Instant;

    fn deadline(at: &std::time::Instant) -> Deadline {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now = std::time::Instant::now();
        match now.checked_duration_since(*at) {
            // Not now: the kernel would set a timer, and be 50 µs late.
            Some(passed) => Deadline(clock::monotonic_ns().saturating_sub(nanos(passed))),
            None => Self::after(nanos(*at - now)),
        }
    }

    fn checked_after(duration: std::time::Duration) -> Option<std::time::Instant> {
        std::time::Instant::now().checked_add(duration)
    }
}
