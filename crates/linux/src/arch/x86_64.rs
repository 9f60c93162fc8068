//! x86-64.

use std::{
    arch::{
        asm,
        x86_64::{__cpuid, __cpuid_count, _mm_lfence, _rdtsc},
    },
    sync::atomic::{
        AtomicU32, AtomicU64, Ordering,
        Ordering::{Relaxed, SeqCst},
        compiler_fence,
    },
};

use once_cell::race::OnceRef;

use crate::{clock, percpu::ROW_SHIFT};

/// The longest wait for an event, in microseconds: what ends it when the line
/// does not change. On aarch64 the kernel's event stream does, at 10 kHz.
const EVENT_MICROS: u32 = 100;

/// The time-stamp counter.
#[inline]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and Linux lets user space
    // use it unless a process forbids it to itself by prctl.
    unsafe { _rdtsc() }
}

/// The same, read after all loads before it and before all behind it.
pub fn ordered_cycles() -> u64 {
    // SAFETY: as above; every x86-64 processor has LFENCE, which has no effect but
    // the order.
    unsafe {
        _mm_lfence();
        let cycles = _rdtsc();
        _mm_lfence();
        cycles
    }
}

#[derive(Clone, Copy)]
enum Monitor {
    Umwait,
    Mwaitx,
    None,
}

static MONITOR: OnceRef<Monitor> = OnceRef::new();

fn monitor() -> &'static Monitor {
    if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 5 != 0 {
        &Monitor::Umwait
    } else if __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).ecx & 1 << 29 != 0 {
        &Monitor::Mwaitx
    } else {
        &Monitor::None
    }
}

/// Sleeps lightly while `word` is `seen`, for [`EVENT_MICROS`] at most;
/// `false`, at once, where the processor cannot.
#[inline]
pub fn wait_for_event(word: &AtomicU32, seen: u32) -> bool {
    match MONITOR.get_or_init(monitor) {
        Monitor::Umwait => umwait(word, seen),
        Monitor::Mwaitx => mwaitx(word, seen),
        Monitor::None => return false,
    }
    true
}

/// A full barrier: a locked instruction of our own line, which takes less time than MFENCE.
#[inline(always)]
pub fn fence() {
    // SAFETY: to set no bits changes nothing, wherever the stack pointer points: below it
    // nobody else may write. The compiler takes it to change any memory.
    unsafe { asm!("lock or dword ptr [rsp - 4], 0") }
}

/// A swap and a full barrier, which the swap is.
#[inline(always)]
pub fn swap_fenced(word: &AtomicU32, value: u32, _: Ordering) -> u32 {
    let old = word.swap(value, SeqCst);
    compiler_fence(SeqCst);
    old
}

/// A compare-exchange and a full barrier, which the exchange is.
#[inline(always)]
pub fn compare_exchange_fenced(word: &AtomicU32, old: u32, new: u32) -> bool {
    let made = word.compare_exchange(old, new, SeqCst, Relaxed);
    compiler_fence(SeqCst);
    made.is_ok()
}

/// Fetches the word's cache line for writing.
#[inline(always)]
pub fn prefetch_for_write(word: &AtomicU32) {
    // SAFETY: a prefetch has no effect but on the cache. Processors without
    // the instruction take it for a no-operation.
    unsafe {
        asm!("prefetchw [{0}]", in(reg) word.as_ptr(), options(nostack, preserves_flags));
    }
}

/// Whether it is known how to make restartable sequences.
pub const RESTARTS: bool = true;

/// The thread pointer, from which the thread's rseq area is found.
pub fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    // SAFETY: the x86-64 ABI has the thread pointer at the start of the
    // thread control block that it points to.
    unsafe {
        asm!("mov {0}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
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
    // clears it. The words are mapped and aligned, being borrowed. Plain
    // x86 loads acquire, and stores release.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "771:",
            ".long 0, 0",
            ".quad 773f, 774f - 773f, 775f",
            ".popsection",
            ".pushsection .text.unlikely, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "775:",
            "jmp 772f",
            ".popsection",
            "772:",
            "lea {descriptor}, [rip + 771b]",
            "mov [{area} + 8], {descriptor}",
            "773:",
            "cmp dword ptr [{guard}], {expected:e}",
            "jne {fail}",
            "mov dword ptr [{word}], {value:e}",
            "774:",
            descriptor = out(reg) _,
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

/// Replaces both words if they are `before`, with a full barrier, and returns what they
/// were. `None` unless the second is behind the first in eight aligned bytes.
#[inline(always)]
pub fn replace_pair(
    [first, second]: [&AtomicU32; 2],
    before: [u32; 2],
    after: [u32; 2],
) -> Option<[u32; 2]> {
    let address = first.as_ptr().addr();
    if !address.is_multiple_of(8) || second.as_ptr().addr() != address + 4 {
        return None;
    }
    let both = |[low, high]: [u32; 2]| u64::from(high) << 32 | u64::from(low);
    let found: u64;
    // SAFETY: the eight bytes are those of the two words, which are borrowed. To each of
    // them this is a compare-exchange of its own size, at one moment: nothing that two
    // of those could not do, if nobody came in between.
    unsafe {
        asm!(
            "lock cmpxchg qword ptr [{first}], {after}",
            first = in(reg) first.as_ptr(),
            after = in(reg) both(after),
            inout("rax") both(before) => found,
            options(nostack),
        );
    }
    Some([found as u32, (found >> 32) as u32])
}

/// The sequence of [`rseq_add_if`], with what is added as an operand.
macro_rules! add_in_sequence {
    ($area:ident, $first:ident, $guard:ident, $expected:ident, $($delta:tt)+) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "771:",
            ".long 0, 0",
            ".quad 773f, 774f - 773f, 775f",
            ".popsection",
            ".pushsection .text.unlikely, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "775:",
            "jmp 772f",
            ".popsection",
            "772:",
            "lea {scratch}, [rip + 771b]",
            "mov [{area} + 8], {scratch}",
            "773:",
            "imul {scratch:e}, dword ptr [{area} + 4], {row}",
            "cmp dword ptr [{guard}], {expected:e}",
            "jne {fail}",
            "add qword ptr [{first} + {scratch}], {delta}",
            "774:",
            scratch = out(reg) _,
            area = in(reg) $area,
            row = const 1 << ROW_SHIFT,
            guard = in(reg) $guard.as_ptr(),
            expected = in(reg) $expected,
            first = in(reg) $first,
            delta = $($delta)+,
            fail = label { return false },
            options(nostack),
        )
    };
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
    // SAFETY: as in `rseq_store_if`; the last instruction adds, in one step for
    // whatever interrupts this CPU, and nobody else writes to its row. The
    // area's field `cpu_id`, at 4, cannot change before it has been used: who
    // is moved starts over. No kernel has a number of a CPU whose product with a
    // row's size is beyond 32 bits. The word is mapped, as the caller says. Plain
    // x86 loads acquire, and stores release.
    unsafe {
        // What readers add is known where they stand, and needs no register.
        match delta {
            1 => add_in_sequence!(area, first, guard, expected, const 1),
            -1 => add_in_sequence!(area, first, guard, expected, const -1),
            _ => add_in_sequence!(area, first, guard, expected, in(reg) delta),
        }
    }
    true
}

fn umwait(word: &AtomicU32, seen: u32) {
    // SAFETY: CPUID says that WAITPKG is there. UMONITOR arms a monitor on
    // a line that is mapped, and reads nothing else.
    unsafe { asm!("umonitor {0}", in(reg) word.as_ptr(), options(nostack, preserves_flags)) };
    if word.load(Relaxed) != seen {
        return;
    }
    let until = cycles() + clock::cycles_in_micros(EVENT_MICROS);
    // SAFETY: as above; UMWAIT returns at a write to the line, at `until`,
    // or for any other reason, and changes no register but the flags.
    unsafe {
        asm!(
            "umwait {0:e}",
            in(reg) 1u32, // C0.1, the lighter sleep
            in("eax") until as u32,
            in("edx") (until >> 32) as u32,
            options(nostack),
        );
    }
}

fn mwaitx(word: &AtomicU32, seen: u32) {
    // SAFETY: CPUID says that MONITORX is there. It arms a monitor on a
    // line that is mapped; ECX and EDX, extensions and hints, are 0.
    unsafe {
        asm!(
            "monitorx",
            in("rax") word.as_ptr(),
            in("ecx") 0u32,
            in("edx") 0u32,
            options(nostack, preserves_flags),
        );
    }
    if word.load(Relaxed) != seen {
        return;
    }
    let cycles = u32::try_from(clock::cycles_in_micros(EVENT_MICROS)).unwrap_or(u32::MAX);
    // SAFETY: as above; MWAITX returns at a write to the line, after the
    // cycles in EBX (bit 1 of ECX), or for any other reason. RBX belongs
    // to the compiler, so it is put back.
    unsafe {
        asm!(
            "xchg {cycles:r}, rbx",
            "mwaitx",
            "xchg {cycles:r}, rbx",
            cycles = inout(reg) u64::from(cycles) => _,
            in("eax") 0xf0u32, // C0, the lightest sleep
            in("ecx") 2u32,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_replaced_if_both_are_as_before() {
        #[repr(align(8))]
        struct Words([AtomicU32; 3]);
        let words = Words([7, 0, 9].map(AtomicU32::new));
        let [first, second, third] = &words.0;
        assert_eq!(replace_pair([first, second], [7, 1], [0, 0]), Some([7, 0]));
        assert_eq!(replace_pair([first, second], [6, 0], [0, 0]), Some([7, 0]));
        assert_eq!(replace_pair([first, second], [7, 0], [1, 2]), Some([7, 0]));
        assert_eq!(replace_pair([second, third], [2, 9], [0, 0]), None);
        assert_eq!(replace_pair([second, first], [2, 1], [0, 0]), None);
        assert_eq!(replace_pair([first, third], [1, 9], [0, 0]), None);
        assert_eq!(words.0.each_ref().map(|word| word.load(Relaxed)), [1, 2, 9]);
    }
}
