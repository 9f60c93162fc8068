//! How tasks queue up for a reader-writer semaphore, wait, and give up.

use super::{
    AGAIN, Count, GRANTED_AND_MORE, HANDOFF, Kind, OF_WAITERS, OVERFLOW, RawRwLock, SPINNER,
    WAITERS, WakeCheck, wake::Wakes,
};
use crate::{
    mutex::HAND_OVER,
    osq,
    platform::{Deadline, Event, Look, Ordering::*, Platform, TaskId, Word},
    wait_queue::Entered,
};

/// What became of who came to queue up.
enum Tried {
    /// It has the lock, which had this count.
    Took(Count),
    Queued,
    /// Neither: it is biased or reserved, and nobody may wait for it as long as it is.
    ToRevoke(Count),
}

/// How a wait in the queue ended.
enum Waited {
    Took,
    Cancelled,
    /// The caller is to come again.
    Again,
}

/// How who gives up has left the queue.
enum Left {
    /// It has the lock.
    Granted,
    /// And is to wake those.
    Waking(Wakes),
    /// It has not: the reservation is to be revoked first.
    Not,
}

impl<P: Platform, C: WakeCheck, W: osq::Wait<P>> RawRwLock<P, C, W> {
    #[inline(never)]
    pub(super) fn contend(&self, kind: Kind, deadline: Option<Deadline>) -> bool {
        P::waits(self.address());
        if kind == Kind::Read && P::may_bias(|| true) {
            self.ask_for_fence();
        }
        let fenced = self.rest().is_fenced();
        // With a fence its writers are quick, and its readers leave the line alone.
        let look = P::pace(if fenced { 0 } else { HAND_OVER });
        if fenced && kind.spins() && self.outlast_fenced(kind, deadline) {
            return true;
        }
        let took = self.contend_unfenced(kind, look, fenced, deadline);
        if took && kind == Kind::Write {
            self.wrote_unfenced();
        }
        took
    }

    fn contend_unfenced(
        &self,
        kind: Kind,
        look: Look,
        fenced: bool,
        deadline: Option<Deadline>,
    ) -> bool {
        let glances = look == Look::Poll;
        // Most often the owner is about to leave: the first look had better be soon.
        let at_once = glances && !fenced && !self.count().is_to_be_revoked(kind);
        if at_once && self.glance(kind) {
            return true;
        }
        if self.is_mine() {
            return self.wait_for_myself(deadline);
        }
        self.check_room(kind);
        if self.count().is_to_be_revoked(kind) {
            self.recall(look);
        }
        // Who is awake overtakes who sleeps, and does not queue up to spin either.
        if self.take_awake(kind) {
            return true;
        }
        glances && !at_once && self.glance(kind) || self.contend_slow(kind, look, deadline)
    }

    #[cold]
    fn contend_slow(&self, kind: Kind, look: Look, deadline: Option<Deadline>) -> bool {
        let me = P::me();
        let spun = kind.spins() && self.spin(me, kind, look, deadline);
        spun || self.take_awake(kind) || self.line_up(me, kind, kind, deadline)
    }

    /// Queues up as one that wants the lock so at first, and so once it was in the queue.
    fn line_up(&self, me: TaskId, first: Kind, kind: Kind, deadline: Option<Deadline>) -> bool {
        let node = &P::task(me).rwsem;
        node.told.store(0, Relaxed); // published by the gate
        let mut wanted = first;
        loop {
            match self.queue_up(me, wanted, deadline) {
                Waited::Took => return true,
                Waited::Cancelled => return false,
                Waited::Again => node.told.store(node.told.load(Relaxed) + 1, Relaxed), // likewise
            }
            if kind.spins() && self.outlast_fenced(kind, deadline) || self.take_awake(kind) {
                return true;
            }
            wanted = kind;
        }
    }

    fn check_room(&self, kind: Kind) {
        let full = kind.reads() && self.count().entered(Kind::Read).has(OVERFLOW);
        assert!(!full, "too many readers of the rwsem at {self:p}");
    }

    /// Waits for the lock as a reader behind those that are in the queue.
    #[inline(never)]
    pub(super) fn queue_up_to_read(&self, deadline: Option<Deadline>) -> bool {
        P::waits(self.address());
        if self.is_mine() {
            return self.wait_for_myself(deadline);
        }
        self.check_room(Kind::InOrder);
        self.line_up(P::me(), Kind::InOrder, Kind::Read, deadline)
    }

    /// The writer wants the lock again: that ends at the deadline, or is a
    /// deadlock.
    #[cold]
    fn wait_for_myself(&self, deadline: Option<Deadline>) -> bool {
        assert!(
            deadline.is_some(),
            "deadlock: task {} locks the rwsem at {self:p}, which it holds as the writer",
            P::me().number()
        );
        while !deadline.is_some_and(P::passed) {
            P::park(deadline);
        }
        false
    }

    /// Takes the lock or queues up for it, in the gate; then waits. Returns
    /// whether it was taken.
    fn queue_up(&self, me: TaskId, kind: Kind, deadline: Option<Deadline>) -> Waited {
        let tried = loop {
            match self.try_to_queue_up(me, kind) {
                // Outside the gate: it takes long, and may have waiters to wake.
                Tried::ToRevoke(count) => self.revoke(count),
                tried => break tried,
            }
        };
        let Tried::Took(before) = tried else {
            return self.wait(me, kind, deadline);
        };
        self.share(kind, before);
        Waited::Took
    }

    /// Takes the lock or queues up for it, in the gate, unless that has to be revoked.
    fn try_to_queue_up(&self, me: TaskId, kind: Kind) -> Tried {
        self.queue.enter(|queue| {
            self.bury(&queue);
            loop {
                if let Ok(before) = self.enter(kind) {
                    return Tried::Took(before);
                }
                let count = self.count();
                // In the gate the mark is current, and who waits first is why
                // it matters no more whether the rest of the count is.
                if count.may_join() {
                    break;
                }
                if count.keeps_out(Kind::Write) {
                    return Tried::ToRevoke(count);
                }
                // Relaxed: what counts is that it is still held.
                if count.taken(kind).is_none() && self.exchange(count, count.with(WAITERS), Relaxed)
                {
                    break;
                }
            }
            Self::push(&queue, me, kind);
            Tried::Queued
        })
    }

    fn push(queue: &Entered<'_, P>, me: TaskId, kind: Kind) {
        let node = &P::task(me).rwsem;
        node.kind.store(kind as u32, Relaxed); // the gate orders it
        node.granted.store(0, Relaxed); // the gate orders it
        let wait = &P::task(me).wait;
        let since = wait.since.load(Relaxed); // the caller's own
        if kind == Kind::Upgrade {
            queue.push_front(me);
        } else {
            queue.push(me, 0);
        }
        if node.told.load(Relaxed) > 0 {
            wait.since.store(since, Relaxed); // it has waited ever since: a hint
        }
    }

    /// Waits in the queue. Returns whether the lock was taken; either way the
    /// caller is out of the queue.
    fn wait(&self, me: TaskId, kind: Kind, deadline: Option<Deadline>) -> Waited {
        let mut promised = false;
        loop {
            if kind == Kind::Write && self.compete_in_queue(me, promised, deadline) {
                return Waited::Took;
            }
            // Looked at last: who competes may sleep at the gate, and there be
            // woken by the one that grants, too.
            // (R3) Acquire pairs with the Release of who granted.
            let granted = P::task(me).rwsem.granted.load(Acquire);
            if granted != 0 {
                return self.told(granted);
            }
            if deadline.is_some_and(P::passed) {
                return self.cancel(me);
            }
            P::event(Event::Parked);
            P::park(deadline);
            promised = true; // on its behalf, by who woke it
        }
    }

    /// Leaves the queue without the lock; `true` when it was granted at the
    /// last moment.
    fn cancel(&self, me: TaskId) -> Waited {
        let node = &P::task(me).rwsem;
        let left = loop {
            let left = self.queue.enter(|queue| {
                let Some(kind) = node.kind() else {
                    return Left::Granted;
                };
                let was_first = Self::unqueue(&queue, me);
                self.bury(&queue);
                // A promise made on its behalf goes with it, and what else it was
                // given as the first.
                let mine = if was_first {
                    HANDOFF | SPINNER
                } else {
                    SPINNER
                };
                // No promise may end while the lock is reserved.
                let change = |count: Count| (!count.is_kept()).then(|| count.without(mine));
                match self.advance_if(&queue, change, false) {
                    Some(wakes) => Left::Waking(wakes),
                    None => {
                        Self::push(&queue, me, kind); // to come again
                        Left::Not
                    }
                }
            });
            match left {
                Left::Not => self.revoke(self.count()),
                left => break left,
            }
        };
        if let Left::Waking(wakes) = left {
            P::event(Event::Cancelled);
            wakes.deliver::<P>();
            return Waited::Cancelled;
        }
        P::event(Event::CancelGranted);
        self.told(self.hear(me))
    }

    /// What the caller was told, who is out of the queue: if nothing yet, who took it out is
    /// about to tell it, and to wake it.
    pub(super) fn hear(&self, me: TaskId) -> u32 {
        loop {
            // (R3) Acquire pairs with the Release of who granted.
            let granted = P::task(me).rwsem.granted.load(Acquire);
            if granted != 0 {
                return granted;
            }
            P::park(None);
        }
    }

    /// Does as it was told. A granted reader carries on with a batch that was full.
    fn told(&self, granted: u32) -> Waited {
        match granted {
            AGAIN => return Waited::Again,
            GRANTED_AND_MORE => self.pass_on(),
            _ => {}
        }
        Waited::Took
    }

    /// Takes a waiter out of the queue; returns whether it was the first.
    pub(super) fn unqueue(queue: &Entered<'_, P>, task: TaskId) -> bool {
        P::task(task).rwsem.kind.store(0, Relaxed); // the gate orders it
        queue.remove(task)
    }

    /// Drops from the queue waiters that a fork has left behind.
    pub(super) fn bury(&self, queue: &Entered<'_, P>) {
        let mut buried = false;
        while let Some(first) = queue.first()
            && !P::exists(first)
        {
            Self::unqueue(queue, first);
            buried = true;
        }
        if buried && queue.first().is_none() {
            self.count.fetch_and(!OF_WAITERS, Relaxed); // the gate orders the queue
        }
    }
}
