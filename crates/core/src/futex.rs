//! The futex: waiting for any address, in a table of wait queues.
//!
//! A word is known by its [`Key`]; the key's hash says in which bucket of a
//! [`Table`] its waiters stand, among those of other keys. What a word means is
//! its users' affair: a waiter compares it, a waker has changed it. After the
//! Linux kernel's futex (Franke, Russell and Kirkwood, 2002) and its lockless
//! test for an empty bucket.
//!
//! # Nobody is missed
//!
//! A waker that finds a bucket open and without waiters goes away without its gate. That
//! is sound because each side writes before it reads, with a full barrier in
//! between; of two such sides at least one sees the other:
//!
//! | | the waiter | the waker |
//! |---|---|---|
//! | (A) | close the gate | (B) write the word (its user did) |
//! | | full barrier | full barrier |
//! | | read the word: changed? then go | read the gate, then the count: open and 0? then go |
//! | | stand in the queue, be counted | enter the gate, search the queue |
//! | | open the gate | |
//!
//! To close the gate and the barrier are one instruction in many worlds. A waker that sees
//! the gate closed waits there until the waiter stands in the queue or has gone; one that
//! sees it open again sees all that was done inside, the count included. One that sees it
//! closed or somebody counted already before its barrier needs none: of two that pass a gate
//! the later one sees what the other did, and that is a waiter that finds the word changed,
//! or a waker that finds the waiter. That the count is still that of the key's bucket when
//! the table grows, the word itself says: the module `grow` has the argument.
//!
//! A requeue with comparison is the waiter of the queue that it moves others to.
//! Who has changed the first word and then finds nobody at the second may go: if a
//! requeue still moved somebody there, it would have to read the word as it was
//! before. So it closes its target's gate *before* it compares:
//!
//! | | who requeues | who changes the first word, wakes at the second |
//! |---|---|---|
//! | (R) | close both gates | (B) write the first word |
//! | | full barrier | full barrier |
//! | | compare the first word | read the target's gate and count |
//! | | move waiters, count them | enter the target's gate |
//!
//! # Whose a waiter's node is
//!
//! | state | the waiter | whose the node is | left by |
//! |---|---|---|---|
//! | slot + 1 | stands in that bucket's queue | the holder of its gate | removal: `TAKEN`, another slot, or by the waiter itself |
//! | `TAKEN` | is to be woken | the waker, which chains it | the waker, when it has read the chain's next: `WOKEN` |
//! | `WOKEN` | may return, or stands alone | the waiter | the waiter, when it stands behind others; who settles it |
//!
//! A waiter at its deadline enters the gate of the bucket that its state names, and
//! finds itself there, or elsewhere, or taken. Whoever removes it under the gate has
//! won: a taken waiter has been woken, whatever the time. Wakers unpark outside all
//! gates. They touch nothing of the waiter but its node, which is never freed, and
//! nothing of the word but the number that is its address.
//!
//! # Where a waiter sleeps
//!
//! Who waits for one word, and for nothing else, sleeps on the word that it looks at when it
//! comes back. If it has a bucket to itself, as most have, that is in the bucket, and a waker
//! does not come to its node: the module `alone` has that. Else it is the state of its node,
//! and its waker spares the system call unless it sleeps:
//!
//! | | the waiter | the waker |
//! |---|---|---|
//! | (W) | say in the node that it sleeps | state: `WOKEN` |
//! | | full barrier | full barrier |
//! | | the state is another? then go, else sleep | does it sleep? then wake it |
//!
//! A waker that finds before (W) that the waiter sleeps needs no barrier, for it wakes it.
//! To compare the state and to fall asleep is one step. A state that says that the waiter
//! was moved is another one, too: it comes back to the table's first line. Others park.

mod alone;
mod condition;
mod glance;
mod grow;
mod key;
pub mod lookup;
pub mod memory;
mod places;
mod queue;
mod shared;

use core::num::NonZeroU32;

pub use condition::WaitedAfter;
pub(crate) use glance::Glances;
use glance::glance;
use grow::Growth;
pub use key::Key;
use places::Places;
pub use places::WORDS;
use queue::{Bucket, Chain, LOOKS, PARKS, Place, Queue, TAKEN, WOKEN};
pub(crate) use queue::{NODES, Node};
pub use shared::{Counted, Shared};

use crate::platform::{Deadline, Event, Ordering::*, Platform, TaskId, TaskRecord, Woken, Word};

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// A waker has counted the caller among those that it woke; what it did before
    /// happened before this.
    Woken,
    /// The deadline has passed, and no waker has counted the caller.
    TimedOut,
    /// The word had changed: the caller has not waited.
    Changed,
}

/// How a wait for several words ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitedAny {
    /// Wakers have counted the caller: those of the words whose bits are set, the first
    /// word's the lowest.
    Woken(u128),
    /// The deadline has passed, and no waker has counted the caller.
    TimedOut,
    /// This word had changed, and no waker has counted the caller.
    Changed(usize),
}

/// What a waiter tells its wakers.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// It is woken only with a set that has a bit in common with this.
    pub bitset: NonZeroU32,
    /// Those of a higher rank are woken first; equals, in the order in which they
    /// came.
    pub rank: u32,
}

impl Waiter {
    /// One that any waker may wake, of the lowest rank.
    pub const ANY: Self = Self {
        bitset: NonZeroU32::MAX,
        rank: 0,
    };
}

/// What became of the waiters of a requeue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Requeued {
    /// So many were woken.
    pub woken: u32,
    /// So many wait at the other key now.
    pub moved: u32,
}

/// A table that starts with `FIRST` buckets and doubles their number when too many
/// wait, up to `MOST`. Both are powers of two, `MOST` 128 times `FIRST` at
/// most. Zero bytes are a table in which nobody waits.
///
/// It never allocates: all `MOST` buckets are there, and those that are not in use are
/// zero bytes which nobody has touched; [`Platform::provide`] is asked before anybody does.
/// With one number, it does not grow.
#[repr(C)] // the first word is the first bucket's
pub struct Table<P: Platform, const FIRST: usize, const MOST: usize = FIRST> {
    buckets: [Bucket<P>; MOST],
    growth: Growth<P>,
}

impl<P: Platform, const FIRST: usize, const MOST: usize> Default for Table<P, FIRST, MOST> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, const FIRST: usize, const MOST: usize> Table<P, FIRST, MOST> {
    /// A table in which nobody waits.
    pub const fn new() -> Self {
        const {
            assert!(FIRST.is_power_of_two() && MOST.is_power_of_two() && FIRST <= MOST);
            assert!(Self::LAST <= queue::DEEPEST && MOST < TAKEN as usize);
        }
        Self {
            buckets: [const { Bucket::new() }; MOST],
            growth: Growth::new(),
        }
    }

    /// The number of the bucket that waiters for `key` stand in, or soon will.
    pub fn slot(&self, key: &Key) -> usize {
        Self::slot_at(key, self.depth())
    }

    /// The number of that bucket when it is so deep. Any depth may be tried: inside the
    /// gate one finds out.
    #[inline(always)]
    fn slot_at(key: &Key, depth: u32) -> usize {
        // The hash is best in its highest bits: these choose among the first buckets.
        let hash = key.hash().rotate_left(FIRST.trailing_zeros());
        hash as usize & ((FIRST << depth) - 1)
    }

    #[inline(always)]
    fn queue(&self, key: &Key, depth: u32) -> Queue<'_, P> {
        Queue::new(&self.buckets, Self::slot_at(key, depth), depth)
    }

    /// Whether nobody waits for `key`, as one sees it from outside of the gate. `false`
    /// may be wrong; what `true` rests on is said above.
    #[inline]
    fn is_empty(&self, key: &Key) -> bool {
        let mut depth = self.depth();
        loop {
            let queue = self.queue(key, depth);
            let is_open = queue.is_open();
            let (reached, waiters) = queue.look();
            if reached >= depth {
                return reached == depth && waiters == 0 && is_open;
            }
            depth -= 1; // not split yet
        }
    }

    /// Enters, by `lock`, the gate of the bucket that waiters for `key` stand in.
    #[inline]
    fn lock<'a>(&'a self, key: &Key, lock: impl Fn(&Queue<'a, P>)) -> Queue<'a, P> {
        let mut queue = self.queue(key, self.depth());
        loop {
            lock(&queue);
            let Some(depth) = self.elsewhere(queue) else {
                return queue;
            };
            queue.unlock();
            queue = self.queue(key, depth);
        }
    }

    /// At which depth to look next, from inside the gate of a bucket that is not as deep
    /// as it was taken to be; `None` when it is.
    #[inline]
    fn elsewhere(&self, queue: Queue<'_, P>) -> Option<u32> {
        if Self::LAST == 0 {
            return None;
        }
        let (reached, _) = queue.look();
        if reached < queue.depth {
            Some(queue.depth - 1) // not split yet
        } else {
            // As deep as this at least: the gate orders it.
            (reached > queue.depth).then(|| self.depth())
        }
    }

    /// Waits until a waker of `key` wakes the caller, or until `deadline`, if the
    /// word is `unchanged`.
    ///
    /// `unchanged` reads the word inside a gate: it must not wait, panic, or use the
    /// table. There are no spurious wake-ups; but a waker may mean an earlier user
    /// of the word's memory.
    #[inline]
    pub fn wait(
        &self,
        key: &Key,
        waiter: Waiter,
        unchanged: impl FnOnce() -> bool,
        deadline: Option<Deadline>,
    ) -> Waited {
        let me = P::me();
        let mine = P::mine();
        // It may still name a queue that it has left, or, in a copy of the address space, that
        // another task stood in with this record.
        mine.futex[0].state.store(WOKEN, Relaxed); // the gate orders it
        let queue = self.lock(key, Queue::lock_to_look);
        if !unchanged() {
            queue.unlock();
            return Waited::Changed;
        }
        if !queue.stand_alone(me, key, waiter, mine.glances.will_look()) {
            mine.futex[0].begin(me, LOOKS);
            queue.push(Place::new(me, 0), &mine.futex[0], key, waiter);
            queue.unlock();
            return self.wait_behind(me, mine, deadline);
        }
        queue.unlock();
        self.wait_alone(queue, me, mine, deadline)
            .unwrap_or_else(|| {
                mine.futex[0].begin(me, LOOKS);
                self.wait_behind(me, mine, deadline)
            })
    }

    /// Waits until a waker has told the caller, who stands in a queue, or did.
    #[inline(never)] // few wait behind others
    fn wait_behind(&self, me: TaskId, mine: &TaskRecord<P>, deadline: Option<Deadline>) -> Waited {
        let node = &mine.futex[0];
        // Who was told acquires below.
        glance::<P>(&mine.glances, &node.state, |state| state == WOKEN);
        self.make_room(node);
        loop {
            // (F1), (F2) Acquire pairs with the waker's Release: what it did before.
            let state = node.state.load(Acquire);
            if state == WOKEN {
                return Waited::Woken;
            }
            P::event(Event::Parked);
            if node.sleep(state, deadline) == Woken::TimedOut {
                break;
            }
        }
        match self.end(Place::new(me, 0)) {
            true => Waited::Woken,
            false => Waited::TimedOut,
        }
    }

    /// [`Self::wait`] for the first of so many words, [`WORDS`] at most, that is woken;
    /// the kernel's `futex_waitv`. `key` and `unchanged` are asked of each, by its index.
    ///
    /// The words are looked at one after the other, and a waker may come in between:
    /// whom one has woken, that is told so, even if a later word has changed.
    ///
    /// # Panics
    /// There are no words, or too many, also for [`Platform::borrow`].
    pub fn wait_any(
        &self,
        words: usize,
        key: impl Fn(usize) -> Key,
        waiter: Waiter,
        unchanged: impl Fn(usize) -> bool,
        deadline: Option<Deadline>,
    ) -> WaitedAny {
        let me = P::me();
        let places = Places::<P>::new(me, words);
        let stands = |index| {
            let place = places.at(index);
            let node = place.node();
            node.begin(me, PARKS);
            self.enqueue(place, node, &key(index), waiter, || unchanged(index))
        };
        let changed = (0..words).position(|index| !stands(index));
        if changed.is_none() {
            self.park(&places, || false, deadline);
        }
        let mut woken = 0;
        for index in 0..changed.unwrap_or(words) {
            woken |= u128::from(self.end(places.at(index))) << index;
        }
        places.give_back();
        match (woken, changed) {
            (0, None) => WaitedAny::TimedOut,
            (0, Some(index)) => WaitedAny::Changed(index),
            (woken, _) => WaitedAny::Woken(woken),
        }
    }

    /// Has the caller stand in the queue of `key` if the word is `unchanged`. Returns
    /// whether it does.
    fn enqueue(
        &self,
        place: Place,
        node: &Node<P>,
        key: &Key,
        waiter: Waiter,
        unchanged: impl FnOnce() -> bool,
    ) -> bool {
        let queue = self.lock(key, Queue::lock_to_look);
        let waits = unchanged();
        if waits {
            queue.push(place, node, key, waiter);
        }
        queue.unlock();
        waits
    }

    /// Parks until a waker has told one of the caller's nodes, until the deadline or until
    /// `stop`; with a glance before for one that comes at once.
    fn park(&self, places: &Places<P>, stop: impl Fn() -> bool, deadline: Option<Deadline>) {
        let mine = P::mine();
        let told = |state| state == WOKEN;
        let first = &mine.futex[0];
        glance::<P>(&mine.glances, &first.state, told); // who was told acquires in `end`
        self.make_room(first);
        while !places.nodes().any(|node| told(node.state.load(Relaxed))) && !stop() {
            P::event(Event::Parked);
            if P::park(deadline) == Woken::TimedOut {
                return;
            }
        }
    }

    /// Ends the wait of one of the caller's nodes. Returns whether a waker was first.
    fn end(&self, place: Place) -> bool {
        let node = place.node::<P>();
        let mut may_stand = true; // in a queue
        // Look before each park: who waits at a gate may be unparked there.
        loop {
            // (F1), (F2) Acquire pairs with the waker's Release: what it did before.
            let state = node.state.load(Acquire);
            if state == WOKEN {
                return true;
            } else if !may_stand {
                P::event(Event::CancelGranted);
                node.sleep(state, None);
            } else if self.leave(place) {
                P::event(Event::Cancelled);
                return false;
            }
            may_stand = false;
        }
    }

    /// Leaves the queue that the node stands in; `false` when a waker was first.
    #[cold]
    fn leave(&self, place: Place) -> bool {
        let node = place.node::<P>();
        loop {
            let state = node.state.load(Relaxed); // looked at again inside the gate
            if state == WOKEN || state == TAKEN {
                return false;
            }
            let queue = Queue::new(&self.buckets, state as usize - 1, 0); // however deep
            queue.lock();
            let stands_here = node.state.load(Relaxed) == state; // the gate orders it
            if stands_here {
                queue.remove(place);
                queue.uncount_one();
            }
            queue.unlock();
            if stands_here {
                return true;
            }
        }
    }

    /// Wakes `most` waiters of `key` at most, of those whose bit set has a bit in
    /// common with `bitset`. Returns how many.
    #[inline]
    pub fn wake(&self, key: &Key, most: u32, bitset: NonZeroU32) -> u32 {
        // While the gate, or the barrier, waits for the line of the word.
        P::fetch_ahead(|| self.queue(key, self.depth()).about_to_take());
        if self.is_empty(key) {
            P::fence(); // (B) full barrier, pairs with wait's and requeue's
            if self.is_empty(key) {
                return 0;
            }
        }
        let mut chain = Chain::new();
        let mut sleeper = None;
        let queue = self.lock(key, Queue::lock);
        let woken = if most == 0 || !queue.has_alone() {
            queue.take(key, most, bitset, &mut chain)
        } else {
            let alone = queue.take_alone(key);
            let woken = alone.is_some();
            sleeper = alone.flatten();
            u32::from(woken)
        };
        queue.unlock();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        chain.wake(&self.buckets);
        woken
    }

    /// Has `change` change the second word and say whether to wake its waiters as
    /// well; wakes `most` waiters of the first key at most, and `most_second` of the
    /// second. Returns how many in all.
    ///
    /// `change` runs inside two gates, as in [`Self::wait`]: towards waiters of both
    /// words the change and the wake-ups are one step.
    pub fn wake_op(
        &self,
        (first, most): (&Key, u32),
        (second, most_second): (&Key, u32),
        change: impl FnOnce() -> bool,
    ) -> u32 {
        let mut chain = Chain::new();
        let woken = self.enter_both(first, second, |queue, queue_second| {
            let wakes_second = change();
            let mut woken = queue.take(first, most, NonZeroU32::MAX, &mut chain);
            if wakes_second {
                woken += queue_second.take(second, most_second, NonZeroU32::MAX, &mut chain);
            }
            woken
        });
        chain.wake(&self.buckets);
        woken
    }

    /// If the word of `from` is `unchanged`, wakes `wake` of its waiters at most, and
    /// has up to `most` others wait at `to` instead. `None` when it had changed.
    ///
    /// `unchanged` runs inside two gates, as in [`Self::wait`]. Between a key and
    /// itself nobody is moved.
    pub fn requeue(
        &self,
        from: &Key,
        to: &Key,
        (wake, most): (u32, u32),
        unchanged: impl FnOnce() -> bool,
    ) -> Option<Requeued> {
        let mut chain = Chain::new();
        let requeued = self.enter_both(from, to, |source, target| {
            P::fence(); // (R) full barrier, pairs with wake's
            unchanged().then(|| {
                let woken = source.take(from, wake, NonZeroU32::MAX, &mut chain);
                let moves = if from == to { 0 } else { most };
                let moved = source.move_on(from, &target, to, moves);
                Requeued { woken, moved }
            })
        });
        chain.wake(&self.buckets);
        requeued
    }

    /// Runs `section` inside the gates of both keys' buckets, which may be one. Gates
    /// nest in the order of their slots.
    fn enter_both<R>(
        &self,
        one_key: &Key,
        other_key: &Key,
        section: impl FnOnce(Queue<'_, P>, Queue<'_, P>) -> R,
    ) -> R {
        let depth = self.depth();
        let (mut one, mut other) = (self.queue(one_key, depth), self.queue(other_key, depth));
        loop {
            let (outer, inner) = match one.slot <= other.slot {
                true => (one, other),
                false => (other, one),
            };
            let gates = [Some(outer), (inner.slot != outer.slot).then_some(inner)];
            gates.iter().flatten().for_each(Queue::lock);
            let unlock = || gates.iter().flatten().for_each(Queue::unlock);
            let elsewhere = (self.elsewhere(one), self.elsewhere(other));
            if elsewhere == (None, None) {
                let result = section(one, other);
                unlock();
                return result;
            }
            unlock();
            one = self.queue(one_key, elsewhere.0.unwrap_or(one.depth));
            other = self.queue(other_key, elsewhere.1.unwrap_or(other.depth));
        }
    }

    /// Makes a copy of a table one in which nobody waits: for a copy of the address
    /// space in which the caller is the only task. Others may have been inside gates.
    ///
    /// The caller may have come out of the midst of a wait. That ends as if it was woken:
    /// its waker may be among those who are gone.
    pub fn forget(&self) {
        let depth = self.depth();
        let (in_use, others) = self.buckets.split_at(FIRST << depth);
        in_use.iter().for_each(|bucket| bucket.forget(depth));
        // The copy may not be of one moment: others may have split meanwhile.
        if !others.is_empty() && self.provide(in_use.len()) {
            let others = others.iter().take(in_use.len());
            others.for_each(|bucket| bucket.forget(0));
        }
        self.growth.forget();
        if let Some(me) = TaskId::new(P::number()) {
            P::each_task(|record| record.futex.iter().for_each(|node| node.forget(me)));
            // A waker that is gone may have said so, and not come to this. Who sleeps on its
            // state compares it when the signal handler returns.
            P::unpark(me);
        }
    }
}
