//! A group: its lock, where its tasks meet, and what each of them does.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use hdrhistogram::Histogram;

use crate::{
    Host, Lock,
    board::At,
    locktest::GROWS,
    meet::Barrier,
    race::{Race, Ran, histogram},
};

/// Who a task of a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Low,
    High,
    Medium,
}

impl Role {
    /// How many tasks a group has.
    pub(super) fn members(mediums: usize) -> usize {
        2 + mediums
    }

    /// Who a task is, by its number in the group.
    pub(super) fn of(member: usize) -> Self {
        match member {
            0 => Self::Low,
            1 => Self::High,
            _ => Self::Medium,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
            Self::Medium => "medium",
        }
    }

    /// Its real-time priority, as in rt-tests.
    pub(super) fn priority(self) -> u8 {
        match self {
            Self::Low => 1,
            Self::Medium => 2,
            Self::High => 3,
        }
    }
}

/// A group of tasks.
pub(super) struct Group<H: Host, L> {
    lock: L,
    start: Barrier<H>,
    locked: Barrier<H>,
    elevate: Barrier<H>,
    finish: Barrier<H>,
    race: Race<H>,
    /// High has said, before the start of a round, that there is none.
    over: AtomicBool,
    /// A medium task ran in this round while high waited.
    inverted: AtomicBool,
    /// One did so up to the limit, in some round.
    unbounded: AtomicBool,
}

/// What a high task counted.
pub(super) struct Counts {
    pub(super) began: u64,
    pub(super) ended: u64,
    /// Rounds in which it had the lock before the limit.
    pub(super) resolved: u64,
    /// Rounds in which a medium task ran while it waited.
    pub(super) inverted: u64,
    /// How long it waited, in nanoseconds.
    pub(super) waits: Histogram<u64>,
}

impl<H: Host, L: Lock> Group<H, L> {
    pub(super) fn new(mediums: usize) -> Self {
        let all = Role::members(mediums);
        Self {
            lock: L::new(),
            start: Barrier::new(all),
            locked: Barrier::new(2),
            elevate: Barrier::new(1 + mediums),
            finish: Barrier::new(all),
            race: Race::new(),
            over: AtomicBool::new(false),
            inverted: AtomicBool::new(false),
            unbounded: AtomicBool::new(false),
        }
    }

    pub(super) fn is_unbounded(&self) -> bool {
        self.unbounded.load(Relaxed)
    }

    /// Whether a round begins.
    fn begins(&self) -> bool {
        self.start.meet();
        !self.over.load(Relaxed)
    }

    /// What low does. It `stays` in the lock for a moment where the medium tasks
    /// must find the CPUs first.
    pub(super) fn low(&self, stays: bool, is_at: impl Fn(At)) {
        const STAY: Duration = Duration::from_micros(50);
        while self.begins() {
            is_at(At::Waits);
            self.lock.with(|| {
                is_at(At::Inside);
                self.locked.meet();
                self.elevate.meet();
                if stays {
                    H::busy(STAY);
                }
            });
            is_at(At::Outside);
            self.finish.meet();
        }
    }

    /// What a medium task does. Returns the longest that it ran while high waited,
    /// in nanoseconds.
    pub(super) fn medium(
        &self,
        limit: Option<Duration>,
        stop: &AtomicBool,
        is_at: impl Fn(At),
    ) -> u64 {
        let mut longest = 0;
        while self.begins() {
            is_at(At::Outside);
            self.elevate.meet();
            let ran = limit.map_or(Ran::Never, |limit| self.race.run(limit));
            if let Ran::For(ns) | Ran::Out(ns) = ran {
                longest = longest.max(ns);
                self.inverted.store(true, Relaxed);
            }
            if let Ran::Out(_) = ran {
                self.unbounded.store(true, Relaxed);
                stop.store(true, Relaxed);
            }
            self.finish.meet();
        }
        longest
    }

    /// What high does, for so many rounds at most. It alone decides whether there
    /// is another, so that nobody is left alone at the start.
    pub(super) fn high(&self, rounds: u64, stop: &AtomicBool, is_at: impl Fn(At)) -> Counts {
        let mut counts = Counts::new(H::now_ns());
        loop {
            let over = stop.load(Relaxed) || counts.resolved == rounds;
            self.over.store(over, Relaxed);
            self.race.prepare();
            if !self.begins() {
                counts.ended = H::now_ns();
                return counts;
            }
            self.locked.meet();
            is_at(At::Waits);
            let won = self.race.win(&self.lock);
            is_at(At::Outside);
            self.finish.meet();
            counts.waits.record(won.wait).expect(GROWS);
            counts.inverted += u64::from(self.inverted.swap(false, Relaxed));
            counts.resolved += u64::from(!self.is_unbounded());
        }
    }
}

impl Counts {
    fn new(now: u64) -> Self {
        Self {
            began: now,
            ended: now,
            resolved: 0,
            inverted: 0,
            waits: histogram(),
        }
    }
}
