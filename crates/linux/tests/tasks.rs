//! The mutex and the lives of threads.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/counter.rs"]
mod counter;
#[path = "support/counts.rs"]
mod counts;

use std::{
    collections::{BTreeSet, HashSet},
    ffi::c_void,
    ptr,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use alone::Alone;
use counter::Counter;
use counts::Counts;
use lockyard_core::{Event, Platform, rwsem::RawRwLock};
use lockyard_linux::Linux;

/// aarch64 is tested in an emulator.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const ROUNDS: u64 = if EMULATED { 4 } else { 50 };
const THREADS: u64 = 8;

/// Runs `f` in rounds of new threads, and waits until they are gone, with all
/// their destructors.
fn in_rounds_of_threads(rounds: u64, threads: u64, f: impl Fn() + Copy + Send + 'static) {
    for _ in 0..rounds {
        let threads: Vec<_> = (0..threads).map(|_| thread::spawn(f)).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn thread_local_destructors_lock() {
    static COUNTER: Counter = Counter::new();
    struct AddsWhenDropped;
    impl Drop for AddsWhenDropped {
        fn drop(&mut self) {
            (0..10).for_each(|_| COUNTER.add());
        }
    }
    thread_local! {
        static FIRST: AddsWhenDropped = const { AddsWhenDropped };
        static SECOND: AddsWhenDropped = const { AddsWhenDropped };
    }
    let _alone = Alone::begin();
    in_rounds_of_threads(ROUNDS, THREADS, || {
        FIRST.with(|_| {});
        COUNTER.add();
        SECOND.with(|_| {});
    });
    assert_eq!(COUNTER.total(), ROUNDS * THREADS * 21);
}

#[test]
fn a_thread_may_lock_in_a_thread_local_destructor_for_the_first_time() {
    static COUNTER: Counter = Counter::new();
    struct AddsWhenDropped;
    impl Drop for AddsWhenDropped {
        fn drop(&mut self) {
            COUNTER.add();
        }
    }
    thread_local! {
        static VALUE: AddsWhenDropped = const { AddsWhenDropped };
    }
    let _alone = Alone::begin();
    in_rounds_of_threads(ROUNDS, THREADS, || VALUE.with(|_| {}));
    assert_eq!(COUNTER.total(), ROUNDS * THREADS);
}

/// C's destructors run after Rust's, and those of keys that were made late
/// after the thread has given its number back: they take another, and again
/// when they are called again. After the last call nobody is told when the thread is gone:
/// then its number is the next one's all the same. So it is if the thread locks then for the
/// first time, as every other does.
#[test]
fn c_destructors_lock_again_and_again() {
    const CALLS: usize = 4; // PTHREAD_DESTRUCTOR_ITERATIONS
    const LATE: usize = 8;
    static STARTED: AtomicU64 = AtomicU64::new(0);
    static NUMBERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    static COUNTER: Counter = Counter::new();
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

    fn arm(calls: usize) {
        let value = ptr::without_provenance(calls);
        // SAFETY: the key exists and is never deleted; the value is a number.
        let error = unsafe { libc::pthread_setspecific(*KEY.get().unwrap(), value) };
        assert_eq!(error, 0);
    }

    extern "C" fn destroy(value: *mut c_void) {
        let (late, calls) = (value.addr() & LATE, value.addr() % LATE);
        if late == 0 || calls == 1 {
            (0..10).for_each(|_| COUNTER.add());
            NUMBERS.lock().unwrap().insert(Linux::me().number());
        }
        if calls > 1 {
            arm(late | (calls - 1));
        }
    }

    let _alone = Alone::begin();
    // The locks make their own key with the first lock, and so before this.
    assert_eq!(COUNTER.total(), 0);
    let mut key = 0;
    // SAFETY: `key` is writable, and the destructor is a function of this
    // program.
    let error = unsafe { libc::pthread_key_create(&raw mut key, Some(destroy)) };
    assert_eq!(error, 0);
    KEY.set(key).unwrap();

    in_rounds_of_threads(ROUNDS, THREADS, || {
        if STARTED.fetch_add(1, Relaxed).is_multiple_of(2) {
            arm(LATE | CALLS);
        } else {
            arm(CALLS);
            COUNTER.add();
        }
    });
    let half = ROUNDS * THREADS / 2;
    assert_eq!(COUNTER.total(), half * (10 + 1 + 10 * CALLS as u64));
    // Those of a round may be gone a moment after they were waited for.
    let numbers = NUMBERS.lock().unwrap().len() as u64;
    assert!(numbers <= 4 * THREADS, "{numbers}");
}

/// Another number is free by then, and is the first that is given away.
#[test]
fn a_destructor_releases_what_its_thread_holds() {
    static HELD: RawRwLock<Linux> = RawRwLock::new();
    static COUNTER: Counter = Counter::new();

    extern "C" fn release(_: *mut c_void) {
        // SAFETY: the thread has it as the writer.
        unsafe { HELD.unlock_write() };
    }

    let _alone = Alone::begin();
    COUNTER.add(); // the locks make their own key
    let mut key = 0;
    // SAFETY: as above.
    let error = unsafe { libc::pthread_key_create(&raw mut key, Some(release)) };
    assert_eq!(error, 0);

    let (has_locked, locked) = mpsc::channel();
    let (ends, end) = mpsc::channel::<()>();
    let first = thread::spawn(move || {
        COUNTER.add();
        has_locked.send(Linux::me()).unwrap();
        end.recv().unwrap_err();
    });
    let number = locked.recv().unwrap();
    let second = thread::spawn(move || {
        HELD.write();
        assert!(Linux::me().number() > number.number());
        drop(ends);
        first.join().unwrap();
        // SAFETY: the key exists and is never deleted; the value is a number.
        let error = unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
        assert_eq!(error, 0);
    });
    second.join().unwrap();
    assert!(!HELD.is_write_locked());
}

#[test]
fn numbers_of_threads_are_reused() {
    const BATCH: u64 = 50;
    const BATCHES: u64 = if EMULATED { 6 } else { 100 };
    static COUNTER: Counter = Counter::new();
    let _alone = Alone::begin();
    let mut numbers = HashSet::new();
    for _ in 0..BATCHES {
        let threads = (0..BATCH).map(|_| {
            thread::spawn(|| {
                COUNTER.add();
                Linux::me().number()
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            numbers.insert(thread.join().unwrap());
        }
    }
    assert_eq!(COUNTER.total(), BATCH * BATCHES);
    assert!(numbers.len() <= BATCH as usize, "{}", numbers.len());
}

#[test]
fn thousands_of_threads_wait_for_one_mutex() {
    const THREADS: u64 = if EMULATED { 256 } else { 4_096 };
    const ADDS: u64 = 3;
    static COUNTER: Counter = Counter::new();
    let mut counts = Counts::begin();
    COUNTER.mutex.lock();
    let threads: Vec<_> = (0..THREADS)
        .map_while(|_| {
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(|| (0..ADDS).for_each(|_| COUNTER.add()))
                .ok()
        })
        .collect();
    if (threads.len() as u64) < THREADS {
        eprintln!("only {} threads: more are not to be had", threads.len());
    }
    counts.until(Event::Parked, threads.len() as u64);
    COUNTER.add_and_unlock();
    let expected = 1 + threads.len() as u64 * ADDS;
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(COUNTER.total(), expected);
}

#[test]
fn a_mutex_whose_owner_has_ended_times_out() {
    static COUNTER: Counter = Counter::new();
    let mut counts = Counts::begin();
    let me = Linux::me();
    let late = thread::spawn(|| {
        COUNTER.mutex.lock();
        Linux::me()
    })
    .join()
    .unwrap();
    assert_ne!(me, late);

    assert!(!COUNTER.mutex.try_lock());
    assert!(!COUNTER.mutex.lock_until(Linux::after(2_000_000)));
    // The first of these takes over the late owner's number.
    let threads = [(); 4]
        .map(|()| thread::spawn(|| assert!(!COUNTER.mutex.lock_until(Linux::after(2_000_000)))));
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(counts.seen(Event::Cancelled) >= 1);
    assert!(COUNTER.mutex.is_locked() && !COUNTER.mutex.is_mine());
}
