//! A bucket's queue: a ring by number, as the wait queue's, in the order of ranks and
//! then of arrivals. The waiters of several keys stand in it.
//!
//! A bucket's word counts them, and says how deep the bucket is: how many times the
//! table has doubled, as far as this bucket is concerned. Both change in one store.
//!
//! | bits | meaning |
//! |---|---|
//! | 0..29 | those in the queue |
//! | 29..32 | the depth |

use core::{array, num::NonZeroU32};

use super::{Key, Waiter};
use crate::{
    condvar::{self, Company},
    gate::GuardedGate,
    mutex::Body,
    platform::{Deadline, Event, Ordering::*, Platform, TaskId, Woken, Word},
};

/// A state: nobody has the waiter in a queue, or is about to wake it.
pub(super) const WOKEN: u32 = 0;
/// A state: a waker has taken the waiter out of its queue, and will wake it.
pub(super) const TAKEN: u32 = u32::MAX;

/// A rest: the waiter sleeps by [`Platform::park`], if it does.
pub(super) const PARKS: u32 = 0;
/// A rest: the waiter has not slept, and will say so before it does.
pub(super) const LOOKS: u32 = 1;
/// A rest: the waiter sleeps by [`Platform::park_on`] of its state, or is about to.
const SLEEPS: u32 = 2;
/// A rest: the waiter was alone in the bucket of its bed. If it sleeps, then on that word.
const LIES: u32 = 3;
/// A rest: as [`PARKS`], and the waiter is to take a mutex when it is woken.
pub(super) const WANTS: u32 = 4;
/// The bits of a rest; those above are the number of the task that waits.
const RESTS: u32 = 7;
const _: () = assert!(TaskId::MAX <= u32::MAX >> RESTS.count_ones());

/// How many nodes a record has.
pub(crate) const NODES: usize = 8;

/// The number of a node: its record's, times [`NODES`], and its index in the record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(NonZeroU32);

const _: () = assert!(TaskId::MAX <= u32::MAX / NODES as u32);

/// Where the depth begins in a bucket's word.
const DEPTH: u32 = 29;
/// All nodes can be counted in a bucket.
const _: () = assert!(TaskId::MAX <= ((1 << DEPTH) - 1) / NODES as u32);
/// The greatest depth.
pub(super) const DEEPEST: u32 = u32::MAX >> DEPTH;

impl Place {
    #[inline(always)]
    pub(super) fn new(record: TaskId, index: usize) -> Self {
        let number = record.number() * NODES as u32 + index as u32;
        Self(NonZeroU32::new(number).expect("task numbers start at 1"))
    }

    #[inline(always)]
    fn decode(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    #[inline(always)]
    fn number(self) -> u32 {
        self.0.get()
    }

    #[inline(always)]
    pub(super) fn node<P: Platform>(self) -> &'static Node<P> {
        let record = TaskId::new(self.number() / NODES as u32).expect("a place is a record's");
        &P::task(record).futex[self.number() as usize % NODES]
    }
}

/// A task's place in a queue, or in the chain of a waker.
pub(crate) struct Node<P: Platform> {
    /// See the table in the parent module.
    pub(super) state: P::U32,
    /// The waiter behind it; in a chain 0 for the last.
    next: P::U32,
    prev: P::U32,
    key: KeyWords<P>,
    bitset: P::U32,
    rank: P::U32,
    /// [`PARKS`], [`LOOKS`], [`SLEEPS`], [`LIES`] or [`WANTS`], and who.
    rest: P::U32,
    /// The slot of the bucket that it has been alone in, if it lies.
    bed: P::U32,
}

/// A key, in a node or a bucket.
pub(super) struct KeyWords<P: Platform>([P::U32; Key::WORDS]);

// Relaxed: the gate orders it.
impl<P: Platform> KeyWords<P> {
    const fn new() -> Self {
        Self([P::U32::ZERO; Key::WORDS])
    }

    #[inline(always)]
    fn words(&self) -> [u32; Key::WORDS] {
        array::from_fn(|i| self.0[i].load(Relaxed))
    }

    pub(super) fn get(&self) -> Key {
        Key::from_words(self.words())
    }

    #[inline(always)]
    pub(super) fn is(&self, key: &Key) -> bool {
        self.words() == key.words()
    }

    #[inline(always)]
    pub(super) fn set(&self, key: &Key) {
        let words = self.0.iter().zip(key.words());
        words.for_each(|(word, value)| word.store(value, Relaxed));
    }
}

impl<P: Platform> Node<P> {
    pub(crate) const fn new() -> Self {
        Self {
            state: P::U32::ZERO,
            next: P::U32::ZERO,
            prev: P::U32::ZERO,
            key: KeyWords::new(),
            bitset: P::U32::ZERO,
            rank: P::U32::ZERO,
            rest: P::U32::ZERO,
            bed: P::U32::ZERO,
        }
    }

    /// Before each wait of the calling task, `me`: how it is going to rest.
    #[inline(always)]
    pub(super) fn begin(&self, me: TaskId, rest: u32) {
        let whose = me.number() << RESTS.count_ones();
        self.rest.store(whose | rest, Relaxed); // the gate orders it
    }

    /// The task, whose node it is, may sleep on the word of a bucket in which it was alone.
    pub(super) fn lie_down(&self, task: TaskId, bed: usize) {
        self.bed.store(bed as u32, Relaxed); // the gate orders it
        let whose = task.number() << RESTS.count_ones();
        self.rest.store(whose | LIES, Relaxed); // likewise
    }

    /// Who waits, or last did; and how it rests.
    #[inline(always)]
    fn rest(&self) -> (Option<TaskId>, u32) {
        let rest = self.rest.load(Relaxed);
        (TaskId::new(rest >> RESTS.count_ones()), rest & RESTS)
    }

    /// Ends the task's wait, in a copy of the address space in which it is the only one.
    pub(super) fn forget(&self, task: TaskId) {
        if self.rest().0 == Some(task) {
            self.state.store(WOKEN, Relaxed); // there is one task
        }
    }

    /// The waiter, who has read this state, sleeps until its waker has told it, until the
    /// deadline, or for shorter.
    #[inline(always)]
    pub(super) fn sleep(&self, state: u32, deadline: Option<Deadline>) -> Woken {
        let rest = self.rest.load(Relaxed);
        if matches!(rest & RESTS, PARKS | WANTS) {
            return P::park(deadline);
        }
        self.rest.store(rest & !RESTS | SLEEPS, Relaxed); // park_on has the barrier (W)
        P::park_on(&self.state, state, deadline)
    }

    /// The mutex that the waiter is to take when it is woken. It was taken by the caller, and is
    /// not told yet: till then that does not change.
    fn mutex(&self) -> Option<*const Body<P>> {
        match self.rest() {
            (Some(task), WANTS) => Some(P::task(task).wait.mutex.get()),
            _ => None,
        }
    }

    /// Tells the waiter that it was woken, or moves it to its mutex.
    fn tell(&self, buckets: &[Bucket<P>], company: Company) {
        if let (Some(task), SLEEPS) = self.rest() {
            // (F2) Release pairs with wait's and end's Acquire, as (F1). What the waiter is to
            // say by (W) it has said in this wait: `begin` came before the gate, or `lie_down`
            // inside it.
            self.state.store(WOKEN, Release);
            return P::unpark_on(&self.state, task);
        }
        if let (Some(task), WANTS) = self.rest() {
            // To wake one to a free mutex costs less than to move it there.
            let is_fit = |mutex: &Body<P>| {
                company != Company::None || mutex.owner().map(TaskId::number) == Some(P::number())
            };
            // (F1) Release, as below.
            let tell = || self.state.store(WOKEN, Release);
            // It was taken by the caller, and is not told yet.
            if let Some(call) = condvar::move_to_mutex::<P>(task, company, is_fit, tell) {
                return call.make::<P>();
            }
        }
        // (F1) Release pairs with wait's and end's Acquire: what the waker did before, and
        // that it is done with the node. (W) full barrier, pairs with park_on's.
        P::swap_fenced(&self.state, WOKEN, Release);
        // It may be the waiter's next wait's by now, who then looks in vain.
        match self.rest() {
            (Some(task), PARKS | WANTS) => P::unpark(task),
            (Some(task), SLEEPS) => P::unpark_on(&self.state, task),
            (Some(task), LIES) => {
                // Of this wait, or a later one: then maybe of another, larger table.
                let bed = self.bed.load(Relaxed) as usize;
                if let Some(bucket) = buckets.get(bed) {
                    P::unpark_on(&bucket.alone, task);
                }
            }
            _ => {}
        }
    }
}

/// A queue, its gate, and the number of its waiters, on a cache line of their own.
#[repr(align(64))]
pub(super) struct Bucket<P: Platform> {
    gate: GuardedGate<P>,
    /// How many wait, and the depth.
    waiters: P::U32,
    /// The first waiter, 0 for none.
    first: P::U32,
    /// Who waits without standing in the queue, as the module `alone` has it.
    pub(super) alone: P::U32,
    /// What that one waits for.
    pub(super) key: KeyWords<P>,
}

impl<P: Platform> Bucket<P> {
    pub(super) const fn new() -> Self {
        Self {
            gate: GuardedGate::new(),
            waiters: P::U32::ZERO,
            first: P::U32::ZERO,
            alone: P::U32::ZERO,
            key: KeyWords::new(),
        }
    }

    pub(super) fn forget(&self, depth: u32) {
        let nobody = depth << DEPTH;
        // Most are as they should be: a copy of the address space shares their pages.
        if !self.gate.is_untouched() || self.waiters.load(Relaxed) != nobody {
            self.gate.forget();
            self.waiters.store(nobody, Relaxed); // there is one task
            self.first.store(0, Relaxed); // likewise
            self.alone.store(0, Relaxed); // likewise
        }
    }
}

/// The queue of a slot. All but what looks from outside is for who is inside its gate.
pub(super) struct Queue<'a, P: Platform> {
    pub(super) bucket: &'a Bucket<P>,
    pub(super) slot: usize,
    /// What its depth is taken to be, until one has looked.
    pub(super) depth: u32,
}

impl<P: Platform> Clone for Queue<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Queue<'_, P> {}

// Relaxed throughout: the gate orders it all, but for what a lockless reader of the
// count sees, and that the barriers order.
impl<'a, P: Platform> Queue<'a, P> {
    #[inline(always)]
    pub(super) fn new(buckets: &'a [Bucket<P>], slot: usize, depth: u32) -> Self {
        Self {
            bucket: &buckets[slot],
            slot,
            depth,
        }
    }

    /// Enters the gate.
    #[inline(always)]
    pub(super) fn lock(&self) {
        self.bucket.gate.lock();
    }

    /// Enters the gate to look at the word.
    #[inline(always)]
    pub(super) fn lock_to_look(&self) {
        self.bucket.gate.lock_fenced(); // (A) full barrier, pairs with wake's
    }

    /// Leaves it, with the last access to the bucket.
    #[inline(always)]
    pub(super) fn unlock(&self) {
        self.bucket.gate.unlock();
    }

    /// Whether nobody is inside, as one sees it from outside of the gate.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.bucket.gate.is_open()
    }

    /// The depth and how many wait, both of one moment.
    #[inline(always)]
    pub(super) fn look(&self) -> (u32, u32) {
        let word = self.bucket.waiters.load(Relaxed);
        (word >> DEPTH, word & !(u32::MAX << DEPTH))
    }

    /// Fetches what a waker will write to if somebody waits: the bucket's line, and that of
    /// the first waiter's node, which may be another key's. A hint.
    #[inline(always)]
    pub(super) fn about_to_take(&self) {
        if let Some(first) = self.first() {
            P::about_to_write(&first.node::<P>().state);
            P::about_to_write(&self.bucket.waiters);
        } else if self.has_alone() {
            P::about_to_write(&self.bucket.waiters);
        }
    }

    /// Whether nobody stands in it: one may be alone here.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    #[inline(always)]
    pub(super) fn count_one(&self) {
        let waiters = self.bucket.waiters.load(Relaxed);
        self.bucket.waiters.store(waiters + 1, Relaxed);
    }

    #[inline(always)]
    pub(super) fn uncount_one(&self) {
        let waiters = self.bucket.waiters.load(Relaxed);
        // The count may be 0 if the table was forgotten in the midst of this: then it is
        // not to borrow from the depth.
        let counted = waiters & !(u32::MAX << DEPTH) != 0;
        self.bucket
            .waiters
            .store(waiters - u32::from(counted), Relaxed);
    }

    /// Has the waiter wait for `key` behind others.
    pub(super) fn push(&self, place: Place, node: &Node<P>, key: &Key, waiter: Waiter) {
        self.settle();
        self.count_one();
        self.append(place, node, key, waiter);
    }

    /// [`Self::push`] of who is counted, where nobody stands alone.
    pub(super) fn append(&self, place: Place, node: &Node<P>, key: &Key, waiter: Waiter) {
        node.key.set(key);
        node.bitset.store(waiter.bitset.get(), Relaxed);
        node.rank.store(waiter.rank, Relaxed);
        self.link(place, node);
    }

    /// Links the waiter behind the last that is not below it in rank.
    fn link(&self, place: Place, node: &Node<P>) {
        node.state.store(self.slot as u32 + 1, Relaxed);
        let Some(first) = self.first() else {
            node.next.store(place.number(), Relaxed);
            node.prev.store(place.number(), Relaxed);
            self.set_first(place.number());
            return;
        };
        let rank = node.rank.load(Relaxed);
        let mut before = Self::prev(first);
        while Self::rank(before) < rank && before != first {
            before = Self::prev(before);
        }
        if Self::rank(before) < rank {
            before = Self::prev(first); // in a ring the last is before the first
            self.set_first(place.number());
        }
        let behind = Self::next(before);
        node.prev.store(before.number(), Relaxed);
        node.next.store(behind.number(), Relaxed);
        before.node::<P>().next.store(place.number(), Relaxed);
        behind.node::<P>().prev.store(place.number(), Relaxed);
    }

    /// Takes the waiter out of the queue; it stays counted.
    pub(super) fn remove(&self, place: Place) {
        self.unlink(place, place.node());
    }

    /// [`Self::remove`], by who has found the node already: to find it takes longer than
    /// all else that is done to it.
    #[inline(always)]
    fn unlink(&self, place: Place, node: &Node<P>) {
        let behind = Self::linked(node.next.load(Relaxed));
        if behind == place {
            return self.set_first(0);
        }
        let before = Self::linked(node.prev.load(Relaxed));
        before.node::<P>().next.store(behind.number(), Relaxed);
        behind.node::<P>().prev.store(before.number(), Relaxed);
        if self.first() == Some(place) {
            self.set_first(behind.number());
        }
    }

    /// Takes `most` waiters for `key` at most out of the queue and appends them to
    /// the chain. Returns how many.
    pub(super) fn take(
        &self,
        key: &Key,
        most: u32,
        bitset: NonZeroU32,
        chain: &mut Chain<P>,
    ) -> u32 {
        self.settle();
        self.each(key, most, bitset, |place, node| {
            self.unlink(place, node);
            self.uncount_one();
            chain.append(place, node);
        })
    }

    /// Moves `most` waiters for `key` at most to another queue, where they wait for
    /// `other`. Returns how many.
    pub(super) fn move_on(&self, key: &Key, target: &Self, other: &Key, most: u32) -> u32 {
        self.settle();
        target.settle();
        self.each(key, most, NonZeroU32::MAX, |place, node| {
            self.unlink(place, node);
            self.uncount_one();
            node.key.set(other);
            target.count_one();
            target.link(place, node);
            P::event(Event::Requeued);
        })
    }

    /// Makes the bucket one deeper, and has those of its waiters whose key is one that
    /// `moves` stand in the other's queue, which is as deep from now on. The caller is
    /// inside both gates.
    pub(super) fn split(&self, other: &Self, moves: impl Fn(&Key) -> bool) {
        self.settle();
        let mut moved = 0;
        let mut at = self.first();
        while let Some(place) = at {
            let node = place.node::<P>();
            at = self.after(node);
            if moves(&node.key.get()) {
                self.unlink(place, node);
                other.link(place, node);
                moved += 1;
            }
        }
        let (depth, waiters) = self.look();
        // (D) From one store to the next nobody sees a bucket as deep as it is now and
        // without those whom it has.
        let set = |queue: &Self, waiters| {
            let word = (depth + 1) << DEPTH | waiters;
            queue.bucket.waiters.store(word, Relaxed);
        };
        set(other, moved);
        set(self, waiters - moved);
        P::event(Event::BucketSplit);
    }

    /// Passes `most` waiters for `key` at most to `act`, which may take them out of
    /// the queue. Returns how many.
    #[inline]
    fn each(
        &self,
        key: &Key,
        most: u32,
        bitset: NonZeroU32,
        mut act: impl FnMut(Place, &'static Node<P>),
    ) -> u32 {
        let mut acted = 0;
        let mut at = self.first();
        while acted < most
            && let Some(place) = at
        {
            let node = place.node::<P>();
            P::about_to_write(&node.state);
            at = self.after(node);
            if node.key.is(key) && node.bitset.load(Relaxed) & bitset.get() != 0 {
                act(place, node);
                acted += 1;
            }
        }
        acted
    }

    fn first(&self) -> Option<Place> {
        Place::decode(self.bucket.first.load(Relaxed))
    }

    fn set_first(&self, number: u32) {
        self.bucket.first.store(number, Relaxed);
    }

    /// The waiter behind this one.
    fn after(&self, node: &Node<P>) -> Option<Place> {
        let next = Self::linked(node.next.load(Relaxed));
        (Some(next) != self.first()).then_some(next)
    }

    fn next(place: Place) -> Place {
        Self::linked(place.node::<P>().next.load(Relaxed))
    }

    fn prev(place: Place) -> Place {
        Self::linked(place.node::<P>().prev.load(Relaxed))
    }

    fn linked(number: u32) -> Place {
        Place::decode(number).expect("a queued node has two neighbours")
    }

    fn rank(place: Place) -> u32 {
        place.node::<P>().rank.load(Relaxed)
    }
}

/// Those whom a waker has taken out of queues, in the order in which they are to be
/// woken. They are linked by their nodes, which are the waker's until it wakes them.
pub(super) struct Chain<P: Platform> {
    first: Option<&'static Node<P>>,
    last: Option<&'static Node<P>>,
}

impl<P: Platform> Chain<P> {
    pub(super) const fn new() -> Self {
        Self {
            first: None,
            last: None,
        }
    }

    #[inline(always)]
    fn append(&mut self, place: Place, node: &'static Node<P>) {
        if let (Some(task), PARKS | WANTS) = node.rest() {
            P::about_to_unpark(task); // a hint
        }
        node.state.store(TAKEN, Relaxed); // its waiter looks again inside the gate
        node.next.store(0, Relaxed); // the chain is its waker's alone
        match self.last.replace(node) {
            None => self.first = Some(node),
            Some(last) => last.next.store(place.number(), Relaxed), // likewise
        }
    }

    /// Wakes them, outside of all gates.
    #[inline(always)]
    pub(super) fn wake(self, buckets: &[Bucket<P>]) {
        let mut at = self.first;
        let mut company = Company::None;
        while let Some(node) = at {
            let next = Place::decode(node.next.load(Relaxed));
            at = next.map(Place::node); // the last access before it is not ours
            let goes_along =
                |next: &Node<P>| next.mutex().is_some() && next.mutex() == node.mutex();
            company = match company {
                _ if at.is_some_and(goes_along) => Company::Follows,
                Company::Follows => Company::Before,
                _ => Company::None,
            };
            node.tell(buckets, company);
        }
    }
}
