//! The rare paths of the locks, by name.

/// A rare path of a lock. One list serves statistics, traces and the coverage
/// marks of the models.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
#[non_exhaustive]
pub enum Event {
    /// A spinner took the lock without sleeping.
    SpinAcquired,
    /// A spinner gave up: the owner was off its CPU.
    SpinOwnerOff,
    /// A spinner gave up: it was descheduled itself, or its slice was gone.
    SpinResched,
    /// A spinner gave up: another spins already.
    SpinNotFirst,
    /// A spinner gave up: it let an overdue first waiter have its CPU.
    SpinGaveWay,
    /// A spinner left its queue in step A: its predecessor let go of it.
    OsqUnqueueA,
    /// A spinner that was leaving its queue was given the lead instead.
    OsqUnqueueRaced,
    /// A spinner left its queue in step B: it was the last.
    OsqUnqueueB,
    /// A spinner left its queue in step C: it linked its neighbours.
    OsqUnqueueC,
    /// A waiter went to sleep.
    Parked,
    /// A first waiter did so for some milliseconds at most: an unlock might miss it.
    Napped,
    /// The first waiter was woken to take the lock.
    WokeFirst,
    /// A waiter that a condition variable had moved together with the first was woken with it.
    WokeBatch,
    /// An overdue first waiter, or a spinner on its behalf, asked for a hand-off.
    HandoffAsked,
    /// The lock went straight to the first waiter.
    HandedOff,
    /// Who had released the lock let a waiter run that was overtaken for long.
    MadeWay,
    /// An owner found that the first waiter is awake and does not get to run.
    FoundLate,
    /// A waiter left the queue at its deadline.
    Cancelled,
    /// A waiter that reached its deadline found the lock handed to it.
    CancelGranted,
    /// A task had to sleep for the queue's own gate.
    GateParked,
    /// A condition variable moved a waiter to its mutex.
    Requeued,
    /// Readers were let in together, by who released the lock or joined them.
    ReadersGranted,
    /// A reader took a lock that others waited for.
    ReadStolen,
    /// An unlock left those that wait to a spinner.
    WakeSkipped,
    /// A spinner gave up: for too long readers had the lock, or it did not know who.
    SpinReaders,
    /// A reader that waited for the others to leave became the writer.
    Upgraded,
    /// A writer waited for a grace period, for readers were on their fast path.
    GracePeriod,
    /// A writer followed another so soon that it needed no grace period.
    GraceSkipped,
    /// No writer had come for a while: readers are on their fast path again.
    BackToFast,
    /// A reader saw a writer when it had counted itself already.
    TookBack,
    /// A waiter was woken to take the lock, and another came first.
    Bypassed,
    /// A lock that was reserved for a task was taken by another.
    Revoked,
    /// The readers of a lock no longer count themselves in it.
    Biased,
    /// They do again, for another than a reader came.
    BiasRevoked,
    /// The same, where readers fence.
    FencedBiasRevoked,
    /// Readers of a lock fence no longer.
    FenceShed,
    /// Who waits for a lock whose readers are to fence was told to come again.
    ToldToComeAgain,
    /// A task that had a lock reserved was asked to release it, and did.
    Recalled,
    /// A spinner gave up: a waiter of a higher priority came, or may have.
    SpinNotTop,
    /// A task is lent another priority than before.
    Lent,
    /// A change of priority was passed on to the next lock of a chain.
    ChainWalked,
    /// A walk along a chain had to wait for a lock's gate.
    ChainVisited,
    /// A walk along a chain ended where the chain had changed.
    ChainChanged,
    /// A walk found a free lock with another top waiter, and woke that.
    TopChanged,
    /// A task that would wait for itself was found.
    DeadlockFound,
    /// A waiter went to the kernel, to lend the owner its priority.
    Boosted,
    /// The kernel handed the lock to the most urgent waiter, if it had one.
    BoostEnded,
    /// An owner found nobody left with a priority to lend.
    BoostStopped,
    /// The look-up of a key started over: the page was being taken away.
    KeySought,
    /// A futex's table gave half of a bucket's keys to another.
    BucketSplit,
}

impl Event {
    /// Every event, in the order of its number.
    pub const ALL: [Event; 50] = [
        Event::SpinAcquired,
        Event::SpinOwnerOff,
        Event::SpinResched,
        Event::SpinNotFirst,
        Event::SpinGaveWay,
        Event::OsqUnqueueA,
        Event::OsqUnqueueRaced,
        Event::OsqUnqueueB,
        Event::OsqUnqueueC,
        Event::Parked,
        Event::Napped,
        Event::WokeFirst,
        Event::WokeBatch,
        Event::HandoffAsked,
        Event::HandedOff,
        Event::MadeWay,
        Event::FoundLate,
        Event::Cancelled,
        Event::CancelGranted,
        Event::GateParked,
        Event::Requeued,
        Event::ReadersGranted,
        Event::ReadStolen,
        Event::WakeSkipped,
        Event::SpinReaders,
        Event::Upgraded,
        Event::GracePeriod,
        Event::GraceSkipped,
        Event::BackToFast,
        Event::TookBack,
        Event::Bypassed,
        Event::Revoked,
        Event::Biased,
        Event::BiasRevoked,
        Event::FencedBiasRevoked,
        Event::FenceShed,
        Event::ToldToComeAgain,
        Event::Recalled,
        Event::SpinNotTop,
        Event::Lent,
        Event::ChainWalked,
        Event::ChainVisited,
        Event::ChainChanged,
        Event::TopChanged,
        Event::DeadlockFound,
        Event::Boosted,
        Event::BoostEnded,
        Event::BoostStopped,
        Event::KeySought,
        Event::BucketSplit,
    ];
}
