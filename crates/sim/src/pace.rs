//! How a task's spinners look at a lock, as the Linux world decides it: seldom,
//! when tasks come back for the lock sooner than it could change hands.

use lockyard_core::Look;

use crate::machine::Picos;

/// As crates/linux has them.
const SHORT: Picos = 90_000;
const SELDOM: Look = Look::Every(3_000);
const LONGEST: Picos = 5_000_000;

/// A task's mean period, from taking a lock to coming back for it.
pub(crate) struct Pace {
    mean: Picos,
    took: Picos,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mean: LONGEST,
            took: 0,
        }
    }
}

impl Pace {
    /// The task takes a lock at this moment.
    pub(crate) fn took(&mut self, now: Picos) {
        self.took = now;
    }

    /// The task comes for a lock at this moment and will have to spin.
    pub(crate) fn look(&mut self, now: Picos) -> Look {
        let period = (now - self.took).min(LONGEST);
        self.mean = (15 * self.mean + period) / 16;
        if self.mean < SHORT {
            SELDOM
        } else {
            Look::Poll
        }
    }
}
