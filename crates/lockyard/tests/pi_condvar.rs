//! `PiCondvar` on real threads.

#[path = "../../linux/tests/support/alone.rs"]
mod alone;

use std::{
    collections::VecDeque,
    fs, process,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use alone::Alone;
use lock_api::GuardNoSend;
use lockyard::{PiCondvar, PiMutex as Mutex, RawPiMutex as RawMutex};

/// aarch64 is tested in an emulator.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const MILLISECOND: Duration = Duration::from_millis(1);

/// A waiting room: who is in it, and who was called, in their order.
#[derive(Default)]
struct Room {
    guests: Mutex<Guests>,
    bell: PiCondvar,
}

#[derive(Default)]
struct Guests {
    came: usize,
    left: Vec<i32>,
}

impl Room {
    /// Waits once, for a notification.
    fn visit(&self, name: i32) {
        let mut guests = self.guests.lock();
        guests.came += 1;
        self.bell.wait(&mut guests);
        guests.left.push(name);
    }

    /// Waits until `done` says so of the guests.
    fn until(&self, done: impl Fn(&Guests) -> bool) {
        while !done(&self.guests.lock()) {
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Has guests come one by one and fall asleep, as real-time threads if their
    /// names are above 0, and calls them one by one. Returns their order.
    fn call_all(&self, names: &[i32]) -> Vec<i32> {
        thread::scope(|scope| {
            for (before, &name) in names.iter().enumerate() {
                let tid = &*Box::leak(Box::new(AtomicU32::new(0)));
                scope.spawn(move || {
                    assert!(name <= 0 || become_realtime(name));
                    // SAFETY: it has no conditions.
                    tid.store(unsafe { libc::gettid() } as u32, Relaxed);
                    self.visit(name);
                });
                self.until(|guests| guests.came == before + 1);
                until_asleep(tid.load(Relaxed)); // written before it took the mutex
            }
            for called in 1..=names.len() {
                self.bell.notify_one();
                self.until(|guests| guests.left.len() == called);
            }
        });
        self.guests.lock().left.clone()
    }
}

/// Makes the calling thread a real-time one; `false` if it may not.
fn become_realtime(sched_priority: i32) -> bool {
    let param = libc::sched_param { sched_priority };
    // SAFETY: `param` is a valid priority of SCHED_FIFO.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0 }
}

/// Waits until a thread that has released the mutex sleeps.
fn until_asleep(tid: u32) {
    let stat = format!("/proc/{}/task/{tid}/stat", process::id());
    while !fs::read_to_string(&stat).unwrap().contains(") S ") {
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn it_is_eight_bytes() {
    assert_eq!(size_of::<PiCondvar>(), 8);
}

#[test]
fn it_does_not_say_whom_it_notifies() {
    let condvar = <PiCondvar>::new();
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
}

#[test]
fn the_highest_priority_is_woken_first() {
    if !thread::spawn(|| become_realtime(1)).join().unwrap() {
        eprintln!("skipped: no privilege for real-time threads");
        return;
    }
    let _alone = Alone::begin();
    let order = Room::default().call_all(&[0, 2, 5, -1, 3, 5]);
    assert_eq!(order, [5, 5, 3, 2, 0, -1]);
}

#[test]
fn equals_are_woken_in_their_order() {
    let _alone = Alone::begin();
    let order = Room::default().call_all(&[0, -1, -2, -3]);
    assert_eq!(order, [0, -1, -2, -3]);
}

#[test]
fn notify_all_wakes_all() {
    const GUESTS: usize = 8;
    let _alone = Alone::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        for _ in 0..GUESTS {
            scope.spawn(|| room.visit(0));
        }
        room.until(|guests| guests.came == GUESTS);
        room.bell.notify_all();
    });
    assert_eq!(room.guests.lock().left.len(), GUESTS);
}

#[test]
fn a_wait_times_out_with_the_mutex_held() {
    let _alone = Alone::begin();
    let room = Room::default();
    let mut guests = room.guests.lock();
    for patience in [Duration::ZERO, Duration::from_nanos(1), MILLISECOND] {
        let began = Instant::now();
        assert!(room.bell.wait_for(&mut guests, patience).timed_out());
        assert!(began.elapsed() >= patience);
        assert!(room.guests.is_locked());
    }
    let past = Instant::now();
    assert!(room.bell.wait_until(&mut guests, past).timed_out());
    drop(guests);
    assert!(!room.guests.is_locked());
}

#[test]
fn a_timed_wait_may_be_notified() {
    let _alone = Alone::begin();
    let room = &Room::default();
    thread::scope(|scope| {
        for patience in [Duration::from_secs(1 << 34), Duration::MAX] {
            scope.spawn(move || {
                let mut guests = room.guests.lock();
                guests.came += 1;
                assert!(!room.bell.wait_for(&mut guests, patience).timed_out());
            });
        }
        room.until(|guests| guests.came == 2);
        room.bell.notify_all();
    });
}

#[test]
fn waiters_may_bring_mutexes_of_their_own() {
    let _alone = Alone::begin();
    let bell = &<PiCondvar>::new();
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
        bell.notify_all();
    });
    assert!(mutexes.iter().all(|mutex| *mutex.lock() == 2));
}

/// A mutex that somebody takes, and notifies, as soon as a waiter releases it.
struct Hurried(RawMutex);

static HURRIED: PiCondvar<Hurried> = PiCondvar::new();

// SAFETY: it is the mutex inside, and a notification that touches none.
unsafe impl lock_api::RawMutex for Hurried {
    const INIT: Self = Self(RawMutex::INIT);
    type Guard = GuardNoSend;

    fn lock(&self) -> GuardNoSend {
        lock_api::RawMutex::lock(&self.0)
    }

    fn try_lock(&self) -> Option<GuardNoSend> {
        lock_api::RawMutex::try_lock(&self.0)
    }

    unsafe fn unlock(&self, guard: GuardNoSend) {
        // SAFETY: what this function's contract says.
        unsafe { lock_api::RawMutex::unlock(&self.0, guard) };
        HURRIED.notify_one();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// The notification comes when the waiter has released the mutex and does not sleep
/// yet: it must not fall asleep.
#[test]
fn a_notification_just_before_the_sleep_is_not_lost() {
    let _alone = Alone::begin();
    let mutex = lock_api::Mutex::<Hurried, ()>::new(());
    HURRIED.wait(&mut mutex.lock());
    assert!(!mutex.is_locked());
}

#[test]
fn producers_and_consumers_lose_nothing() {
    const THREADS: u64 = 3;
    const ITEMS: u64 = if EMULATED { 100 } else { 1_000 };
    const CAPACITY: usize = 3;
    let _alone = Alone::begin();
    let buffer = &Mutex::new(VecDeque::new());
    let (filled, drained) = (&<PiCondvar>::new(), &<PiCondvar>::new());
    let sum = thread::scope(|scope| {
        for producer in 0..THREADS {
            scope.spawn(move || {
                for item in 0..ITEMS {
                    let mut items = buffer.lock();
                    drained.wait_while(&mut items, |items| items.len() == CAPACITY);
                    items.push_back(producer * ITEMS + item);
                    drop(items);
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
