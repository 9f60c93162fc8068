//! A mutex may be freed as soon as its last user has released it: an unlock
//! does not touch it after the release that let that user in.
//!
//! The mutex ends where a page ends. Whoever gets it last releases it and takes
//! the page away at once, and so a late access of the unlock before is a
//! segmentation fault.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/counts.rs"]
mod counts;

use std::{
    hint, ptr,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use alone::Alone;
use counts::Counts;
use lockyard_core::{Event, Platform, RawMutex};
use lockyard_linux::Linux;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// aarch64 is tested in an emulator.
const ROUNDS: u64 = if cfg!(target_arch = "aarch64") {
    50
} else {
    800
};
/// Where a thread has to fall asleep in each round.
const SLEEPY_ROUNDS: u64 = ROUNDS / 4;

/// At least one page, of any machine.
const PAGE: usize = 64 << 10;

type Mutex = RawMutex<Linux>;

/// A mutex at the end of its page.
struct Page(*mut Mutex);

// SAFETY: the mutex may be shared, and the page belongs to nobody else.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> Self {
        // SAFETY: a new private mapping at an address of the kernel's choice
        // touches no other memory.
        let page = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .unwrap();
        // SAFETY: the mutex ends where the page does.
        Self(unsafe { page.byte_add(PAGE - size_of::<Mutex>()) }.cast())
    }

    fn start(&self) -> *mut std::ffi::c_void {
        // SAFETY: the page starts there.
        unsafe {
            self.0
                .cast::<std::ffi::c_void>()
                .byte_add(size_of::<Mutex>())
                .byte_sub(PAGE)
        }
    }

    fn mutex(&self) -> &Mutex {
        // SAFETY: the page is aligned, zero bytes are an unlocked mutex, and
        // the rounds below say who may still use it.
        unsafe { &*self.0 }
    }

    /// Releases the mutex, which the caller holds, and takes the page away.
    fn unlock_and_free(&self) {
        // SAFETY: the caller holds the mutex; the page is given back below,
        // and whoever used the mutex before must be done with it by now: that
        // is what is tested.
        unsafe {
            self.mutex().unlock();
            mprotect(self.start(), PAGE, MprotectFlags::empty()).unwrap();
        }
    }

    fn restore(&self) {
        // SAFETY: the page is ours.
        unsafe {
            mprotect(
                self.start(),
                PAGE,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }
        .unwrap();
        assert!(!self.mutex().is_locked());
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody uses it any more.
        unsafe { munmap(self.start(), PAGE) }.unwrap();
    }
}

/// In each round the caller owns the mutex, lets the heir come for it with
/// `lock`, waits with `ready`, and does `unlock`; the heir frees it.
fn rounds(
    rounds: u64,
    mut ready: impl FnMut(),
    unlock: impl Fn(&Mutex),
    lock: impl Fn(&Mutex) + Send,
) {
    let page = &Page::new();
    let held = &Barrier::new(2);
    let (done, owner_done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..rounds {
                held.wait();
                lock(page.mutex());
                page.unlock_and_free();
                owner_done.recv().unwrap();
                page.restore();
                held.wait();
            }
        });
        for _ in 0..rounds {
            page.mutex().lock();
            held.wait();
            ready();
            unlock(page.mutex());
            done.send(()).unwrap();
            held.wait();
        }
    });
}

fn unlock(mutex: &Mutex) {
    assert!(mutex.is_mine());
    // SAFETY: the caller holds it.
    unsafe { mutex.unlock() };
}

fn unlock_fair(mutex: &Mutex) {
    assert!(mutex.is_mine());
    // SAFETY: the caller holds it.
    unsafe { mutex.unlock_fair() };
}

/// Takes the mutex as soon as it is free.
fn pounce(mutex: &Mutex) {
    while !mutex.try_lock() {
        thread::yield_now();
    }
}

/// Gives up again and again, and may do so at the moment of a hand-over.
fn insist(mutex: &Mutex) {
    let mut patience = 0;
    while !mutex.lock_until(Linux::after(patience)) {
        patience = (patience + 7_000) % 100_000;
    }
}

/// Returns a function that waits until the heir has fallen asleep once more.
fn until_asleep(counts: &mut Counts) -> impl FnMut() {
    let mut seen = 0;
    move || {
        counts.until(Event::Parked, seen + 1);
        seen = counts.seen(Event::Parked);
    }
}

#[test]
fn after_an_unlock_by_who_pounces_on_it() {
    let _alone = Alone::begin();
    rounds(ROUNDS, || {}, unlock, pounce);
}

#[test]
fn after_an_unlock_by_a_spinner() {
    let _alone = Alone::begin();
    rounds(ROUNDS, || {}, unlock, Mutex::lock);
}

#[test]
fn after_an_unlock_by_a_sleeper() {
    let mut counts = Counts::begin();
    rounds(
        SLEEPY_ROUNDS,
        until_asleep(&mut counts),
        unlock,
        Mutex::lock,
    );
}

#[test]
fn after_an_unlock_by_who_gives_up_often() {
    let _alone = Alone::begin();
    rounds(ROUNDS, thread::yield_now, unlock, insist);
}

#[test]
fn after_a_fair_unlock_by_a_spinner() {
    let _alone = Alone::begin();
    rounds(ROUNDS, || {}, unlock_fair, Mutex::lock);
}

#[test]
fn after_a_fair_unlock_by_a_sleeper() {
    let mut counts = Counts::begin();
    rounds(
        SLEEPY_ROUNDS,
        until_asleep(&mut counts),
        unlock_fair,
        Mutex::lock,
    );
}

#[test]
fn after_a_fair_unlock_by_who_gives_up_often() {
    let _alone = Alone::begin();
    rounds(ROUNDS, thread::yield_now, unlock_fair, insist);
}

/// Makes an interruption of the calling thread, by a signal, last for longer
/// than its heir needs to free the mutex. Returns what interrupts it.
fn interruptible() -> impl Fn() + Send {
    extern "C" fn dally(_: libc::c_int) {
        (0..400).for_each(|_| hint::spin_loop());
    }
    // SAFETY: the handler, of the type that SA_SIGINFO's absence asks for,
    // touches nothing; zero bytes are a valid sigaction without flags.
    let error = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = dally as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut())
    };
    assert_eq!(error, 0);
    // SAFETY: it has no conditions.
    let me = unsafe { libc::pthread_self() };
    move || {
        // SAFETY: the thread waits for whoever calls this.
        unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
    }
}

/// Rounds in which the owner is interrupted about when it unlocks: if that is
/// just after the release, the heir has freed the mutex before the owner goes
/// on. If it is just before, a restartable sequence has to start over.
fn interrupted_rounds(unlock: impl Fn(&Mutex), attempt: impl Fn(&Mutex) -> bool + Send) {
    let _alone = Alone::begin();
    let interrupt = interruptible();
    let coming = &AtomicBool::new(false);
    let mut pauses = 0;
    let ready = || {
        while !coming.swap(false, Relaxed) {
            thread::yield_now();
        }
        // The interruption is on its way: this sweeps over where it meets us.
        pauses = (pauses + 37) % 1024;
        (0..pauses).for_each(|_| hint::spin_loop());
    };
    rounds(ROUNDS, ready, unlock, move |mutex| {
        coming.store(true, Relaxed);
        loop {
            interrupt();
            let end = Linux::after(20_000);
            while !Linux::passed(end) {
                if attempt(mutex) {
                    return;
                }
            }
            thread::yield_now();
        }
    });
}

#[test]
fn after_an_unlock_that_is_interrupted() {
    interrupted_rounds(unlock, Mutex::try_lock);
}

#[test]
fn after_an_unlock_that_is_interrupted_while_it_wakes() {
    interrupted_rounds(unlock, |mutex| mutex.lock_until(Linux::after(1_000)));
}

#[test]
fn after_a_fair_unlock_that_is_interrupted() {
    interrupted_rounds(unlock_fair, |mutex| mutex.lock_until(Linux::after(1_000)));
}
