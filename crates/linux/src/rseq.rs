//! Guarded stores and additions: a test and a write that are one step towards
//! [`quiesce`], with no barrier and no atomic read-modify-write.
//!
//! With restartable sequences (Linux 4.18, registered by glibc 2.35 and
//! later), a thread that is interrupted between the test and the write starts
//! over with the test, and `membarrier` (5.10) interrupts them all.
//!
//! Without, a thread says in its record that it is inside, and `quiesce` waits for those
//! that are: see [`lockyard_core::announced`].

use std::{
    hint, ptr,
    sync::atomic::{
        AtomicIsize, AtomicU32,
        Ordering::{Relaxed, Release},
    },
};

use lockyard_core::announced::{Way, Ways};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::{Linux, arch, clock, loaded, percpu::Place, tasks};

/// Threads with an area restart, and the process is registered for that.
static WAYS: Ways<Linux> = Ways::new();

/// Registers the process as it starts, or as the library is loaded, which stays so. In a
/// process of one thread that takes some microseconds; in one of several the kernel waits for
/// all CPUs to have switched threads, some ten milliseconds, which the first lock would take
/// otherwise.
#[used]
// SAFETY: the section is a list of functions of this type, which the dynamic linker calls, or
// the C library where there is none, each once. This one needs nothing of Rust's run time.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        loaded::stay();
        if glibc_offset().is_some() {
            let _ = register(); // who locks asks again
        }
    }
    at_start
};

fn register() -> bool {
    membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).is_ok()
}

/// Chooses the way for the calling thread, before its first lock operation.
/// Returns whether it has restartable sequences.
pub fn init_thread() -> bool {
    // A fork's child has its parent's, which may have one.
    tasks::own().area.set(area().unwrap_or(ptr::null_mut()));
    WAYS.go(match restarts() {
        true => Way::Restarting,
        false => Way::Announcing,
    });
    restarts()
}

/// A fork's child has not registered, whatever it inherits.
pub fn after_fork_in_child() {
    WAYS.forget_restarting();
}

/// The calling thread's area; null if it has none, or has not locked yet.
#[inline(always)]
pub fn own_area() -> *mut u8 {
    tasks::own().area.get()
}

/// The calling thread's area, if the kernel knows it and `membarrier` can
/// restart its sequences.
fn area() -> Option<*mut u8> {
    let offset = glibc_offset()?;
    let area = arch::thread_pointer().wrapping_offset(offset);
    // SAFETY: glibc allocates the area at this offset for every thread. Its
    // field `cpu_id`, which the kernel writes, is at 4.
    let cpu = unsafe { area.wrapping_add(4).cast::<i32>().read_volatile() };
    // The kernel registers the process, and orders what asks of it.
    let registered = || WAYS.has(Way::Restarting) || register();
    (cpu >= 0 && registered()).then_some(area)
}

/// The offset of the area that glibc registers for every thread, where there is code for it.
///
/// It is looked up once: the dynamic linker's lock may be in the hands of a thread that
/// loads a library and waits for the caller. Two that come at once find the same.
fn glibc_offset() -> Option<isize> {
    const UNKNOWN: isize = 0;
    const NONE: isize = 1;
    if !arch::RESTARTS {
        return None;
    }
    static OFFSET: AtomicIsize = AtomicIsize::new(UNKNOWN);
    let mut offset = OFFSET.load(Relaxed);
    if offset == UNKNOWN {
        offset = find_glibc_offset().unwrap_or(NONE);
        OFFSET.store(offset, Relaxed); // it tells no more than itself
    }
    (offset != NONE).then_some(offset)
}

fn find_glibc_offset() -> Option<isize> {
    let symbol = |name: &std::ffi::CStr| {
        // SAFETY: the name is a C string; RTLD_DEFAULT is a valid handle.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let (offset, size) = (symbol(c"__rseq_offset"), symbol(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc documents `const unsigned int __rseq_size`, constant after
    // start-up; 0 says that registration failed or was disabled.
    let size = unsafe { *size.cast::<libc::c_uint>() };
    // SAFETY: glibc documents `const ptrdiff_t __rseq_offset`, likewise.
    let offset = unsafe { *offset.cast::<isize>() };
    (size >= 20 && offset != 0).then_some(offset)
}

/// Whether the calling thread has restartable sequences, as far as it has asked.
#[inline(always)]
pub fn restarts() -> bool {
    !own_area().is_null()
}

/// The thread is about to sleep: as the kernel switches threads it need not look whether that
/// is in the midst of the last sequence.
#[inline(always)]
pub fn end() {
    let area = own_area();
    if !area.is_null() {
        // SAFETY: `init_thread` found this area registered for this thread, and it lasts as long
        // as that. The field `rseq_cs`, at 8, is the thread's own to clear: it is in no sequence,
        // and of one that a signal's handler interrupts the kernel has cleared it before.
        unsafe { area.wrapping_add(8).cast::<u64>().write_volatile(0) };
    }
}

/// [`lockyard_core::Platform::store_if`].
#[inline(always)]
pub fn store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
    if own_area().is_null() {
        announced_store_if(word, value, guard, expected)
    } else {
        try_store_if(word, value, guard, expected)
    }
}

/// [`lockyard_core::Platform::try_store_if`].
#[inline(always)]
pub fn try_store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
    let area = own_area();
    // SAFETY: `init_thread` found this area registered for this thread.
    !area.is_null() && unsafe { arch::rseq_store_if(area, word, value, guard, expected) }
}

/// [`lockyard_core::PerCpu::add_if`] for a counter with a place.
#[inline(always)]
pub fn add_if(place: Place, delta: i64, guard: &AtomicU32, expected: u32) -> bool {
    let area = own_area();
    if area.is_null() {
        other_add_if(place, delta, guard, expected)
    } else {
        // SAFETY: `init_thread` found this area registered for this thread. The
        // kernel numbers a CPU below `percpu::cpus`, and so the place has parts in
        // the row of that number.
        unsafe { arch::rseq_add_if(area, place.first_for(delta), delta, guard, expected) }
    }
}

/// The thread has no area, or this is its first operation on a lock.
#[cold]
fn other_add_if(place: Place, delta: i64, guard: &AtomicU32, expected: u32) -> bool {
    let me = tasks::me();
    if !own_area().is_null() {
        return add_if(place, delta, guard, expected);
    }
    tasks::record(me)
        .announcement
        .store_if(guard, expected, || {
            place.shared(me).fetch_add(delta.cast_unsigned(), Release); // the caller's pair
        })
}

#[cold]
fn announced_store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
    tasks::record(tasks::me())
        .announcement
        .store_if(guard, expected, || {
            word.store(value, Release); // the caller's pair
        })
}

/// [`lockyard_core::Platform::quiesce`].
pub fn quiesce() {
    let restart = || {
        // Registered, it fails where the kernel is out of memory; and for ever where the process
        // has forbidden itself the call since.
        while membarrier(MembarrierCommand::PrivateExpeditedRseq).is_err() {
            clock::sleep_us(1000);
        }
    };
    let mut looks = 0;
    let pause = |_: &AtomicU32, _| {
        looks += 1;
        if looks < 1000 {
            hint::spin_loop();
        } else {
            // It was preempted inside: let it run.
            clock::sleep_us(50);
        }
    };
    let announcements = || tasks::records().map(|record| &record.announcement);
    WAYS.quiesce(restart, announcements, pause);
}
