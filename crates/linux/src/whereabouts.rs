//! Whether a thread is on the caller's own CPU, without a system call.
//!
//! A thread with restartable sequences has an area in which the kernel says which CPU
//! it runs on, each time before it goes on running there. Who finds his own CPU in
//! another thread's area knows that the other does not run: he does.
//!
//! The area goes with the thread's stack, some time after the thread has ended. Its
//! address is in the thread's record, which stays:
//!
//! | who looks (W1) | the thread that ends (W1) |
//! |---|---|
//! | `readers` += 1, SeqCst | `area` = null, SeqCst |
//! | `area`, SeqCst: null? then nothing is known | `readers`, SeqCst: 0? then it may go |
//! | read the area | else wait (W2), and look again |
//! | `readers` -= 1, Release (W2) | |
//!
//! All four are in one order: either the thread that ends sees the reader, or the reader
//! sees no area. A thread that locks again after that has no area for others to see, for
//! nobody might tell it that it ends. One that first locks when it has been told for the last
//! time has (no C library says that this is so): if a lock still names it when its stack is
//! unmapped, who looks at that area crashes. Only C can do that, in the last round of
//! destructors of thread-specific values or behind them. The test below has one end while another looks;
//! `tests/spin.rs` unmaps stacks.

use std::{
    cell::Cell,
    hint, ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32,
        Ordering::{Relaxed, Release, SeqCst},
    },
};

use crate::{clock, rseq};

thread_local! {
    /// Whether the thread may not learn of its end any more. No destructor.
    static ENDED: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread ends, and what it still does it does unseen.
pub fn show_no_more() {
    ENDED.set(true);
}

/// What a record says of where its thread is. All zero: nothing.
pub struct Whereabouts {
    /// The thread's area, or null.
    area: AtomicPtr<u8>,
    /// How many threads look at it.
    readers: AtomicU32,
}

impl Whereabouts {
    /// Lets others see the calling thread's area, if it has one. Somebody calls
    /// [`Whereabouts::end`] before that is gone.
    pub fn begin(&self) {
        if !ENDED.get() {
            self.area.store(rseq::own_area(), SeqCst); // (W1); its bytes are the kernel's
        }
    }

    /// The thread ends: from now on nobody looks at its area.
    pub fn end(&self) {
        self.area.store(ptr::null_mut(), SeqCst); // (W1)
        let mut looks = 0;
        // (W1); it acquires, for (W2)
        while self.readers.load(SeqCst) != 0 {
            looks += 1;
            if looks < 1000 {
                hint::spin_loop();
            } else {
                // It was preempted inside: let it run.
                clock::sleep_us(50);
            }
        }
    }

    /// In a fork's child no thread is left but the caller.
    pub fn after_fork_in_child(&self, mine: bool) {
        self.readers.store(0, Relaxed); // the child has one thread
        if !mine {
            self.area.store(ptr::null_mut(), Relaxed); // likewise
        }
    }

    /// Whether the thread is on the caller's CPU, or was when it last ran: a hint.
    /// `false` where that cannot be known.
    #[inline(never)]
    pub fn is_here(&self) -> bool {
        let mine = rseq::own_area();
        if mine.is_null() {
            return false;
        }
        self.look(|theirs| {
            // SAFETY: mine is there as long as I am, and theirs, if there is one, until it
            // has seen me leave. Both are registered: at 4 there is an aligned u32, which
            // the kernel alone writes.
            let cpu = |area: *mut u8| unsafe {
                AtomicU32::from_ptr(area.add(4).cast()).load(Relaxed) // a hint
            };
            !theirs.is_null() && cpu(mine) == cpu(theirs)
        })
    }

    /// Looks at the area, which is there for as long, or null.
    fn look<T>(&self, look: impl FnOnce(*mut u8) -> T) -> T {
        self.readers.fetch_add(1, SeqCst); // (W1)
        let seen = look(self.area.load(SeqCst)); // (W1)
        self.readers.fetch_sub(1, Release); // (W2)
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicBool, thread, time::Duration};

    use super::*;

    #[test]
    fn who_ends_waits_for_who_looks() {
        let mut area = [0u8; 32];
        let place = Whereabouts {
            area: AtomicPtr::new(area.as_mut_ptr()),
            readers: AtomicU32::new(0),
        };
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            place.look(|area| {
                assert!(!area.is_null());
                scope.spawn(|| {
                    show_no_more();
                    place.end();
                    ended.store(true, SeqCst);
                    rseq::init_thread();
                    place.begin();
                });
                thread::sleep(Duration::from_millis(20));
                assert!(!ended.load(SeqCst));
            });
        });
        assert!(ended.load(SeqCst));
        assert!(
            place.look(|area| area.is_null()),
            "it has ended, and locked again"
        );
    }
}
