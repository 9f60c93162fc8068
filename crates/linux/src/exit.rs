//! The end of a thread, after the thread-local destructors of Rust and C++.

use std::{ffi::c_void, num::NonZeroUsize, ptr};

use once_cell::race::OnceNonZeroUsize;

/// Calls a function when a thread ends that has asked for it.
pub struct AtExit {
    /// The key of what is kept for each thread, and 1.
    key: OnceNonZeroUsize,
    call: extern "C" fn(*mut c_void),
}

impl AtExit {
    /// One that calls `call`.
    pub const fn new(call: extern "C" fn(*mut c_void)) -> Self {
        Self {
            key: OnceNonZeroUsize::new(),
            call,
        }
    }

    /// Arranges for the function to be called once, with `value`, which is not 0, when the
    /// calling thread ends: an exposed address, or a number. Returns whether it may be.
    ///
    /// Nobody waits for another here, who may not be there after a fork.
    pub fn ask(&'static self, value: usize) -> bool {
        if self.key.get().is_none() {
            self.create();
        }
        let value = ptr::with_exposed_provenance::<c_void>(value);
        self.key.get().is_some_and(|key| {
            // SAFETY: the key was created below and, once set, is never deleted. When this
            // fails for want of memory, the function is not called.
            unsafe { libc::pthread_setspecific(key.get() as libc::pthread_key_t - 1, value) == 0 }
        })
    }

    fn create(&self) {
        let mut key = 0;
        // SAFETY: `key` is writable; the destructor is a function of a crate that has this
        // one, which stays loaded.
        let created = unsafe { libc::pthread_key_create(&raw mut key, Some(self.call)) } == 0;
        let and_1 = NonZeroUsize::MIN.saturating_add(key as usize);
        if created && self.key.set(and_1).is_err() {
            // SAFETY: it was created above, by us, and nobody else has seen it.
            unsafe { libc::pthread_key_delete(key) };
        }
    }
}
