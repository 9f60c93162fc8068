//! Memory for reports, from the kernel: a report is made under the program's locks, and its
//! allocator's may be among them.
//!
//! What is small is never given back. Nothing else of this library allocates.

use std::{
    alloc::{GlobalAlloc, Layout},
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

#[global_allocator]
static HEAP: Heap = Heap {
    latest: AtomicPtr::new(ptr::null_mut()),
};

/// The bytes of a chunk, and the most that is cut out of one.
const CHUNK: usize = 1 << 20;
const SMALL: usize = 1 << 16;
/// The smallest page of any machine: mappings are aligned to it.
const PAGE: usize = 1 << 12;

/// The beginning of a chunk: how much of it is used.
struct Chunk(AtomicUsize);

struct Heap {
    latest: AtomicPtr<Chunk>,
}

// SAFETY: what `alloc` returns is of the layout's size and alignment, mapped, and of nobody
// else until it is given back: a chunk's bytes are counted up by one addition for each, and a
// mapping is one allocation's alone. Neither function unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        if layout.size() > SMALL {
            return map(layout.size());
        }
        loop {
            let chunk = self.latest.load(Acquire); // (H1) pairs with the exchange below
            // SAFETY: it is null, or a chunk that was mapped zeroed and stays.
            if let Some(used) = unsafe { chunk.as_ref() } {
                let size = layout.size() + layout.align();
                let at = used.0.fetch_add(size, Relaxed) + size_of::<Chunk>();
                if at + size <= CHUNK {
                    let at = at.next_multiple_of(layout.align());
                    return chunk.cast::<u8>().wrapping_add(at);
                }
            }
            let next: *mut Chunk = map(CHUNK).cast();
            if next.is_null() {
                return ptr::null_mut();
            }
            // (H1) who loses uses the winner's; the chunk is lost, a megabyte.
            let _ = self.latest.compare_exchange(chunk, next, AcqRel, Acquire);
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() > SMALL {
            // SAFETY: `alloc` has mapped it, for this allocation alone.
            unsafe { libc::munmap(at.cast(), layout.size()) };
        }
    }
}

/// Zeroed memory, or null.
fn map(bytes: usize) -> *mut u8 {
    // SAFETY: a new private mapping at an address of the kernel's choice touches no other
    // memory.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    match mapped == libc::MAP_FAILED {
        true => ptr::null_mut(),
        false => mapped.cast(),
    }
}
