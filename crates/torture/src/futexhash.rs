//! What `perf bench futex hash` does: threads wait for words that have changed, so
//! that a wait is over when the word's queue was found and its word compared. And the same
//! for wakes where nobody waits.

mod simulated;

use std::{
    io,
    ptr::null_mut,
    slice,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, mmap_anonymous},
};

use crate::Host;
pub use simulated::{Keys, Layout, simulate};

/// No word has this value.
pub const WRONG: u32 = 1234;

/// What words lie in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// This process's own memory.
    Anonymous,
    /// A file that is mapped as shared.
    File,
}

/// Maps zeroed words, for as long as the process lasts.
///
/// # Errors
/// There is no such memory.
pub fn words(memory: Memory, count: usize) -> io::Result<&'static [AtomicU32]> {
    let bytes = count * size_of::<AtomicU32>();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let at = match memory {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other
        // memory.
        Memory::Anonymous => unsafe {
            mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE)
        },
        Memory::File => {
            let file = memfd_create("futex-hash", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, bytes as u64)?;
            // SAFETY: as above. The file is as long as the mapping, and nobody else has
            // it to make it shorter.
            unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }
        }
    }?;
    // SAFETY: it was mapped above for reading and writing, page by page and so aligned,
    // as `count` words of zeroed memory, which are valid atomics; it is never unmapped.
    Ok(unsafe { slice::from_raw_parts(at.cast(), count) })
}

/// What threads did.
pub struct Report {
    /// The calls of each.
    pub ops: Vec<u64>,
    /// For how long.
    pub elapsed_ns: u64,
}

/// Has a thread for each part of the words, kept on a CPU each in turn, `call` the futex
/// for its words again and again. `call` says whether it waited for nobody, and woke
/// nobody. Each thread begins with the word that `first` says.
///
/// # Panics
/// A call did.
pub fn run<H: Host, W: Sync>(
    parts: &[&[W]],
    duration: Duration,
    first: &(dyn Fn(usize) -> usize + Sync),
    call: &(impl Fn(&W) -> bool + Sync),
) -> Report {
    let ops: Vec<_> = parts.iter().map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let elapsed_ns = H::run(parts.len(), duration, &stop, &|thread| {
        let cpus = H::cpus();
        H::confine(H::me(), &[cpus[thread % cpus.len()]]);
        let mut all = parts[thread].iter().cycle().skip(first(thread));
        let mut done = 0;
        while !stop.load(Relaxed)
            && let Some(word) = all.next()
        {
            assert!(call(word), "no word has the value, and nobody waits");
            done += 1;
        }
        ops[thread].store(done, Relaxed); // read when the thread has ended
    });
    Report {
        ops: ops.into_iter().map(AtomicU64::into_inner).collect(),
        elapsed_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Native;

    #[test]
    fn each_thread_waits_for_words_of_its_own() {
        for memory in [Memory::Anonymous, Memory::File] {
            let words = words(memory, 6).unwrap();
            let parts: Vec<_> = words.chunks_exact(2).collect();
            let duration = Duration::from_millis(5);
            let mark = |word: &AtomicU32| word.swap(1, Relaxed) <= 1;
            let report = run::<Native, _>(&parts, duration, &|_| 0, &mark);
            assert_eq!(report.ops.len(), 3);
            assert!(report.elapsed_ns > 0);
        }
    }
}
