//! Where locks are made and taken: stacks, each once, and what was sampled of each lock
//! at each.

use std::{
    ops::Range,
    sync::atomic::{
        AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// So many frames of a stack are kept, the innermost.
pub const DEPTH: usize = 16;
/// So many stacks.
const STACKS: usize = 1 << 13;
/// So many pairs of a lock and a stack.
const SITES: usize = 1 << 15;
/// So many places are searched.
const SEARCH: usize = 64;

/// Return addresses, the innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    frames: [usize; DEPTH],
    length: usize,
}

impl Stack {
    /// The caller's, without the innermost frames whose code is in `own`. It allocates
    /// nothing; where the C library is older than 2.35, it takes the dynamic linker's lock.
    #[inline(never)]
    pub fn here(own: &Range<usize>) -> Self {
        let mut stack = Self {
            frames: [0; DEPTH],
            length: 0,
        };
        let mut entered = false;
        // SAFETY: what must not be done at once with others is to find symbols.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                let at = frame.ip().addr();
                entered |= !own.contains(&at);
                if entered && at != 0 {
                    stack.frames[stack.length] = at;
                    stack.length += 1;
                }
                stack.length < DEPTH
            });
        }
        stack
    }

    fn hash(&self) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let frames = self.frames[..self.length].iter();
        let hash = frames.fold(1u64, |hash, &frame| {
            (hash.rotate_left(23) ^ frame as u64).wrapping_mul(GOLDEN)
        });
        hash | 1
    }
}

/// A stack that is kept.
struct Kept {
    /// 0: none is. It is taken for the stack's identity.
    hash: AtomicU64,
    /// How many frames; 0: they are not all there yet.
    length: AtomicU32,
    frames: [AtomicUsize; DEPTH],
}

/// What was sampled of a lock at a stack.
struct Site {
    /// The lock's number, and the stack's below. 0: none.
    who: AtomicU64,
    acquisitions: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
}

/// What a call site of a lock has been seen to do, each a sum of weights.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sampled {
    /// The lock's number.
    pub lock: u32,
    /// The stack's.
    pub stack: u32,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Those that waited.
    pub contended: u64,
    /// How long they did, in nanoseconds.
    pub wait_ns: u64,
}

/// All stacks and sites. All zeros is an empty table.
pub struct Stacks {
    kept: [Kept; STACKS],
    sites: [Site; SITES],
    /// Samples for which there was no room.
    pub(crate) dropped: AtomicU64,
}

impl Stacks {
    /// The number of a stack, which is kept from now on; 0 if there is no room.
    pub(crate) fn number(&self, stack: &Stack) -> u32 {
        let hash = stack.hash();
        let places = (0..SEARCH).map(|step| (hash as usize / 2 + step) % STACKS);
        for place in places {
            let kept = &self.kept[place];
            // Which stack it is says the hash alone; who reads the frames looks at the length.
            let was = kept.hash.compare_exchange(0, hash, Relaxed, Relaxed);
            if was.is_ok() {
                for (to, from) in kept.frames.iter().zip(stack.frames) {
                    to.store(from, Relaxed); // published by the length
                }
                // (S1) Release pairs with frames's Acquire.
                kept.length.store(stack.length as u32, Release);
            }
            if was.is_ok() || was == Err(hash) {
                return place as u32 + 1;
            }
        }
        self.dropped.fetch_add(1, Relaxed);
        0
    }

    /// The frames of a stack, innermost first.
    pub(crate) fn frames(&self, number: u32) -> Vec<usize> {
        let Some(kept) = self.kept.get((number as usize).wrapping_sub(1)) else {
            return Vec::new();
        };
        let length = kept.length.load(Acquire) as usize; // (S1)
        let frames = kept.frames[..length].iter();
        frames.map(|frame| frame.load(Relaxed)).collect()
    }

    /// Adds what was sampled of a lock at a stack.
    pub(crate) fn add(&self, sampled: Sampled) {
        let who = u64::from(sampled.lock) << 32 | u64::from(sampled.stack);
        let hash = (who.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        for place in (0..SEARCH).map(|step| (hash + step) % SITES) {
            let site = &self.sites[place];
            let was = site.who.compare_exchange(0, who, Relaxed, Relaxed); // counts start at 0
            if was.is_ok() || was == Err(who) {
                site.acquisitions.fetch_add(sampled.acquisitions, Relaxed);
                site.contended.fetch_add(sampled.contended, Relaxed);
                site.wait_ns.fetch_add(sampled.wait_ns, Relaxed);
                return;
            }
        }
        self.dropped.fetch_add(1, Relaxed);
    }

    /// All that was sampled.
    pub(crate) fn sampled(&self) -> impl Iterator<Item = Sampled> {
        let used = self.sites.iter().filter(|site| site.who.load(Relaxed) != 0);
        used.map(|site| {
            let who = site.who.load(Relaxed);
            Sampled {
                lock: (who >> 32) as u32,
                stack: who as u32,
                acquisitions: site.acquisitions.load(Relaxed),
                contended: site.contended.load(Relaxed),
                wait_ns: site.wait_ns.load(Relaxed),
            }
        })
    }

    /// Forgets what was sampled, while nobody adds. The stacks stay.
    pub(crate) fn clear(&self) {
        for site in &self.sites {
            if site.who.load(Relaxed) != 0 {
                for word in [
                    &site.who,
                    &site.acquisitions,
                    &site.contended,
                    &site.wait_ns,
                ] {
                    word.store(0, Relaxed); // alone
                }
            }
        }
        self.dropped.store(0, Relaxed);
    }
}
