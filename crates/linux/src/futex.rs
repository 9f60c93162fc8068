//! Core's futex for the words of this process: a table of wait queues of our own. The
//! kernel is asked only to put threads to sleep and to wake them. `lockyard::futex` says
//! what its users should know.
//! Words that other processes map as well are in [`shared`].

mod region;
pub mod shared;

use std::{
    ffi::c_void,
    mem,
    num::NonZeroU32,
    process, ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
        fence,
    },
    time::Instant,
};

pub use lockyard_core::futex::{Requeued, WORDS, Waited, WaitedAfter, WaitedAny};
use lockyard_core::{
    Clock, Deadline, RawMutex,
    futex::{Key, Table, Waiter},
};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::{Linux, interrupt, mapping, tasks, urgency};

/// The buckets of the table at first, of 64 bytes: 1 MiB of zero bytes, of which the
/// process gets the pages that it uses.
pub const BUCKETS: usize = 16_384;

/// As many as the table can grow to: 32 MiB of addresses, of which the process can use, and
/// `mlockall` has to fill, those that the table has grown to. With a million waiters two
/// stand in each.
pub const MOST_BUCKETS: usize = BUCKETS << 5;

/// What a thread that waits takes of memory besides its stack, in bytes: a record that
/// it has from its first lock on.
pub const RECORD_BYTES: usize = size_of::<tasks::Record>();

type Queues = Table<Linux, BUCKETS, MOST_BUCKETS>;

/// Null until somebody waits.
static TABLE: AtomicPtr<Queues> = AtomicPtr::new(ptr::null_mut());

/// The buckets that can be used at first; behind the last is what the table has beside them.
const FIRST_BYTES: usize = BUCKETS * 64;
const BUCKETS_BYTES: usize = MOST_BUCKETS * 64;
/// Room for that: a whole number of pages, whatever their size.
const REST_BYTES: usize = 1 << 16;
const BYTES: usize = BUCKETS_BYTES + REST_BYTES;
const _: () = assert!(size_of::<Queues>() > BUCKETS_BYTES && size_of::<Queues>() <= BYTES);

/// The table, if anybody has ever waited. Who has written a word and finds none, also after
/// a full barrier, need wake nobody: a waiter maps it before it reads the word, and there is
/// a full barrier between the two, as in core.
#[inline(always)]
fn table_if_any() -> Option<&'static Queues> {
    let table = TABLE.load(Acquire); // (M) pairs with the exchange of `map`
    // SAFETY: it is null or what `map` has mapped, zeroed, which is a table; it is never
    // unmapped. Of the part that must not be touched yet, or that is not there, nothing is, as
    // `provide` is asked before; all of a table are atomics, and so the reference says of no
    // byte that it can be read.
    unsafe { table.as_ref() }
}

#[inline(always)]
fn table() -> &'static Queues {
    table_if_any().unwrap_or_else(map)
}

/// The parts of the table that are used at first, by their offsets and lengths.
const USED: [(usize, usize); 2] = [(0, FIRST_BYTES), (BUCKETS_BYTES, REST_BYTES)];
/// All that it may grow to.
const WHOLE: [(usize, usize); 1] = [(0, BYTES)];

/// Whether there was no room for more than is used at first: then the table does not grow,
/// and what lies between its parts is not its own.
static STAYS: AtomicBool = AtomicBool::new(false);

/// Maps the table. Two may come at once, also a signal's handler: the first one's stays.
#[cold]
fn map() -> &'static Queues {
    let whole = map_whole().map(|table| (table, &WHOLE[..]));
    let mapped = whole.or_else(|| {
        let table = map_used()?;
        STAYS.store(true, Relaxed); // (M) publishes it
        Some((table, &USED[..]))
    });
    if let Some((table, parts)) = mapped {
        // (M) Release and Acquire: the loser uses the winner's.
        let first = TABLE.compare_exchange(ptr::null_mut(), table.cast(), AcqRel, Acquire);
        if first.is_err() {
            unmap(table, parts);
        }
    } else {
        mapping::another_maps(&TABLE);
    }
    table_if_any().expect("no memory for the queues of those that wait")
}

/// Addresses for all that the table may grow to, of which the parts can be used that it needs
/// at first.
fn map_whole() -> Option<*mut c_void> {
    let table = map_at(
        ptr::null_mut(),
        BYTES,
        ProtFlags::empty(),
        MapFlags::NORESERVE,
    )?;
    let usable = USED.map(|(offset, bytes)| make_usable(table.wrapping_byte_add(offset), bytes));
    if usable != [true; 2] {
        unmap(table, &WHOLE);
        return None;
    }
    Some(table)
}

/// Those parts alone: a limit may count addresses, or have all of them filled (`RLIMIT_AS`;
/// `mlockall` with `RLIMIT_MEMLOCK`). They are as far from each other as in the whole, below
/// where the kernel maps such a piece.
fn map_used() -> Option<*mut c_void> {
    const PLACES: usize = 64;
    let usable = ProtFlags::READ | ProtFlags::WRITE;
    let at = |at, bytes| map_at(at, bytes, usable, MapFlags::FIXED_NOREPLACE);
    let somewhere = map_at(ptr::null_mut(), FIRST_BYTES, usable, MapFlags::empty())?;
    unmap(somewhere, &USED[..1]);
    (1..=PLACES).find_map(|place| {
        let table = somewhere.wrapping_byte_sub(place * BUCKETS_BYTES);
        let parts = USED.map(|(offset, bytes)| (table.wrapping_byte_add(offset), bytes));
        let mapped = parts.map(|(place, bytes)| at(place, bytes));
        if mapped == parts.map(|(place, _)| Some(place)) {
            return Some(table);
        }
        // Something else lies there; an old kernel has mapped them elsewhere.
        for (mapped, (_, bytes)) in mapped.into_iter().zip(parts) {
            mapped.inspect(|&mapped| unmap(mapped, &[(0, bytes)]));
        }
        None
    })
}

fn map_at(
    at: *mut c_void,
    bytes: usize,
    access: ProtFlags,
    flags: MapFlags,
) -> Option<*mut c_void> {
    // SAFETY: a new private mapping, at an address of the kernel's choice or where nothing is
    // mapped, touches no other memory.
    unsafe { mmap_anonymous(at, bytes, access, MapFlags::PRIVATE | flags) }.ok()
}

fn unmap(table: *mut c_void, parts: &[(usize, usize)]) {
    for &(offset, bytes) in parts {
        // SAFETY: the caller has mapped it, and nobody has seen it or used it.
        unsafe { munmap(table.wrapping_byte_add(offset), bytes) }.expect("the mapping is ours");
    }
}

/// [`lockyard_core::Platform::provide`]: a part of a mapping of [`map`]'s.
pub(crate) fn provide(from: *const u8, bytes: usize) -> bool {
    !STAYS.load(Relaxed) && make_usable(from.cast_mut().cast(), bytes)
}

fn make_usable(from: *mut c_void, bytes: usize) -> bool {
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the pages are of the table's mapping and of nobody else, and can be used the
    // more.
    unsafe { mprotect(from, bytes, access) }.is_ok()
}

/// The set of all bits.
const EVERY_BIT: NonZeroU32 = NonZeroU32::MAX;

#[inline(always)]
fn key(word: *const AtomicU32) -> Key {
    Key::private(0, word.addr() as u64)
}

/// If the word holds `expected`, waits until the calling thread is woken, or until
/// `deadline`. The word is read with `Acquire`.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> Waited {
    wait_bitset(word, expected, EVERY_BIT, deadline)
}

/// [`wait`] for wakers that pass a set with a bit in common with `bitset`.
#[inline]
pub fn wait_bitset(
    word: &AtomicU32,
    expected: u32,
    bitset: NonZeroU32,
    deadline: Option<Instant>,
) -> Waited {
    let deadline = deadline.map(|at| Linux::deadline(&at));
    wait_until(word, expected, bitset, deadline)
}

/// [`wait_bitset`] with a deadline as the locks have it.
pub fn wait_until(
    word: &AtomicU32,
    expected: u32,
    bitset: NonZeroU32,
    deadline: Option<Deadline>,
) -> Waited {
    let key = key(word);
    loop {
        // To ask for the priority may take a system call: not inside a gate, and only
        // for a thread that is about to sleep.
        let rank = (word.load(Relaxed) == expected).then(urgency::rank); // looked at again
        let waiter = Waiter {
            bitset,
            rank: rank.unwrap_or_default(),
        };
        let mut came_back = false;
        let unchanged = || {
            let same = word.load(Acquire) == expected;
            came_back = same && rank.is_none();
            same && rank.is_some()
        };
        let waited = table().wait(&key, waiter, unchanged, deadline);
        if !came_back {
            return waited;
        }
    }
}

/// If each word holds what is expected of it, waits for the first of them that is woken,
/// or until `deadline`; [`WORDS`] of them at most. They are read with `Acquire`.
///
/// The words are looked at one after the other, and a waker may come in between: whom
/// one has woken, that is told so, even if a later word has changed.
///
/// # Panics
/// There are no words, or too many.
pub fn wait_any(words: &[(&AtomicU32, u32)], deadline: Option<Instant>) -> WaitedAny {
    let deadline = deadline.map(|at| Linux::deadline(&at));
    wait_any_until(words, deadline)
}

/// [`wait_any`] with a deadline as the locks have it.
///
/// # Panics
/// As there.
pub fn wait_any_until(words: &[(&AtomicU32, u32)], deadline: Option<Deadline>) -> WaitedAny {
    wait_each_until(words.len(), |index| words[index], deadline)
}

/// The same for so many words, of which each is asked for by its index, more than once.
///
/// # Panics
/// As there.
pub fn wait_each_until<'a>(
    words: usize,
    word: impl Fn(usize) -> (&'a AtomicU32, u32),
    deadline: Option<Deadline>,
) -> WaitedAny {
    let waiter = Waiter {
        bitset: EVERY_BIT,
        rank: urgency::rank(),
    };
    let unchanged = |index: usize| {
        let (word, expected) = word(index);
        word.load(Acquire) == expected
    };
    let key = |index| key(word(index).0);
    table().wait_any(words, key, waiter, unchanged, deadline)
}

/// Has the calling thread stand in the queue of an address, then calls `release`, and
/// waits until it is woken there, until `deadline`, or until it is [interrupted](interrupt).
///
/// A condition variable that is nothing but an address, of which no byte is touched:
/// `release` unlocks the mutex; of this module it may use [`wake`]. Who wakes the thread
/// while it holds `mutex` has it wait for that. A panic of `release` ends the process.
pub fn wait_after(
    address: *const AtomicU32,
    mutex: Option<&RawMutex<Linux>>,
    release: impl FnOnce(),
    deadline: Option<Deadline>,
) -> WaitedAfter {
    let end = EndOnPanic;
    let waiter = Waiter {
        bitset: EVERY_BIT,
        rank: urgency::rank(),
    };
    let stop = interrupt::came;
    // SAFETY: what they panic for does not unwind past `end`.
    let waited =
        unsafe { table().wait_after(&key(address), waiter, mutex, release, stop, deadline) };
    mem::forget(end);
    waited
}

/// While it lives, a panic ends the process.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        process::abort();
    }
}

/// Wakes `most` threads at most that wait for the word; returns how many it woke.
///
/// It does not read the word, which may have been freed: then it may wake who waits for
/// another one at that address.
#[inline]
pub fn wake(word: *const AtomicU32, most: u32) -> u32 {
    wake_bitset(word, most, EVERY_BIT)
}

/// [`wake`] of those that wait with a set that has a bit in common with `bitset`.
#[inline]
pub fn wake_bitset(word: *const AtomicU32, most: u32, bitset: NonZeroU32) -> u32 {
    let table = table_if_any().or_else(|| {
        fence(SeqCst); // (B) of core, where there is no table yet
        table_if_any()
    });
    table.map_or(0, |table| table.wake(&key(word), most, bitset))
}

/// What [`wake_op`] does to its second word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It becomes this.
    Set(u32),
    /// This is added, wrapping.
    Add(u32),
    /// These bits are set.
    Or(u32),
    /// These bits are cleared.
    AndNot(u32),
    /// These bits are inverted.
    Xor(u32),
}

impl Change {
    /// Returns what the word held.
    fn of(self, word: &AtomicU32) -> u32 {
        match self {
            Self::Set(value) => word.swap(value, AcqRel),
            Self::Add(value) => word.fetch_add(value, AcqRel),
            Self::Or(bits) => word.fetch_or(bits, AcqRel),
            Self::AndNot(bits) => word.fetch_and(!bits, AcqRel),
            Self::Xor(bits) => word.fetch_xor(bits, AcqRel),
        }
    }
}

/// What [`wake_op`] asks of what its second word held before, which it takes for a signed
/// number, as the kernel does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// It was this.
    Equal(i32),
    /// It was not.
    NotEqual(i32),
    /// It was less.
    Less(i32),
    /// It was this or less.
    AtMost(i32),
    /// It was greater.
    Greater(i32),
    /// It was this or greater.
    AtLeast(i32),
}

impl Compare {
    fn holds(self, word: u32) -> bool {
        let held = word.cast_signed();
        match self {
            Self::Equal(value) => held == value,
            Self::NotEqual(value) => held != value,
            Self::Less(value) => held < value,
            Self::AtMost(value) => held <= value,
            Self::Greater(value) => held > value,
            Self::AtLeast(value) => held >= value,
        }
    }
}

/// Changes `second`; wakes `most` threads at most that wait for `first`; and, if what
/// `second` held before was as `then` says, `most_second` that wait for that. To those who
/// wait, the change and the wake-ups are one step. Returns how many it woke in all.
pub fn wake_op(
    first: *const AtomicU32,
    most: u32,
    (second, change): (&AtomicU32, Change),
    (then, most_second): (Compare, u32),
) -> u32 {
    let change = || then.holds(change.of(second));
    table().wake_op((&key(first), most), (&key(second), most_second), change)
}

/// Wakes `wake` threads at most that wait for `from`, and has up to `most` others
/// wait for `to` instead, each with the deadline that it has.
pub fn requeue(from: *const AtomicU32, to: *const AtomicU32, wake: u32, most: u32) -> Requeued {
    let requeued = table().requeue(&key(from), &key(to), (wake, most), || true);
    requeued.unwrap_or_default()
}

/// [`requeue`] if `from` holds `expected`, else `None`.
pub fn requeue_if(
    from: &AtomicU32,
    expected: u32,
    to: *const AtomicU32,
    wake: u32,
    most: u32,
) -> Option<Requeued> {
    let unchanged = || from.load(Acquire) == expected;
    table().requeue(&key(from), &key(to), (wake, most), unchanged)
}

/// Only the calling thread is left.
pub(crate) fn after_fork_in_child() {
    if let Some(table) = table_if_any() {
        table.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_the_table_grows_into_can_be_used() {
        while table().buckets() < 4 * BUCKETS {
            table().grow();
        }
        let words = [const { AtomicU32::new(0) }; 64];
        thread::scope(|scope| {
            for word in &words {
                scope.spawn(|| wait(word, 0, None));
            }
            for word in &words {
                while wake(word, 1) == 0 {
                    thread::yield_now();
                }
            }
        });
    }
}
