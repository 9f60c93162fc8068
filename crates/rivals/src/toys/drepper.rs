//! The three-state mutex of U. Drepper, "Futexes Are Tricky" (2004).
//!
//! | state | meaning | who sets it |
//! |---|---|---|
//! | 0, free | nobody owns the lock | its owner, to unlock |
//! | 1, held | nobody needs to be woken | who takes it from 0; its owner, before it looks for sleepers |
//! | 2, contended | somebody sleeps, or is about to | whoever found it taken, or takes it after that |
//!
//! The original sleeps on the address of the word. Here the sleepers stand in
//! a list of the lock's own: a task adds itself to `arrivals`, and the owner
//! alone takes tasks off, so that no other lock protects the list. The owner
//! turns `arrivals` round into `queue` whenever that is empty: first come,
//! first woken, as with a futex.
//!
//! No wake-up is lost: a task sleeps only after
//!
//! | the sleeper | the owner |
//! |---|---|
//! | adds itself to the list | sets the state to 1 (B) |
//! | (A) swaps in 2, and finds the lock taken | looks in the list |
//! | | exchanges 1 for 0, unless it found a task to wake |
//!
//! so either (A) came before (B), and the owner finds the sleeper; or it came
//! after, and the exchange fails and the owner looks again. An owner that found
//! a task may overwrite a 2 with 0: it wakes that task after it, which comes
//! back to (A), and is then the owner or has set the 2 for the one who is.

use lockyard_core::{Ordering::*, Platform, TaskId, Word};
use lockyard_torture::Lock;

use super::per_task::PerTask;
use crate::unlocking;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Drepper's mutex over [`Platform::park`].
pub struct Drepper<P: Platform> {
    state: P::U32,
    /// The last task that came to sleep; each node names the one before.
    arrivals: P::U32,
    /// The next task to wake; each node names the one after. The owner's.
    queue: P::U32,
    nodes: PerTask<Node<P>>,
}

/// A task's place in the list.
struct Node<P: Platform> {
    next: P::U32,
    place: P::U32,
}

/// `place`: not in the list.
const OUT: u32 = 0;
/// `place`: in the list, to be woken.
const WAITS: u32 = 1;
/// `place`: in the list, but it needs no waking: it got the lock another way.
const GONE: u32 = 2;

impl<P: Platform> Default for Node<P> {
    fn default() -> Self {
        Self {
            next: <P::U32 as Word>::ZERO,
            place: <P::U32 as Word>::ZERO,
        }
    }
}

impl<P: Platform> Drepper<P> {
    /// An unlocked lock.
    pub const fn new() -> Self {
        Self {
            state: <P::U32 as Word>::ZERO,
            arrivals: <P::U32 as Word>::ZERO,
            queue: <P::U32 as Word>::ZERO,
            nodes: PerTask::new(),
        }
    }

    #[inline]
    fn lock(&self) {
        // Acquire: pairs with the Releases of `unlock`. Relaxed: the slow path
        // looks for itself.
        let fast = self.state.compare_exchange(FREE, HELD, Acquire, Relaxed);
        if fast.is_err() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        let me = P::me();
        // Acquire: pairs with the Releases of `unlock`.
        while self.state.swap(CONTENDED, Acquire) != FREE {
            self.enqueue(me);
            // (A) Release: shows the place in the list to who finds the 2.
            if self.state.swap(CONTENDED, AcqRel) == FREE {
                break;
            }
            P::park(None);
        }
        // Relaxed: others change `place` from WAITS only as the owner.
        let place = &self.nodes.of(me).place;
        let _ = place.compare_exchange(WAITS, GONE, Relaxed, Relaxed);
    }

    /// Puts `me` in the list, unless it is there.
    fn enqueue(&self, me: TaskId) {
        let node = self.nodes.of(me);
        // Acquire: pairs with (C). Relaxed: (A) publishes it.
        match node.place.compare_exchange(GONE, WAITS, Relaxed, Acquire) {
            Ok(_) | Err(WAITS) => return,
            Err(_) => node.place.store(WAITS, Relaxed), // published by the push
        }
        let mut last = self.arrivals.load(Relaxed); // only a guess
        loop {
            node.next.store(last, Relaxed); // published by the push
            // Release: pairs with the swap in `turn_round`. Relaxed: a guess.
            match self
                .arrivals
                .compare_exchange(last, me.number(), Release, Relaxed)
            {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with the Acquires of `lock`. Relaxed: see (B).
        let fast = self.state.compare_exchange(HELD, FREE, Release, Relaxed);
        if fast.is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    fn unlock_slow(&self) {
        loop {
            // (B) Acquire: pairs with (A), so that the list has who set the 2.
            self.state.swap(HELD, Acquire);
            if let Some(task) = self.dequeue() {
                // Release: pairs with the Acquires of `lock`. A store would do;
                // checkers that order stores by what happens before them only
                // (loom) would let a later swap miss it.
                self.state.swap(FREE, Release);
                P::unpark(task);
                return;
            }
            // As in `unlock`. It fails only if a task came since (B).
            let done = self.state.compare_exchange(HELD, FREE, Release, Relaxed);
            if done.is_ok() {
                return;
            }
        }
    }

    /// Takes the task that has waited longest off the list. For the owner, so
    /// Relaxed is enough for `queue` and the links in it.
    fn dequeue(&self) -> Option<TaskId> {
        loop {
            if self.queue.load(Relaxed) == 0 {
                self.queue.store(self.turn_round(), Relaxed);
            }
            let task = TaskId::new(self.queue.load(Relaxed))?;
            let node = self.nodes.of(task);
            self.queue.store(node.next.load(Relaxed), Relaxed);
            // (C) Release: pairs with the exchange in `enqueue`, after which
            // the task uses `next` anew: it was read before.
            if node.place.swap(OUT, Release) == WAITS {
                return Some(task);
            }
        }
    }

    /// Empties `arrivals` and returns the first of the tasks in the order in
    /// which they came.
    fn turn_round(&self) -> u32 {
        // Acquire: pairs with every push, since all changes are exchanges.
        let mut last = self.arrivals.swap(0, Acquire);
        let mut first = 0;
        while let Some(task) = TaskId::new(last) {
            let link = &self.nodes.of(task).next;
            last = link.load(Relaxed);
            link.store(first, Relaxed);
            first = task.number();
        }
        first
    }
}

impl<P: Platform> Default for Drepper<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Lock for Drepper<P> {
    fn new() -> Self {
        Self::new()
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock();
        unlocking(|| self.unlock(), section)
    }
}
