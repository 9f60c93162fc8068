//! What the order validator says of programs that use the locks, each a process of its own:
//! this program, run for one test.

use std::{
    env, mem,
    process::{self, Command},
    sync::mpsc,
    thread,
    time::Duration,
};

use lockyard::{
    Condvar, Mutex, PercpuRwLock, PercpuRwLockWriteGuard, PiMutex, RwLock,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};

const CHILD: &str = "LOCKYARD_TEST_CHILD";

/// What `program` says on standard error. `test` is the name of the calling test.
fn said(test: &str, program: fn()) -> String {
    if env::var_os(CHILD).is_some() {
        program();
        process::exit(0);
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Asserts that there are so many reports, the first with this title.
fn assert_reports(said: &str, count: usize, title: &str) {
    let titles: Vec<&str> = said
        .lines()
        .filter(|l| l.starts_with("lockyard: "))
        .collect();
    assert_eq!(titles.len(), count, "{said}");
    assert!(titles[0].contains(title), "{said}");
}

/// Runs a part of a program in a thread of its own, to its end.
fn alone(part: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(part);
    });
}

fn takes_a_then_b(a: &Mutex<()>, b: &Mutex<()>) {
    let _a = a.lock();
    drop(b.lock());
}

fn takes_b_then_a(a: &Mutex<()>, b: &Mutex<()>) {
    let _b = b.lock();
    drop(a.lock());
}

#[test]
fn two_orders_are_reported_with_both_stacks() {
    let said = said("two_orders_are_reported_with_both_stacks", || {
        static A: Mutex<()> = Mutex::new(());
        static B: Mutex<()> = Mutex::new(());
        alone(|| takes_a_then_b(&A, &B));
        for _ in 0..3 {
            alone(|| takes_b_then_a(&A, &B));
        }
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
    assert_eq!(
        said.matches("deadlock::takes_a_then_b").count(),
        2,
        "{said}"
    );
    assert_eq!(
        said.matches("deadlock::takes_b_then_a").count(),
        2,
        "{said}"
    );
    assert!(said.contains("tests/deadlock.rs:"), "{said}");
    assert!(!said.contains("lock_api::"), "{said}");
    assert!(!said.contains("lockyard_order"), "{said}");
}

#[test]
fn three_locks_in_a_ring_are_reported() {
    let said = said("three_locks_in_a_ring_are_reported", || {
        let locks = &[const { Mutex::new(()) }; 3];
        for first in 0..3 {
            alone(move || {
                let _first = locks[first].lock();
                drop(locks[(first + 1) % 3].lock());
            });
        }
    });
    assert_reports(&said, 1, "lock order inversion: 3 locks");
}

#[test]
fn mutexes_of_all_kinds_are_in_one_order() {
    let said = said("mutexes_of_all_kinds_are_in_one_order", || {
        let (a, b, c) = (
            &Mutex::new(()),
            &PiMutex::<()>::new(()),
            &PercpuRwLock::new(()),
        );
        alone(|| {
            let _a = a.lock();
            let _b = b.lock();
            drop(c.read());
        });
        alone(|| {
            let _c = c.write();
            drop(a.lock());
        });
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
    assert!(said.contains("rwlock") && said.contains("mutex"), "{said}");
}

#[test]
fn who_only_tries_is_not_reported() {
    let said = said("who_only_tries_is_not_reported", || {
        let (a, b) = (&Mutex::new(()), &Mutex::new(()));
        alone(|| takes_a_then_b(a, b));
        alone(|| {
            let _b = b.lock();
            drop(a.try_lock());
            drop(a.try_lock_for(Duration::from_millis(1)));
        });
        // And backs off, to take them the other way round.
        for (first, second) in [(a, b), (b, a)] {
            alone(|| {
                let _first = first.lock();
                drop(second.try_lock());
            });
        }
    });
    assert_eq!(said, "");
}

#[test]
fn what_was_tried_is_held() {
    let said = said("what_was_tried_is_held", || {
        let (a, b) = (&Mutex::new(()), &Mutex::new(()));
        alone(|| takes_a_then_b(a, b));
        alone(|| {
            let _b = b.try_lock();
            drop(a.lock());
        });
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
}

#[test]
fn a_gate_lock_allows_both_orders() {
    let said = said("a_gate_lock_allows_both_orders", || {
        let (gate, a, b) = (&Mutex::new(()), &Mutex::new(()), &Mutex::new(()));
        alone(|| {
            let _gate = gate.lock();
            takes_a_then_b(a, b);
        });
        alone(|| {
            let _gate = gate.lock();
            takes_b_then_a(a, b);
        });
    });
    assert_eq!(said, "");
}

#[test]
fn a_gate_lock_that_one_goes_around_does_not() {
    let said = said("a_gate_lock_that_one_goes_around_does_not", || {
        let (gate, a, b) = (&Mutex::new(()), &Mutex::new(()), &Mutex::new(()));
        for orders in [takes_a_then_b, takes_b_then_a] {
            alone(|| {
                let _gate = gate.lock();
                orders(a, b);
            });
        }
        alone(|| takes_b_then_a(a, b));
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
}

#[test]
fn readers_are_no_gate() {
    let said = said("readers_are_no_gate", || {
        let (gate, a, b) = (&RwLock::new(()), &Mutex::new(()), &Mutex::new(()));
        for orders in [takes_a_then_b, takes_b_then_a] {
            alone(|| {
                let _gate = gate.read();
                orders(a, b);
            });
        }
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
}

#[test]
fn readers_wait_for_readers_behind_a_writer() {
    let said = said("readers_wait_for_readers_behind_a_writer", || {
        let (a, b) = (&RwLock::new(()), &RwLock::new(()));
        for (first, second) in [(a, b), (b, a)] {
            alone(|| {
                let _first = first.read();
                drop(second.read());
            });
        }
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
    assert!(said.contains("when a writer waits between them"), "{said}");
}

#[test]
fn readers_in_one_order_are_not_reported() {
    let said = said("readers_in_one_order_are_not_reported", || {
        let (a, b) = (&RwLock::new(()), &RwLock::new(()));
        for _ in 0..2 {
            alone(|| {
                let _a = a.read();
                let _b = b.read();
            });
            alone(|| {
                let a = RwLockWriteGuard::downgrade(a.write());
                drop(b.write());
                drop(a);
            });
        }
    });
    assert_eq!(said, "");
}

#[test]
fn an_upgrade_is_guarded_by_itself() {
    let said = said("an_upgrade_is_guarded_by_itself", || {
        let (a, b) = (&RwLock::new(()), &Mutex::new(()));
        for _ in 0..2 {
            alone(|| {
                let read = a.upgradable_read();
                let _b = b.lock();
                drop(RwLockUpgradableReadGuard::upgrade(read));
            });
        }
    });
    assert_eq!(said, "");
}

#[test]
fn a_reader_in_an_upgrades_way_is_reported() {
    let said = said("a_reader_in_an_upgrades_way_is_reported", || {
        let (a, b) = (&RwLock::new(()), &Mutex::new(()));
        alone(|| {
            let read = a.upgradable_read();
            let _b = b.lock();
            drop(RwLockUpgradableReadGuard::upgrade(read));
        });
        alone(|| {
            let _a = a.read();
            drop(b.lock());
        });
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
}

#[test]
fn to_wait_for_a_condition_is_to_wait_for_its_mutex() {
    let said = said("to_wait_for_a_condition_is_to_wait_for_its_mutex", || {
        let (a, b, condition) = (&Mutex::new(()), &Mutex::new(()), &Condvar::new());
        alone(|| {
            let mut a = a.lock();
            let _b = b.lock();
            let moment = Duration::from_millis(1);
            condition.wait_for(&mut a, moment);
        });
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
}

#[test]
fn a_lock_where_another_was_is_another() {
    let said = said("a_lock_where_another_was_is_another", || {
        let (mut a, mut b) = (Mutex::new(()), Mutex::new(()));
        for orders in [takes_a_then_b, takes_b_then_a] {
            alone(|| orders(&a, &b));
            (a, b) = (Mutex::new(()), Mutex::new(()));
        }
        // And where the old one was not dropped.
        alone(|| takes_a_then_b(&a, &b));
        // SAFETY: both are valid for writes, and own nothing.
        unsafe {
            (&raw mut a).write(Mutex::new(()));
            (&raw mut b).write(Mutex::new(()));
        }
        alone(|| takes_b_then_a(&a, &b));
    });
    assert_eq!(said, "");
}

#[test]
fn a_second_read_may_wait_for_the_first() {
    let said = said("a_second_read_may_wait_for_the_first", || {
        let lock = RwLock::new(());
        let _first = lock.read();
        drop(lock.read());
    });
    assert_reports(&said, 1, "waits for itself as soon as a writer waits");
}

#[test]
fn a_lock_of_ones_own_is_reported_before_the_panic() {
    let said = said("a_lock_of_ones_own_is_reported_before_the_panic", || {
        alone(|| {
            static LOCK: Mutex<()> = Mutex::new(());
            let _held = LOCK.lock();
            let again = std::panic::catch_unwind(|| mem::forget(LOCK.lock()));
            assert!(again.is_err());
        });
    });
    assert!(said.contains("waits for itself\n"), "{said}");
}

#[test]
fn an_end_with_a_lock_is_reported() {
    let said = said("an_end_with_a_lock_is_reported", || {
        static LOCK: Mutex<()> = Mutex::new(());
        thread::spawn(|| mem::forget(LOCK.lock())).join().unwrap();
    });
    assert_reports(&said, 1, "ends without unlocking what it holds");
}

#[test]
fn a_lock_destroyed_while_held_is_reported() {
    let said = said("a_lock_destroyed_while_held_is_reported", || {
        let lock = Mutex::new(());
        mem::forget(lock.lock());
    });
    assert_reports(&said, 1, "destroys what thread");
}

#[test]
fn a_readers_lock_may_be_released_by_another() {
    let said = said("a_readers_lock_may_be_released_by_another", || {
        let (a, b) = (&PercpuRwLock::new(()), &Mutex::new(()));
        let guard = a.read();
        alone(move || drop(guard));
        // It holds nothing any more.
        drop(b.lock());
        alone(|| {
            let _b = b.lock();
            drop(a.write());
        });
    });
    assert_eq!(said, "");
}

#[test]
fn a_readers_lock_may_be_left_to_another() {
    let said = said("a_readers_lock_may_be_left_to_another", || {
        let lock = &PercpuRwLock::new(());
        let read = || lock.read();
        let downgraded = || PercpuRwLockWriteGuard::downgrade(lock.write());
        thread::scope(|scope| {
            drop(scope.spawn(read).join().unwrap());
            drop(scope.spawn(downgraded).join().unwrap());
        });
    });
    assert_eq!(said, "");
}

#[test]
fn who_passed_its_read_on_may_wait_for_it() {
    let said = said("who_passed_its_read_on_may_wait_for_it", || {
        let lock = &PercpuRwLock::new(());
        let (passed, passes) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _guard = passes.recv().unwrap();
                thread::sleep(Duration::from_millis(20));
            });
            passed.send(lock.read()).unwrap();
            drop(lock.write());
        });
    });
    assert_eq!(said, "");
}

#[test]
fn a_read_that_may_be_passed_on_is_in_the_order() {
    let said = said("a_read_that_may_be_passed_on_is_in_the_order", || {
        let (a, b) = (&PercpuRwLock::new(()), &Mutex::new(()));
        alone(|| {
            let _a = a.read();
            drop(b.lock());
        });
        alone(|| {
            let _b = b.lock();
            drop(a.write());
        });
    });
    assert_reports(&said, 1, "lock order inversion: 2 locks");
    assert!(said.contains("guard that was passed on"), "{said}");
}
