//! `Condvar` on real threads.

#[path = "../../linux/tests/support/alone.rs"]
mod alone;
#[path = "../../linux/tests/support/counts.rs"]
mod counts;

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use alone::Alone;
use counts::Counts;
use lockyard::{Condvar, Mutex};
use lockyard_core::Event;

/// aarch64 is tested in an emulator.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const MILLISECOND: Duration = Duration::from_millis(1);

/// A waiting room: who has entered the queue, and who has been called.
#[derive(Default)]
struct Room {
    guests: Mutex<Guests>,
    bell: Condvar,
}

#[derive(Default)]
struct Guests {
    /// Grows before a wait begins, so that whoever sees it, under the mutex,
    /// finds the guest in the queue.
    came: usize,
    left: usize,
}

impl Room {
    /// Waits once, for a notification.
    fn visit(&self) {
        let mut guests = self.guests.lock();
        guests.came += 1;
        self.bell.wait(&mut guests);
        guests.left += 1;
    }

    /// Waits until `done` says so of the guests.
    fn until(&self, done: impl Fn(&Guests) -> bool) {
        while !done(&self.guests.lock()) {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

#[test]
fn it_is_eight_bytes() {
    assert_eq!(size_of::<Condvar>(), 8);
}

#[test]
fn a_notification_without_waiters_finds_nobody() {
    let condvar = Condvar::new();
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
}

#[test]
fn notify_one_wakes_one() {
    let _alone = Alone::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| room.visit());
        }
        room.until(|guests| guests.came == 3);
        assert!(room.bell.notify_one());
        room.until(|guests| guests.left == 1);
        assert_eq!(room.bell.notify_all(), 2, "the others still waited");
    });
    assert_eq!(room.guests.lock().left, 3);
    assert!(!room.bell.notify_one());
}

#[test]
fn notify_all_wakes_all() {
    const GUESTS: usize = if EMULATED { 8 } else { 64 };
    let _alone = Alone::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        for _ in 0..GUESTS {
            scope.spawn(|| room.visit());
        }
        room.until(|guests| guests.came == GUESTS);
        assert_eq!(room.bell.notify_all(), GUESTS);
    });
    assert_eq!(room.guests.lock().left, GUESTS);
}

#[test]
fn waiters_are_notified_in_their_order() {
    const GUESTS: usize = 5;
    let _alone = Alone::begin();
    let room = &Room::default();
    let order = &Mutex::new(Vec::new());
    thread::scope(|scope| {
        for guest in 0..GUESTS {
            scope.spawn(move || {
                room.visit();
                order.lock().push(guest);
            });
            room.until(|guests| guests.came == guest + 1);
        }
        for called in 1..=GUESTS {
            assert!(room.bell.notify_one());
            room.until(|_| order.lock().len() == called);
        }
    });
    assert!(order.lock().iter().copied().eq(0..GUESTS));
}

#[test]
fn a_wait_times_out_with_the_mutex_held() {
    let _alone = Alone::begin();
    let room = Room::default();
    let mut guests = room.guests.lock();
    for patience in [Duration::ZERO, Duration::from_nanos(1), 5 * MILLISECOND] {
        let began = Instant::now();
        assert!(room.bell.wait_for(&mut guests, patience).timed_out());
        assert!(began.elapsed() >= patience);
        assert!(room.guests.is_locked());
    }
    let past = Instant::now() - MILLISECOND;
    assert!(room.bell.wait_until(&mut guests, past).timed_out());
    assert!(room.guests.is_locked());
    assert!(!room.bell.notify_one(), "nobody is left in the queue");
    drop(guests);
    assert!(!room.guests.is_locked());
}

#[test]
fn a_wait_that_times_out_waits_for_the_mutex() {
    let _alone = Alone::begin();
    let mutex = &Mutex::new(false);
    let condvar = &Condvar::new();
    let coming = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut busy = mutex.lock();
            coming.wait();
            assert!(condvar.wait_for(&mut busy, MILLISECOND).timed_out());
            assert!(!*busy, "it came back while the mutex was held");
        });
        coming.wait();
        let mut busy = mutex.lock();
        *busy = true;
        thread::sleep(5 * MILLISECOND); // its time is up, if it is quick
        *busy = false;
    });
}

#[test]
fn a_wait_may_be_for_ever() {
    let _alone = Alone::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        for guest in 0..3 {
            scope.spawn(move || {
                let mut guests = room.guests.lock();
                guests.came += 1;
                let far = Instant::now().checked_add(Duration::from_secs(1 << 40));
                let timed_out = match (guest, far) {
                    (0, Some(far)) => room.bell.wait_until(&mut guests, far).timed_out(),
                    (1, _) => room
                        .bell
                        .wait_for(&mut guests, Duration::from_secs(1 << 34))
                        .timed_out(),
                    _ => room.bell.wait_for(&mut guests, Duration::MAX).timed_out(),
                };
                assert!(!timed_out);
            });
        }
        room.until(|guests| guests.came == 3);
        assert_eq!(room.bell.notify_all(), 3);
    });
}

#[test]
fn wait_while_goes_on_until_the_condition_ends() {
    let _alone = Alone::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        let guest = scope.spawn(|| {
            let mut guests = room.guests.lock();
            room.bell.wait_while(&mut guests, |guests| {
                guests.came += 1;
                guests.left < 2
            });
            (guests.came, guests.left)
        });
        for call in 1..=2 {
            room.until(|guests| guests.came == call);
            room.guests.lock().left += 1;
            assert!(room.bell.notify_one());
        }
        assert_eq!(guest.join().unwrap(), (3, 2));
    });
}

#[test]
fn a_timed_wait_while_ends_with_the_condition_or_the_time() {
    let _alone = Alone::begin();
    let room = Room::default();
    let mut guests = room.guests.lock();
    let ended = room
        .bell
        .wait_while_for(&mut guests, |_| false, Duration::ZERO);
    assert!(!ended.timed_out());
    let ended = room.bell.wait_while_for(&mut guests, |_| true, MILLISECOND);
    assert!(ended.timed_out());
    assert!(room.guests.is_locked());
}

#[test]
fn a_panic_of_the_condition_unlocks() {
    let _alone = Alone::begin();
    let room = &Room::default();
    let visit = |panics_at: usize| {
        catch_unwind(AssertUnwindSafe(|| {
            let mut guests = room.guests.lock();
            room.bell.wait_while(&mut guests, |guests| {
                guests.came += 1;
                assert_ne!(guests.came, panics_at, "on purpose");
                true
            });
        }))
    };
    assert!(visit(1).is_err());
    assert!(!room.guests.is_locked());
    assert!(!room.bell.notify_one(), "nobody is left in the queue");
    thread::scope(|scope| {
        let guest = scope.spawn(|| visit(3));
        room.until(|guests| guests.came == 2);
        assert!(room.bell.notify_one());
        assert!(guest.join().unwrap().is_err());
    });
    assert!(!room.guests.is_locked());
}

#[test]
fn who_is_notified_under_the_mutex_sleeps_on_until_it_is_free() {
    const GUESTS: u64 = 3;
    let mut counts = Counts::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        for guest in 1..=GUESTS {
            scope.spawn(|| room.visit());
            counts.until(Event::Parked, guest);
        }
        let guests = room.guests.lock();
        assert!(room.bell.notify_one());
        assert_eq!(room.bell.notify_all(), 2);
        assert_eq!(counts.seen(Event::Requeued), GUESTS);
        assert_eq!(counts.seen(Event::WokeFirst), 0, "one was woken too early");
        assert_eq!(guests.left, 0);
        drop(guests);
    });
    assert_eq!(room.guests.lock().left, 3);
}

#[test]
fn who_is_notified_while_the_mutex_is_free_takes_it() {
    let mut counts = Counts::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        scope.spawn(|| room.visit());
        room.until(|guests| guests.came == 1);
        assert!(room.bell.notify_one());
    });
    assert_eq!(room.guests.lock().left, 1);
    assert_eq!(counts.seen(Event::Requeued), 1);
}

#[test]
fn waiters_may_bring_mutexes_of_their_own() {
    let _alone = Alone::begin();
    let bell = &Condvar::new();
    let mutexes = &[const { Mutex::new(0) }; 3];
    thread::scope(|scope| {
        for mutex in mutexes {
            scope.spawn(|| {
                let mut state = mutex.lock();
                *state = 1;
                bell.wait(&mut state);
                *state = 2;
            });
        }
        for mutex in mutexes {
            while *mutex.lock() == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(bell.notify_all(), 3);
    });
    assert!(mutexes.iter().all(|mutex| *mutex.lock() == 2));
}

#[test]
fn producers_and_consumers_lose_nothing() {
    const THREADS: u64 = 4;
    const ITEMS: u64 = if EMULATED { 200 } else { 2_500 };
    const CAPACITY: usize = 3;
    let _alone = Alone::begin();
    let buffer = &Mutex::new(VecDeque::new());
    let (filled, drained) = (&Condvar::new(), &Condvar::new());
    let sum = thread::scope(|scope| {
        for producer in 0..THREADS {
            scope.spawn(move || {
                for item in 0..ITEMS {
                    let mut items = buffer.lock();
                    drained.wait_while(&mut items, |items| items.len() == CAPACITY);
                    items.push_back(producer * ITEMS + item);
                    filled.notify_one();
                }
            });
        }
        let consumers = [(); THREADS as usize].map(|()| {
            scope.spawn(|| {
                let mut sum = 0;
                for _ in 0..ITEMS {
                    let mut items = buffer.lock();
                    filled.wait_while(&mut items, |items| items.is_empty());
                    sum += items.pop_front().unwrap();
                    drop(items);
                    drained.notify_one();
                }
                sum
            })
        });
        consumers
            .map(|consumer| consumer.join().unwrap())
            .iter()
            .sum::<u64>()
    });
    let all = THREADS * ITEMS;
    assert_eq!(sum, all * (all - 1) / 2);
    assert!(buffer.lock().is_empty());
}

/// Two threads pass a turn to and fro, each asleep while it is the other's.
#[test]
fn a_turn_goes_to_and_fro() {
    const TURNS: usize = if EMULATED { 100 } else { 2_000 };
    let _alone = Alone::begin();
    let turn = &Mutex::new(0);
    let changed = &Condvar::new();
    thread::scope(|scope| {
        for parity in 0..2 {
            scope.spawn(move || {
                let mut turn = turn.lock();
                while *turn < TURNS {
                    if *turn % 2 == parity {
                        *turn += 1;
                        changed.notify_one();
                    } else {
                        changed.wait(&mut turn);
                    }
                }
                changed.notify_one();
            });
        }
    });
    assert_eq!(*turn.lock(), TURNS);
}

/// Each notification that found somebody is one wait that did not time out.
#[test]
fn notifications_and_timeouts_add_up() {
    const WAITS: u64 = if EMULATED { 50 } else { 500 };
    const WAITERS: u64 = 4;
    let _alone = Alone::begin();
    let mutex = &Mutex::new(());
    let condvar = &Condvar::new();
    let (waiting, found) = (&AtomicU64::new(WAITERS), &AtomicU64::new(0));
    let notified: u64 = thread::scope(|scope| {
        let waiters: Vec<_> = (0..WAITERS)
            .map(|waiter| {
                scope.spawn(move || {
                    let mut notified = 0;
                    for i in 0..WAITS {
                        let patience = Duration::from_micros((i * 37 + waiter * 11) % 128);
                        let mut guard = mutex.lock();
                        if !condvar.wait_for(&mut guard, patience).timed_out() {
                            notified += 1;
                        }
                    }
                    waiting.fetch_sub(1, Relaxed);
                    notified
                })
            })
            .collect();
        for notifier in 0..2 {
            scope.spawn(move || {
                let mut i = notifier;
                while waiting.load(Relaxed) > 0 {
                    let guard = (i % 2 == 0).then(|| mutex.lock());
                    let woken = match i % 5 {
                        0 => condvar.notify_all() as u64,
                        _ => u64::from(condvar.notify_one()),
                    };
                    found.fetch_add(woken, Relaxed);
                    drop(guard);
                    thread::sleep(Duration::from_micros(i % 64));
                    i += 1;
                }
            });
        }
        waiters
            .into_iter()
            .map(|waiter| waiter.join().unwrap())
            .sum()
    });
    assert_eq!(notified, found.load(Relaxed));
}
