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
//!
//! A *visitor* sleeps in the stack like the others, but only to learn that the
//! holder has gone on: it does not come back, for the gate may be freed by then.
//! So visitors are popped together with the first sleeper below them.
//!
//! In a world with [`Platform::OWN_GATES`] the word is the world's.

mod guarded;

pub(crate) use guarded::GuardedGate;

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
    /// Whether the task is a visitor.
    visits: P::U32,
}

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            below: P::U32::ZERO,
            popped: P::U32::ZERO,
            visits: P::U32::ZERO,
        }
    }
}

/// A visitor's place in a stack: it must wait there, and may do so when it can
/// no longer touch the gate.
#[must_use]
pub(crate) struct Visit(TaskId);

impl Visit {
    /// Waits until the holder of the gate has opened it.
    pub(crate) fn wait<P: Platform>(self) {
        await_pop::<P>(self.0);
    }
}

/// Sleeps until the caller is popped.
fn await_pop<P: Platform>(me: TaskId) {
    // (G3) Acquire pairs with unlock's Release: it is done with my node.
    while P::task(me).gate.popped.load(Acquire) == 0 {
        P::event(Event::GateParked);
        P::park(None);
    }
}

pub(crate) struct Gate<P: Platform> {
    word: P::U32,
}

impl<P: Platform> Gate<P> {
    /// The bits that say that somebody holds the gate.
    const CLOSED: u32 = if P::OWN_GATES { u32::MAX } else { LOCKED };

    pub(crate) const fn new() -> Self {
        Self { word: P::U32::ZERO }
    }

    /// Whether the gate is free and nobody sleeps at it: a hint.
    pub(crate) fn is_untouched(&self) -> bool {
        self.word.load(Relaxed) == 0 // a hint
    }

    /// Opens the gate and forgets who sleeps at it, in a copy of the address space in
    /// which the caller is the only task.
    pub(crate) fn forget(&self) {
        self.word.store(0, Relaxed); // there is one task
    }

    /// Whether nobody holds the gate: then the caller sees what was done inside so far.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // (G1) Acquire pairs with unlock's Release.
        self.word.load(Acquire) & Self::CLOSED == 0
    }

    /// Whether somebody holds the gate: a hint.
    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Relaxed) & Self::CLOSED != 0 // a hint
    }

    /// Opens the gate, whose holder is gone, as all are that sleep at it. More than one may do so
    /// before anybody enters.
    pub(crate) fn abandon(&self) {
        // (G1) Release: what the caller has mended. Of two exchanges one follows the other, and
        // who enters comes behind both.
        self.word.swap(0, Release);
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

    /// Enters; the caller must call [`Gate::unlock`].
    #[inline]
    pub(crate) fn lock(&self) {
        if P::OWN_GATES {
            P::lock_gate(&self.word, true);
        } else if !self.try_lock() {
            self.wait();
        }
    }

    /// [`Gate::try_lock`], and then a full barrier, if it entered.
    #[inline]
    fn try_lock_fenced(&self) -> bool {
        let word = self.word.load(Relaxed); // checked by the exchange
        !P::OWN_GATES
            && word & LOCKED == 0
            && P::compare_exchange_fenced(&self.word, word, word | LOCKED) // (G1) acquires
    }

    /// Enters when the gate, which was closed, opens.
    #[cold]
    fn wait(&self) {
        self.wait_or(|| self.sleep());
    }

    /// Sleeps if the gate is closed, until it was open.
    fn sleep(&self) {
        if self.push(P::me(), 0) {
            await_pop::<P>(P::me());
        }
    }

    /// Enters; who has waited for long is to `sleep`.
    fn wait_or(&self, sleep: impl Fn()) {
        loop {
            let free = P::spin_until(
                &self.word,
                Relaxed, // only a hint: try_lock acquires
                Look::Poll,
                LOOKS,
                |word| word & LOCKED == 0,
                || false,
            );
            if free.is_none() {
                sleep();
            }
            if self.try_lock() {
                return;
            }
        }
    }

    /// Enters, but who finds the gate closed sleeps at once: for sections in which the
    /// holder may wait. The caller must call [`Gate::unlock`].
    pub(crate) fn lock_asleep(&self) {
        if P::OWN_GATES {
            P::lock_gate(&self.word, true);
            return;
        }
        while !self.try_lock() {
            self.sleep();
        }
    }

    /// Becomes a visitor; `None` when the gate is free.
    pub(crate) fn visit(&self) -> Option<Visit> {
        let me = P::me();
        self.push(me, 1).then_some(Visit(me))
    }

    /// Enters if the gate is free at the first try; then the caller must call
    /// [`Gate::unlock`].
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        if P::OWN_GATES {
            return P::lock_gate(&self.word, false);
        }
        let word = self.word.load(Relaxed); // checked by the exchange
        word & LOCKED == 0
            && self
                .word
                // (G1) Acquire pairs with unlock's Release: the section before.
                .compare_exchange(word, word | LOCKED, Acquire, Relaxed)
                .is_ok()
    }

    /// Pushes the caller; `false` when the gate is free.
    fn push(&self, me: TaskId, visits: u32) -> bool {
        let node = &P::task(me).gate;
        node.popped.store(0, Relaxed); // published by the exchange below
        node.visits.store(visits, Relaxed); // published below
        let mut word = self.word.load(Relaxed); // checked by the exchange
        loop {
            if word & LOCKED == 0 {
                return false;
            }
            node.below.store(word >> 1, Relaxed); // published below
            let pushed = me.number() << 1 | LOCKED;
            // (G2) Release pairs with unlock's Acquire: my node, to be popped.
            match self.word.compare_exchange(word, pushed, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Leaves, and pops. This is the last access to the gate's memory, as for
    /// [`Gate::with`].
    #[inline]
    pub(crate) fn unlock(&self) {
        if P::OWN_GATES {
            return P::unlock_gate(&self.word);
        }
        // (G1) Release pairs with try_lock's Acquire: my section. (G2) Acquire: the nodes in
        // the stack are whole.
        let left = self.word.compare_exchange(LOCKED, 0, Release, Acquire);
        if let Err(word) = left {
            self.unlock_and_pop(word);
        }
    }

    #[cold]
    fn unlock_and_pop(&self, mut word: u32) {
        loop {
            let rest = Self::rest(word >> 1);
            // (G1), (G2) as in `unlock`.
            match self
                .word
                .compare_exchange(word, rest << 1, Release, Acquire)
            {
                Ok(_) => return Self::pop(word >> 1, rest),
                Err(now) => word = now,
            }
        }
    }

    /// What is left of a stack when the visitors on its top and the sleeper below
    /// them are popped.
    fn rest(mut top: u32) -> u32 {
        while let Some(task) = TaskId::new(top) {
            let node = &P::task(task).gate;
            top = node.below.load(Relaxed);
            if node.visits.load(Relaxed) == 0 {
                break;
            }
        }
        top
    }

    /// Tells those from `top` down to `rest` that they are popped.
    fn pop(mut top: u32, rest: u32) {
        while top != rest
            && let Some(task) = TaskId::new(top)
        {
            let node = &P::task(task).gate;
            top = node.below.load(Relaxed);
            // (G3) Release pairs with await_pop's Acquire.
            node.popped.store(1, Release);
            P::unpark(task);
        }
    }
}
