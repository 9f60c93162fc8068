//! `Mutex` as its users see it.

use std::{
    cell::Cell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use lockyard::{MappedMutexGuard, Mutex, MutexGuard, RawMutex, osq};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Does not compile for a `T` that is `Send`: then `_` may be two types.
trait NotSend<A> {
    fn check() {}
}
impl<T: ?Sized> NotSend<()> for T {}
impl<T: ?Sized + Send> NotSend<u8> for T {}

/// Does not compile for a `T` that is `Sync`, likewise.
trait NotSync<A> {
    fn check() {}
}
impl<T: ?Sized> NotSync<()> for T {}
impl<T: ?Sized + Sync> NotSync<u8> for T {}

const fn is_send<T: ?Sized + Send>() {}
const fn is_sync<T: ?Sized + Sync>() {}

#[test]
fn only_what_may_cross_threads_does() {
    is_send::<Mutex<Cell<u32>>>();
    is_sync::<Mutex<Cell<u32>>>();
    is_sync::<MutexGuard<'_, u32>>();
    is_sync::<RawMutex<osq::Poll>>();
    <MutexGuard<'_, u32> as NotSend<_>>::check();
    <MappedMutexGuard<'_, u32> as NotSend<_>>::check();
    <MutexGuard<'_, Cell<u32>> as NotSync<_>>::check();
    <Mutex<std::rc::Rc<u32>> as NotSend<_>>::check();
    <Mutex<std::rc::Rc<u32>> as NotSync<_>>::check();
}

#[test]
#[cfg(not(feature = "deadlock"))] // a watched one is larger
fn it_is_small() {
    assert_eq!(size_of::<RawMutex>(), 16);
    assert_eq!(size_of::<RawMutex<osq::Poll>>(), 16);
    assert_eq!(size_of::<Mutex<()>>(), 16);
    assert_eq!(size_of::<Mutex<u64>>(), 24);
}

#[test]
fn threads_share_a_static() {
    static NAMES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for name in 0..8 {
            scope.spawn(move || (0..100).for_each(|_| NAMES.lock().push(name)));
        }
    });
    let names = NAMES.lock();
    assert_eq!(names.len(), 800);
    for name in 0..8 {
        assert_eq!(names.iter().filter(|&&seen| seen == name).count(), 100);
    }
}

#[test]
fn it_holds_what_has_no_size() {
    let array: Arc<Mutex<[u8]>> = Arc::new(Mutex::new([1, 2, 3]));
    array.lock()[1] = 5;
    assert_eq!(*array.lock(), [1, 5, 3]);
    let object: Box<Mutex<dyn fmt::Debug>> = Box::new(Mutex::new(7));
    assert_eq!(format!("{:?}", &*object.lock()), "7");
}

#[test]
fn a_guard_unlocks_when_it_is_dropped_and_not_before() {
    let mutex = Mutex::new(1);
    let mut guard = mutex.lock();
    *guard += 1;
    assert!(mutex.is_locked());
    assert!(mutex.try_lock().is_none());
    drop(guard);
    assert!(!mutex.is_locked());
    assert_eq!(*mutex.try_lock().unwrap(), 2);
    assert!(!mutex.is_locked());
}

#[test]
fn a_forgotten_guard_leaves_it_locked() {
    let mutex = Mutex::new(());
    std::mem::forget(mutex.lock());
    assert!(mutex.is_locked());
    assert!(mutex.try_lock_for(Duration::ZERO).is_none());
}

#[test]
fn a_mapped_guard_holds_it() {
    let mutex = Mutex::new((1, String::from("a")));
    let mut text = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
    text.push('b');
    assert!(mutex.is_locked());
    let mut byte = MappedMutexGuard::map(text, |text| {
        // SAFETY: ASCII is replaced by ASCII below.
        unsafe { &mut text.as_bytes_mut()[0] }
    });
    *byte = b'c';
    assert!(mutex.is_locked());
    drop(byte);
    assert_eq!(*mutex.lock(), (1, String::from("cb")));
}

#[test]
fn a_map_that_fails_gives_the_guard_back() {
    let mutex = Mutex::new(Some(3));
    let guard = mutex.lock();
    let guard = MutexGuard::try_map(guard, |value| value.as_mut().filter(|n| **n > 5))
        .expect_err("3 is not above 5");
    assert!(mutex.is_locked());
    let three = MutexGuard::try_map(guard, Option::as_mut).ok().unwrap();
    assert_eq!(*three, 3);
    drop(three);
    assert!(!mutex.is_locked());
}

#[test]
fn a_timed_lock_takes_a_free_mutex_whatever_the_time() {
    let mutex = Mutex::new(0);
    let now = Instant::now();
    for at in [
        now.checked_sub(Duration::from_secs(1)),
        Some(now),
        now.checked_add(MILLISECOND),
        now.checked_add(Duration::from_secs(1 << 40)),
        now.checked_add(Duration::from_secs(1 << 62)),
    ]
    .into_iter()
    .flatten()
    {
        *mutex.try_lock_until(at).unwrap() += 1;
    }
    for time in [Duration::ZERO, MILLISECOND, Duration::MAX] {
        *mutex.try_lock_for(time).unwrap() += 1;
    }
    assert!(mutex.into_inner() >= 5);
}

#[test]
fn a_timed_lock_of_a_held_mutex_ends_in_time() {
    let mutex = &Mutex::new(());
    let _guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            let past = Instant::now() - MILLISECOND;
            assert!(mutex.try_lock_until(past).is_none());
            assert!(mutex.try_lock_for(Duration::ZERO).is_none());
            for patience in [Duration::from_nanos(1), MILLISECOND, 5 * MILLISECOND] {
                let began = Instant::now();
                assert!(mutex.try_lock_for(patience).is_none());
                assert!(began.elapsed() >= patience);
                let until = Instant::now() + patience;
                assert!(mutex.try_lock_until(until).is_none());
                assert!(Instant::now() >= until);
            }
        });
    });
}

#[test]
fn a_timed_lock_may_wait_for_ever() {
    let mutex = &Mutex::new(0);
    let coming = &Barrier::new(5);
    let guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            coming.wait();
            *mutex.try_lock_for(Duration::MAX).unwrap() += 1;
        });
        for shift in [35, 40, 62] {
            scope.spawn(move || {
                coming.wait();
                let far = Instant::now().checked_add(Duration::from_secs(1 << shift));
                let far = far.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
                *mutex.try_lock_until(far).unwrap() += 1;
            });
        }
        coming.wait();
        thread::sleep(2 * MILLISECOND); // time to fall asleep, if they are quick
        drop(guard);
    });
    assert_eq!(*mutex.lock(), 4);
}

#[test]
fn others_may_have_it_while_a_guard_is_unlocked() {
    let mutex = &Mutex::new(1);
    let mut guard = mutex.lock();
    let returned = MutexGuard::unlocked(&mut guard, || {
        assert!(!mutex.is_locked());
        thread::scope(|scope| {
            scope.spawn(|| *mutex.lock() += 1);
        });
        "done"
    });
    assert_eq!(returned, "done");
    assert!(mutex.is_locked());
    assert_eq!(*guard, 2);
    MutexGuard::unlocked_fair(&mut guard, || *mutex.lock() += 1);
    assert_eq!(*guard, 3);
}

#[test]
fn a_guard_is_locked_again_after_a_panic_while_it_was_unlocked() {
    let mutex = Mutex::new(());
    let mut guard = mutex.lock();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        MutexGuard::unlocked(&mut guard, || panic!("on purpose"));
    }));
    assert!(panic.is_err());
    assert!(mutex.is_locked());
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn fair_unlocks_and_bumps_let_others_in() {
    const TURNS: usize = 100;
    let mutex = &Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut guard = mutex.lock();
                for _ in 0..TURNS {
                    *guard += 1;
                    MutexGuard::bump(&mut guard);
                }
                MutexGuard::unlock_fair(guard);
            });
        }
    });
    assert_eq!(*mutex.lock(), 3 * TURNS);
}

/// Whoever bumps with a waiter there has given it its turn when it is back.
#[test]
fn a_bump_serves_the_waiter_first() {
    let served = AtomicUsize::new(0);
    let mutex = &Mutex::new(());
    let mut guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = mutex.lock();
            served.store(1, Relaxed);
        });
        while served.load(Relaxed) == 0 {
            MutexGuard::bump(&mut guard);
        }
    });
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn debug_shows_a_free_value_and_waits_for_no_owner() {
    let mutex = Mutex::new(17);
    assert!(format!("{mutex:?}").contains("17"));
    let guard = mutex.lock();
    let held = format!("{mutex:?}");
    assert!(held.contains("locked") && !held.contains("17"), "{held}");
    assert_eq!(format!("{guard:?} {guard}"), "17 17");
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn a_holder_that_panics_unlocks() {
    let mutex = &Mutex::new(1);
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let mut guard = mutex.lock();
            *guard = 2;
            panic!("on purpose");
        });
        assert!(holder.join().is_err());
    });
    assert_eq!(*mutex.try_lock().unwrap(), 2);
}

#[test]
fn a_deadlock_with_oneself_is_a_panic_that_unwinds_cleanly() {
    let mutex = Mutex::new(1);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _guard = mutex.lock();
        let _never = mutex.lock();
    }));
    let message: String = *panic.unwrap_err().downcast().unwrap();
    assert!(message.contains("deadlock"), "{message}");
    assert!(!mutex.is_locked());
}

#[test]
fn the_value_comes_out_again() {
    let mut mutex = Mutex::new(String::from("a"));
    mutex.get_mut().push('b');
    assert_eq!(mutex.into_inner(), "ab");
    assert_eq!(Mutex::<u32>::default().into_inner(), 0);
    assert_eq!(Mutex::from(4).into_inner(), 4);
}

#[test]
fn both_ways_to_spin_exclude() {
    fn sum<W: osq::Wait<lockyard_linux::Linux>>() -> u64 {
        let mutex = lock_api::Mutex::<RawMutex<W>, u64>::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| *mutex.lock() += 1));
            }
        });
        mutex.into_inner()
    }
    assert_eq!(sum::<osq::Poll>(), 2_000);
    assert_eq!(sum::<osq::Event>(), 2_000);
}
