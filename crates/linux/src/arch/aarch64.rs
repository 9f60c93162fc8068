//! aarch64.

use std::{
    arch::asm,
    sync::atomic::{
        self, AtomicU32, AtomicU64, Ordering,
        Ordering::{Relaxed, SeqCst},
    },
};

use once_cell::race::OnceBool;

use crate::percpu::ROW_SHIFT;

/// The virtual counter.
#[inline]
pub fn cycles() -> u64 {
    let count: u64;
    // SAFETY: Linux lets user space read CNTVCT_EL0, and a read has no
    // effect but its result.
    unsafe {
        asm!("mrs {0}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags))
    };
    count
}

/// The same, read after all loads before it and before all behind it.
pub fn ordered_cycles() -> u64 {
    let count: u64;
    // SAFETY: as above; the barriers have no effect but the order.
    unsafe {
        asm!(
            "dsb ishld",
            "isb",
            "mrs {0}, cntvct_el0",
            "isb",
            out(reg) count,
            options(nostack, preserves_flags),
        );
    }
    count
}

/// Whether the kernel's timer sends events, so that no `WFE` sleeps on.
fn event_stream() -> bool {
    static EVENT_STREAM: OnceBool = OnceBool::new();
    EVENT_STREAM.get_or_init(|| {
        // SAFETY: getauxval reads a table of the process and has no conditions.
        let hwcap = unsafe { libc::getauxval(libc::AT_HWCAP) };
        hwcap & libc::HWCAP_EVTSTRM != 0
    })
}

/// Sleeps lightly while `word` is `seen`, until the next event at the
/// latest; `false`, at once, where no event stream bounds that.
#[inline]
pub fn wait_for_event(word: &AtomicU32, seen: u32) -> bool {
    if !event_stream() {
        return false;
    }
    // SAFETY: LDXR reads a word that is mapped and aligned, and arms the
    // exclusive monitor on it, so that a store by another core ends the
    // WFE. SEVL and the first WFE drop an event from before.
    unsafe {
        asm!(
            "sevl",
            "wfe",
            "ldxr {now:w}, [{word}]",
            "cmp {now:w}, {seen:w}",
            "b.ne 2f",
            "wfe",
            "2:",
            now = out(reg) _,
            word = in(reg) word.as_ptr(),
            seen = in(reg) seen,
            options(nostack),
        );
    }
    true
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

/// No such step is known.
#[inline(always)]
pub fn replace_pair(_: [&AtomicU32; 2], _: [u32; 2], _: [u32; 2]) -> Option<[u32; 2]> {
    None
}

/// Fetches the word's cache line for writing.
#[inline(always)]
pub fn prefetch_for_write(word: &AtomicU32) {
    // SAFETY: a prefetch has no effect but on the cache.
    unsafe {
        asm!("prfm pstl1keep, [{0}]", in(reg) word.as_ptr(), options(nostack, preserves_flags));
    }
}

/// Whether it is known how to make restartable sequences.
pub const RESTARTS: bool = true;

/// The thread pointer, from which the thread's rseq area is found.
pub fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: user space may read TPIDR_EL0, and a read has no effect but
    // its result.
    unsafe {
        asm!("mrs {0}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Stores `value` to `word` with release semantics if `guard` holds
/// `expected`, which it reads with acquire semantics, as a restartable sequence.
///
/// # Safety
/// `area` is the calling thread's registered rseq area.
#[inline(always)]
pub unsafe fn rseq_store_if(
    area: *mut u8,
    word: &AtomicU32,
    value: u32,
    guard: &AtomicU32,
    expected: u32,
) -> bool {
    // SAFETY: the sequence (3 to 4) has one store, its last instruction,
    // which is what makes it restartable: interrupted before it, the
    // thread goes on at 5, which leads to 2, from the start. The
    // descriptor (1) is static and says where 3, 4 and 5 are; 5 stands
    // behind the signature that glibc registers. Its address goes to the
    // area's field `rseq_cs` at 8, which is the thread's own; the kernel
    // clears it. The words are mapped and aligned, being borrowed.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "771:",
            ".long 0, 0",
            ".quad 773f, 774f - 773f, 775f",
            ".popsection",
            ".pushsection .text.unlikely, \"ax\"",
            ".inst 0xd428bc00",
            "775:",
            "b 772f",
            ".popsection",
            "772:",
            "adrp {scratch}, 771b",
            "add {scratch}, {scratch}, :lo12:771b",
            "str {scratch}, [{area}, #8]",
            "773:",
            "ldar {scratch:w}, [{guard}]",
            "cmp {scratch:w}, {expected:w}",
            "b.ne {fail}",
            "stlr {value:w}, [{word}]",
            "774:",
            scratch = out(reg) _,
            area = in(reg) area,
            guard = in(reg) guard.as_ptr(),
            expected = in(reg) expected,
            word = in(reg) word.as_ptr(),
            value = in(reg) value,
            fail = label { return false },
            options(nostack),
        );
    }
    true
}

/// Adds `delta` with release semantics to the word behind `first` in the row of
/// this CPU if `guard` holds `expected`, as a restartable sequence.
///
/// # Safety
/// `area` is the calling thread's registered rseq area. `first` points to a word
/// that has one behind it at `ROW_SHIFT` bits for every CPU; only such
/// sequences write to them.
#[inline(always)]
pub unsafe fn rseq_add_if(
    area: *mut u8,
    first: *const AtomicU64,
    delta: i64,
    guard: &AtomicU32,
    expected: u32,
) -> bool {
    // SAFETY: as in `rseq_store_if`; the last instruction stores the sum, and
    // nobody else writes to this CPU's row. The area's field `cpu_id`, at 4,
    // cannot change before it has been used: who is moved starts over. The word
    // is mapped, as the caller says.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "771:",
            ".long 0, 0",
            ".quad 773f, 774f - 773f, 775f",
            ".popsection",
            ".pushsection .text.unlikely, \"ax\"",
            ".inst 0xd428bc00",
            "775:",
            "b 772f",
            ".popsection",
            "772:",
            "adrp {scratch}, 771b",
            "add {scratch}, {scratch}, :lo12:771b",
            "str {scratch}, [{area}, #8]",
            "773:",
            "ldar {sum:w}, [{guard}]",
            "cmp {sum:w}, {expected:w}",
            "b.ne {fail}",
            "ldr {scratch:w}, [{area}, #4]",
            "add {scratch}, {first}, {scratch}, lsl #{shift}",
            "ldr {sum}, [{scratch}]",
            "add {sum}, {sum}, {delta}",
            "stlr {sum}, [{scratch}]",
            "774:",
            scratch = out(reg) _,
            sum = out(reg) _,
            area = in(reg) area,
            shift = const ROW_SHIFT,
            guard = in(reg) guard.as_ptr(),
            expected = in(reg) expected,
            first = in(reg) first,
            delta = in(reg) delta,
            fail = label { return false },
            options(nostack),
        );
    }
    true
}
