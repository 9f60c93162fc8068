//! Names are looked up by one thread at a time, and by none while another forks: what finds
//! them has a lock, which would stay taken in the child.

use std::{
    cell::Cell,
    mem::ManuallyDrop,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::signals::PutOff;

/// The standard library's, for a handler of a signal may have interrupted one of ours.
static LOOKUPS: Mutex<()> = Mutex::new(());

thread_local! {
    /// The thread has it. No destructor: it can be used as long as the thread runs.
    static HAS: Cell<Option<ManuallyDrop<MutexGuard<'static, ()>>>> = const { Cell::new(None) };
}

/// While it lives, the thread may look names up. No handler runs in it, which might want to.
pub struct Lookup {
    is_outermost: bool,
    _put_off: PutOff,
}

impl Lookup {
    /// Waits for other threads.
    pub fn begin() -> Self {
        let _put_off = PutOff::now();
        Self {
            is_outermost: lock(),
            _put_off,
        }
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        if self.is_outermost {
            unlock();
        }
    }
}

/// Returns whether the thread did not have it.
fn lock() -> bool {
    let has = HAS.take();
    let had = has.is_some();
    let lock = || ManuallyDrop::new(LOOKUPS.lock().unwrap_or_else(PoisonError::into_inner));
    HAS.set(Some(has.unwrap_or_else(lock)));
    !had
}

fn unlock() {
    if let Some(guard) = HAS.take() {
        drop(ManuallyDrop::into_inner(guard));
    }
}

/// The thread is about to fork. It is not in a lookup.
pub fn before_fork() {
    let _put_off = PutOff::now();
    lock();
}

/// It has forked, and is here or in the child.
pub fn after_fork() {
    unlock();
}
