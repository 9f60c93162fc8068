//! The end of a thread, after the thread-local destructors of Rust and C++.

use std::{ffi::c_void, num::NonZeroUsize, ptr};

use once_cell::race::OnceNonZeroUsize;

/// glibc has room for the values of so many keys in every thread; it allocates for more.
const AT_HAND: usize = 32;

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

    /// Creates the key, if no other thread is faster: of those [`AT_HAND`] the last one that it
    /// can have. So the program gets the keys that it gets without us, its destructors are
    /// called first, and a number that is no key to it is none of ours.
    fn create(&self) {
        let mut keys = [0; AT_HAND];
        let mut created = 0;
        for key in &mut keys {
            // SAFETY: `key` is writable; the destructor is a function of a crate that has this
            // one, which stays loaded.
            if unsafe { libc::pthread_key_create(key, Some(self.call)) } != 0 {
                break;
            }
            created += 1;
            if *key as usize >= AT_HAND - 1 {
                break;
            }
        }
        let keys = &keys[..created];
        let at_hand = |key: &&libc::pthread_key_t| (**key as usize) < AT_HAND;
        let last = keys.iter().rfind(at_hand).or(keys.first());
        let ours = last.filter(|key| {
            let and_1 = NonZeroUsize::MIN.saturating_add(**key as usize);
            self.key.set(and_1).is_ok()
        });
        for key in keys.iter().filter(|&key| Some(key) != ours) {
            // SAFETY: it was created above, by us, and nobody else has seen it.
            unsafe { libc::pthread_key_delete(*key) };
        }
    }
}
