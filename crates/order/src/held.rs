//! What a thread holds: written by the thread, and read by others that look who holds a
//! lock.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::{
    lock::{Kind, Known},
    mode::Mode,
    stack::{Shown, Stack, mix},
};

/// Locks that a thread can be seen to hold at a time.
pub const DEPTH: usize = 32;

/// A lock that is held. What others read of it may change while they do: it is for a
/// report, but for the address, which who releases the lock takes out.
pub struct Held {
    /// 0 when there is none.
    address: AtomicUsize,
    key: AtomicU64,
    /// The kind, and the mode in the next byte.
    how: AtomicU32,
    stack: Shown,
}

// Relaxed all over: the thread reads what it wrote itself, and others as the type says.
impl Held {
    pub fn address(&self) -> usize {
        self.address.load(Relaxed)
    }

    pub fn lock(&self) -> Known {
        let [kind, ..] = self.how.load(Relaxed).to_le_bytes();
        Known {
            key: self.key.load(Relaxed),
            address: self.address(),
            kind: Kind::from_u8(kind),
        }
    }

    pub fn mode(&self) -> Mode {
        let [_, mode, ..] = self.how.load(Relaxed).to_le_bytes();
        Mode::from_u8(mode)
    }

    pub fn stack(&self) -> Stack {
        self.stack.get()
    }

    pub fn set_mode(&self, mode: Mode) {
        let [kind, ..] = self.how.load(Relaxed).to_le_bytes();
        let how = u32::from_le_bytes([kind, mode as u8, 0, 0]);
        self.how.store(how, Relaxed);
    }

    fn set(&self, lock: &Known, mode: Mode, stack: &Stack) {
        self.key.store(lock.key, Relaxed);
        let how = u32::from_le_bytes([lock.kind as u8, mode as u8, 0, 0]);
        self.how.store(how, Relaxed);
        self.stack.set(stack);
        self.address.store(lock.address, Relaxed);
    }

    /// Puts in again what was taken out, with nothing trimmed since.
    pub fn put_back(&self, address: usize) {
        self.address.store(address, Relaxed);
    }

    /// Takes the lock out, unless another has.
    pub fn take_out(&self, address: usize) -> bool {
        self.address
            .compare_exchange(address, 0, Relaxed, Relaxed)
            .is_ok()
    }
}

/// The locks that a thread holds, in the order in which it took them, with gaps.
pub struct Holds {
    len: AtomicUsize,
    /// Locks that found no room.
    more: AtomicU32,
    at: [Held; DEPTH],
}

impl Holds {
    /// Of the thread itself and, for a look, of others.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Held> {
        let len = self.len.load(Relaxed);
        self.at[..len].iter().filter(|held| held.address() != 0)
    }

    /// Those of this lock, the one that was taken last first.
    pub fn of(&self, address: usize) -> impl Iterator<Item = &Held> {
        let all = self.iter().rev();
        all.filter(move |held| held.address() == address)
    }

    /// The one that was taken last of those of this lock, in this mode if there is one.
    pub fn find(&self, address: usize, mode: Option<Mode>) -> Option<&Held> {
        let in_mode = mode.and_then(|mode| self.of(address).find(|held| held.mode() == mode));
        in_mode.or_else(|| self.of(address).next())
    }

    /// Forgets the gaps at the end. Returns whether nothing is held.
    pub fn trim(&self) -> bool {
        let mut len = self.len.load(Relaxed);
        while len > 0 && self.at[len - 1].address() == 0 {
            len -= 1;
        }
        self.len.store(len, Relaxed);
        len == 0
    }

    /// `false` when there is no room.
    pub fn push(&self, lock: &Known, mode: Mode, stack: &Stack) -> bool {
        let len = self.len.load(Relaxed);
        // A gap between others is better than none: the order is for the report alone.
        let gap = || self.at.iter().find(|held| held.address() == 0);
        let Some(free) = self.at.get(len).or_else(gap) else {
            self.more.fetch_add(1, Relaxed);
            return false;
        };
        free.set(lock, mode, stack);
        self.len.store((len + 1).min(DEPTH), Relaxed);
        true
    }

    /// A lock that found no room is released. `false` if there was none.
    pub fn release_unseen(&self) -> bool {
        let more = self.more.load(Relaxed);
        self.more.store(more.saturating_sub(1), Relaxed);
        more > 0
    }

    pub fn clear(&self) {
        self.len.store(0, Relaxed);
        self.more.store(0, Relaxed);
    }

    /// A hash of what is held, in which modes, and of what is wanted; never 0.
    pub fn chain(&self, wanted: &Known, mode: Mode) -> u64 {
        let held = self.iter().map(|held| (held.lock().key, held.mode()));
        hash(held, (wanted.key, mode))
    }
}

/// That hash, of locks by their keys.
pub fn hash(held: impl Iterator<Item = (u64, Mode)>, wanted: (u64, Mode)) -> u64 {
    let place = |hash, (key, mode): (u64, Mode)| mix(mix(hash, key), mode as u64);
    place(held.fold(1, place), wanted) | 1
}
