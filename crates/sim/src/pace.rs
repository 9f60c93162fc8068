//! How a task's spinners look at a lock, as the Linux world decides it: seldom,
//! when tasks come back for the lock sooner than it could change hands.

use lockyard_core::Look;

use crate::machine::Picos;

/// As crates/linux has them.
const LONG: (Picos, Picos) = (5, 3);
const LONG_YET: (Picos, Picos) = (3, 2);
const SELDOM: Look = Look::Every(16_000);
const BEGIN: Picos = 5_000_000;

/// A task's mean period, from taking a lock to coming back for it.
pub(crate) struct Pace {
    mean: Picos,
    /// When it last took a lock after spinning, and how many it had taken then.
    since: Option<(Picos, u32)>,
    /// Whether it polled for that one.
    polled: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mean: BEGIN,
            since: None,
            polled: true,
        }
    }
}

impl Pace {
    /// It had to spin for it.
    pub(crate) fn acquired(&mut self, now: Picos, took: u32) {
        self.since = Some((now, took));
    }

    /// The task will have to spin again for a lock that takes so many halves of a transfer to
    /// change hands, where a line comes from another core in `transfer`.
    pub(crate) fn look(&mut self, now: Picos, took: u32, halves: u32, transfer: Picos) -> Look {
        if let Some((since, before)) = self.since.take() {
            let times = u64::from(took.wrapping_sub(before)) + 1;
            let transfers = if self.polled { times } else { 1 };
            let period = (now - since).saturating_sub(transfers * transfer) / times;
            self.mean = (7 * self.mean + period.min(2 * self.mean + 1_000)) / 8;
        }
        let (times, of) = if self.polled { LONG_YET } else { LONG };
        self.polled = 2 * of * self.mean >= times * u64::from(halves) * transfer;
        if self.polled { Look::Poll } else { SELDOM }
    }
}
