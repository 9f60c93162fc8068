//! Waiting for any word of this process's memory, as by the system call `futex`, but
//! in a table of wait queues of our own: the kernel is asked only to put threads to
//! sleep and to wake them.
//!
//! A word is known by its address alone. Other processes do not see the table, nor
//! does the kernel: who waits here must be woken from here. For words that processes
//! share there is [`shared`]. There are no spurious
//! wake-ups; but a waker may mean an earlier user of the same memory, so that one
//! waits in a loop. `docs/futex.md` has what is promised, and what it rests on.
//!
//! A thread with a real-time priority is woken before others, the highest first;
//! equals are woken in the order in which they came. (A changed priority counts for
//! waits that begin 10 ms later, if not sooner.) In a fork's child nobody waits,
//! for the threads that did are not in it: a wake there wakes nobody. (A thread that
//! forked in a signal handler comes out of the wait that this interrupted, as if it was
//! woken.) A signal handler must not call any of this.
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
    Change, Compare, Requeued, WORDS, Waited, WaitedAny, requeue, requeue_if, wait, wait_any,
    wait_bitset, wake, wake_bitset, wake_op,
};

/// Waiting for words that several processes map: their number is in the shared memory, the
/// queues are the kernel's.
///
/// The words lie in a [`Region`](shared::Region), a mapping of a file or of other shared
/// memory. Its processes agree on who waits, through any mapping of it at any address, so
/// that a wake where nobody waits is no system call. A word that lies in no region of the
/// process is the kernel's futex alone: a process that uses a word without its region is
/// woken by nobody who uses it with one.
///
/// A process may be killed at any time: it leaves no queue behind, and nobody waits for it.
/// A wake-up that it was given is lost with it, and so is what it had promised to do: see
/// [`RobustPiMutex`](crate::RobustPiMutex). Who writes rubbish to the shared memory gets
/// others wrong values, and may keep wake-ups from them; those look at their word again
/// within a second. `docs/futex.md` has the details.
///
/// There are no `requeue`, `wake_op` and `wait_any`: that page says why, and what to do
/// instead. Those of the parent module go by this process's table, and miss who waits here.
///
/// The region cannot be unmapped while one of its words is used:
///
/// ```compile_fail,E0505
/// # use lockyard::futex::shared::{self, Region};
/// let region = Region::open(Region::file(1)?)?;
/// let word = &region.words()[0];
/// drop(region);
/// shared::wait(word, 0, None);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// What other processes do with their mappings does not matter:
///
/// ```
/// use std::sync::atomic::Ordering::{Acquire, Release};
/// use lockyard::futex::shared::{self, Region};
///
/// let file = Region::file(1)?;
/// let [here, there] = [Region::open(&file)?, Region::open(&file)?];
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let word = &here.words()[0];
///         while word.load(Acquire) == 0 {
///             shared::wait(word, 0, None);
///         }
///     });
///     let word = &there.words()[0]; // the same word, at another address
///     word.store(1, Release);
///     shared::wake(word, 1);
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub mod shared {
    pub use lockyard_linux::futex::shared::{Region, wait, wait_bitset, wake, wake_bitset};
}
