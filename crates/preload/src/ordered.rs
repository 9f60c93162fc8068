//! `lockyard run --deadlock`: the locks as the order validator watches them.
//!
//! A mutex that was taken while they are watched is never of the plain kind again, which
//! takes ways of its own.

use std::ffi::{CStr, c_int, c_void};

use lockyard_order::{keep_stderr, on_fork, reports, say};

use crate::watch::at_quick_exit;

/// The environment variable that asks for it, whatever its value.
const ASKED: &CStr = c"LOCKYARD_DEADLOCK";

/// The exit status of a program that would have ended well, but of which there are reports.
const REPORTED: c_int = 66;

/// Whether the environment asks for it.
pub fn is_asked() -> bool {
    // SAFETY: the name is a C string; nobody changes the environment before the program
    // begins.
    !unsafe { libc::getenv(ASKED.as_ptr()) }.is_null()
}

unsafe extern "C" {
    /// The C library's: what is called when the process exits, with its status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Before the program begins, so that it is called after what the program has called then, and
/// before it forks.
pub fn prepare() {
    keep_stderr();
    on_fork();
    // SAFETY: the functions are of this library, which stays loaded.
    unsafe {
        on_exit(at_exit, std::ptr::null_mut());
        at_quick_exit(count);
    }
}

/// `quick_exit` keeps its status.
extern "C" fn count() {
    let reports = reports();
    if reports > 0 {
        say(&format!("{reports} reported"));
    }
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    let reports = reports();
    if status != 0 || reports == 0 {
        count();
    } else {
        say(&format!(
            "{reports} reported; exit status {REPORTED} in place of 0"
        ));
        // SAFETY: the C library goes on with what is left to call, and with this status.
        unsafe { libc::exit(REPORTED) };
    }
}
