//! What the mutex with the kernel's priority inheritance asks of a kernel.

use super::{Deadline, Platform, TaskId};

/// A world whose kernel lends the priority of who waits for a word to the task that
/// the word names: Linux, by `FUTEX_LOCK_PI`.
///
/// The word is 0 or holds the owner's task number, and with [`KERNEL_WAITERS`] the
/// kernel has waiters for it, or had. Then the kernel alone may release it.
pub trait KernelPi: Platform {
    /// Whether the calling task, which is about to wait, has a priority to lend: its own,
    /// or one that it may be lent itself, as the owner of such a word.
    fn boosts() -> bool;

    /// Whether the caller had a priority of its own to lend when it last asked. A hint.
    fn boosted() -> bool;

    /// Whether the calling task has a priority to lend, and had best lend it to `owner`
    /// at once, for that one is hardly running. A hint.
    fn preempted(owner: TaskId) -> bool;

    /// The calling task took the lock, which was not reserved for it.
    fn holds(lock: usize);

    /// The calling task has released the lock.
    fn lets_go(lock: usize);
    /// The same, and has kept the lock reserved.
    fn left_reserved();

    /// Takes the word, and acquires. Waits for it, lending the owner the caller's
    /// priority: the most urgent is first. Does not spin.
    fn lock_pi(word: &Self::U32, deadline: Option<Deadline>) -> LockPi;

    /// Releases the word, the caller's, to the most urgent waiter, or to nobody, with 0.
    fn unlock_pi(word: &Self::U32);
}

/// A mark of a word for [`KernelPi::lock_pi`].
pub const KERNEL_WAITERS: u32 = 1 << 31;
/// Another, of a word whose owner has ended while others waited in the kernel. It names the
/// first of those, who has not got it: it is nobody's, for ever.
pub const KERNEL_OWNER_DIED: u32 = 1 << 30;

/// How [`KernelPi::lock_pi`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockPi {
    /// The caller has the word.
    Taken,
    /// The deadline has passed.
    TimedOut,
    /// The caller would wait for itself, through the words that it and others own.
    Deadlock,
    /// The owner has ended, without releasing the word.
    NoOwner,
}
