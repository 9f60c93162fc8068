//! How a task's spinners look at a lock, as the Linux world decides it: seldom,
//! when tasks come back for the lock sooner than it could change hands.

use lockyard_core::Look;

use crate::machine::Picos;

/// As crates/linux has them.
const LONG: (Picos, Picos) = (3, 2);
const LONG_YET: (Picos, Picos) = (4, 3);
const SELDOM: Look = Look::Every(24_000);
const BEGIN: Picos = 5_000_000;
const TURN: u64 = 32;
const FENCE: Picos = 15;
const PASSED: Picos = 200;
const STEP: u32 = 64;

/// A task's mean period, from taking a lock to coming back for it.
pub(crate) struct Pace {
    mean: Picos,
    /// That of long turns alone.
    alone: Option<Picos>,
    /// Measured turns since the last long one.
    short: u32,
    /// When it last took a lock after spinning, and how many it had taken then.
    since: Option<(Picos, u32)>,
    /// Whether it polled for that one.
    polled: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mean: BEGIN,
            alone: None,
            short: 0,
            since: None,
            polled: true,
        }
    }
}

fn moved(mean: Picos, sample: Picos) -> Picos {
    (7 * mean + sample.min(2 * mean + 1_000)) / 8
}

impl Pace {
    /// It had to spin for it.
    pub(crate) fn acquired(&mut self, now: Picos, took: u32) {
        self.since = Some((now, took));
    }

    /// The task will have to spin again for a lock that takes so many halves of a transfer to
    /// change hands, where a line comes from another core in `transfer`.
    pub(crate) fn look(&mut self, now: Picos, took: u32, halves: u32, transfer: Picos) -> Look {
        if halves == 0 {
            self.since = None;
            return Look::Poll;
        }
        if let Some((since, before)) = self.since.take() {
            let times = u64::from(took.wrapping_sub(before)) + 1;
            let transfers = if self.polled { times } else { 1 };
            let period = (now - since).saturating_sub(transfers * transfer) / times;
            self.mean = moved(self.mean, period);
            if times >= TURN {
                self.alone = Some(self.alone.map_or(period, |mean| moved(mean, period)));
                self.short = 0;
            } else {
                self.short = self.short.saturating_add(1);
            }
        }
        let (times, of) = if self.polled { LONG_YET } else { LONG };
        self.polled = 2 * of * self.mean >= times * u64::from(halves) * transfer;
        if self.polled { Look::Poll } else { SELDOM }
    }

    /// Whether the last look was seldom.
    pub(crate) fn is_seldom(&self) -> bool {
        !self.polled
    }

    /// What the task gains if it goes on beside others on so many CPUs, in hundredths of such a
    /// transfer.
    pub(crate) fn gain(&self, transfer: Picos, cpus: usize) -> Option<u32> {
        let cpus = cpus.max(2) as Picos;
        let period = match self.short {
            STEP.. => PASSED,
            _ => 100 * self.alone? / transfer.max(1),
        };
        let gained = 2 * (period * (cpus - 1)).saturating_sub(FENCE) / cpus;
        Some(u32::try_from(gained).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gained_follows_from_the_last_turns() {
        const TRANSFER: Picos = 100;
        let mut pace = Pace::default();
        let mut turn = |times: u32| {
            pace.acquired(0, 0);
            let now = Picos::from(times) * (3 * TRANSFER + TRANSFER);
            pace.look(now, times - 1, 4, TRANSFER);
            pace.gain(TRANSFER, 2)
        };
        assert_eq!(turn(31), None);
        assert_eq!(turn(32), Some(300 - 15));
        assert_eq!((0..STEP).map(|_| turn(1)).last(), Some(Some(200 - 15)));
        assert_eq!(turn(32), Some(300 - 15));
    }

    #[test]
    fn what_is_not_handed_on_is_not_measured() {
        let mut pace = Pace::default();
        pace.acquired(0, 0);
        assert_eq!(pace.look(1, 99, 0, 100), Look::Poll);
        assert!(pace.since.is_none());
    }
}
