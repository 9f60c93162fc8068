//! The futex.

use std::{ffi::c_int, mem::MaybeUninit, num::NonZeroU32, slice, sync::atomic::AtomicU32};

use libc::{EAGAIN, EINVAL, ETIMEDOUT, timespec};
use lockyard_core::Deadline;
use lockyard_linux::futex::{self, Change, Compare, Requeued, WORDS, Waited, WaitedAny};

use crate::deadline;

/// If the word holds what is expected, waits until the thread is woken, or until the
/// deadline; without one (a null pointer), as long as it takes.
///
/// The futexes are of the threads of one process: a word is a uint32_t, atomic or not, known
/// by its address. Who waits here is woken from here, and not by the system call. No wake-up
/// is spurious, but it may have been for an earlier user of the memory: wait in a loop.
/// Real-time threads are woken by priority, all others after them in the order in which they
/// came. A word that is not aligned to four bytes gives EINVAL, as does a count above
/// INT_MAX. In a fork's child nobody waits.
///
/// Returns 0 when a thread that woke this one has counted it, EAGAIN when the word holds
/// something else, ETIMEDOUT, or EINVAL.
///
/// # Safety
/// The word is changed by atomic operations alone, as long as it may be waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_futex_wait(
    word: *const AtomicU32,
    expected: u32,
    deadline: Option<&timespec>,
) -> c_int {
    // SAFETY: the caller says it.
    unsafe { lockyard_futex_wait_bitset(word, expected, u32::MAX, deadline) }
}

/// lockyard_futex_wait for who wakes with a set of bits that has one in common with this
/// set; an empty set gives EINVAL.
///
/// # Safety
/// As lockyard_futex_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_futex_wait_bitset(
    word: *const AtomicU32,
    expected: u32,
    bitset: u32,
    deadline: Option<&timespec>,
) -> c_int {
    code((|| {
        // SAFETY: the caller says that it is a word.
        let word = unsafe { &*aligned(word)? };
        let (bitset, deadline) = (set(bitset)?, moment(deadline)?);
        match futex::wait_until(word, expected, bitset, deadline) {
            Waited::Woken => Ok(()),
            Waited::TimedOut => Err(ETIMEDOUT),
            Waited::Changed => Err(EAGAIN),
        }
    })())
}

/// A word that lockyard_futex_waitv waits for, and what it is expected to hold.
#[repr(C)]
pub struct FutexWaitv {
    word: *const AtomicU32,
    expected: u32,
}

/// For so many words a thread can wait at once.
pub const FUTEX_WORDS: u32 = 128;
const _: () = assert!(FUTEX_WORDS as usize == WORDS);

/// A set of words of a wait: bit 0 of `low` is the first word's, bit 0 of `high` that of
/// the 65th.
#[repr(C)]
pub struct FutexSet {
    low: u64,
    high: u64,
}
const _: () = assert!(size_of::<FutexSet>() * 8 == WORDS);

impl FutexSet {
    fn new(set: u128) -> Self {
        Self {
            low: set as u64,
            high: (set >> 64) as u64,
        }
    }
}

/// If each of count words holds what is expected, waits for the first of them that is woken,
/// or until the deadline, if there is one. There are 1 to LOCKYARD_FUTEX_WORDS; other counts
/// give EINVAL.
///
/// The words are looked at one after the other, and a thread may wake one meanwhile: that is
/// told, even if a later word holds something else. Each of these wake-ups has counted this
/// thread. Where `which` is not null it gets a set: with 0, of the words that were woken,
/// with EAGAIN, of one that had changed, otherwise of none.
///
/// Returns 0, EAGAIN, ETIMEDOUT, or EINVAL.
///
/// # Safety
/// The words are changed by atomic operations alone, as long as they may be waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_futex_waitv(
    words: *const FutexWaitv,
    count: u32,
    deadline: Option<&timespec>,
    which: Option<&mut MaybeUninit<FutexSet>>,
) -> c_int {
    let mut set = 0;
    let waited = (|| {
        if !(1..=FUTEX_WORDS).contains(&count) {
            return Err(EINVAL);
        }
        let deadline = moment(deadline)?;
        // SAFETY: the caller says that there are so many.
        let words = unsafe { slice::from_raw_parts(words, count as usize) };
        words
            .iter()
            .try_for_each(|each| aligned(each.word).map(drop))?;
        let word = |index: usize| {
            let FutexWaitv { word, expected } = words[index];
            // SAFETY: the caller says that it is a word.
            (unsafe { &*word }, expected)
        };
        match futex::wait_each_until(words.len(), word, deadline) {
            WaitedAny::Woken(woken) => {
                set = woken;
                Ok(())
            }
            WaitedAny::TimedOut => Err(ETIMEDOUT),
            WaitedAny::Changed(index) => {
                set = 1 << index;
                Err(EAGAIN)
            }
        }
    })();
    tell(which, FutexSet::new(set));
    code(waited)
}

/// Wakes so many threads at most that wait for the word; 0 are none. Where `woken` is not
/// null it gets their number, here and below, and with an error 0.
///
/// The word is not read: it may have been freed.
///
/// Returns 0 or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_futex_wake(
    word: *const AtomicU32,
    count: u32,
    woken: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    lockyard_futex_wake_bitset(word, count, u32::MAX, woken)
}

/// lockyard_futex_wake of threads that wait with a set of bits that has one in common with
/// this set; an empty set gives EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_futex_wake_bitset(
    word: *const AtomicU32,
    count: u32,
    bitset: u32,
    woken: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    counted(woken, || {
        let (word, count, bitset) = (aligned(word)?, number(count)?, set(bitset)?);
        Ok(futex::wake_bitset(word, count, bitset))
    })
}

/// Wakes so many threads at most that wait for `from`, and has up to `moves` others wait for
/// `to` instead, each with the deadline that it has. Where `moved` is not null it gets their
/// number. Between a word and itself nobody is moved. Neither word is read.
///
/// Returns 0 or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_futex_requeue(
    from: *const AtomicU32,
    to: *const AtomicU32,
    wakes: u32,
    moves: u32,
    woken: Option<&mut MaybeUninit<u32>>,
    moved: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    requeued(woken, moved, || {
        let (from, to) = (aligned(from)?, aligned(to)?);
        Ok(futex::requeue(from, to, number(wakes)?, number(moves)?))
    })
}

/// lockyard_futex_requeue if `from` holds what is expected; else it returns EAGAIN. To those
/// who wait for either word, the comparison and what follows are one step.
///
/// # Safety
/// `from` is changed by atomic operations alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_futex_cmp_requeue(
    from: *const AtomicU32,
    expected: u32,
    to: *const AtomicU32,
    wakes: u32,
    moves: u32,
    woken: Option<&mut MaybeUninit<u32>>,
    moved: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    requeued(woken, moved, || {
        // SAFETY: the caller says that it is a word.
        let from = unsafe { &*aligned(from)? };
        let (to, wakes, moves) = (aligned(to)?, number(wakes)?, number(moves)?);
        futex::requeue_if(from, expected, to, wakes, moves).ok_or(EAGAIN)
    })
}

/// The word becomes the operand.
pub const FUTEX_SET: u32 = 0;
/// The operand is added, modulo 2^32.
pub const FUTEX_ADD: u32 = 1;
/// The operand's bits are set.
pub const FUTEX_OR: u32 = 2;
/// The operand's bits are cleared.
pub const FUTEX_ANDN: u32 = 3;
/// The operand's bits are inverted.
pub const FUTEX_XOR: u32 = 4;

/// Added to one of the numbers above: the operand is a bit's number, 0 to 31, and stands for
/// that bit.
pub const FUTEX_SHIFT: u32 = 8;

/// The word was the value.
pub const FUTEX_EQ: u32 = 0;
/// The word was not the value.
pub const FUTEX_NE: u32 = 1;
/// The word was less than the value.
pub const FUTEX_LT: u32 = 2;
/// The word was the value or less.
pub const FUTEX_LE: u32 = 3;
/// The word was greater than the value.
pub const FUTEX_GT: u32 = 4;
/// The word was the value or greater.
pub const FUTEX_GE: u32 = 5;

/// What lockyard_futex_wake_op does to its second word, by one of the numbers above; and
/// what that must have been before for its waiters to be woken. Both it and the value are
/// taken for signed numbers. All numbers are those that the system call has for the same.
#[repr(C)]
pub struct FutexOp {
    change: u32,
    operand: u32,
    compare: u32,
    value: u32,
}

impl FutexOp {
    /// `EINVAL` for a number that means nothing.
    fn change(&self) -> Result<Change, c_int> {
        let operand = match self.change & FUTEX_SHIFT {
            0 => self.operand,
            _ => 1u32.checked_shl(self.operand).ok_or(EINVAL)?,
        };
        match self.change & !FUTEX_SHIFT {
            FUTEX_SET => Ok(Change::Set(operand)),
            FUTEX_ADD => Ok(Change::Add(operand)),
            FUTEX_OR => Ok(Change::Or(operand)),
            FUTEX_ANDN => Ok(Change::AndNot(operand)),
            FUTEX_XOR => Ok(Change::Xor(operand)),
            _ => Err(EINVAL),
        }
    }

    /// Likewise.
    fn compare(&self) -> Result<Compare, c_int> {
        let value = self.value.cast_signed();
        match self.compare {
            FUTEX_EQ => Ok(Compare::Equal(value)),
            FUTEX_NE => Ok(Compare::NotEqual(value)),
            FUTEX_LT => Ok(Compare::Less(value)),
            FUTEX_LE => Ok(Compare::AtMost(value)),
            FUTEX_GT => Ok(Compare::Greater(value)),
            FUTEX_GE => Ok(Compare::AtLeast(value)),
            _ => Err(EINVAL),
        }
    }
}

/// Changes the second word, wakes so many threads at most that wait for the first, and, if
/// the second was as the operation says, `count_second` that wait for that. To those who
/// wait for either word, the change and the wake-ups are one step. `woken` gets the number
/// of all. The first word is not read.
///
/// Returns 0, or EINVAL: also for a change, a bit's number or a comparison that is none of
/// those above.
///
/// # Safety
/// The second word is changed by atomic operations alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_futex_wake_op(
    first: *const AtomicU32,
    count: u32,
    second: *mut AtomicU32,
    count_second: u32,
    op: *const FutexOp,
    woken: Option<&mut MaybeUninit<u32>>,
) -> c_int {
    counted(woken, || {
        // SAFETY: the caller says that it is an operation.
        let op = unsafe { &*op };
        let (change, compare) = (op.change()?, op.compare()?);
        let (first, count) = (aligned(first)?, number(count)?);
        let then = (compare, number(count_second)?);
        // SAFETY: the caller says that it is a word.
        let second = unsafe { &*aligned(second)? };
        Ok(futex::wake_op(first, count, (second, change), then))
    })
}

/// The address of a word; `EINVAL` where none can be.
fn aligned(word: *const AtomicU32) -> Result<*const AtomicU32, c_int> {
    word.is_aligned().then_some(word).ok_or(EINVAL)
}

fn set(bitset: u32) -> Result<NonZeroU32, c_int> {
    NonZeroU32::new(bitset).ok_or(EINVAL)
}

/// A number of threads: a negative `int` is a mistake.
fn number(count: u32) -> Result<u32, c_int> {
    if count > c_int::MAX.cast_unsigned() {
        return Err(EINVAL);
    }
    Ok(count)
}

fn moment(at: Option<&timespec>) -> Result<Option<Deadline>, c_int> {
    at.map(deadline).transpose()
}

fn code(done: Result<(), c_int>) -> c_int {
    done.err().unwrap_or(0)
}

fn tell<T>(to: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(to) = to {
        to.write(value);
    }
}

/// Tells how many `wake` has woken.
fn counted(
    woken: Option<&mut MaybeUninit<u32>>,
    wake: impl FnOnce() -> Result<u32, c_int>,
) -> c_int {
    let count = wake();
    tell(woken, count.unwrap_or(0));
    code(count.map(drop))
}

/// Tells how many `requeue` has woken and moved.
fn requeued(
    woken: Option<&mut MaybeUninit<u32>>,
    moved: Option<&mut MaybeUninit<u32>>,
    requeue: impl FnOnce() -> Result<Requeued, c_int>,
) -> c_int {
    let requeued = requeue();
    let counts = requeued.unwrap_or_default();
    tell(woken, counts.woken);
    tell(moved, counts.moved);
    code(requeued.map(drop))
}
