//! Signals that wait for a report.

use std::{mem, ptr};

use libc::{c_int, sigset_t};

use crate::{DISABLE, pthread_setcancelstate};

/// What a write may raise, in the thread that writes.
const BY_WRITES: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
/// What an instruction may raise: the kernel ends a process that has put them off.
const BY_FAULTS: [c_int; 6] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// While it lives, no handler of a signal runs in the thread, its writes raise none, and it is not
/// cancelled. What ends the process still does.
pub struct PutOff {
    /// The thread's mask, which comes back, and whether it may be cancelled.
    before: sigset_t,
    cancel: c_int,
}

impl PutOff {
    /// From now on.
    pub fn now() -> Self {
        let mut cancel = 0;
        // SAFETY: zeros are a valid set, an empty one. Both sets and the state are writable.
        unsafe {
            pthread_setcancelstate(DISABLE, &raw mut cancel);
            let [mut these, mut before] = [mem::zeroed(); 2];
            let signals = 1..=libc::SIGRTMAX();
            for signal in signals.filter(|&signal| BY_WRITES.contains(&signal) || runs(signal)) {
                libc::sigaddset(&raw mut these, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const these, &raw mut before);
            Self { before, cancel }
        }
    }
}

/// Whether a handler runs that need not at once.
fn runs(signal: c_int) -> bool {
    // SAFETY: zeros are a valid action, which is writable; none is set.
    let action = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action);
        action.sa_sigaction
    };
    action != libc::SIG_DFL && action != libc::SIG_IGN && !BY_FAULTS.contains(&signal)
}

impl Drop for PutOff {
    fn drop(&mut self) {
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: zeros are a valid set, an empty one; all that is pointed to is there.
        unsafe {
            let mut raised = mem::zeroed();
            for signal in BY_WRITES {
                if libc::sigismember(&raw const self.before, signal) == 0 {
                    libc::sigaddset(&raw mut raised, signal);
                }
            }
            while libc::sigtimedwait(&raw const raised, ptr::null_mut(), &raw const now) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
            pthread_setcancelstate(self.cancel, &raw mut self.cancel);
        }
    }
}
