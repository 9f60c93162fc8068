//! `PercpuRwLock` as its users see it.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use lockyard::{
    PercpuRwLock, PercpuRwLockReadGuard, PercpuRwLockWriteGuard, RawPercpuRwLock,
    percpu_rwsem::{Barging, Bounded, Grant, Handoff},
};

const MILLISECOND: Duration = Duration::from_millis(1);

/// No child takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(30);

const fn is_send<T: ?Sized + Send>() {}
const fn is_sync<T: ?Sized + Sync>() {}

#[test]
fn what_may_cross_threads_does() {
    is_send::<PercpuRwLock<Cell<u32>>>();
    is_sync::<PercpuRwLock<u32>>();
    is_sync::<RawPercpuRwLock<Handoff>>();
    is_send::<PercpuRwLockReadGuard<'_, u32>>();
    is_sync::<PercpuRwLockWriteGuard<'_, u32>>();
}

#[test]
#[cfg(not(feature = "deadlock"))] // a watched one is larger
fn it_is_small() {
    assert_eq!(size_of::<RawPercpuRwLock>(), 32);
    assert_eq!(size_of::<PercpuRwLock<u64>>(), 40);
}

/// Writers count in two places, which readers must find equal.
fn exclude<G: Grant>() {
    const ROUNDS: u64 = 300;
    let pair = &lock_api::RwLock::<RawPercpuRwLock<G>, (u64, u64)>::new((0, 0));
    let done = &AtomicBool::new(false);
    let reads = &AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let pair = pair.read();
                    assert_eq!(pair.0, pair.1);
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        let mut pair = pair.write();
                        pair.0 += 1;
                        if round % 16 == 0 {
                            thread::yield_now();
                        }
                        pair.1 += 1;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    assert_eq!(*pair.read(), (3 * ROUNDS, 3 * ROUNDS));
    assert!(!pair.is_locked());
}

#[test]
fn readers_and_writers_exclude_each_other_under_every_policy() {
    exclude::<Bounded>();
    exclude::<Barging>();
    exclude::<Handoff>();
}

#[test]
fn writers_come_and_go_between_fast_readers() {
    let pair = &PercpuRwLock::new((0u64, 0u64));
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let pair = pair.read();
                    assert_eq!(pair.0, pair.1);
                }
            });
        }
        for _ in 0..40 {
            thread::sleep(MILLISECOND); // readers are on the fast path again
            let mut pair = pair.write();
            pair.0 += 1;
            pair.1 += 1;
        }
        done.store(true, Relaxed);
    });
    assert_eq!(*pair.read(), (40, 40));
}

#[test]
fn threads_share_a_static() {
    static NAMES: PercpuRwLock<Vec<usize>> = PercpuRwLock::new(Vec::new());
    thread::scope(|scope| {
        for name in 0..8 {
            scope.spawn(move || (0..100).for_each(|_| NAMES.write().push(name)));
        }
    });
    assert_eq!(NAMES.read().len(), 800);
}

#[test]
fn a_guard_unlocks_when_it_is_dropped_and_not_before() {
    let lock = PercpuRwLock::new(1);
    let first = lock.read();
    let second = lock.try_read().unwrap();
    assert!(lock.is_locked() && !lock.is_locked_exclusive());
    assert!(lock.try_write().is_none());
    drop(first);
    assert!(lock.try_write().is_none());
    drop(second);
    let mut writer = lock.try_write().unwrap();
    *writer += 1;
    assert!(lock.is_locked_exclusive());
    assert!(lock.try_read().is_none());
    drop(writer);
    assert!(!lock.is_locked());
    assert_eq!(lock.into_inner(), 2);
}

#[test]
fn a_read_guard_may_end_on_another_thread() {
    let lock = &PercpuRwLock::new(3);
    let guard = lock.read();
    thread::scope(|scope| {
        scope.spawn(move || assert_eq!(*guard, 3));
    });
    assert!(lock.try_write().is_some());
}

#[test]
fn a_writer_that_becomes_a_reader_lets_readers_in_and_no_writer() {
    let lock = PercpuRwLock::new(0);
    let mut writer = lock.write();
    *writer = 1;
    let reader = PercpuRwLockWriteGuard::downgrade(writer);
    assert_eq!(*lock.try_read().unwrap(), 1);
    assert!(lock.try_write().is_none());
    drop(reader);
    assert!(lock.try_write().is_some());
}

#[test]
fn timed_forms_end_in_time() {
    let lock = &PercpuRwLock::new(());
    let past = Instant::now() - MILLISECOND;
    assert!(lock.try_read_until(past).is_some());
    assert!(lock.try_write_until(past).is_some());
    assert!(lock.try_write_for(Duration::MAX).is_some());
    let reader = lock.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            for patience in [Duration::ZERO, MILLISECOND, 5 * MILLISECOND] {
                let began = Instant::now();
                assert!(lock.try_write_for(patience).is_none());
                assert!(began.elapsed() >= patience);
                assert!(lock.try_read_for(patience).is_some());
            }
        });
    });
    drop(reader);
    let writer = lock.write();
    thread::scope(|scope| {
        scope.spawn(|| {
            for patience in [Duration::ZERO, MILLISECOND, 5 * MILLISECOND] {
                let until = Instant::now() + patience;
                assert!(lock.try_read_until(until).is_none());
                assert!(lock.try_write_until(until).is_none());
                assert!(Instant::now() >= until);
            }
        });
    });
    drop(writer);
    assert!(!lock.is_locked());
}

/// Writers that give up do not leave readers behind that sleep.
#[test]
fn writers_that_give_up_wake_who_waits_for_them() {
    let lock = &PercpuRwLock::new(());
    let holder = lock.read();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert!(lock.try_write_for(20 * MILLISECOND).is_none()));
        }
        scope.spawn(|| {
            thread::sleep(5 * MILLISECOND);
            drop(lock.read());
        });
    });
    drop(holder);
    assert!(!lock.is_locked());
}

#[test]
fn a_fair_unlock_serves_who_waits() {
    let lock = &PercpuRwLock::new(0);
    let mut guard = lock.write();
    let came = &Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            came.wait();
            *lock.write() += 1;
        });
        came.wait();
        while *guard == 0 {
            PercpuRwLockWriteGuard::bump(&mut guard);
        }
    });
    drop(guard);
    assert_eq!(*lock.read(), 1);
}

/// What the process keeps for a lock is used again when the lock is gone; many
/// locks at a time each have a count of their own.
#[test]
fn there_are_thousands_of_locks() {
    for _ in 0..3 {
        let locks: Vec<_> = (0..20_000).map(PercpuRwLock::new).collect();
        let guards: Vec<_> = locks.iter().step_by(2).map(PercpuRwLock::read).collect();
        for (number, lock) in locks.iter().enumerate() {
            assert_eq!(lock.is_locked(), number % 2 == 0);
        }
        assert!(
            guards
                .iter()
                .enumerate()
                .all(|(at, value)| **value == 2 * at)
        );
    }
}

#[test]
fn a_lock_that_is_dropped_locked_leaves_nothing_behind() {
    for _ in 0..100 {
        let lock = PercpuRwLock::new(());
        std::mem::forget(lock.read());
        assert!(lock.is_locked());
        drop(lock);
        let next = PercpuRwLock::new(());
        drop(next.read());
        assert!(!next.is_locked());
    }
}

#[test]
fn threads_that_end_while_they_read_leave_no_trace_but_their_guard() {
    let lock = &PercpuRwLock::new(());
    let guards: Vec<_> = (0..50)
        .map(|_| thread::scope(|scope| scope.spawn(|| lock.read()).join().unwrap()))
        .collect();
    assert!(lock.try_write().is_none());
    drop(guards);
    assert!(lock.try_write().is_some());
}

/// Locks in destructors of a thread's locals, also as the first thing it locks.
#[test]
fn a_thread_reads_while_it_ends() {
    static LOCK: PercpuRwLock<u32> = PercpuRwLock::new(0);
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            drop(LOCK.read());
            *LOCK.write() += 1;
        }
    }
    thread_local! {
        static LAST: Last = const { Last };
    }
    for _ in 0..20 {
        thread::spawn(|| LAST.with(|_| ())).join().unwrap();
    }
    // A destructor may still run when the thread is joined.
    let began = Instant::now();
    while *LOCK.read() < 20 && began.elapsed() < LONG {
        thread::sleep(MILLISECOND);
    }
    assert_eq!(*LOCK.read(), 20);
}

#[test]
fn a_writer_that_locks_again_panics_and_unwinds_cleanly() {
    let lock = PercpuRwLock::new(());
    for read in [true, false] {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _writer = lock.write();
            if read {
                drop(lock.read());
            } else {
                drop(lock.write());
            }
        }));
        let message: String = *panic.unwrap_err().downcast().unwrap();
        assert!(message.contains("deadlock"), "{message}");
        assert!(!lock.is_locked());
    }
}

#[test]
fn an_unlock_by_another_than_the_writer_panics() {
    let lock = PercpuRwLock::new(());
    let _reader = lock.read();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: that nobody holds it is what this is about; it panics.
        unsafe { lock.force_unlock_write(lock_api::GuardNoSend::new()) };
    }));
    let message: String = *panic.unwrap_err().downcast().unwrap();
    assert!(message.contains("unlocks"), "{message}");
}

/// Whether `f` returns in a fork's child, without a panic.
fn returns_in_child(f: impl FnOnce()) -> bool {
    // SAFETY: the child uses locks of lockyard and the C library's allocator, which
    // are to work in it, and ends without destructors.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "there is no forking");
    if pid == 0 {
        let returned = catch_unwind(AssertUnwindSafe(f)).is_ok();
        // SAFETY: ending a process has no conditions.
        unsafe { libc::_exit(if returned { 0 } else { 1 }) };
    }
    let began = Instant::now();
    let mut status = 0;
    // SAFETY: `status` is writable.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if began.elapsed() > LONG {
            // SAFETY: the child was not waited for yet, so the number is its.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, &raw mut status, 0);
            }
            return false;
        }
        thread::sleep(MILLISECOND);
    }
    status == 0
}

#[test]
fn a_childs_reader_is_the_forking_thread() {
    let lock = PercpuRwLock::new(1);
    let reader = lock.read();
    let mut reader = Some(reader);
    assert!(returns_in_child(|| {
        assert!(lock.try_write().is_none());
        reader.take();
        *lock.write() += 1;
        assert_eq!(*lock.read(), 2);
    }));
    assert!(lock.try_write().is_none());
    drop(reader);
    assert_eq!(*lock.write(), 1);
}

#[test]
fn a_childs_writer_waits_for_no_waiter_of_the_parent() {
    let lock = &PercpuRwLock::new(1);
    let mut writer = Some(lock.write());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| *lock.write() += 1);
            scope.spawn(|| drop(lock.read()));
        }
        thread::sleep(20 * MILLISECOND); // time to fall asleep
        assert!(returns_in_child(|| {
            drop(writer.take());
            *lock.write() += 1;
            assert_eq!(*lock.read(), 2);
        }));
        drop(writer.take());
    });
    assert_eq!(*lock.read(), 3);
}
