//! The futex on threads of this process. That somebody waits is told by moving it:
//! nothing here depends on how long anything takes.

#[path = "../examples/futex_mutex.rs"]
mod futex_mutex;

use std::{
    num::NonZeroU32,
    sync::{
        atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, yield_now},
    time::{Duration, Instant},
};

use lockyard::futex::{self, Change, Compare, Requeued, WORDS, Waited, WaitedAny};

const ALL: u32 = u32::MAX;
/// aarch64 is tested in an emulator, which a fork's child that starts a thread
/// crashes.
const EMULATED: bool = cfg!(target_arch = "aarch64");

fn words<const N: usize>() -> [AtomicU32; N] {
    [const { AtomicU32::new(0) }; N]
}

/// Moves waiters until so many have come.
fn move_all(from: &AtomicU32, to: &AtomicU32, count: u32) {
    let mut moved = 0;
    while moved < count {
        moved += futex::requeue(from, to, 0, ALL).moved;
        yield_now();
    }
    assert_eq!(moved, count);
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(1))
}

#[test]
fn a_word_that_has_changed_is_not_waited_for() {
    let word = AtomicU32::new(1);
    assert_eq!(futex::wait(&word, 0, None), Waited::Changed);
    assert_eq!(futex::wait(&word, 0, soon()), Waited::Changed);
    assert_eq!(futex::wake(&word, ALL), 0);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let word = AtomicU32::new(0);
    let past = Instant::now();
    assert_eq!(futex::wait(&word, 0, Some(past)), Waited::TimedOut);
    let deadline = past + Duration::from_millis(2);
    assert_eq!(futex::wait(&word, 0, Some(deadline)), Waited::TimedOut);
    assert!(Instant::now() >= deadline);
    assert_eq!(futex::wake(&word, ALL), 0, "who has timed out is gone");
}

#[test]
fn a_user_can_write_a_mutex() {
    futex_mutex::main();
}

#[test]
fn bit_sets_choose_who_is_woken() {
    let [word, here] = &words();
    let set = |bits| NonZeroU32::new(bits).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| futex::wait_bitset(word, 0, set(0b0110), None));
        move_all(word, here, 1);
        assert_eq!(futex::wake_bitset(here, ALL, set(0b1001)), 0);
        assert_eq!(futex::wake_bitset(here, ALL, set(0b0010)), 1);
        assert_eq!(waiter.join().unwrap(), Waited::Woken);
    });
}

#[test]
fn a_requeue_wakes_some_and_moves_others() {
    const WAITERS: u32 = 20;
    let [first, second, third] = &words();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| scope.spawn(|| futex::wait(first, 0, None)))
            .collect();
        move_all(first, second, WAITERS);
        assert_eq!(futex::wake(first, ALL), 0);
        assert_eq!(futex::requeue_if(second, 1, third, 1, 1), None);
        let requeued = Requeued { woken: 3, moved: 5 };
        assert_eq!(futex::requeue_if(second, 0, third, 3, 5), Some(requeued));
        assert_eq!(
            futex::requeue(second, second, 1, ALL),
            Requeued { woken: 1, moved: 0 }
        );
        assert_eq!(futex::wake(third, ALL), 5);
        assert_eq!(futex::wake(second, ALL), WAITERS - 9);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Waited::Woken);
        }
    });
}

#[test]
fn a_change_wakes_waiters_of_two_words() {
    for (value, woken_at_second) in [(7, 1), (8, 0)] {
        let [from, first, second] = &words();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| futex::wait(from, 0, None));
            }
            move_all(from, first, 2);
            assert_eq!(futex::requeue(first, second, 0, 1).moved, 1);
            second.store(value, Relaxed);
            let change = (second, Change::AndNot(1));
            let woken = futex::wake_op(first, ALL, change, (Compare::AtMost(7), ALL));
            assert_eq!(woken, 1 + woken_at_second);
            assert_eq!(second.load(Relaxed), value & !1);
            futex::wake(second, ALL);
        });
    }
}

#[test]
fn every_change_does_what_it_says() {
    let [first, second] = &words();
    let changes = [
        (Change::Set(12), 12),
        (Change::Add(u32::MAX), 11),
        (Change::Or(0b100), 15),
        (Change::AndNot(0b10), 13),
        (Change::Xor(0b1010), 7),
    ];
    for (change, becomes) in changes {
        futex::wake_op(first, 0, (second, change), (Compare::Equal(0), 0));
        assert_eq!(second.load(Relaxed), becomes);
    }
}

/// A word is taken for a signed number, as by the kernel.
#[test]
fn every_comparison_is_what_it_says() {
    let [first, second, here] = &words();
    let comparisons = [
        (Compare::Equal(-1), [false, true, false]),
        (Compare::NotEqual(-1), [true, false, true]),
        (Compare::Less(-1), [true, false, false]),
        (Compare::AtMost(-1), [true, true, false]),
        (Compare::Greater(-1), [false, false, true]),
        (Compare::AtLeast(-1), [false, true, true]),
    ];
    for (compare, holds) in comparisons {
        for (held, holds) in [-2, -1, 0].into_iter().zip(holds) {
            second.store(held as u32, Relaxed);
            thread::scope(|scope| {
                scope.spawn(|| futex::wait(here, 0, None));
                move_all(here, second, 1);
                let change = (second, Change::Set(7));
                let woken = futex::wake_op(first, ALL, change, (compare, ALL));
                assert_eq!(woken, u32::from(holds), "{compare:?} of {held}");
                futex::wake(second, ALL);
            });
        }
    }
}

/// Several words' waiters, many more than there are buckets for neighbours.
#[test]
fn each_word_has_waiters_of_its_own() {
    const WORDS: usize = 7;
    const EACH: u32 = 8;
    let (from, here): ([AtomicU32; WORDS], [AtomicU32; WORDS]) = (words(), words());
    thread::scope(|scope| {
        for word in &from {
            (0..EACH).for_each(|_| {
                scope.spawn(move || futex::wait(word, 0, None));
            });
        }
        for (from, here) in from.iter().zip(&here) {
            move_all(from, here, EACH);
        }
        for word in &here {
            assert_eq!(futex::wake(word, 1), 1);
            assert_eq!(futex::wake(word, EACH), EACH - 1);
            assert_eq!(futex::wake(word, EACH), 0);
        }
    });
}

/// So many wait that the table grows, while others look into it.
#[test]
fn everybody_is_found_while_the_table_grows() {
    const THREADS: usize = if EMULATED { 40 } else { 1_200 };
    /// One more than a thread's own record has places for.
    const EACH: usize = 9;
    let all: Vec<[AtomicU32; EACH]> = (0..THREADS).map(|_| words()).collect();
    let come = AtomicU32::new(0);
    thread::scope(|scope| {
        let waiters: Vec<_> = all
            .iter()
            .map(|mine| {
                let come = &come;
                let wait = move || {
                    come.fetch_add(1, Relaxed);
                    futex::wait_any(&mine.each_ref().map(|word| (word, 0)), None)
                };
                let thread = thread::Builder::new().stack_size(128 << 10);
                thread.spawn_scoped(scope, wait).unwrap()
            })
            .collect();
        while come.load(Relaxed) < THREADS as u32 {
            all.iter().flatten().for_each(|word| {
                assert_eq!(futex::wake(word, 0), 0);
            });
        }
        for (thread, waiter) in waiters.into_iter().enumerate() {
            let index = thread % EACH;
            all[thread][index].store(1, Relaxed);
            let woken = futex::wake(&all[thread][index], 1);
            let expected = match woken {
                0 => WaitedAny::Changed(index),
                _ => WaitedAny::Woken(1 << index),
            };
            assert_eq!(waiter.join().unwrap(), expected);
        }
    });
}

/// Nobody is lost where wakers, deadlines and requeues meet.
#[test]
fn as_many_are_woken_as_say_so() {
    const WAITERS: u32 = 4;
    const WAITS: u32 = 500;
    let [first, second] = &words();
    let working = AtomicU32::new(WAITERS);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                scope.spawn(|| {
                    let soon = || Some(Instant::now() + Duration::from_micros(20));
                    let woken = |_: &u32| futex::wait(first, 0, soon()) == Waited::Woken;
                    let woken = (0..WAITS).filter(woken).count() as u32;
                    working.fetch_sub(1, Relaxed);
                    woken
                })
            })
            .collect();
        let mut woken = 0;
        while working.load(Relaxed) > 0 {
            woken += futex::requeue(first, second, 1, 2).woken;
            woken += futex::wake(second, 1);
        }
        let said = waiters.into_iter().map(|waiter| waiter.join().unwrap());
        assert_eq!(said.sum::<u32>(), woken);
    });
}

#[test]
fn a_thread_can_wait_for_several_words() {
    let words: [AtomicU32; WORDS] = words();
    let all = words.each_ref().map(|word| (word, 0));
    let here = AtomicU32::new(0);
    thread::scope(|scope| {
        for (index, word) in words.iter().enumerate() {
            let waiter = scope.spawn(|| futex::wait_any(&all, None));
            move_all(word, &here, 1); // but for the last, it may still be queueing
            assert_eq!(futex::wake(&here, ALL), 1);
            assert_eq!(waiter.join().unwrap(), WaitedAny::Woken(1 << index));
        }
    });
    assert_eq!(futex::wait_any(&all, soon()), WaitedAny::TimedOut);
    words[WORDS - 3].store(1, Relaxed);
    assert_eq!(futex::wait_any(&all, None), WaitedAny::Changed(WORDS - 3));
    for word in &words {
        assert_eq!(futex::wake(word, ALL), 0);
    }
}

/// Each has places in the records of others that it gives back, for the next one to take.
#[test]
fn several_threads_wait_for_many_words() {
    const THREADS: usize = 4;
    let words: [AtomicU32; WORDS] = words();
    let come = AtomicU32::new(0);
    let mut woken = [0; WORDS];
    thread::scope(|scope| {
        let wait = || {
            let mut told = [0; WORDS];
            while words[WORDS - 1].load(Relaxed) == 0 {
                come.fetch_add(1, Relaxed);
                if let WaitedAny::Woken(set) =
                    futex::wait_any(&words.each_ref().map(|word| (word, 0)), None)
                {
                    (0..WORDS).for_each(|n| told[n] += (set >> n & 1) as u32);
                }
            }
            told
        };
        let waiters: Vec<_> = (0..THREADS).map(|_| scope.spawn(wait)).collect();
        while come.load(Relaxed) < 200 {
            let index = come.load(Relaxed) as usize % WORDS;
            woken[index] += futex::wake(&words[index], 1);
        }
        words[WORDS - 1].store(1, Relaxed);
        woken[WORDS - 1] += futex::wake(&words[WORDS - 1], ALL);
        for waiter in waiters {
            let told = waiter.join().unwrap();
            woken
                .iter_mut()
                .zip(told)
                .for_each(|(woken, told)| *woken -= told);
        }
    });
    assert_eq!(woken, [0; WORDS]);
}

#[test]
#[should_panic(expected = "a wait for 129 words")]
fn more_words_are_refused() {
    let word = AtomicU32::new(0);
    futex::wait_any(&[(&word, 0); WORDS + 1], soon());
}

#[test]
fn threads_come_and_go() {
    let [word, here] = &words();
    for _ in 0..100 {
        thread::scope(|scope| {
            let waiter = scope.spawn(|| futex::wait(word, 0, None));
            move_all(word, here, 1);
            assert_eq!(futex::wake(here, 1), 1);
            assert_eq!(waiter.join().unwrap(), Waited::Woken);
        });
    }
}

#[test]
fn real_time_threads_are_woken_first() {
    fn become_real_time(sched_priority: i32) -> bool {
        let param = libc::sched_param { sched_priority };
        // SAFETY: 0 is the calling thread, and `param` is a valid `sched_param`.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0 }
    }
    if !thread::spawn(|| become_real_time(1)).join().unwrap() {
        eprintln!("skipped: no privilege for real-time threads");
        return;
    }
    let [from, here] = &words();
    let (woken, order) = mpsc::channel();
    thread::scope(|scope| {
        for priority in [0, 1, 2, 0] {
            let woken = woken.clone();
            scope.spawn(move || {
                assert!(priority == 0 || become_real_time(priority));
                futex::wait(from, 0, None);
                woken.send(priority).unwrap();
            });
            move_all(from, here, 1);
        }
        let next = |_| {
            assert_eq!(futex::wake(here, 1), 1);
            order.recv().unwrap()
        };
        assert_eq!([0; 4].map(next), [2, 1, 0, 0]);
    });
}

/// Whether `f` returns true in a fork's child.
fn holds_in_child(f: impl FnOnce() -> bool) -> bool {
    match start_child() {
        0 => end_child(f()),
        pid => succeeded(pid),
    }
}

/// Forks: 0 in the child, which an alarm ends if it hangs.
fn start_child() -> libc::pid_t {
    // SAFETY: the child uses what is to work in it, and ends without destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "there is no forking");
    if pid == 0 {
        // SAFETY: it has no conditions.
        unsafe { libc::alarm(30) };
    }
    pid
}

/// Ends a fork's child.
fn end_child(success: bool) -> ! {
    // SAFETY: ending a process has no conditions.
    unsafe { libc::_exit(if success { 0 } else { 1 }) }
}

/// Whether a fork's child ended with success.
fn succeeded(pid: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: `status` is writable, and the child is this process's.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    status == 0
}

#[test]
fn nobody_waits_in_a_forks_child() {
    let [word, here] = &words();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| futex::wait(word, 0, None));
        move_all(word, here, 1);
        let alone = || {
            let nobody = futex::wake(here, ALL) == 0;
            let waited = futex::wait(here, 0, soon());
            nobody && waited == Waited::TimedOut && (EMULATED || wakes_a_thread())
        };
        let held = holds_in_child(alone);
        let woken = futex::wake(here, ALL);
        assert!(held);
        assert_eq!(woken, 1, "the parent's waiter is still there");
        assert_eq!(waiter.join().unwrap(), Waited::Woken);
    });
}

fn wakes_a_thread() -> bool {
    let [word, here] = &words();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| futex::wait(word, 0, None));
        move_all(word, here, 1);
        futex::wake(here, 1) == 1 && waiter.join().unwrap() == Waited::Woken
    })
}

/// A thread forks in a signal handler that interrupts its wait. In the child the wait ends,
/// for its waker may be gone, and the next one is like any other; in the parent it goes on.
#[test]
fn a_wait_that_a_fork_interrupts_ends_in_the_child() {
    static CHILD: AtomicI32 = AtomicI32::new(-1);
    extern "C" fn fork(_: libc::c_int) {
        CHILD.store(start_child(), Relaxed);
    }
    let handler = fork as extern "C" fn(libc::c_int);
    // SAFETY: nothing else here uses this signal.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    let hour = Instant::now() + Duration::from_secs(3600);
    for deadline in [None, Some(hour)] {
        let [word, here] = &words();
        let handle = AtomicUsize::new(0);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                // SAFETY: it only returns the thread's handle.
                handle.store(unsafe { libc::pthread_self() } as usize, Relaxed);
                let waited = futex::wait(word, 0, deadline);
                if CHILD.load(Relaxed) == 0 {
                    let next = futex::wait(here, 0, soon());
                    let nobody = futex::wake(here, ALL) == 0;
                    end_child((waited, next, nobody) == (Waited::Woken, Waited::TimedOut, true));
                }
                waited
            });
            move_all(word, here, 1);
            // SAFETY: the thread is there, for it waits.
            unsafe { libc::pthread_kill(handle.load(Relaxed) as _, libc::SIGUSR2) };
            while CHILD.load(Relaxed) == -1 {
                yield_now();
            }
            let held = succeeded(CHILD.swap(-1, Relaxed));
            assert_eq!(futex::wake(here, ALL), 1, "the parent's wait goes on");
            assert_eq!(waiter.join().unwrap(), Waited::Woken);
            assert!(held);
        });
    }
}

/// Another thread is in and out of the gate at any moment, that of the fork included.
#[test]
fn a_fork_leaves_no_gate_closed() {
    const FORKS: usize = 100;
    let word = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    // A fork beside the first lock of all would leave that half made, in `Once`.
    futex::wait(&word, 1, None);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                futex::wait(&word, 1, None);
            }
        });
        let waits = || futex::wait(&word, 1, None) == Waited::Changed;
        let all = (0..FORKS).all(|_| holds_in_child(waits));
        over.store(true, Relaxed);
        assert!(all);
    });
}
