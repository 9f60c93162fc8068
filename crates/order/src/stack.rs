//! Call stacks, as return addresses.

use std::{
    array,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
};

/// The innermost frames that are kept of a stack, the hooks' own included.
pub const FRAMES: usize = 24;

/// The innermost frames of a thread's stack.
#[derive(Clone, Copy)]
pub struct Stack {
    len: u32,
    frames: [usize; FRAMES],
}

impl Stack {
    pub const EMPTY: Self = Self {
        len: 0,
        frames: [0; FRAMES],
    };

    /// The caller's. It neither allocates nor locks, with an unwinder that finds a frame's
    /// description without (glibc 2.35 and GCC 12, or later).
    #[inline(never)]
    pub fn capture() -> Self {
        let mut stack = Self::EMPTY;
        // SAFETY: it must not run in two threads at once where the unwinder is the debugger
        // library of another system; on Linux it is the compiler's, which may.
        unsafe {
            backtrace::trace_unsynchronized(|frame| stack.push(frame.ip().addr()));
        }
        stack
    }

    /// Returns whether there is room for another frame.
    pub fn push(&mut self, frame: usize) -> bool {
        self.frames[self.len as usize] = frame;
        self.len += 1;
        (self.len as usize) < FRAMES
    }

    pub fn frames(&self) -> &[usize] {
        &self.frames[..self.len as usize]
    }

    /// Never 0.
    pub fn hash(&self) -> u64 {
        self.frames()
            .iter()
            .fold(1, |hash, at| mix(hash, *at as u64))
            | 1
    }
}

/// A hash of what `hash` is one of, and `value`.
#[inline]
pub fn mix(hash: u64, value: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 divided by the golden ratio
    let mixed = (hash.rotate_left(23) ^ value).wrapping_mul(ODD);
    mixed ^ mixed >> 32
}

/// A stack that its thread writes and others read: what they get of one that changes just
/// then are frames of both.
pub struct Shown {
    len: AtomicU32,
    frames: [AtomicUsize; FRAMES],
}

impl Shown {
    pub fn set(&self, stack: &Stack) {
        for (shown, frame) in self.frames.iter().zip(stack.frames()) {
            shown.store(*frame, Relaxed); // as the type says, here and below
        }
        self.len.store(stack.len, Relaxed);
    }

    pub fn get(&self) -> Stack {
        Stack {
            len: self.len.load(Relaxed).min(FRAMES as u32),
            frames: array::from_fn(|at| self.frames[at].load(Relaxed)),
        }
    }
}
