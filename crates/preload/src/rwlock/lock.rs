//! Which of our locks lies in a `pthread_rwlock_t`, and what both have in common.
//!
//! Where the process wants locks with per-CPU counters, each object has one of them from its
//! first use on, as long as there are few: they have to be given back, and there are programs
//! that do not say when (`std::shared_mutex` never does). The others have the rwsem.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard_core::{Deadline, RawPercpuRwLock, RawRwLock};
use lockyard_linux::Linux;

/// What an object is that was not used yet.
pub const UNUSED: u32 = 0;
/// It has per-CPU counters.
pub const PERCPU: u32 = 1;
/// It has none: there were too many.
const RWSEM: u32 = 2;

/// How many locks of a process can have per-CPU counters at a time. Their memory is there
/// before the first ([`make_room`]), and is enough for a few more.
const MOST: u32 = 4_000;

/// How many have.
static HAVE: AtomicU32 = AtomicU32::new(0);

/// Sees to it that there is memory for the counters of [`MOST`] locks, or says why there is none.
pub fn make_room() -> Result<(), &'static str> {
    static FIRST: RawPercpuRwLock<Linux> = RawPercpuRwLock::new();
    FIRST.make_room()
}

/// Decides what an unused object is, unless another thread has.
#[cold]
pub fn decide(what: &AtomicU32) -> u32 {
    let one_more = |have| (have < MOST).then_some(have + 1);
    let may_have = HAVE.fetch_update(Relaxed, Relaxed, one_more).is_ok(); // only a number
    let mine = if may_have { PERCPU } else { RWSEM };
    // It tells no more than itself.
    match what.compare_exchange(UNUSED, mine, Relaxed, Relaxed) {
        Ok(_) => mine,
        Err(theirs) => {
            if may_have {
                gave_back();
            }
            theirs
        }
    }
}

/// A lock has given its counter back.
pub fn gave_back() {
    HAVE.fetch_sub(1, Relaxed); // likewise
}

/// A lock of ours. Where `recursive` is asked for, readers may be readers already.
pub enum Lock<'a> {
    Rwsem(&'a RawRwLock<Linux>),
    Percpu(&'a RawPercpuRwLock<Linux>),
}

impl Lock<'_> {
    #[inline(always)]
    pub fn try_read(&self, recursive: bool) -> bool {
        match self {
            Self::Rwsem(lock) if recursive => lock.try_read_recursive(),
            Self::Rwsem(lock) => lock.try_read_in_order(),
            Self::Percpu(lock) => lock.try_read(),
        }
    }

    #[inline(always)]
    pub fn read(&self, recursive: bool) {
        match self {
            Self::Rwsem(lock) if recursive => lock.read_recursive(),
            Self::Rwsem(lock) => lock.read_in_order(),
            Self::Percpu(lock) => lock.read(),
        }
    }

    pub fn read_until(&self, recursive: bool, deadline: Deadline) -> bool {
        match self {
            Self::Rwsem(lock) if recursive => lock.read_recursive_until(deadline),
            Self::Rwsem(lock) => lock.read_in_order_until(deadline),
            Self::Percpu(lock) => lock.read_until(deadline),
        }
    }

    #[inline(always)]
    pub fn try_write(&self) -> bool {
        match self {
            Self::Rwsem(lock) => lock.try_write(),
            Self::Percpu(lock) => lock.try_write(),
        }
    }

    #[inline(always)]
    pub fn write(&self, recursive: bool) {
        match self {
            Self::Rwsem(lock) => lock.write(),
            Self::Percpu(lock) if recursive => {
                lock.write_giving_way(None);
            }
            Self::Percpu(lock) => lock.write(),
        }
    }

    pub fn write_until(&self, recursive: bool, deadline: Deadline) -> bool {
        match self {
            Self::Rwsem(lock) => lock.write_until(deadline),
            Self::Percpu(lock) if recursive => lock.write_giving_way(Some(deadline)),
            Self::Percpu(lock) => lock.write_until(deadline),
        }
    }

    #[inline(always)]
    pub fn is_mine(&self) -> bool {
        match self {
            Self::Rwsem(lock) => lock.is_mine(),
            Self::Percpu(lock) => lock.is_write_locked() && lock.is_mine(),
        }
    }

    /// Whether it counts as many readers as it can.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Rwsem(lock) => lock.is_full(),
            Self::Percpu(_) => false,
        }
    }

    /// Whether the caller can be a reader, as far as that can be told.
    #[inline(always)]
    pub fn may_be_read_by_me(&self) -> bool {
        match self {
            Self::Rwsem(lock) => lock.may_be_read_by_me(),
            Self::Percpu(_) => true,
        }
    }

    pub fn is_locked(&self) -> bool {
        match self {
            Self::Rwsem(lock) => lock.is_locked(),
            Self::Percpu(lock) => lock.is_locked(),
        }
    }

    /// # Safety
    /// The caller is the writer.
    #[inline(always)]
    pub unsafe fn unlock_write(&self) {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Self::Rwsem(lock) => lock.unlock_write(),
                Self::Percpu(lock) => lock.unlock_write(),
            }
        }
    }

    /// # Safety
    /// The caller is one of the readers.
    #[inline(always)]
    pub unsafe fn unlock_read(&self) {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Self::Rwsem(lock) => lock.unlock_read(),
                Self::Percpu(lock) => lock.unlock_read(),
            }
        }
    }
}
