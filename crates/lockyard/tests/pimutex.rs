//! `PiMutex` on real threads.

#[path = "../../linux/tests/support/alone.rs"]
mod alone;
#[path = "../../linux/tests/support/counts.rs"]
mod counts;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::{Barrier, mpsc},
    thread,
    time::{Duration, Instant},
};

use alone::Alone;
use counts::Counts;
use lock_api::GuardNoSend;
use lockyard::{
    PiMutex, PiMutexGuard, RobustPiMutex,
    pimutex::{Adaptive, Policy, Strict},
};
use lockyard_core::Event;

/// aarch64 is tested in an emulator, which shows no priorities in /proc.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const MILLISECOND: Duration = Duration::from_millis(1);

/// Makes the calling thread a real-time one, or with 0 an ordinary one; `false` if it
/// may not.
fn become_realtime(sched_priority: i32) -> bool {
    let policy = match sched_priority {
        0 => libc::SCHED_OTHER,
        _ => libc::SCHED_FIFO,
    };
    let param = libc::sched_param { sched_priority };
    // SAFETY: `param` is a valid priority of the policy.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

/// Whether a thread may become a real-time one here, and its priority be seen.
fn is_possible() -> bool {
    let possible = !EMULATED && thread::spawn(|| become_realtime(1)).join().unwrap();
    if !possible {
        eprintln!("skipped: no privilege for real-time threads, or an emulator");
    }
    possible
}

/// The real-time priority that the calling thread runs at, its own or one that it is
/// lent; 0 for an ordinary one.
fn priority() -> i32 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    // Field 18 of the line: -1 less the real-time priority, or what is above 0.
    let field: i32 = after_name.split(' ').nth(15).unwrap().parse().unwrap();
    (-1 - field).max(0)
}

/// Waits until the calling thread runs at this priority: for ever, if it never does.
fn until_priority(wanted: i32) {
    while priority() != wanted {
        thread::sleep(Duration::from_micros(50));
    }
}

/// Waits until a thread sleeps that has nothing to wait for but a lock.
fn until_asleep(tid: i32) {
    let stat = format!("/proc/self/task/{tid}/stat");
    while !fs::read_to_string(&stat).unwrap().contains(") S ") {
        thread::sleep(Duration::from_micros(50));
    }
}

/// The message of the panic that `f` must end in.
fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it did not panic");
    *payload.downcast().expect("a formatted message")
}

#[test]
#[cfg(not(feature = "deadlock"))] // a watched one is larger, and has the traits' methods alone
fn it_is_twenty_four_bytes_of_zero() {
    use lockyard::RawPiMutex;
    assert_eq!(size_of::<RawPiMutex>(), 24);
    let zeros = std::mem::MaybeUninit::<RawPiMutex>::zeroed();
    // SAFETY: zero bytes are an unlocked mutex, as its documentation says.
    let mutex = unsafe { zeros.assume_init() };
    assert!(!mutex.is_locked());
    assert!(mutex.try_lock());
    assert!(mutex.is_locked() && mutex.is_mine());
}

fn adds_up<S: Policy>(threads: u64, adds: u64, own: impl Fn(u64) -> i32 + Sync) {
    let total = PiMutex::<u64, S>::new(0);
    let timed_out = PiMutex::<u64, S>::new(0);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (total, timed_out, own) = (&total, &timed_out, &own);
            scope.spawn(move || {
                assert!(become_realtime(own(thread)));
                for i in 0..adds {
                    match (i + thread) % 5 {
                        0 => match total.try_lock_for(MILLISECOND / 20) {
                            Some(mut total) => *total += 1,
                            None => *timed_out.lock() += 1,
                        },
                        1 => {
                            let mut total = total.lock();
                            *total += 1;
                            if i % 32 == 1 {
                                thread::sleep(MILLISECOND / 20);
                            }
                        }
                        _ => *total.lock() += 1,
                    }
                }
            });
        }
    });
    assert_eq!(*total.lock() + *timed_out.lock(), threads * adds);
}

const ADDS: u64 = if EMULATED { 100 } else { 1_000 };

#[test]
fn no_update_of_ordinary_threads_is_lost() {
    let _alone = Alone::begin();
    for threads in [1, 2, 8] {
        adds_up::<Adaptive>(threads, ADDS, |_| 0);
    }
}

#[test]
fn no_update_of_strict_threads_is_lost() {
    let _alone = Alone::begin();
    for threads in [1, 2, 8] {
        adds_up::<Strict>(threads, ADDS, |_| 0);
    }
}

#[test]
fn no_update_of_threads_of_all_kinds_is_lost() {
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    adds_up::<Adaptive>(8, ADDS, |thread| [0, 1, 0, 2][thread as usize % 4]);
    adds_up::<Strict>(4, ADDS, |thread| thread as i32 % 2);
}

#[test]
fn threads_come_and_go() {
    let _alone = Alone::begin();
    let total = &PiMutex::<u64>::new(0);
    for _ in 0..20 {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| *total.lock() += 1);
            }
        });
    }
    assert_eq!(*total.lock(), 80);
}

#[test]
fn an_owner_is_lent_the_priority_of_a_realtime_waiter() {
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    let mutex = &PiMutex::<()>::new(());
    thread::scope(|scope| {
        let held = mutex.lock();
        assert_eq!(priority(), 0);
        for level in [3, 7] {
            scope.spawn(move || {
                assert!(become_realtime(level));
                drop(mutex.lock());
            });
            until_priority(level);
        }
        drop(held);
        assert_eq!(priority(), 0);
    });
}

#[test]
fn a_waiter_that_gives_up_takes_its_priority_back() {
    if !is_possible() {
        return;
    }
    let mut counts = Counts::begin();
    let mutex = &PiMutex::<()>::new(());
    let held = mutex.lock();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            assert!(become_realtime(5));
            assert!(mutex.try_lock_for(20 * MILLISECOND).is_none());
        });
        waiter.join().unwrap();
    });
    assert_eq!((counts.seen(Event::Boosted), priority()), (1, 0));
    drop(held);
}

/// Locks by which a waiter lends its priority to the owner.
trait Inherits: Sync {
    fn during(&self, critical: impl FnOnce());
}

impl<S: Policy> Inherits for PiMutex<(), S> {
    fn during(&self, critical: impl FnOnce()) {
        let _held = self.lock();
        critical();
    }
}

impl Inherits for RobustPiMutex<()> {
    fn during(&self, critical: impl FnOnce()) {
        self.lock(|_| critical());
    }
}

/// The last of the mutexes is wanted by a real-time thread, and each of their owners, who
/// has locked it some times before, wants the one before; what that lends the owner of the
/// first mutex.
fn lent_along(first: &PiMutex<()>, others: &[impl Inherits], before: u32) {
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    thread::scope(|scope| {
        let held = first.lock();
        for (level, mutex) in others.iter().enumerate() {
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                for _ in 0..before {
                    mutex.during(|| ());
                }
                mutex.during(|| {
                    tell.send(()).unwrap();
                    match level.checked_sub(1) {
                        None => first.during(|| ()),
                        Some(previous) => others[previous].during(|| ()),
                    }
                });
            });
            told.recv().unwrap();
        }
        scope.spawn(|| {
            assert!(become_realtime(4));
            others.last().expect("a chain").during(|| ());
        });
        until_priority(4);
        drop(held);
        assert_eq!(priority(), 0);
    });
}

#[test]
fn a_chain_of_ordinary_owners_is_lent_the_priority_at_its_end() {
    lent_along(&PiMutex::new(()), &[(); 3].map(PiMutex::<()>::new), 0);
}

#[test]
fn an_owner_by_a_reservation_lends_on_what_it_is_lent() {
    lent_along(&PiMutex::new(()), &[(); 3].map(PiMutex::<()>::new), 1_000);
}

#[test]
fn an_owner_of_a_robust_mutex_lends_on_what_it_is_lent() {
    if RobustPiMutex::<()>::is_supported() {
        lent_along(&PiMutex::new(()), &[RobustPiMutex::new(())], 0);
    }
}

/// Who is about to wait asks whether it has any of them.
#[test]
fn memory_of_reserved_mutexes_may_be_gone() {
    const SIZE: usize = 4096;
    let wanted = &PiMutex::<()>::new(());
    thread::scope(|scope| {
        let held = wanted.lock();
        let (tell, told) = mpsc::channel();
        scope.spawn(move || {
            let (prot, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            // SAFETY: new memory, wherever there is some.
            let page = unsafe { libc::mmap(ptr::null_mut(), SIZE, prot, flags, -1, 0) };
            assert_ne!(page, libc::MAP_FAILED);
            // SAFETY: zero bytes are an unlocked mutex; the page is mapped while it is used.
            let mutex = unsafe { &*page.cast::<PiMutex<()>>() };
            for _ in 0..1_000 {
                drop(mutex.lock());
            }
            // SAFETY: nobody uses the page any more.
            assert_eq!(unsafe { libc::munmap(page, SIZE) }, 0);
            // SAFETY: it has no conditions.
            tell.send(unsafe { libc::gettid() }).unwrap();
            drop(wanted.lock());
        });
        until_asleep(told.recv().unwrap());
        drop(held);
    });
}

/// The waiters are let in by their priority, and a plain one after them all.
#[test]
fn the_most_urgent_is_next() {
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    let order = &PiMutex::<Vec<i32>>::new(Vec::new());
    thread::scope(|scope| {
        let held = order.lock();
        for level in [2, 1, 0, 3] {
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                assert!(become_realtime(level));
                // SAFETY: it has no conditions.
                tell.send(unsafe { libc::gettid() }).unwrap();
                order.lock().push(level);
            });
            until_asleep(told.recv().unwrap());
        }
        drop(held);
    });
    assert_eq!(*order.lock(), [3, 2, 1, 0]);
}

/// A mutex that is reserved for an ordinary thread, and one that was, while it comes and
/// goes.
#[test]
fn a_realtime_thread_gets_a_mutex_that_is_reserved() {
    const ROUNDS: u64 = 200;
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    let total = &PiMutex::<u64>::new(0);
    let stop = &PiMutex::<bool>::new(false);
    let added = thread::scope(|scope| {
        let ordinary = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut added = 0;
                while !*stop.lock() {
                    for _ in 0..100 {
                        *total.lock() += 1;
                    }
                    added += 100;
                }
                added
            })
        });
        let realtime = scope.spawn(|| {
            assert!(become_realtime(1));
            for _ in 0..ROUNDS {
                *total.lock() += 1;
                thread::sleep(MILLISECOND / 10);
            }
        });
        realtime.join().unwrap();
        *stop.lock() = true;
        ordinary.map(|ordinary| ordinary.join().unwrap())
    });
    assert_eq!(*total.lock(), ROUNDS + added.iter().sum::<u64>());
}

/// After real-time threads have gone, an unlock makes the mutex a plain one again.
#[test]
fn boosting_ends_with_the_boosters() {
    if !is_possible() {
        return;
    }
    let mut counts = Counts::begin();
    let mutex = &PiMutex::<()>::new(());
    thread::scope(|scope| {
        let held = mutex.lock();
        scope.spawn(|| {
            assert!(become_realtime(2));
            drop(mutex.lock());
        });
        counts.until(Event::Boosted, 1);
        until_priority(2);
        drop(held);
    });
    assert_eq!(counts.seen(Event::BoostStopped), 0);
    drop(mutex.lock());
    assert_eq!(counts.seen(Event::BoostStopped), 1);
}

#[test]
fn a_deadline_ends_a_wait() {
    let _alone = Alone::begin();
    let adaptive = &PiMutex::<()>::new(());
    let strict = &PiMutex::<(), Strict>::new(());
    let (_one, _other) = (adaptive.lock(), strict.lock());
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            assert!(adaptive.try_lock_for(5 * MILLISECOND).is_none());
            assert!(strict.try_lock_for(5 * MILLISECOND).is_none());
            assert!(began.elapsed() >= 10 * MILLISECOND);
            assert!(adaptive.try_lock_until(began).is_none());
            assert!(strict.try_lock_until(began).is_none());
            assert!(adaptive.try_lock().is_none() && strict.try_lock().is_none());
        });
    });
}

/// The guard may have been leaked, and what it guards be borrowed for ever: nobody inherits it
/// from the thread that ends.
#[test]
fn nobody_gets_the_mutex_of_a_thread_that_has_ended() {
    let _alone = Alone::begin();
    let mutex = &PiMutex::<(), Strict>::new(());
    let held = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            std::mem::forget(mutex.lock());
            held.wait();
            thread::sleep(10 * MILLISECOND); // the others likely wait then
        });
        held.wait();
        let wait = || {
            let timed_out = mutex.try_lock_for(100 * MILLISECOND).is_none();
            #[cfg(not(feature = "deadlock"))]
            // SAFETY: it is only looked at.
            assert!(!unsafe { mutex.raw() }.is_mine()); // though the kernel has one inherit it
            timed_out
        };
        let waiters = [(); 2].map(|()| scope.spawn(wait));
        assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [true; 2]);
    });
    assert!(mutex.try_lock().is_none() && mutex.is_locked());
}

#[test]
fn a_free_mutex_is_taken_after_the_deadline() {
    let past = Instant::now();
    assert!(PiMutex::<()>::new(()).try_lock_until(past).is_some());
    assert!(
        PiMutex::<(), Strict>::new(())
            .try_lock_until(past)
            .is_some()
    );
}

#[test]
fn an_owner_that_locks_again_is_told() {
    let _alone = Alone::begin();
    let mutex = PiMutex::<()>::new(());
    let held = mutex.lock();
    assert!(panic_of(|| drop(mutex.lock())).starts_with("deadlock: "));
    assert!(mutex.try_lock_for(MILLISECOND).is_none());
    drop(held);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_stranger_that_unlocks_is_told() {
    let _alone = Alone::begin();
    let mutex = &PiMutex::<()>::new(());
    let held = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the caller does not hold it, which is what this is to show.
            let said = panic_of(|| unsafe { mutex.force_unlock(GuardNoSend::new()) });
            assert!(said.contains("unlocks the mutex at"), "{said}");
        });
    });
    drop(held);
}

/// Each of two threads locks what the other has: who comes second is told, and both are
/// when they come at once, for the kernel looks for a cycle only after it has queued a
/// waiter.
fn two_in_a_circle(
    lock: impl Fn(&PiMutex<()>) -> Option<PiMutexGuard<'_, ()>> + Sync,
) -> [bool; 2] {
    let mutexes = &[PiMutex::new(()), PiMutex::new(())];
    let both = &Barrier::new(2);
    thread::scope(|scope| {
        let threads = [(0, 1), (1, 0)].map(|(mine, other)| {
            let lock = &lock;
            scope.spawn(move || {
                let held = mutexes[mine].lock();
                both.wait();
                let got = lock(&mutexes[other]).is_some();
                drop(held);
                got
            })
        });
        threads.map(|thread| thread.join().unwrap_or(false))
    })
}

#[test]
fn a_deadlock_of_two_is_found() {
    let _alone = Alone::begin();
    let got = two_in_a_circle(|mutex| Some(mutex.lock()));
    assert!(!got[0] || !got[1], "{got:?}");
    let got = two_in_a_circle(|mutex| mutex.try_lock_for(20 * MILLISECOND));
    assert!(!got[0] || !got[1], "{got:?}");
}

/// One gives up soon, and the other gets the mutex of that then.
#[test]
fn a_circle_of_two_that_opens() {
    let _alone = Alone::begin();
    let [one, other] = &[PiMutex::<()>::new(()), PiMutex::new(())];
    let both = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let held = one.lock();
            both.wait();
            let soon = other.try_lock_for(20 * MILLISECOND).is_some();
            drop(held);
            assert!(!soon, "the other has it until it has mine");
        });
        let _held = other.lock();
        both.wait();
        assert!(one.try_lock_for(Duration::from_secs(3600)).is_some());
    });
}

#[test]
fn a_forks_child_locks_by_its_own_number() {
    let _alone = Alone::begin();
    let mutex = PiMutex::<u32>::new(0);
    *mutex.lock() += 1;
    // SAFETY: the child uses locks of lockyard alone, which are to work in it, and ends
    // without destructors.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let works = catch_unwind(AssertUnwindSafe(|| {
            *mutex.lock() += 1;
            assert!(mutex.try_lock_for(MILLISECOND).is_some());
        }));
        // SAFETY: ending a process has no conditions.
        unsafe { libc::_exit(i32::from(works.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable, and the child was not waited for yet.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
    *mutex.lock() += 1;
}
