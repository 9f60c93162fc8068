//! The mutex on real threads.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/counter.rs"]
mod counter;
#[path = "support/counts.rs"]
mod counts;

use std::{
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use alone::Alone;
use counter::Counter;
use counts::Counts;
use lockyard_core::{Deadline, Event, Platform, RawMutex, osq};
use lockyard_linux::Linux;

/// aarch64 is tested in an emulator.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const PAST: Deadline = Deadline(0);
const NEVER: Deadline = Deadline(u64::MAX);
const MILLISECOND: u64 = 1_000_000;

type Mutex = RawMutex<Linux>;

/// Releases a mutex that the caller holds.
fn unlock<W: osq::Wait<Linux>>(mutex: &RawMutex<Linux, W>) {
    assert!(mutex.is_mine());
    // SAFETY: the caller holds it.
    unsafe { mutex.unlock() };
}

/// Hands over a mutex that the caller holds.
fn unlock_fair(mutex: &Mutex) {
    assert!(mutex.is_mine());
    // SAFETY: the caller holds it.
    unsafe { mutex.unlock_fair() };
}

/// The message of the panic that `f` must end in.
fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it did not panic");
    *payload.downcast().expect("a formatted message")
}

fn no_update_is_lost<W: osq::Wait<Linux>>() {
    const ADDS: u64 = if EMULATED { 300 } else { 10_000 };
    for threads in [1, 2, 3, 8, 32] {
        let counter = Counter::<W>::new();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..ADDS / threads).for_each(|_| counter.add()));
            }
        });
        assert_eq!(counter.total(), threads * (ADDS / threads));
        assert!(!counter.mutex.is_locked());
    }
}

#[test]
fn no_update_is_lost_when_spinners_poll() {
    let _alone = Alone::begin();
    no_update_is_lost::<osq::Poll>();
}

#[test]
fn no_update_is_lost_when_spinners_wait_for_events() {
    let _alone = Alone::begin();
    no_update_is_lost::<osq::Event>();
}

#[test]
fn no_update_is_lost_when_owners_sleep() {
    const ADDS: u64 = if EMULATED { 20 } else { 200 };
    let _alone = Alone::begin();
    let counter = Counter::<osq::Event>::new();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for i in 0..ADDS {
                    counter.mutex.lock();
                    if i % 8 == 0 {
                        Linux::park(Some(Linux::after(MILLISECOND / 20)));
                    }
                    counter.add_and_unlock();
                }
            });
        }
    });
    assert_eq!(counter.total(), 6 * ADDS);
}

#[test]
fn every_kind_of_unlock_keeps_the_count() {
    const ADDS: u64 = if EMULATED { 50 } else { 1_000 };
    let _alone = Alone::begin();
    let counter = Counter::<osq::Event>::new();
    let fair = Counter::<osq::Event>::new();
    thread::scope(|scope| {
        for thread in 0..4 {
            let (counter, fair) = (&counter, &fair);
            scope.spawn(move || {
                for i in 0..ADDS {
                    fair.mutex.lock();
                    counter.add();
                    if (i + thread) % 3 == 0 {
                        unlock_fair(&fair.mutex);
                    } else {
                        unlock(&fair.mutex);
                    }
                    fair.add();
                }
            });
        }
    });
    assert_eq!(counter.total(), 4 * ADDS);
    assert_eq!(fair.total(), 4 * ADDS);
}

#[test]
fn try_lock_takes_a_free_mutex_only() {
    let _alone = Alone::begin();
    let mutex = Mutex::new();
    assert!(!mutex.is_locked());
    assert!(mutex.try_lock());
    assert!(mutex.is_locked() && mutex.is_mine());
    assert!(!mutex.try_lock(), "even its owner cannot take it twice");
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(!mutex.try_lock());
            assert!(mutex.is_locked() && !mutex.is_mine());
        });
    });
    unlock(&mutex);
    assert!(!mutex.is_locked());
    assert!(mutex.try_lock());
    unlock(&mutex);
}

#[test]
fn a_deadline_in_the_past_takes_a_free_mutex_only() {
    let _alone = Alone::begin();
    let mutex = Mutex::new();
    assert!(mutex.lock_until(PAST));
    thread::scope(|scope| {
        scope.spawn(|| assert!(!mutex.lock_until(PAST)));
    });
    unlock(&mutex);
    assert!(!mutex.is_locked());
}

#[test]
fn a_sleeper_takes_the_mutex_before_its_deadline() {
    let mut counts = Counts::begin();
    let mutex = Mutex::new();
    mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(mutex.lock_until(NEVER));
            unlock(&mutex);
        });
        counts.until(Event::Parked, 1);
        unlock(&mutex);
    });
    assert!(!mutex.is_locked());
}

#[test]
fn a_sleeper_leaves_at_its_deadline_and_not_before() {
    let _alone = Alone::begin();
    let mutex = Mutex::new();
    mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Linux::after(5 * MILLISECOND);
            assert!(!mutex.lock_until(deadline));
            assert!(Linux::passed(deadline));
        });
    });
    assert!(mutex.is_mine());
    unlock(&mutex);
    assert!(mutex.try_lock(), "nobody is left in the queue");
    unlock(&mutex);
}

#[test]
fn the_owner_that_locks_until_a_deadline_waits_for_it() {
    let _alone = Alone::begin();
    let mutex = Mutex::new();
    mutex.lock();
    let deadline = Linux::after(2 * MILLISECOND);
    assert!(!mutex.lock_until(deadline));
    assert!(Linux::passed(deadline));
    assert!(!mutex.lock_until(PAST));
    assert!(mutex.is_mine());
    unlock(&mutex);
}

/// Grows when a waiter falls asleep and when it gives up, which it may do
/// without having slept.
fn asleep_or_gone(counts: &mut Counts) -> u64 {
    counts.seen(Event::Parked) + counts.seen(Event::Cancelled)
}

/// Of three sleepers one gives up, and the others take the mutex all the same.
fn sleepers_are_found_when_one_gives_up(quitter: usize) {
    let mut counts = Counts::begin();
    let counter = &Counter::<osq::Event>::new();
    counter.mutex.lock();
    thread::scope(|scope| {
        let mut sleepers = Vec::new();
        for sleeper in 0..3 {
            let before = asleep_or_gone(&mut counts);
            sleepers.push(scope.spawn(move || {
                if sleeper == quitter {
                    assert!(!counter.mutex.lock_until(Linux::after(20 * MILLISECOND)));
                } else {
                    counter.add();
                }
            }));
            while asleep_or_gone(&mut counts) == before {
                thread::sleep(Duration::from_micros(50));
            }
        }
        sleepers.remove(quitter).join().unwrap();
        counter.add_and_unlock();
    });
    assert_eq!(counter.total(), 3);
}

#[test]
fn sleepers_are_found_when_the_first_gives_up() {
    sleepers_are_found_when_one_gives_up(0);
}

#[test]
fn sleepers_are_found_when_the_second_gives_up() {
    sleepers_are_found_when_one_gives_up(1);
}

#[test]
fn sleepers_are_found_when_the_last_gives_up() {
    sleepers_are_found_when_one_gives_up(2);
}

fn timeouts_and_locks_add_up<W: osq::Wait<Linux>>() {
    const TRIES: u64 = if EMULATED { 100 } else { 3_000 };
    let counter = Counter::<W>::new();
    let taken: u64 = thread::scope(|scope| {
        let timed: Vec<_> = (0..4)
            .map(|thread| {
                let counter = &counter;
                scope.spawn(move || {
                    let mut taken = 0;
                    for i in 0..TRIES {
                        // 0 to 63 µs, in no order.
                        let patience = (i * 37 + thread * 11) % 64 * 1_000;
                        if counter.mutex.lock_until(Linux::after(patience)) {
                            counter.add_and_unlock();
                            taken += 1;
                        }
                    }
                    taken
                })
            })
            .collect();
        for _ in 0..3 {
            scope.spawn(|| {
                for i in 0..TRIES {
                    counter.mutex.lock();
                    if i % 16 == 0 {
                        thread::yield_now();
                    }
                    counter.add_and_unlock();
                }
            });
        }
        timed.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(counter.total(), taken + 3 * TRIES);
}

#[test]
fn timeouts_and_locks_add_up_when_spinners_poll() {
    let _alone = Alone::begin();
    timeouts_and_locks_add_up::<osq::Poll>();
}

#[test]
fn timeouts_and_locks_add_up_when_spinners_wait_for_events() {
    let _alone = Alone::begin();
    timeouts_and_locks_add_up::<osq::Event>();
}

#[test]
fn a_fair_unlock_hands_the_mutex_to_the_sleeper() {
    let mut counts = Counts::begin();
    let mutex = &Mutex::new();
    mutex.lock();
    thread::scope(|scope| {
        let (checked, wait_for_check) = mpsc::channel();
        scope.spawn(move || {
            mutex.lock();
            wait_for_check.recv().unwrap();
            unlock(mutex);
        });
        counts.until(Event::Parked, 1);
        unlock_fair(mutex);
        assert!(!mutex.try_lock(), "the sleeper owns it already");
        assert!(mutex.is_locked() && !mutex.is_mine());
        checked.send(()).unwrap();
    });
    assert!(counts.seen(Event::HandedOff) >= 1);
    assert!(!mutex.is_locked());
}

#[test]
fn a_fair_unlock_without_waiters_frees_the_mutex() {
    let _alone = Alone::begin();
    let mutex = Mutex::new();
    mutex.lock();
    unlock_fair(&mutex);
    assert!(!mutex.is_locked());
}

/// Waits until so many threads sleep in a queue that nobody wakes. Who naps before is counted
/// when that is over; a nap is counted first, and so asked for last.
fn until_asleep(counts: &mut Counts, threads: u64) {
    while counts.seen(Event::Parked) < threads + counts.seen(Event::Napped) {
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn fair_unlocks_serve_sleepers_in_their_order() {
    const SLEEPERS: u64 = 4;
    let mut counts = Counts::begin();
    let mutex = &Mutex::new();
    let (came, order) = mpsc::channel();
    mutex.lock();
    thread::scope(|scope| {
        for sleeper in 0..SLEEPERS {
            let came = came.clone();
            scope.spawn(move || {
                mutex.lock();
                came.send(sleeper).unwrap();
                unlock_fair(mutex);
            });
            until_asleep(&mut counts, sleeper + 1);
        }
        unlock_fair(mutex);
    });
    drop(came);
    assert!(order.iter().eq(0..SLEEPERS));
}

#[test]
fn it_is_sixteen_bytes_of_zero() {
    let _alone = Alone::begin();
    assert_eq!(size_of::<Mutex>(), 16);
    assert_eq!(align_of::<Mutex>(), 8);
    // SAFETY: a mutex is made of integers, and zero ones are an unlocked one.
    let mutex: Mutex = unsafe { MaybeUninit::zeroed().assume_init() };
    assert!(!mutex.is_locked());
    mutex.lock();
    assert!(mutex.is_mine());
    unlock(&mutex);
    // SAFETY: four integers without padding may be read as bytes.
    let bytes: [u8; 16] = unsafe { std::mem::transmute(mutex) };
    assert_eq!(bytes, [0; 16]);
}

#[test]
fn it_lives_in_a_static() {
    static POLL: Counter<osq::Poll> = Counter::new();
    static EVENT: Counter<osq::Event> = Counter::new();
    let _alone = Alone::begin();
    let threads = [(); 4].map(|()| {
        thread::spawn(|| {
            for _ in 0..100 {
                POLL.add();
                EVENT.add();
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(POLL.total(), 400);
    assert_eq!(EVENT.total(), 400);
}

#[test]
fn the_owner_that_locks_again_is_told_and_still_owns_it() {
    let _alone = Alone::begin();
    let mutex = Mutex::new();
    mutex.lock();
    let message = panic_of(|| mutex.lock());
    assert!(message.contains("deadlock"), "{message}");
    assert!(
        message.contains(&format!("{:p}", &raw const mutex)),
        "{message}"
    );
    assert!(mutex.is_mine());
    unlock(&mutex);
    assert!(!mutex.is_locked());
}

/// What the owner did wrong must not have told its unlock that somebody comes.
fn a_sleeper_is_woken_after(mistake: impl FnOnce(&Mutex)) {
    let mut counts = Counts::begin();
    let counter = Counter::<osq::Event>::new();
    counter.mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| counter.add());
        counts.until(Event::Parked, 1);
        mistake(&counter.mutex);
        counter.add_and_unlock();
    });
    assert_eq!(counter.total(), 2);
}

#[test]
fn a_sleeper_is_woken_after_the_owner_waited_for_itself() {
    a_sleeper_is_woken_after(|mutex| assert!(!mutex.lock_until(PAST)));
}

#[test]
fn a_sleeper_is_woken_after_the_owner_was_told_of_a_deadlock() {
    a_sleeper_is_woken_after(|mutex| drop(panic_of(|| mutex.lock())));
}

#[test]
fn a_stranger_that_unlocks_is_told_and_the_owner_still_owns_it() {
    let _alone = Alone::begin();
    let mutex = &Mutex::new();
    mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: not held, against the contract: it promises a panic.
            let message = panic_of(|| unsafe { mutex.unlock() });
            assert!(message.contains(&format!("{mutex:p}")), "{message}");
            // SAFETY: as above.
            let message = panic_of(|| unsafe { mutex.unlock_fair() });
            assert!(message.contains(&format!("{mutex:p}")), "{message}");
        });
    });
    assert!(mutex.is_mine());
    unlock(mutex);
}

#[test]
fn a_thread_that_never_locked_is_told() {
    let _alone = Alone::begin();
    let mutex = &Mutex::new();
    thread::scope(|scope| {
        // SAFETY: not held, against the contract: it promises a panic.
        scope.spawn(|| panic_of(|| unsafe { mutex.unlock() }));
    });
    assert!(!mutex.is_locked());
}

#[test]
fn a_second_unlock_is_told_and_the_mutex_stays_free() {
    let _alone = Alone::begin();
    let mutex = &Mutex::new();
    mutex.lock();
    unlock(mutex);
    // SAFETY: not held, against the contract: it promises a panic.
    panic_of(|| unsafe { mutex.unlock() });
    assert!(!mutex.is_locked());
    assert!(mutex.try_lock());
    unlock(mutex);
}
