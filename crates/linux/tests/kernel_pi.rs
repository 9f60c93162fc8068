//! The kernel's priority-inheriting futex, behind its wrapper.

#[path = "support/alone.rs"]
mod alone;

use std::{
    panic::catch_unwind,
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use alone::Alone;
use lockyard_core::{Deadline, Platform};
use lockyard_linux::{
    Linux,
    kernel_pi::{LockPi, Scope, WAITERS, lock_pi, unlock_pi},
};

const SCOPES: [Scope; 2] = [Scope::Private, Scope::Shared];

fn me() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Waits until a thread is about to sleep for the word.
fn until_waited_for(word: &AtomicU32) {
    while word.load(Relaxed) & WAITERS == 0 {
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn a_free_word_is_taken_even_too_late() {
    for scope in SCOPES {
        for deadline in [None, Some(Deadline(0)), Some(Linux::after(u64::MAX))] {
            let word = AtomicU32::new(0);
            assert_eq!(lock_pi(&word, scope, deadline), LockPi::Taken);
            assert_eq!(word.load(Relaxed), me());
            unlock_pi(&word, scope);
            assert_eq!(word.load(Relaxed), 0);
        }
    }
}

#[test]
fn a_waiter_gets_it_from_its_owner() {
    let _alone = Alone::begin();
    for scope in SCOPES {
        for deadline in [None, Some(Linux::after(u64::MAX))] {
            let word = &AtomicU32::new(me());
            thread::scope(|threads| {
                threads.spawn(move || {
                    assert_eq!(lock_pi(word, scope, deadline), LockPi::Taken);
                    assert_eq!(word.load(Relaxed) & !WAITERS, me());
                    unlock_pi(word, scope);
                });
                until_waited_for(word);
                unlock_pi(word, scope);
            });
            assert_eq!(word.load(Relaxed), 0);
        }
    }
}

#[test]
fn a_wait_times_out() {
    let _alone = Alone::begin();
    for scope in SCOPES {
        let word = &AtomicU32::new(me());
        thread::scope(|threads| {
            threads.spawn(move || {
                for nanos in [0, 1, 1_000_000] {
                    let deadline = Linux::after(nanos);
                    let ended = lock_pi(word, scope, Some(deadline));
                    assert_eq!(ended, LockPi::TimedOut);
                    assert!(Linux::passed(deadline));
                }
            });
        });
        unlock_pi(word, scope);
        assert_eq!(word.load(Relaxed), 0);
    }
}

#[test]
fn to_lock_it_twice_is_a_deadlock() {
    for scope in SCOPES {
        let word = AtomicU32::new(me());
        assert_eq!(lock_pi(&word, scope, None), LockPi::Deadlock);
        unlock_pi(&word, scope);
    }
}

/// Each of two threads has one word and wants the other's. The kernel may tell
/// either, or both if they come at once.
#[test]
fn a_cycle_is_a_deadlock() {
    let _alone = Alone::begin();
    let words = &[const { AtomicU32::new(0) }; 2];
    let both = &Barrier::new(2);
    let ends = thread::scope(|threads| {
        let spawn = |mine: usize| {
            threads.spawn(move || {
                let (mine, other) = (&words[mine], &words[1 - mine]);
                mine.store(me(), Relaxed); // nobody else writes it before the barrier
                both.wait();
                let ended = lock_pi(other, Scope::Private, None);
                unlock_pi(mine, Scope::Private);
                if ended == LockPi::Taken {
                    unlock_pi(other, Scope::Private);
                }
                ended
            })
        };
        [0, 1].map(spawn).map(|thread| thread.join().unwrap())
    });
    assert!(ends.contains(&LockPi::Deadlock), "{ends:?}");
    assert!(words.iter().all(|word| word.load(Relaxed) == 0));
}

#[test]
fn an_owner_that_has_ended_is_reported() {
    let ended = thread::spawn(me).join().unwrap();
    // In an emulator a thread is joined before the kernel's thread has ended.
    let task = format!("/proc/self/task/{ended}");
    while Path::new(&task).exists() {
        thread::yield_now();
    }
    for scope in SCOPES {
        let word = AtomicU32::new(ended);
        assert_eq!(lock_pi(&word, scope, None), LockPi::NoOwner);
    }
}

#[test]
fn who_is_not_the_owner_cannot_unlock() {
    let word = AtomicU32::new(0);
    assert!(catch_unwind(|| unlock_pi(&word, Scope::Private)).is_err());
}
