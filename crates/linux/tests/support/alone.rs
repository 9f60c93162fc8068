//! One test of a process at a time, and not for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// While it lives, no other test that begins one runs. When it lives too long,
/// the process ends by `SIGALRM`, even if no ordinary thread gets a CPU.
pub struct Alone {
    _turn: MutexGuard<'static, ()>,
}

impl Alone {
    /// No test takes so long unless it hangs, or the machine is suspended.
    const SECONDS: u32 = 100;

    /// Waits for the others.
    pub fn begin() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: setting an alarm has no conditions.
        unsafe { libc::alarm(Self::SECONDS) };
        Self { _turn: turn }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
    }
}
