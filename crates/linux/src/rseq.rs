//! Guarded stores: a test and a store that are one step towards
//! [`quiesce`], with no barrier and no atomic read-modify-write.
//!
//! With restartable sequences (Linux 4.18, registered by glibc 2.35 and
//! later), a thread that is interrupted between the test and the store starts
//! over with the test, and `membarrier` (5.10) interrupts them all.
//!
//! Without, a thread says in its record that it is inside, with one atomic
//! exchange on a line of its own, and `quiesce` waits for those that are.

use std::sync::atomic::{
    AtomicIsize, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use crate::{arch, tasks};

/// Where the thread's registered area is, from its thread pointer; 0 where
/// there is none. Written before the process's first lock operation.
static OFFSET: AtomicIsize = AtomicIsize::new(0);

const MEMBARRIER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 7;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ: i32 = 1 << 8;

/// Chooses the way for this process. To be called before its first lock
/// operation, and again in a fork's child.
pub fn init() {
    let offset = glibc_offset().filter(|&offset| {
        arch::rseq_is_registered(offset) && membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ)
    });
    OFFSET.store(offset.unwrap_or(0), Relaxed);
}

/// The offset of the area that glibc registers for every thread.
fn glibc_offset() -> Option<isize> {
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

fn membarrier(command: i32) -> bool {
    // SAFETY: membarrier takes integers and writes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// [`lockyard_core::Platform::store_if`].
#[inline(always)]
pub fn store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
    let offset = OFFSET.load(Relaxed); // written before the first lock operation
    if offset != 0 {
        // SAFETY: a non-zero OFFSET is that of the area that glibc registered
        // for every thread of this process.
        unsafe { arch::rseq_store_if(offset, word, value, guard, expected) }
    } else {
        announced_store_if(word, value, guard, expected)
    }
}

#[cold]
fn announced_store_if(word: &AtomicU32, value: u32, guard: &AtomicU32, expected: u32) -> bool {
    let inside = &tasks::record(tasks::me()).inside;
    // (R1) SeqCst: a full barrier between the announcement and the test, for
    // the fence in `quiesce`: it sees me inside, or I see the guard changed.
    inside.fetch_add(1, SeqCst);
    fence(SeqCst);
    let passed = guard.load(Acquire) == expected; // (R1)
    if passed {
        word.store(value, Release); // the caller's pair
    }
    inside.fetch_add(1, Release); // (R2) publishes my store to `quiesce`
    passed
}

/// [`lockyard_core::Platform::quiesce`].
pub fn quiesce() {
    if OFFSET.load(Relaxed) != 0 {
        assert!(
            membarrier(MEMBARRIER_PRIVATE_EXPEDITED_RSEQ),
            "membarrier stopped working: {}",
            std::io::Error::last_os_error()
        );
        return;
    }
    fence(SeqCst); // (R1)
    for record in tasks::records() {
        let seen = record.inside.load(Acquire); // (R2)
        if seen & 1 == 1 {
            let mut looks = 0;
            while record.inside.load(Acquire) == seen {
                looks += 1;
                if looks < 1000 {
                    std::hint::spin_loop();
                } else {
                    // It was preempted inside: let it run.
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            }
        }
    }
}
