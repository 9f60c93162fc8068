//! A number that a mutex guards: it adds up only if the mutex excludes.

use std::cell::UnsafeCell;

use lockyard_core::{RawMutex, osq};
use lockyard_linux::Linux;

/// Threads add to it one by one.
pub struct Counter<W = osq::Event> {
    pub mutex: RawMutex<Linux, W>,
    count: UnsafeCell<u64>,
}

// SAFETY: `count` is accessed by the mutex's owner alone.
unsafe impl<W: osq::Wait<Linux>> Sync for Counter<W> {}

impl<W: osq::Wait<Linux>> Counter<W> {
    pub const fn new() -> Self {
        Self {
            mutex: RawMutex::new(),
            count: UnsafeCell::new(0),
        }
    }

    /// Adds 1 under the mutex.
    pub fn add(&self) {
        self.mutex.lock();
        self.add_and_unlock();
    }

    /// Adds 1 under the mutex, which the caller holds, and releases it.
    pub fn add_and_unlock(&self) {
        assert!(self.mutex.is_mine());
        // SAFETY: the caller owns the mutex, so nobody else accesses the
        // count, and the mutex may be unlocked.
        unsafe {
            *self.count.get() += 1;
            self.mutex.unlock();
        }
    }

    /// What was added so far.
    pub fn total(&self) -> u64 {
        self.mutex.lock();
        // SAFETY: the caller owns the mutex, so nobody else accesses the
        // count, and the mutex may be unlocked.
        unsafe {
            let total = *self.count.get();
            self.mutex.unlock();
            total
        }
    }
}
