//! What differs between processors: the cycle counter, the pause of a spin
//! loop, and a light sleep until a word's cache line changes.

pub use imp::{
    RESTARTS, compare_exchange_fenced, cycles, fence, ordered_cycles, prefetch_for_write,
    replace_pair, rseq_add_if, rseq_store_if, swap_fenced, thread_pointer, wait_for_event,
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

#[cfg(test)]
#[path = "arch/other.rs"]
mod other;

#[cfg(test)]
mod tests {
    use super::{imp, other};

    /// Only here do these processors compile it.
    #[test]
    fn any_other_processor_has_all_that_this_one_has() {
        let _ = [imp::cycles, other::cycles];
        let _ = [imp::ordered_cycles, other::ordered_cycles];
        let _ = [imp::fence, other::fence];
        let _ = [imp::swap_fenced, other::swap_fenced];
        let _ = [imp::compare_exchange_fenced, other::compare_exchange_fenced];
        let _ = [imp::wait_for_event, other::wait_for_event];
        let _ = [imp::replace_pair, other::replace_pair];
        let _ = [imp::prefetch_for_write, other::prefetch_for_write];
        let _ = [imp::thread_pointer, other::thread_pointer];
        let _ = [imp::rseq_store_if, other::rseq_store_if];
        let _ = [imp::rseq_add_if, other::rseq_add_if];
        const { assert!(!other::RESTARTS) };
    }
}
