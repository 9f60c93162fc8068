//! A waiter that has a bucket to itself, as most have: there are thousands of buckets.
//!
//! It is not linked. The bucket's own line says who it is, what it waits for and whether it
//! sleeps: a waker needs no other line, which it would have to fetch from the waiter's CPU,
//! and the word that it clears is the one that the waiter looks at and sleeps on.
//!
//! | `alone` | means | becomes |
//! |---|---|---|
//! | 0 | nobody stands here alone | the other two, by a waiter that finds an empty queue |
//! | task, looking | the task does, and looks at this word | sleeping, by the task's exchange |
//! | task, sleeping | it sleeps on this word, or is about to | |
//!
//! All but the exchange is done inside the gate. Who stands alone is counted; the queue
//! itself is empty. Three end it, by setting the word to 0: a waker of its key, which has
//! woken it thereby; the waiter itself, at its deadline; and who needs the queue for somebody
//! else, or this waiter in another, and so has it stand there ([`Queue::settle`]). The
//! waiter learns which of them by the state of its node, which only the last has changed.
//!
//! Who clears the word publishes by that what it did before: a waker (L1), (L2), or a settler
//! (L3). The waiter that finds itself gone acquires it. It may find the next one there
//! instead, or that this one has left, too: the next one came through the gate after all
//! that, and has the full barrier (A) before it sets the word.
//!
//! A settled waiter may sleep on its first bucket's word still, while another stands alone
//! there. So who wakes a sleeper wakes all that sleep on that word, and they look again.

use core::num::NonZeroU32;

use super::{Key, Place, Queue, Table, WOKEN, Waited, Waiter, glance::glance};
use crate::platform::{Deadline, Event, Ordering::*, Platform, TaskId, TaskRecord, Woken, Word};

/// The waiter sleeps, or is about to; the bits above are its number.
const SLEEPS: u32 = 1;
const _: () = assert!(TaskId::MAX <= u32::MAX >> SLEEPS.count_ones());

/// Who stood alone, was woken, and is to be told by the kernel.
#[must_use]
pub(super) struct Sleeper<'a, P: Platform> {
    bed: &'a P::U32,
    task: TaskId,
}

impl<P: Platform> Sleeper<'_, P> {
    #[inline(always)]
    pub(super) fn wake(self) {
        P::unpark_on(self.bed, self.task);
    }
}

// Relaxed: the gate orders what has no comment.
impl<'a, P: Platform> Queue<'a, P> {
    #[inline(always)]
    pub(super) fn has_alone(&self) -> bool {
        self.bucket.alone.load(Relaxed) != 0
    }

    /// Has the waiter stand here alone if it can. Returns whether it does.
    #[inline(always)]
    pub(super) fn stand_alone(&self, me: TaskId, key: &Key, waiter: Waiter, looks: bool) -> bool {
        let is_usual = waiter.rank == 0 && waiter.bitset == NonZeroU32::MAX;
        let stands = is_usual && self.is_empty() && !self.has_alone();
        if stands {
            self.count_one();
            self.bucket.key.set(key);
            let sleeps = if looks { 0 } else { SLEEPS };
            let word = me.number() << 1 | sleeps;
            self.bucket.alone.store(word, Relaxed); // behind (A)
        }
        stands
    }

    /// Takes the one that stands here alone if it waits for `key`, and has woken it, unless
    /// it sleeps.
    #[inline(always)]
    pub(super) fn take_alone(&self, key: &Key) -> Option<Option<Sleeper<'a, P>>> {
        if !self.bucket.key.is(key) {
            return None;
        }
        self.uncount_one();
        let bed = &self.bucket.alone;
        let mut word = bed.load(Relaxed);
        match word & SLEEPS {
            0 => word = bed.swap(0, Release), // (L1) it may fall asleep
            _ => bed.store(0, Release),       // (L2)
        }
        let task = TaskId::new(word >> 1).filter(|_| word & SLEEPS != 0);
        Some(task.map(|task| Sleeper { bed, task }))
    }

    /// Whoever stands here alone stands in the queue from now on.
    #[inline(always)]
    pub(super) fn settle(&self) {
        if let Some(task) = TaskId::new(self.bucket.alone.load(Relaxed) >> 1) {
            self.settle_task(task);
        }
    }

    #[cold]
    fn settle_task(&self, task: TaskId) {
        let place = Place::new(task, 0);
        let node = place.node();
        node.lie_down(task, self.slot);
        self.append(place, node, &self.bucket.key.get(), Waiter::ANY);
        self.bucket.alone.swap(0, Release); // (L3) it may have fallen asleep meanwhile
    }

    /// Leaves, if the caller stands here alone.
    fn leave_alone(&self, me: TaskId) -> bool {
        self.lock();
        let stands = self.bucket.alone.load(Relaxed) >> 1 == me.number();
        if stands {
            self.bucket.alone.store(0, Relaxed); // behind (A)
            self.uncount_one();
        }
        self.unlock();
        stands
    }
}

impl<P: Platform, const FIRST: usize, const MOST: usize> Table<P, FIRST, MOST> {
    /// Waits until the caller, which stands alone in the queue, does so no longer. `None`
    /// when it was settled: its node is its own again, and may be in a queue.
    #[inline]
    pub(super) fn wait_alone(
        &self,
        queue: Queue<'_, P>,
        me: TaskId,
        mine: &TaskRecord<P>,
        deadline: Option<Deadline>,
    ) -> Option<Waited> {
        let bed = &queue.bucket.alone;
        let is_me = |word: u32| word >> 1 == me.number();
        glance::<P>(&mine.glances, bed, |word| !is_me(word));
        self.lend_a_hand();
        let asleep = me.number() << 1 | SLEEPS;
        let mut too_late = false; // to leave
        loop {
            // (L1), (L2), (L3) Acquire: what was done before by who has ended this.
            let word = bed.load(Acquire);
            if !is_me(word) {
                break;
            }
            if word != asleep {
                // A waker's swap sees it, or this sees the waker's.
                let _ = bed.compare_exchange(word, asleep, Relaxed, Relaxed);
                continue;
            }
            P::event(Event::Parked);
            if P::park_on(bed, asleep, deadline) == Woken::TimedOut {
                if queue.leave_alone(me) {
                    P::event(Event::Cancelled);
                    return Some(Waited::TimedOut);
                }
                too_late = true;
            }
        }
        // (F1), (F2) Acquire, as in `wait`: a waker may have told who was settled.
        match mine.futex[0].state.load(Acquire) {
            WOKEN => {
                if too_late {
                    P::event(Event::CancelGranted);
                }
                Some(Waited::Woken)
            }
            _ => None,
        }
    }
}
