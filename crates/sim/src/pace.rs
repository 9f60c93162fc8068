//! How a task's spinners look at a lock, as the Linux world decides it: seldom,
//! when tasks come back for the lock sooner than it could change hands.

use lockyard_core::Look;

use crate::machine::Picos;

/// As crates/linux has them.
const SHORT: Picos = 300_000;
const SELDOM: Look = Look::Every(3_000);
const LONGEST: Picos = 5_000_000;

/// A task's mean period, from taking a lock to coming back for it.
pub(crate) struct Pace {
    mean: Picos,
    /// Locks that it has taken.
    took: u64,
    /// When it last took a lock after spinning, and `took` then.
    since: Option<(Picos, u64)>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mean: LONGEST,
            took: 0,
            since: None,
        }
    }
}

impl Pace {
    /// The task has taken a lock.
    pub(crate) fn took(&mut self) {
        self.took += 1;
    }

    /// It had to spin for it.
    pub(crate) fn acquired(&mut self, now: Picos) {
        self.since = Some((now, self.took));
    }

    /// The task will have to spin again.
    pub(crate) fn look(&mut self, now: Picos) -> Look {
        if let Some((since, took)) = self.since.take() {
            let period = (now - since) / (self.took - took + 1);
            self.mean = (3 * self.mean + period.min(LONGEST)) / 4;
        }
        if self.mean < SHORT {
            SELDOM
        } else {
            Look::Poll
        }
    }
}
