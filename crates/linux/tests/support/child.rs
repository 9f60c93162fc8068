//! A child of a fork, which does what it is told and ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// No child takes so long unless it hangs.
const SECONDS: u32 = 30;

/// Whether `f` returns in a fork's child, without a panic. If it hangs, the child ends by
/// `SIGALRM`.
pub fn returns_in_child(f: impl FnOnce()) -> bool {
    // SAFETY: the child uses locks of lockyard and the C library's allocator,
    // which are to work in it, and ends without destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "there is no forking");
    if pid == 0 {
        // SAFETY: setting an alarm has no conditions.
        unsafe { libc::alarm(SECONDS) };
        let returned = catch_unwind(AssertUnwindSafe(f)).is_ok();
        // SAFETY: ending a process has no conditions.
        unsafe { libc::_exit(if returned { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable, and the child was not waited for yet.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(ended, pid, "nobody else waits for the child");
    if status != 0 {
        eprintln!("the child ended with status {status:#x}");
    }
    status == 0
}
