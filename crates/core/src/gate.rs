//! The gate of a wait queue: a lock of one word for a few memory accesses.
//!
//! Its holder may be preempted, and in user space by the very task that wants
//! the gate next, so who waits for long sleeps. The word is the gate and the
//! stack of its sleepers:
//!
//! | bits | meaning | set by | cleared by |
//! |---|---|---|---|
//! | 0 | `LOCKED` | who takes the gate | its holder |
//! | 1..27 | the task on top of the stack, 0 for none | a sleeper, pushing itself | the holder, popping |
//!
//! Every state is legal. Only the holder pops, so a task that the holder sees
//! on top stays there until the holder takes it off: a stack without ABA.
//! A popped task competes again, and its own unlock pops the next: the gate is
//! free with sleepers only while a popped task is on its way.

use crate::platform::{Event, Look, Ordering::*, Platform, TaskId, Word};

const LOCKED: u32 = 1;

/// Looks before a task goes to sleep: the gate is held for far less.
const LOOKS: u32 = 64;

/// A task's place in the stack.
pub(crate) struct Node<P: Platform> {
    /// The task below, 0 for none.
    below: P::U32,
    /// Whether the task was popped.
    popped: P::U32,
}

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            below: P::U32::ZERO,
            popped: P::U32::ZERO,
        }
    }
}

pub(crate) struct Gate<P: Platform> {
    word: P::U32,
}

impl<P: Platform> Gate<P> {
    pub(crate) const fn new() -> Self {
        Self { word: P::U32::ZERO }
    }

    /// Runs `section` while holding the gate. When this returns, the caller
    /// has made its last access to the gate's memory: who enters next may
    /// free it.
    pub(crate) fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock();
        let result = section();
        self.unlock();
        result
    }

    /// As [`Gate::with`], if the gate is free at the first try.
    pub(crate) fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.try_lock().then(|| {
            let result = section();
            self.unlock();
            result
        })
    }

    fn lock(&self) {
        while !self.try_lock() {
            let free = P::spin_until(
                &self.word,
                Relaxed, // only a hint: try_lock acquires
                Look::Poll,
                LOOKS,
                |word| word & LOCKED == 0,
                || false,
            );
            if free.is_none() {
                self.sleep();
            }
        }
    }

    fn try_lock(&self) -> bool {
        let word = self.word.load(Relaxed); // checked by the exchange
        word & LOCKED == 0
            && self
                .word
                // (G1) Acquire pairs with unlock's Release: the section before.
                .compare_exchange(word, word | LOCKED, Acquire, Relaxed)
                .is_ok()
    }

    /// Pushes the caller and sleeps until it is popped; returns at once when
    /// the gate is free.
    fn sleep(&self) {
        let me = P::me();
        let node = &P::task(me).gate;
        node.popped.store(0, Relaxed); // published by the exchange below
        let mut word = self.word.load(Relaxed); // checked by the exchange
        loop {
            if word & LOCKED == 0 {
                return;
            }
            node.below.store(word >> 1, Relaxed); // published below
            let pushed = me.number() << 1 | LOCKED;
            // (G2) Release pairs with unlock's Acquire: my node, to be popped.
            match self.word.compare_exchange(word, pushed, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // (G3) Acquire pairs with unlock's Release: it is done with my node.
        while node.popped.load(Acquire) == 0 {
            P::event(Event::GateParked);
            P::park(None);
        }
    }

    fn unlock(&self) {
        // (G2) Acquire, here and on failure: the node on top is whole.
        let mut word = self.word.load(Acquire);
        loop {
            let top = TaskId::new(word >> 1);
            let rest = top.map_or(0, |top| P::task(top).gate.below.load(Relaxed) << 1);
            // (G1) Release pairs with try_lock's Acquire: my section.
            match self.word.compare_exchange(word, rest, Release, Acquire) {
                Ok(_) => {
                    if let Some(top) = top {
                        // (G3) Release pairs with sleep's Acquire.
                        P::task(top).gate.popped.store(1, Release);
                        P::unpark(top);
                    }
                    return;
                }
                Err(now) => word = now,
            }
        }
    }
}
