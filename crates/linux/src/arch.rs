//! What differs between processors: the cycle counter, the pause of a spin
//! loop, and a light sleep until a word's cache line changes.

/// The longest wait for an event, in microseconds: what ends it when the line
/// does not change. On aarch64 the kernel's event stream does, at 10 kHz.
pub const EVENT_MICROS: u32 = 100;

pub use imp::{
    compare_exchange_fenced, cycles, fence, ordered_cycles, prefetch_for_write, replace_pair,
    rseq_add_if, rseq_store_if, swap_fenced, thread_pointer, wait_for_event,
};

#[cfg(target_arch = "x86_64")]
#[path = "arch/x86_64.rs"]
mod imp;
#[cfg(target_arch = "aarch64")]
#[path = "arch/aarch64.rs"]
mod imp;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "arch/other.rs"]
mod imp;
