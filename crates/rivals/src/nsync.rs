//! The lock of Google's C library nsync: a mutex that readers may share.

use std::{ffi::c_void, ptr, sync::OnceLock};

use crate::dynamic::{Calls, Dynamic, Names, Object, Shared, open};

/// `nsync_mu` of the C library nsync.
pub type Nsync = Dynamic<Mu>;

/// `nsync_mu` with its readers.
pub type NsyncRw = Shared<Mu>;

/// `nsync_mu`: a word of state, and the list of waiters.
#[repr(C)]
pub struct Mu {
    word: u32,
    waiters: *mut c_void,
}

// SAFETY: the library's functions may be called from any thread.
unsafe impl Send for Mu {}

// SAFETY: `nsync_mu.h` declares the lock as this structure and promises that
// all zeroes is an unlocked one; an unlocked one has no waiters, so nothing
// points to it.
unsafe impl Object for Mu {
    const UNLOCKED: Self = Self {
        word: 0,
        waiters: ptr::null_mut(),
    };

    fn calls() -> Result<Calls, String> {
        static CALLS: OnceLock<Result<Calls, String>> = OnceLock::new();
        CALLS.get_or_init(|| load("libnsync.so.1")).clone()
    }
}

fn load(name: &str) -> Result<Calls, String> {
    let names = Names {
        write: ["nsync_mu_lock", "nsync_mu_unlock"],
        read: ["nsync_mu_rlock", "nsync_mu_runlock"],
        destroy: None,
    };
    // SAFETY: nsync has no initialisers. `nsync_mu.h` declares these functions
    // as `void (nsync_mu *)`, and a mutex needs no end.
    let calls = unsafe { open(name).and_then(|library| Calls::find(library, &names)) };
    calls.map_err(|e| format!("{e} (install Debian's libnsync1)"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_missing_library_is_named() {
        let error = super::load("libnsync.so.none")
            .err()
            .expect("no such library");
        assert!(error.contains("libnsync.so.none"), "{error}");
        assert!(error.contains("libnsync1"), "{error}");
    }
}
