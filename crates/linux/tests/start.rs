//! What is done when a process starts, and not at its first lock: that may be one of several
//! threads, and then takes ten milliseconds longer.

use lockyard_core::Platform;
use lockyard_linux::Linux;

/// Since Linux 6.3 the kernel tells which of its barriers a process is registered for.
const GET_REGISTRATIONS: libc::c_long = 1 << 9;
const PRIVATE_EXPEDITED_RSEQ: libc::c_long = 1 << 8;

fn registrations() -> libc::c_long {
    // SAFETY: the call only tells.
    unsafe { libc::syscall(libc::SYS_membarrier, GET_REGISTRATIONS, 0, 0) }
}

#[test]
fn the_process_is_registered_before_its_first_lock() {
    let before = registrations();
    Linux::me();
    let after = registrations();
    if after < 0 || after & PRIVATE_EXPEDITED_RSEQ == 0 {
        eprintln!("skipped: the kernel does not tell, or has no restartable sequences for us");
        return;
    }
    assert_ne!(before & PRIVATE_EXPEDITED_RSEQ, 0, "the first lock did it");
}
