//! Any other processor: what the standard library has.

use std::sync::atomic::{
    self, AtomicU32, AtomicU64, Ordering,
    Ordering::{Relaxed, SeqCst},
};

/// The monotonic clock, for want of a counter that user space may read.
pub fn cycles() -> u64 {
    crate::clock::monotonic_ns()
}

/// The same; a call keeps the order well enough.
pub fn ordered_cycles() -> u64 {
    cycles()
}

/// A full barrier.
#[inline(always)]
pub fn fence() {
    atomic::fence(SeqCst);
}

/// A swap and a full barrier.
#[inline(always)]
pub fn swap_fenced(word: &AtomicU32, value: u32, order: Ordering) -> u32 {
    let old = word.swap(value, order);
    fence();
    old
}

/// A compare-exchange and, whether it was made or not, a full barrier.
#[inline(always)]
pub fn compare_exchange_fenced(word: &AtomicU32, old: u32, new: u32) -> bool {
    let made = word.compare_exchange(old, new, Relaxed, Relaxed);
    fence();
    made.is_ok()
}

/// Cannot.
pub fn wait_for_event(_: &AtomicU32, _: u32) -> bool {
    false
}

/// No such step is known.
#[inline(always)]
pub fn replace_pair(_: [&AtomicU32; 2], _: [u32; 2], _: [u32; 2]) -> Option<[u32; 2]> {
    None
}

/// Not known how.
pub fn prefetch_for_write(_: &AtomicU32) {}

/// No such code is known, though the C library may have registered an area.
pub const RESTARTS: bool = false;

/// Never called: nobody looks for an area.
pub fn thread_pointer() -> *mut u8 {
    unreachable!("no restartable sequences on this processor")
}

/// Never called: nobody has an area.
///
/// # Safety
/// None is needed.
pub unsafe fn rseq_store_if(_: *mut u8, _: &AtomicU32, _: u32, _: &AtomicU32, _: u32) -> bool {
    unreachable!("no restartable sequences on this processor")
}

/// Never called: nobody has an area.
///
/// # Safety
/// None is needed.
pub unsafe fn rseq_add_if(_: *mut u8, _: *const AtomicU64, _: i64, _: &AtomicU32, _: u32) -> bool {
    unreachable!("no restartable sequences on this processor")
}
