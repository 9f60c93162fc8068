//! `RwLock` as its users see it.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use lockyard::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, osq, rwsem,
};

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
    is_send::<RwLock<Cell<u32>>>();
    is_sync::<RwLock<u32>>();
    is_sync::<RwLockReadGuard<'_, u32>>();
    is_sync::<RwLockWriteGuard<'_, u32>>();
    is_sync::<RwLockUpgradableReadGuard<'_, u32>>();
    is_sync::<RawRwLock<rwsem::Trylock, osq::Poll>>();
    <RwLock<Cell<u32>> as NotSync<_>>::check(); // readers would share the cell
    <RwLock<std::rc::Rc<u32>> as NotSend<_>>::check();
    <RwLock<std::rc::Rc<u32>> as NotSync<_>>::check();
    <RwLockReadGuard<'_, u32> as NotSend<_>>::check();
    <RwLockWriteGuard<'_, u32> as NotSend<_>>::check();
    <RwLockUpgradableReadGuard<'_, u32> as NotSend<_>>::check();
    <MappedRwLockReadGuard<'_, u32> as NotSend<_>>::check();
    <MappedRwLockWriteGuard<'_, u32> as NotSend<_>>::check();
    <RwLockWriteGuard<'_, Cell<u32>> as NotSync<_>>::check();
}

#[test]
#[cfg(not(feature = "deadlock"))] // a watched one is larger
fn it_is_small() {
    assert_eq!(size_of::<RawRwLock>(), 24);
    assert_eq!(size_of::<RawRwLock<rwsem::Trylock, osq::Poll>>(), 24);
    assert_eq!(size_of::<RwLock<u64>>(), 32);
}

/// Threads of all kinds keep two halves equal.
fn halves_stay_equal<C: rwsem::WakeCheck>() {
    const ROUNDS: usize = 300;
    let lock = &lock_api::RwLock::<RawRwLock<C>, (u64, u64)>::new((0, 0));
    thread::scope(|scope| {
        for task in 0..8 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    match (task + round) % 4 {
                        0 => {
                            let mut halves = lock.write();
                            halves.0 += 1;
                            halves.1 += 1;
                            let halves = lock_api::RwLockWriteGuard::downgrade(halves);
                            assert_eq!(halves.0, halves.1);
                        }
                        1 => {
                            let halves = lock.upgradable_read();
                            let sum = halves.0 + halves.1;
                            let mut halves = lock_api::RwLockUpgradableReadGuard::upgrade(halves);
                            assert_eq!(halves.0 + halves.1, sum, "nobody wrote in between");
                            halves.0 += 1;
                            halves.1 += 1;
                            if round % 2 == 0 {
                                lock_api::RwLockWriteGuard::unlock_fair(halves);
                            }
                        }
                        2 => {
                            if let Some(halves) = lock.try_read_for(MILLISECOND / 50) {
                                assert_eq!(halves.0, halves.1);
                            }
                            if let Some(mut halves) = lock.try_write_for(MILLISECOND / 50) {
                                halves.0 += 1;
                                halves.1 += 1;
                            }
                        }
                        _ => {
                            let halves = lock.read();
                            assert_eq!(halves.0, halves.1);
                        }
                    }
                }
            });
        }
    });
    let halves = lock.try_write().expect("nobody is left");
    assert_eq!(halves.0, halves.1);
}

#[test]
fn readers_and_writers_exclude() {
    halves_stay_equal::<rwsem::Lockless>();
    halves_stay_equal::<rwsem::Trylock>();
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::new(1);
    let one = lock.read();
    let two = lock.try_read().unwrap();
    assert!(lock.try_write().is_none());
    assert!(lock.is_locked() && !lock.is_locked_exclusive());
    drop((one, two));
    let mut writer = lock.try_write().unwrap();
    *writer += 1;
    assert!(lock.is_locked_exclusive());
    assert!(lock.try_read().is_none());
    assert!(lock.try_write().is_none());
    assert!(lock.try_upgradable_read().is_none());
    drop(writer);
    assert!(!lock.is_locked());
    assert_eq!(*lock.read(), 2);
}

/// More readers sleep than one release lets in; all are in at once.
#[test]
fn all_sleeping_readers_come_in_together() {
    const READERS: usize = if cfg!(target_arch = "aarch64") {
        20
    } else {
        600
    };
    let lock = &RwLock::new(0);
    let together = &Barrier::new(READERS);
    let came = &AtomicUsize::new(0);
    let mut writer = lock.write();
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(move || {
                came.fetch_add(1, Relaxed);
                let value = lock.read();
                together.wait();
                assert_eq!(*value, 1);
            });
        }
        while came.load(Relaxed) < READERS {
            thread::yield_now();
        }
        thread::sleep(20 * MILLISECOND); // time to fall asleep, if they are quick
        *writer = 1;
        drop(writer);
    });
    assert!(!lock.is_locked());
}

/// While some thread spins for it again and again, readers and writers that
/// sleep get the lock nevertheless.
#[test]
fn nobody_starves() {
    let lock = &RwLock::new(0_u64);
    let done = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                while done.load(Relaxed) < 2 {
                    let mut value = lock.write();
                    (0..200).for_each(|_| *value = std::hint::black_box(*value + 1));
                }
            });
        }
        scope.spawn(move || {
            (0..20).for_each(|_| drop(lock.read()));
            done.fetch_add(1, Relaxed);
        });
        scope.spawn(move || {
            (0..20).for_each(|_| *lock.write() += 1);
            done.fetch_add(1, Relaxed);
        });
    });
}

#[test]
fn a_timed_lock_takes_a_free_lock_whatever_the_time() {
    let lock = RwLock::new(0);
    let now = Instant::now();
    for at in [
        now.checked_sub(Duration::from_secs(1)),
        Some(now),
        now.checked_add(MILLISECOND),
        now.checked_add(Duration::from_secs(1 << 40)),
    ]
    .into_iter()
    .flatten()
    {
        *lock.try_write_until(at).unwrap() += 1;
        assert!(*lock.try_read_until(at).unwrap() > 0);
        let upgradable = lock.try_upgradable_read_until(at).unwrap();
        *RwLockUpgradableReadGuard::try_upgrade_until(upgradable, at)
            .ok()
            .unwrap() += 1;
    }
    for time in [Duration::ZERO, MILLISECOND, Duration::MAX] {
        *lock.try_write_for(time).unwrap() += 1;
        assert!(*lock.try_read_for(time).unwrap() > 0);
    }
    assert!(lock.into_inner() >= 9);
}

#[test]
fn a_timed_lock_of_a_held_lock_ends_in_time() {
    let lock = &RwLock::new(());
    let patiences = [
        Duration::ZERO,
        Duration::from_nanos(1),
        MILLISECOND,
        5 * MILLISECOND,
    ];
    let ends_in_time = |try_for: &dyn Fn(Duration) -> bool| {
        for patience in patiences {
            let began = Instant::now();
            assert!(!try_for(patience));
            assert!(began.elapsed() >= patience);
        }
    };
    let writer = lock.write();
    thread::scope(|scope| {
        scope.spawn(|| {
            let past = Instant::now() - MILLISECOND;
            assert!(lock.try_read_until(past).is_none());
            assert!(lock.try_write_until(past).is_none());
            ends_in_time(&|patience| lock.try_read_for(patience).is_some());
            ends_in_time(&|patience| lock.try_write_for(patience).is_some());
            ends_in_time(&|patience| lock.try_upgradable_read_for(patience).is_some());
        });
    });
    drop(writer);
    let reader = lock.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            ends_in_time(&|patience| lock.try_write_for(patience).is_some());
            let mut upgradable = lock.upgradable_read();
            for patience in patiences {
                let tried = RwLockUpgradableReadGuard::try_upgrade_for(upgradable, patience);
                upgradable = tried.expect_err("there is another reader");
            }
            drop(upgradable);
            assert!(
                lock.try_read().is_some(),
                "who gave up leaves nothing behind"
            );
        });
    });
    drop(reader);
    assert!(lock.try_write().is_some());
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let lock = &RwLock::new(0);
    let mut writer = lock.write();
    thread::scope(|scope| {
        let reader = scope.spawn(|| *lock.read());
        thread::sleep(2 * MILLISECOND); // time to fall asleep
        *writer = 1;
        let first = RwLockWriteGuard::downgrade(writer);
        assert!(lock.try_write().is_none());
        assert_eq!(reader.join().unwrap(), 1, "it came in now");
        // Not before: a reader that comes behind a waiting writer waits, too.
        scope.spawn(|| *lock.write() += 1);
        thread::sleep(2 * MILLISECOND); // time to try
        assert_eq!(*first, 1);
        drop(first);
    });
    assert_eq!(*lock.read(), 2);
}

#[test]
fn one_reader_at_a_time_is_upgradable() {
    let lock = &RwLock::new(1);
    let upgradable = lock.upgradable_read();
    assert!(lock.try_upgradable_read().is_none());
    let reader = lock.try_read().unwrap();
    let upgradable =
        RwLockUpgradableReadGuard::try_upgrade(upgradable).expect_err("there is another reader");
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = RwLockUpgradableReadGuard::upgrade(lock.upgradable_read());
            *writer *= 10;
        });
        drop(reader);
        let mut writer = RwLockUpgradableReadGuard::upgrade(upgradable);
        assert!(lock.is_locked_exclusive());
        *writer += 1;
        let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writer);
        assert!(lock.try_read().is_some() || lock.try_write().is_none());
        drop(RwLockUpgradableReadGuard::downgrade(upgradable));
    });
    assert_eq!(*lock.read(), 20);
}

#[test]
fn who_upgrades_comes_before_those_that_wait() {
    let lock = &RwLock::new(0);
    let upgradable = lock.upgradable_read();
    let came = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(move || {
            let reader = lock.read();
            came.wait();
            thread::sleep(4 * MILLISECOND); // the upgrade waits
            drop(reader);
        });
        came.wait();
        scope.spawn(|| *lock.write() += 1);
        thread::sleep(MILLISECOND); // the writer waits
        let mut writer = RwLockUpgradableReadGuard::upgrade(upgradable);
        assert_eq!(*writer, 0);
        *writer = 5;
    });
    assert_eq!(*lock.read(), 6);
}

#[test]
fn mapped_guards_hold_it() {
    let lock = RwLock::new((1, String::from("a")));
    let mut text = RwLockWriteGuard::map(lock.write(), |pair| &mut pair.1);
    text.push('b');
    assert!(lock.is_locked_exclusive());
    drop(text);
    let text = RwLockReadGuard::map(lock.read(), |pair| &pair.1);
    assert_eq!(*text, "ab");
    assert!(lock.try_write().is_none());
    drop(text);
    assert!(!lock.is_locked());
}

#[test]
fn fair_unlocks_and_bumps_let_others_in() {
    const TURNS: usize = 100;
    let lock = &RwLock::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut writer = lock.write();
                for _ in 0..TURNS {
                    *writer += 1;
                    RwLockWriteGuard::bump(&mut writer);
                }
                RwLockWriteGuard::unlock_fair(writer);
                let mut reader = lock.read();
                (0..TURNS).for_each(|_| RwLockReadGuard::bump(&mut reader));
                RwLockReadGuard::unlock_fair(reader);
            });
        }
    });
    assert_eq!(*lock.read(), 3 * TURNS);
}

/// A writer that bumps with a reader there has given it its turn.
#[test]
fn a_bump_serves_the_waiter_first() {
    let served = AtomicUsize::new(0);
    let lock = &RwLock::new(());
    let mut writer = lock.write();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _reader = lock.read();
            served.store(1, Relaxed);
        });
        while served.load(Relaxed) == 0 {
            RwLockWriteGuard::bump(&mut writer);
        }
    });
    drop(writer);
    assert!(!lock.is_locked());
}

fn message(action: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).unwrap_err();
    *panic.downcast().unwrap()
}

#[test]
fn a_deadlock_of_the_writer_with_itself_is_a_panic() {
    let lock = RwLock::new(1);
    let writer = lock.write();
    for said in [
        message(|| drop(lock.write())),
        message(|| drop(lock.read())),
        message(|| drop(lock.upgradable_read())),
    ] {
        assert!(said.contains("deadlock"), "{said}");
    }
    assert!(lock.try_read_for(MILLISECOND).is_none());
    assert!(lock.try_write_for(MILLISECOND).is_none());
    drop(writer);
    assert!(!lock.is_locked());
}

#[derive(Clone, Copy)]
enum Release {
    Read,
    Upgradable,
    Write,
}

/// What a release says of a lock that the caller does not hold in this way.
fn misuse(lock: &RwLock<()>, release: Release) {
    // SAFETY: it is not held in this way; so it panics and does nothing.
    let said = message(|| unsafe {
        match release {
            Release::Read => lock.force_unlock_read(lock_api::GuardNoSend::new()),
            Release::Upgradable => lock_api::RawRwLockUpgrade::unlock_upgradable(
                lock.raw(),
                lock_api::GuardNoSend::new(),
            ),
            Release::Write => lock.force_unlock_write(lock_api::GuardNoSend::new()),
        }
    });
    assert!(said.contains("does not hold"), "{said}");
}

#[test]
fn a_release_of_what_is_not_held_is_a_panic() {
    let lock = &RwLock::new(());
    let all = [Release::Read, Release::Upgradable, Release::Write];
    all.into_iter().for_each(|release| misuse(lock, release));
    assert!(!lock.is_locked());
    let writer = lock.write();
    thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            all.into_iter().for_each(|release| misuse(lock, release));
        });
        stranger.join().unwrap();
    });
    assert!(lock.is_locked_exclusive());
    drop(writer);
    let upgradable = lock.upgradable_read();
    misuse(lock, Release::Read); // there is no other reader
    misuse(lock, Release::Write);
    drop(upgradable);
    assert!(!lock.is_locked());
}

#[test]
#[ignore = "locks 16,777,215 times"]
fn too_many_readers_are_kept_out() {
    let lock = RwLock::new(());
    for _ in 1..1_u32 << 24 {
        std::mem::forget(lock.try_read().unwrap());
    }
    assert!(lock.try_read().is_none());
    assert!(lock.try_upgradable_read().is_none());
    let said = message(|| drop(lock.read()));
    assert!(said.contains("too many readers"), "{said}");
}

#[test]
fn a_holder_that_panics_unlocks() {
    let lock = &RwLock::new(1);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = lock.write();
            *writer = 2;
            panic!("on purpose");
        });
        assert!(writer.join().is_err());
        let reader = scope.spawn(|| {
            let _reader = lock.read();
            panic!("on purpose");
        });
        assert!(reader.join().is_err());
    });
    assert_eq!(*lock.try_write().unwrap(), 2);
}

/// Reads it more often than it takes for its readers not to be counted any more.
fn read_often<T>(lock: &RwLock<T>) {
    (0..1_000).for_each(|_| drop(lock.read()));
}

/// As if they were all counted.
#[test]
fn readers_that_are_not_counted_are_known() {
    let lock = &RwLock::new(1);
    read_often(lock);
    assert!(!lock.is_locked());
    let (first, second) = (lock.read(), lock.read());
    assert!(lock.is_locked() && !lock.is_locked_exclusive());
    assert!(lock.try_write().is_none());
    assert!(lock.try_write_for(MILLISECOND).is_none());
    drop(first);
    assert!(lock.try_write().is_none());
    drop(second);
    *lock.try_write().expect("nobody reads any more") = 2;
    read_often(lock);
    let upgradable = lock.upgradable_read();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = lock.read();
            thread::sleep(MILLISECOND);
            *reader
        });
        assert_eq!(reader.join().unwrap(), 2);
    });
    *RwLockUpgradableReadGuard::upgrade(upgradable) = 3;
    assert_eq!(*lock.read(), 3);
}

#[test]
fn writers_come_between_readers_that_are_not_counted() {
    let lock = &RwLock::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..100 {
                    (0..100).for_each(|_| {
                        let halves = lock.read();
                        assert_eq!(halves.0, halves.1);
                    });
                    let mut halves = lock.write();
                    halves.0 += 1;
                    thread::yield_now();
                    halves.1 += 1;
                }
            });
        }
    });
    assert_eq!(*lock.try_write().expect("nobody is left"), (300, 300));
}

/// A lock that was read is dropped or moved, and another lies in its place.
#[test]
fn a_forgotten_reader_of_another_lock_keeps_nobody_out() {
    let mut lock = Box::new(RwLock::new(0));
    for _ in 0..10 {
        read_often(&lock);
        std::mem::forget(lock.read());
        *lock = RwLock::new(0);
        drop(lock.read());
        *lock.try_write().expect("it is another lock") += 1;
        read_often(&lock);
        *lock.try_write().expect("nobody reads it") += 1;
    }
}

/// Threads come and go, and one of them has gone without its guard.
#[test]
fn a_thread_that_ended_may_still_read() {
    for round in 0..100 {
        let lock = &RwLock::new(());
        thread::scope(|scope| {
            let reads = || {
                read_often(lock);
                std::mem::forget(lock.read());
            };
            scope.spawn(reads).join().unwrap();
            assert!(lock.try_write().is_none(), "round {round}");
            // Its record is another's now, or that of nobody.
            scope.spawn(|| read_often(lock)).join().unwrap();
            assert!(lock.try_write().is_none(), "round {round}");
        });
    }
}

/// More of them than a task has slots, and out of order.
#[test]
fn one_thread_reads_many_locks_at_a_time() {
    let locks: Vec<_> = (0..9).map(RwLock::new).collect();
    locks.iter().for_each(read_often);
    let guards: Vec<_> = locks.iter().map(RwLock::read).collect();
    assert!(locks.iter().all(RwLock::is_locked));
    assert!(locks.iter().all(|lock| lock.try_write().is_none()));
    drop(guards);
    assert!(locks.iter().all(|lock| lock.try_write().is_some()));
}
