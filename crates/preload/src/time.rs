//! Deadlines as POSIX has them.

use std::ffi::c_int;

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EINVAL, clockid_t, timespec};
use lockyard_core::Deadline;
use lockyard_linux::clock;

/// A moment of one of the two clocks that a lock can wait by.
#[derive(Clone, Copy)]
pub struct Until {
    pub clock: clockid_t,
    pub at: *const timespec,
}

impl Until {
    pub const fn realtime(at: *const timespec) -> Self {
        Self {
            clock: CLOCK_REALTIME,
            at,
        }
    }

    /// A moment 5 ms from now, with its clock: that of `until`, and no later. Also returns
    /// whether it is `until`.
    ///
    /// # Safety
    /// As [`Until::deadline`].
    pub unsafe fn soon(until: Option<Self>) -> ((clockid_t, timespec), bool) {
        const NS: i64 = 5_000_000;
        const SECOND: i64 = 1_000_000_000;
        let clock = until.map_or(CLOCK_MONOTONIC, |until| until.clock);
        let mut at = timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `at` is writable.
        unsafe { libc::clock_gettime(clock, &raw mut at) };
        let ns = at.tv_nsec + NS;
        let at = timespec {
            tv_sec: at.tv_sec + ns / SECOND,
            tv_nsec: ns % SECOND,
        };
        // SAFETY: as the caller says.
        match until.map(|until| unsafe { *until.at }) {
            Some(end) if (end.tv_sec, end.tv_nsec) <= (at.tv_sec, at.tv_nsec) => {
                ((clock, end), true)
            }
            _ => ((clock, at), false),
        }
    }

    /// Whether a lock can wait by its clock.
    pub fn has_clock(self) -> bool {
        self.clock == CLOCK_REALTIME || self.clock == CLOCK_MONOTONIC
    }

    /// What lies before the clock's beginning has passed.
    ///
    /// # Errors
    /// `EINVAL` when it is malformed.
    ///
    /// # Safety
    /// `at` points to a `timespec`.
    pub unsafe fn deadline(self) -> Result<Deadline, c_int> {
        const SECOND: u64 = 1_000_000_000;
        // SAFETY: as the caller says.
        let at = unsafe { *self.at };
        let nanos = u64::try_from(at.tv_nsec).map_err(|_| EINVAL)?;
        if nanos >= SECOND || !self.has_clock() {
            return Err(EINVAL);
        }
        let seconds = u64::try_from(at.tv_sec);
        let ns = seconds.map_or(0, |seconds| {
            seconds.saturating_mul(SECOND).saturating_add(nanos)
        });
        Ok(match self.clock {
            CLOCK_MONOTONIC => clock::monotonic(ns),
            _ => clock::realtime(ns),
        })
    }
}
