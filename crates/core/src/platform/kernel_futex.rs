//! What the futex of shared words asks of a kernel.

use core::num::NonZeroU32;

use super::{Deadline, Platform};
use crate::futex::Waited;

/// A world whose kernel has a task sleep until a word changes that other address spaces
/// may map as well: Linux, by `FUTEX_WAIT_BITSET`. And which can tell that a task has
/// ended: Linux, by the list of robust locks.
pub trait KernelFutex: Platform {
    /// Why the kernel cannot wait for a word.
    type Refused;

    /// If the word holds `expected`, sleeps until [`Self::futex_wake`] with a set that has
    /// a bit in common with `bitset`, or until the deadline. To compare and to fall asleep
    /// is one step towards that. What a waker did before happens before the return.
    ///
    /// # Errors
    /// There is no such word any more.
    fn futex_wait(
        word: &Self::U32,
        expected: u32,
        bitset: NonZeroU32,
        deadline: Option<Deadline>,
    ) -> Result<Waited, Self::Refused>;

    /// Wakes `most` tasks at most that sleep there, and returns how many.
    fn futex_wake(word: &Self::U32, most: u32, bitset: NonZeroU32) -> u32;

    /// Until [`Self::disown`], if the calling task ends while `slot` holds the number that
    /// this returns, the kernel wipes the bits [`SLOT_OWNER`] of it. A task owns one slot
    /// at a time. `None` where the kernel does not do that.
    fn own(slot: &Self::U32) -> Option<u32>;

    /// That number. It changes in a wait that a signal handler's fork interrupts, and that
    /// goes on in the child as well.
    fn number_of_owner() -> u32;

    /// Ends that.
    fn disown();

    /// Until when a task with this deadline may sleep: it should look again from time to
    /// time, for who shares the memory may do anything to it, if not all are trusted.
    fn look_again(deadline: Option<Deadline>) -> Option<Deadline>;
}

/// The bits of a slot that name its owner.
pub const SLOT_OWNER: u32 = (1 << 30) - 1;
