//! Linux user space as a world for lockyard's locks: the only system calls and
//! the only target cfgs of the project.
//!
//! | a lock asks | Linux answers with |
//! |---|---|
//! | who am I | a thread-local number and a record that is never freed |
//! | does the owner run | two samples of its thread's CPU clock: equal, it does not |
//! | should I stop spinning | a jump of the time-stamp counter: I was descheduled; or a budget |
//! | wait for a word | `pause`, `WFE`, `UMWAIT` or `MWAITX` |
//! | count without a barrier | a part of the counter for each CPU, a restartable sequence |
//! | release without a barrier | a restartable sequence, and `membarrier` for who must see it |
//! | sleep, wake | a futex in the record |

mod arch;
pub mod clock;
pub mod events;
pub mod kernel_pi;
mod pace;
mod park;
mod percpu;
mod rseq;
mod spin;
mod tasks;

use std::sync::atomic::{AtomicU32, fence};

use lockyard_core::{
    Clock, Deadline, Event, Look, Ordering, PerCpu, Platform, Running, TaskId, TaskRecord, Woken,
};

/// Threads of one Linux process.
pub struct Linux;

impl Platform for Linux {
    type U32 = AtomicU32;

    /// Every wait for an event also ends after 100 µs at most.
    const EVENT_SEES_RUNNING: bool = true;

    #[inline(always)]
    fn me() -> TaskId {
        tasks::me()
    }
    fn task(task: TaskId) -> &'static TaskRecord<Self> {
        &tasks::record(task).locks
    }
    fn running(task: TaskId) -> Running {
        spin::running(task)
    }
    fn exists(task: TaskId) -> bool {
        tasks::exists(task)
    }
    #[inline(always)]
    fn is_me(number: u32) -> bool {
        tasks::is_me(number)
    }
    #[inline(always)]
    fn took(lock: Option<usize>) {
        tasks::KEEPER.with(|keeper| keeper.takes(lock, pace::now));
    }
    fn waits(lock: usize) {
        tasks::KEEPER.with(|keeper| keeper.waits(lock));
    }
    fn gives_up(lock: usize) {
        tasks::KEEPER.with(|keeper| keeper.gives_up(lock));
    }
    #[inline(always)]
    fn keeps(lock: usize) -> bool {
        tasks::KEEPER.with(|keeper| keeper.keeps(lock))
    }
    #[inline(always)]
    fn kept(lock: usize) -> Option<TaskId> {
        tasks::KEEPER.with(|keeper| keeper.kept(lock))
    }
    #[inline(always)]
    fn pace() -> Look {
        pace::look()
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
        park::park(&tasks::record(tasks::me()).parker, deadline)
    }
    fn unpark(task: TaskId) {
        park::unpark(&tasks::record(task).parker);
    }
    fn yield_to(_: TaskId) {
        spin::let_run();
    }
    #[inline(always)]
    fn about_to_write(word: &AtomicU32) {
        arch::prefetch_for_write(word);
    }
    #[inline(always)]
    fn store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
        rseq::store_if(word, value, guard, expected)
    }
    #[inline(always)]
    fn try_store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
        rseq::try_store_if(word, value, guard, expected)
    }
    fn quiesce() {
        rseq::quiesce();
    }
    fn fence() {
        fence(Ordering::SeqCst);
    }
    fn after(nanos: u64) -> Deadline {
        Deadline(clock::monotonic_ns().saturating_add(nanos))
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
        clock::monotonic_ns() >= deadline.0
    }
    #[inline(always)]
    fn event(event: Event) {
        if event == Event::SpinAcquired {
            pace::acquired();
        }
        events::count(event);
    }
}

impl PerCpu for Linux {
    type Counter = percpu::Counter;

    const ZERO: percpu::Counter = percpu::Counter::new();

    #[inline(always)]
    fn add_if(counter: &percpu::Counter, delta: u32, guard: &AtomicU32, expected: u32) -> bool {
        counter.add_if(delta, guard, expected)
    }
    fn sum(counter: &percpu::Counter) -> u32 {
        counter.sum()
    }
}

impl Clock for Linux {
    type Instant = std::time::Instant;

    fn deadline(at: &std::time::Instant) -> Deadline {
        let left = at.saturating_duration_since(std::time::Instant::now());
        Self::after(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    fn checked_after(duration: std::time::Duration) -> Option<std::time::Instant> {
        std::time::Instant::now().checked_add(duration)
    }
}
