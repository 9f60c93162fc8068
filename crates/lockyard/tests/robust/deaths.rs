//! Deaths at any instruction. A child is traced through a lock or an unlock,
//! instruction by instruction. All that the kernel looks at when a thread ends is
//! whether the word names it, and whether the lock is pending and listed. That must
//! go through the states of the tables in `linux/src/robust.rs`, and a child that is
//! killed in each of them must pass the mutex on if it has it.

use std::{
    ptr,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use lockyard_linux::kernel_pi::{TID_MASK, WAITERS};

use crate::{
    add, begin,
    page::{Child, Page, until_waited_for, word},
};

/// What the kernel sees of a thread and a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    mine: bool,
    pending: bool,
    listed: bool,
}

const fn seen(mine: u8, pending: u8, listed: u8) -> Seen {
    Seen {
        mine: mine == 1,
        pending: pending == 1,
        listed: listed == 1,
    }
}

const LOCK: [Seen; 5] = [
    seen(0, 0, 0),
    seen(0, 1, 0), // (D1)
    seen(1, 1, 0), // (D2)
    seen(1, 1, 1), // (D3)
    seen(1, 0, 1), // (D4)
];

const UNLOCK: [Seen; 5] = [
    seen(1, 0, 1),
    seen(1, 1, 1), // (D5)
    seen(1, 1, 0), // (D6)
    seen(0, 1, 0), // (D7)
    seen(0, 0, 0), // (D8)
];

/// A child that is being traced.
struct Traced {
    child: Child,
    page: &'static Page,
    /// Of the child's list; the forking thread's is at the same address.
    head: *mut [usize; 3],
}

impl Traced {
    /// Has a child run `f`, up to where `f` calls [`stop`].
    fn start(page: &'static Page, f: impl FnOnce()) -> Self {
        let (mut head, mut size) = (ptr::null_mut::<[usize; 3]>(), 0usize);
        // SAFETY: the kernel writes to the two variables.
        let failed =
            unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut size) };
        assert_eq!((failed, size), (0, size_of::<[usize; 3]>()));
        let child = Child::start(|| {
            add(&page.second); // what only the first lock of a thread does
            f();
        });
        assert!(libc::WIFSTOPPED(child.wait()), "nobody may trace here");
        Self { child, page, head }
    }

    fn peek(&self, at: usize) -> usize {
        // SAFETY: reading from another process, which checks the address.
        let read = unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.child.pid, at, 0) };
        read as usize
    }

    fn look(&self) -> Seen {
        let entry = ptr::from_ref(&self.page.mutex).addr() + 32 + 1;
        let (first, pending) = (self.head.addr(), self.head.addr() + 16);
        Seen {
            mine: word(&self.page.mutex).load(Relaxed) & TID_MASK == self.child.pid as u32,
            pending: self.peek(pending) == entry,
            listed: self.peek(first) == entry,
        }
    }

    /// Goes on through the states, and is killed in the last one. Returns whether it
    /// had the mutex.
    fn die_in_last(self, states: &[Seen]) -> bool {
        assert_eq!(self.look(), states[0]);
        for (&before, &after) in states.iter().zip(&states[1..]) {
            while self.look() == before {
                self.step();
            }
            assert_eq!(self.look(), after, "after {before:?}");
        }
        self.child.kill();
        states[states.len() - 1].mine
    }

    fn step(&self) {
        // SAFETY: it has no conditions: the child is stopped.
        let failed = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.child.pid, 0, 0) };
        assert_eq!(failed, 0);
        assert!(libc::WIFSTOPPED(self.child.wait()), "the child ended");
    }
}

/// Lets the parent trace.
fn stop() {
    // SAFETY: neither has conditions.
    unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        libc::raise(libc::SIGSTOP);
    }
}

/// The next locker is told that the one before died if it did.
fn assert_passed_on(page: &Page, died: bool) {
    let told = page.mutex.try_lock(|value| value.is_err());
    assert_eq!(told, Some(died));
}

#[test]
fn a_death_while_it_is_free_or_held() {
    let Some(_alone) = begin() else { return };
    let states = [&LOCK, &UNLOCK[1..]].concat();
    for last in 0..states.len() {
        let page = Page::new();
        let traced = Traced::start(page, || {
            stop();
            add(&page.mutex);
        });
        let died = traced.die_in_last(&states[..=last]);
        assert_passed_on(page, died);
    }
}

#[test]
fn a_death_on_the_way_past_an_owner() {
    let Some(_alone) = begin() else { return };
    for last in 0..LOCK.len() {
        let page = Page::new();
        let traced = Traced::start(page, || {
            stop();
            add(&page.mutex);
        });
        let (held, dead) = (&Barrier::new(2), &AtomicBool::new(false));
        let died = thread::scope(|scope| {
            scope.spawn(|| {
                page.mutex.lock(|_| {
                    held.wait();
                    while word(&page.mutex).load(Relaxed) & WAITERS == 0 && !dead.load(Relaxed) {
                        thread::yield_now();
                    }
                });
            });
            held.wait();
            let died = traced.die_in_last(&LOCK[..=last]);
            dead.store(true, Relaxed);
            died
        });
        assert_passed_on(page, died);
    }
}

#[test]
fn a_death_in_an_unlock_for_a_waiter() {
    let Some(_alone) = begin() else { return };
    for last in 0..UNLOCK.len() {
        let page = Page::new();
        let traced = Traced::start(page, || page.mutex.lock(|_| stop()));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| page.mutex.lock(|value| value.is_err()));
            until_waited_for(&page.mutex);
            let died = traced.die_in_last(&UNLOCK[..=last]);
            assert_eq!(waiter.join().unwrap(), died);
        });
    }
}
