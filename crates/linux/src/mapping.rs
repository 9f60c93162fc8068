//! Memory that is mapped for all by the first that needs it.

use std::sync::atomic::{AtomicPtr, Ordering::Acquire};

use rustix::thread::{Timespec, nanosleep};

/// Half a second at least, but for signals: who has the memory may be off its CPU for some time.
const LOOKS: usize = 500;
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// Who could not map what `place` is for: another may have had the last room, and be about to
/// publish it there. Returns whether somebody has.
#[cold]
pub fn another_maps<T>(place: &AtomicPtr<T>) -> bool {
    (0..LOOKS).any(|_| {
        let _ = nanosleep(&LOOK); // by a system call that is no cancellation point
        !place.load(Acquire).is_null() // pairs with the exchange of who has mapped it
    })
}

#[cfg(test)]
mod tests {
    use std::{ptr, sync::atomic::Ordering::Release, thread, time::Duration};

    use super::*;

    #[test]
    fn another_may_be_about_to_publish_it() {
        let place = AtomicPtr::new(ptr::null_mut());
        assert!(!another_maps(&place), "there is no other");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_micros(100));
                place.store(ptr::dangling_mut::<u32>(), Release);
            });
            assert!(another_maps(&place));
        });
    }
}
