//! `RobustPiMutex`, and the futex of shared words, between threads, and between processes
//! that are killed.

#[path = "../../../linux/tests/support/alone.rs"]
mod alone;
mod deaths;
mod page;
mod shared;

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use alone::Alone;
use lockyard::RobustPiMutex;
use lockyard_linux::kernel_pi::WAITERS;
use page::{Child, Page, leave, until_waited_for, word};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Waits for other tests; `None` where there are no robust mutexes.
fn begin() -> Option<Alone> {
    let alone = RobustPiMutex::<u64>::is_supported().then(Alone::begin);
    if alone.is_none() {
        eprintln!("skipped: no robust mutexes here");
    }
    alone
}

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn tid() -> u32 {
    // SAFETY: it has no conditions.
    unsafe { libc::gettid() as u32 }
}

fn add(mutex: &RobustPiMutex<u64>) {
    mutex.lock(|value| *value.unwrap() += 1);
}

/// Takes it from an owner that died, and mends it: everybody is told until then.
fn mend(mutex: &RobustPiMutex<u64>, left: u64) {
    for _ in 0..2 {
        mutex.lock(|value| assert_eq!(*value.unwrap_err().into_inner(), left));
    }
    assert!(panics(|| mutex.lock(|value| value.unwrap().count_ones())));
    assert!(panics(|| mutex.lock(|value| mend_badly(value.unwrap_err()))));
    let mended = mutex.try_lock(|value| *value.unwrap_err().recover(|value| *value = 1));
    assert_eq!(mended, Some(1));
    add(mutex);
    mutex.lock(|value| assert_eq!(*value.unwrap(), 2));
    assert_eq!(word(mutex).load(Relaxed), 0);
}

fn mend_badly(died: lockyard::OwnerDied<'_, u64>) {
    died.recover(|_| panic!("on purpose"));
}

#[test]
fn it_is_forty_bytes_before_the_value() {
    assert_eq!(size_of::<RobustPiMutex<()>>(), 40);
    assert_eq!(size_of::<RobustPiMutex<u64>>(), 48);
}

#[test]
fn without_robust_lists_it_refuses() {
    if RobustPiMutex::<u64>::is_supported() {
        return;
    }
    let mutex = RobustPiMutex::new(0);
    assert!(panics(|| add(&mutex)));
}

#[test]
fn who_is_killed_while_it_holds_passes_it_on() {
    let Some(_alone) = begin() else { return };
    let page = Page::new();
    let child = Child::start(|| page.elsewhere().hold(7));
    page.until_held();
    assert_eq!(page.mutex.try_lock(|_| ()), None);
    child.kill();
    mend(&page.mutex, 7);
}

#[test]
fn who_waits_for_one_that_is_killed_gets_it() {
    let Some(_alone) = begin() else { return };
    let page = &Page::new();
    let child = Child::start(|| page.elsewhere().hold(7));
    page.until_held();
    thread::scope(|scope| {
        let waiters = [(); 3].map(|()| {
            scope.spawn(|| {
                page.mutex
                    .lock(|value| assert_eq!(*value.unwrap_err().into_inner(), 7));
            })
        });
        until_waited_for(&page.mutex);
        child.kill();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
    mend(&page.mutex, 7);
}

#[test]
fn who_is_killed_while_it_waits_is_forgotten() {
    let Some(_alone) = begin() else { return };
    let page = &Page::new();
    thread::scope(|scope| {
        page.mutex.lock(|value| {
            let child = Child::start(|| page.elsewhere().hold(7));
            until_waited_for(&page.mutex);
            scope.spawn(|| add(&page.mutex));
            child.kill();
            *value.unwrap() += 1;
        });
    });
    add(&page.mutex);
    page.mutex.lock(|value| assert_eq!(*value.unwrap(), 3));
    assert_eq!(word(&page.mutex).load(Relaxed), 0);
}

#[test]
fn a_thread_that_ends_while_it_holds_passes_it_on() {
    static MUTEX: RobustPiMutex<u64> = RobustPiMutex::new(0);
    extern "C" fn hold_and_end(_: *mut c_void) -> *mut c_void {
        MUTEX.lock(|value| {
            *value.unwrap() = 9;
            // SAFETY: it ends this thread alone, on whose stack nobody relies.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
        ptr::null_mut()
    }
    let Some(_alone) = begin() else { return };
    let mut thread = 0;
    // SAFETY: `thread` is writable, the attributes are the default ones; the thread is
    // joined once.
    unsafe {
        let started =
            libc::pthread_create(&raw mut thread, ptr::null(), hold_and_end, ptr::null_mut());
        assert_eq!(started, 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
    mend(&MUTEX, 9);
}

/// A robust mutex of the C library.
#[derive(Clone, Copy)]
struct Pthread(*mut libc::pthread_mutex_t);

impl Pthread {
    fn new(protocol: i32) -> Self {
        let at = page::map().cast();
        // SAFETY: zero bytes will do for attributes that are then initialised; the
        // mutex is in memory of its own that stays mapped.
        unsafe {
            let mut attributes = std::mem::zeroed();
            let attributes = &raw mut attributes;
            assert_eq!(libc::pthread_mutexattr_init(attributes), 0);
            let shared = libc::PTHREAD_PROCESS_SHARED;
            assert_eq!(libc::pthread_mutexattr_setpshared(attributes, shared), 0);
            let robust = libc::PTHREAD_MUTEX_ROBUST;
            assert_eq!(libc::pthread_mutexattr_setrobust(attributes, robust), 0);
            assert_eq!(libc::pthread_mutexattr_setprotocol(attributes, protocol), 0);
            assert_eq!(libc::pthread_mutex_init(at, attributes), 0);
        }
        Self(at)
    }

    /// Takes it, with this result.
    fn lock(self, result: i32) {
        // SAFETY: it is an initialised mutex.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0) }, result);
    }

    fn unlock(self) {
        // SAFETY: it is an initialised mutex, which the caller holds.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0) }, 0);
    }
}

/// The thread's list has others' locks as well, before and behind.
#[test]
fn it_shares_the_list_with_the_c_library() {
    let Some(_alone) = begin() else { return };
    let page = &Page::new();
    let [inheriting, plain] =
        [libc::PTHREAD_PRIO_INHERIT, libc::PTHREAD_PRIO_NONE].map(Pthread::new);
    for _ in 0..2 {
        inheriting.lock(0);
        page.mutex.lock(|value| {
            plain.lock(0);
            *value.unwrap() += 1;
            inheriting.unlock();
            inheriting.lock(0);
            inheriting.unlock();
        });
        plain.unlock();
    }
    let child = Child::start(|| {
        inheriting.lock(0);
        page.mutex.lock(|_| {
            plain.lock(0);
            page.second.lock(|_| page.stay());
        });
    });
    page.until_held();
    child.kill();
    for mutex in [inheriting, plain] {
        mutex.lock(libc::EOWNERDEAD);
        mutex.unlock();
    }
    mend(&page.mutex, 2);
    mend(&page.second, 0);
}

#[test]
fn a_wait_times_out() {
    let Some(_alone) = begin() else { return };
    let mutex = &RobustPiMutex::new(0);
    mutex.lock(|_| {
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(mutex.try_lock(|_| ()), None);
                for patience in [Duration::ZERO, Duration::from_nanos(1), MILLISECOND] {
                    let began = Instant::now();
                    assert_eq!(mutex.try_lock_for(patience, |_| ()), None);
                    assert!(began.elapsed() >= patience);
                }
                assert_eq!(mutex.try_lock_until(Instant::now(), |_| ()), None);
            });
        });
    });
    assert_eq!(mutex.try_lock_for(Duration::ZERO, |_| 1), Some(1));
    assert_eq!(mutex.try_lock_for(Duration::MAX, |_| 2), Some(2));
    assert_eq!(mutex.try_lock_until(Instant::now(), |_| 3), Some(3));
    assert_eq!(mutex.try_lock(|_| 4), Some(4));
}

#[test]
fn to_lock_it_twice_panics() {
    let Some(_alone) = begin() else { return };
    let mutex = RobustPiMutex::new(0);
    mutex.lock(|_| {
        assert!(panics(|| add(&mutex)));
        assert!(panics(|| mutex.try_lock_for(Duration::MAX, |_| ())));
        assert_eq!(mutex.try_lock(|_| ()), None);
    });
    add(&mutex);
}

#[test]
fn a_panic_unlocks() {
    let Some(_alone) = begin() else { return };
    let mutex = RobustPiMutex::new(0);
    assert!(panics(|| mutex.lock(|_| panic!("on purpose"))));
    add(&mutex);
    assert_eq!(word(&mutex).load(Relaxed), 0);
}

#[test]
fn an_owner_that_does_not_exist_is_named() {
    let Some(_alone) = begin() else { return };
    let mutex = RobustPiMutex::new(0);
    word(&mutex).store(0x3fff_ffff, Relaxed);
    assert!(panics(|| add(&mutex)));
    assert_eq!(mutex.try_lock(|_| ()), None);
    let other = RobustPiMutex::new(0);
    add(&other);
}

#[test]
fn a_forks_child_does_not_hold_what_its_parent_holds() {
    let Some(_alone) = begin() else { return };
    let page = &Page::new();
    let holder = tid();
    let is_child = page.mutex.lock(|_| match Child::fork() {
        Some(child) => {
            child.join();
            false
        }
        None => true,
    });
    if is_child {
        let holds = || word(&page.mutex).load(Relaxed) & !WAITERS == holder;
        leave(holds() && page.mutex.try_lock(|_| ()).is_none() && holds());
    }
    add(&page.mutex);
    assert_eq!(word(&page.mutex).load(Relaxed), 0);
}

#[test]
fn threads_of_two_processes_add_up() {
    const ADDS: u64 = 1_500;
    const THREADS: u64 = 2;
    let Some(_alone) = begin() else { return };
    let page = &Page::new();
    let run = |page: &Page| {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..ADDS).for_each(|_| add(&page.mutex)));
            }
        });
    };
    let child = Child::start(|| run(page.elsewhere()));
    run(page);
    child.join();
    let total = page.mutex.lock(|value| *value.unwrap());
    assert_eq!(total, 2 * THREADS * ADDS);
    assert_eq!(word(&page.mutex).load(Relaxed), 0);
}

/// The kernel's priority of a thread: below 0 for real-time ones.
fn priority(pid: i32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(") ").next().unwrap(); // from the third on
    fields.split(' ').nth(15).unwrap().parse().unwrap()
}

/// Makes the calling thread a real-time one; `false` if it may not.
fn become_realtime(sched_priority: i32) -> bool {
    let param = libc::sched_param { sched_priority };
    // SAFETY: `param` is a valid priority of SCHED_FIFO.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0 }
}

#[test]
fn an_owner_in_another_process_inherits_the_waiters_priority() {
    let Some(_alone) = begin() else { return };
    if !thread::spawn(|| become_realtime(1)).join().unwrap() {
        eprintln!("skipped: no privilege for real-time threads");
        return;
    }
    let page = &Page::new();
    let child = Child::start(|| {
        assert!(become_realtime(1));
        page.elsewhere().hold(7);
    });
    page.until_held();
    assert_eq!(priority(child.pid), -2);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(become_realtime(5));
            page.mutex.lock(|value| assert!(value.is_err()));
        });
        while priority(child.pid) != -6 {
            thread::sleep(MILLISECOND / 20);
        }
        child.kill();
    });
}
