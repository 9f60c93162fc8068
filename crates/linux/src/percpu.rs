//! Counters with parts for each CPU, as a lock needs to count its readers.
//!
//! The parts of a counter lie at the same place in as many rows; a row belongs to a
//! CPU, which has the parts of many counters in a line of its own. A counter takes
//! a place when it is first used, and gives it back when it is dropped.
//!
//! In a row it has two parts: one that grows, and one that shrinks. A reader that came and
//! goes would else have to wait for its own addition, and the next reader for that: five
//! cycles each, most of what it pays.
//!
//! A CPU adds to its row by a restartable sequence, without an atomic instruction:
//! so nobody else may write to it. Threads that have no such sequences add to rows
//! of their own, atomically.

use std::{
    fs::File,
    io::Read,
    num::NonZeroUsize,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use lockyard_core::{TaskId, roster::FreeNumbers};
use once_cell::race::OnceNonZeroUsize;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use crate::{errno, mapping, rseq};

/// A row has `1 << ROW_SHIFT` bytes. It is a part of the sequences in `arch`.
pub const ROW_SHIFT: u32 = 16;

/// The parts of a counter in a row: what was added, and what was subtracted.
/// They have 64 bits: a guard can be forgotten 2^32 times within seconds.
type Parts = [AtomicU64; 2];

/// Counters with parts in the same mapping.
const PLACES: u32 = (1 << ROW_SHIFT) / size_of::<Parts>() as u32;

/// Rows for threads without restartable sequences.
const SHARED_ROWS: usize = 8;

/// More CPUs than a Linux kernel can be built for, for want of better knowledge.
const MANY_CPUS: NonZeroUsize = NonZeroUsize::new(8192).unwrap();

/// The mappings, each of a row for every CPU, and then the shared ones.
static MAPPINGS: [AtomicPtr<Parts>; 1024] = [const { AtomicPtr::new(ptr::null_mut()) }; 1024];

/// The next place that no counter has had.
static FRESH: AtomicU32 = AtomicU32::new(0);
/// The places whose counters are gone, with all their parts zero.
static FREE: FreeNumbers<AtomicU32, { MAPPINGS.len() * PLACES as usize / 32 }> = FreeNumbers::new();

/// A counter. Zero bytes are one that was never used.
#[derive(Debug)]
pub struct Counter {
    /// Its parts in the first row; null as long as it has no place.
    first: AtomicPtr<Parts>,
}

/// The place of a counter: its parts in the first row.
#[derive(Clone, Copy)]
pub struct Place(*const Parts);

impl Counter {
    /// A counter that was never used.
    pub const fn new() -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// [`lockyard_core::PerCpu::add_if`].
    #[inline(always)]
    pub fn add_if(&self, delta: i64, guard: &AtomicU32, expected: u32) -> bool {
        // (N1) Acquire pairs with the Release of who took the place: it is zero.
        match self.first.load(Acquire) {
            first if first.is_null() => self.add_later(),
            first => rseq::add_if(Place(first), delta, guard, expected),
        }
    }

    /// [`lockyard_core::PerCpu::make_room`].
    pub fn make_room(&self) -> Result<(), &'static str> {
        match self.first.load(Relaxed).is_null() {
            true => self.take_place(),
            false => Ok(()),
        }
    }

    /// [`lockyard_core::PerCpu::sum`].
    pub fn sum(&self) -> u64 {
        let first = self.first.load(Acquire); // (N1)
        if first.is_null() {
            return 0;
        }
        let parts = Place(first).parts().map(|part| part.load(Acquire)); // the caller's pair
        parts.fold(0, u64::wrapping_add)
    }

    /// Nothing is added: there was no place yet.
    #[cold]
    fn add_later(&self) -> bool {
        self.take_place().unwrap_or_else(|why| panic!("{why}"));
        false
    }

    /// Takes a place, if no other thread is faster; says why there is none.
    fn take_place(&self) -> Result<(), &'static str> {
        let mine = FREE.take().map_or_else(fresh, Ok)?;
        // (N1) Release pairs with the Acquire of who finds the place.
        let taken = self.first.compare_exchange(
            ptr::null_mut(),
            place(mine).0.cast_mut(),
            Release,
            Relaxed,
        );
        if taken.is_err() {
            FREE.put(mine);
        }
        Ok(())
    }
}

impl Drop for Counter {
    /// Nobody uses the counter any more: every addition came before.
    fn drop(&mut self) {
        let first = *self.first.get_mut();
        if first.is_null() {
            return;
        }
        for part in Place(first).parts() {
            // What was never written to is not to take memory now.
            if part.load(Relaxed) != 0 {
                part.store(0, Relaxed); // published with the place
            }
        }
        FREE.put(number(first));
    }
}

impl Place {
    /// The address of the part in the first row to which this is to be added.
    #[inline(always)]
    pub fn first_for(self, delta: i64) -> *const AtomicU64 {
        self.0
            .cast::<AtomicU64>()
            .wrapping_add(usize::from(delta < 0))
    }

    fn in_row(self, row: usize) -> &'static Parts {
        // SAFETY: `place` made the pointer, into a mapping of `rows()` rows, each of
        // `1 << ROW_SHIFT` bytes, which is never unmapped, and `row` is one of them.
        // Zeroed or not, its words are valid.
        unsafe { &*self.0.byte_add(row << ROW_SHIFT) }
    }

    fn parts(self) -> impl Iterator<Item = &'static AtomicU64> {
        (0..rows()).flat_map(move |row| self.in_row(row))
    }

    /// The part for a thread that has no restartable sequences.
    pub fn shared(self, task: TaskId) -> &'static AtomicU64 {
        let [part, _] = self.in_row(cpus() + task.number() as usize % SHARED_ROWS);
        part
    }
}

/// How many CPUs there are or may be plugged in: more than any number of one.
fn cpus() -> usize {
    static CPUS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let read = || possible().or_else(mask_bits).unwrap_or(MANY_CPUS);
    CPUS.get_or_init(read).get()
}

/// As the kernel lists them. It allocates nothing: the allocator may have a lock of ours.
fn possible() -> Option<NonZeroUsize> {
    let mut list = [0; 256];
    let read = || File::open("/sys/devices/system/cpu/possible")?.read(&mut list);
    let bytes = errno::kept(read).ok()?;
    // What is longer is cut off, and then ends with no line.
    let line = str::from_utf8(&list[..bytes]).ok()?.strip_suffix('\n')?;
    after_last(line)
}

/// How many CPUs a mask of the kernel's has room for, which it says when asked for one.
fn mask_bits() -> Option<NonZeroUsize> {
    let mut mask = [0u8; MANY_CPUS.get() / 8];
    let ask = || {
        // SAFETY: the kernel writes no more than so many bytes there.
        unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                0,
                mask.len(),
                mask.as_mut_ptr(),
            )
        }
    };
    let bytes = usize::try_from(errno::kept(ask)).ok()?;
    NonZeroUsize::new(bytes * 8)
}

/// The number behind the last of a list such as `0-3,8-11`.
fn after_last(list: &str) -> Option<NonZeroUsize> {
    let numbers = list.split([',', '-']).map(str::parse::<usize>);
    let last = numbers
        .collect::<Result<Vec<_>, _>>()
        .ok()?
        .into_iter()
        .max()?;
    NonZeroUsize::MIN.checked_add(last)
}

fn rows() -> usize {
    cpus() + SHARED_ROWS
}

fn place(number: u32) -> Place {
    let first = MAPPINGS[(number / PLACES) as usize].load(Acquire); // (N2)
    // SAFETY: a number exists only after `fresh` has mapped this, and the first row
    // has `PLACES` pairs of words.
    Place(unsafe { first.add((number % PLACES) as usize) })
}

/// The number of the place whose parts in the first row these are.
fn number(first: *const Parts) -> u32 {
    let offset = |mapping: &AtomicPtr<Parts>| {
        let bytes = first.addr().wrapping_sub(mapping.load(Acquire).addr()); // (N2)
        (bytes < 1 << ROW_SHIFT).then_some(bytes / size_of::<Parts>())
    };
    let mut mappings = (0..).zip(&MAPPINGS);
    mappings
        .find_map(|(index, mapping)| Some(index * PLACES + offset(mapping)? as u32))
        .expect("a place is in a mapping")
}

/// A place that no counter has had. Its number is used up only when it is there: who is told
/// why there is none may try again, any number of times.
fn fresh() -> Result<u32, &'static str> {
    let mut number = FRESH.load(Relaxed);
    loop {
        let index = (number / PLACES) as usize;
        let mapping = MAPPINGS
            .get(index)
            .ok_or("too many locks have per-CPU counters")?;
        map(mapping)?;
        // Relaxed: it is only a number; (N2) publishes what is mapped.
        match FRESH.compare_exchange(number, number + 1, Relaxed, Relaxed) {
            Ok(_) => return Ok(number),
            Err(now) => number = now,
        }
    }
}

/// Maps the rows unless they are mapped already.
fn map(place: &AtomicPtr<Parts>) -> Result<(), &'static str> {
    // (N2) Acquire pairs with the Release below: what another has mapped.
    if !place.load(Acquire).is_null() {
        return Ok(());
    }
    let bytes = rows() << ROW_SHIFT;
    // SAFETY: a new private mapping at an address of the kernel's choice touches no
    // other memory.
    let mapped = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let Ok(mapped) = mapped else {
        return match mapping::another_maps(place) {
            true => Ok(()),
            false => Err("no memory for the counters of more locks"),
        };
    };
    // A huge page would hold the rows of many CPUs. A kernel without such has none
    // to be advised about.
    // SAFETY: the range is the mapping, and the advice does not change what is in it.
    let _ = unsafe { madvise(mapped, bytes, Advice::LinuxNoHugepage) };
    // (N2) Release and Acquire: the loser uses the winner's.
    if place
        .compare_exchange(ptr::null_mut(), mapped.cast(), AcqRel, Acquire)
        .is_err()
    {
        // SAFETY: it was mapped above, by us, and nobody else has seen it.
        unsafe { rustix::mm::munmap(mapped, bytes) }.expect("the mapping is ours");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_has_an_end() {
        assert_eq!(after_last("0"), NonZeroUsize::new(1));
        assert_eq!(after_last("0-63"), NonZeroUsize::new(64));
        assert_eq!(after_last("0-3,8-11"), NonZeroUsize::new(12));
        assert_eq!(after_last(""), None);
        assert_eq!(after_last("0-x"), None);
    }

    /// It is what there is where the list cannot be read.
    #[test]
    fn a_mask_has_room_for_every_cpu() {
        let bits = mask_bits().expect("a thread may ask about itself");
        assert!((cpus()..=MANY_CPUS.get()).contains(&bits.get()), "{bits}");
    }

    #[test]
    fn a_place_is_given_back_empty() {
        let zero = AtomicU32::new(0);
        for _ in 0..3 {
            let counter = Counter::new();
            while !counter.add_if(5, &zero, 0) {}
            assert_eq!(counter.sum(), 5);
            assert!(!counter.add_if(5, &zero, 1));
            while !counter.add_if(-2, &zero, 0) {}
            assert_eq!(counter.sum(), 3);
        }
        let again = Counter::new();
        while !again.add_if(0, &zero, 0) {}
        assert_eq!(again.sum(), 0);
    }

    #[test]
    fn so_many_readers_are_not_none() {
        let (zero, counter) = (AtomicU32::new(0), Counter::new());
        for delta in [1 << 31, 1 << 31, -1, 1] {
            while !counter.add_if(delta, &zero, 0) {}
        }
        assert_eq!(counter.sum(), 1 << 32);
    }
}
