//! Waiting for any word of this process's memory, as by the system call `futex`, but
//! in a table of wait queues of our own: the kernel is asked only to put threads to
//! sleep and to wake them.
//!
//! A word is known by its address alone. Other processes do not see the table, nor
//! does the kernel: who waits here must be woken from here. There are no spurious
//! wake-ups; but a waker may mean an earlier user of the same memory, so that one
//! waits in a loop. `docs/futex.md` has what is promised, and what it rests on.
//!
//! A thread with a real-time priority is woken before others, the highest first;
//! equals are woken in the order in which they came. (A changed priority counts for
//! waits that begin 10 ms later, if not sooner.) In a fork's child nobody waits,
//! for the threads that did are not in it: a wake there wakes nobody. A signal
//! handler must not call any of this.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Relaxed, Release}};
//! use lockyard::futex;
//!
//! static READY: AtomicU32 = AtomicU32::new(0);
//!
//! let waiter = std::thread::spawn(|| {
//!     while READY.load(Acquire) == 0 {
//!         futex::wait(&READY, 0, None);
//!     }
//! });
//! READY.store(1, Release);
//! futex::wake(&READY, 1);
//! waiter.join().unwrap();
//! ```

pub use lockyard_linux::futex::{
    Change, Requeued, WORDS, Waited, WaitedAny, requeue, requeue_if, wait, wait_any, wait_bitset,
    wake, wake_bitset, wake_op,
};
