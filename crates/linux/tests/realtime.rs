//! Real-time threads on the CPU of ordinary ones: who spins for what an
//! ordinary thread of its CPU must do spins for ever.

#[path = "support/alone.rs"]
mod alone;
#[path = "support/counter.rs"]
mod counter;

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use alone::Alone;
use counter::Counter;
use lockyard_core::{Platform, osq};
use lockyard_linux::Linux;
use rustix::{
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

const ROUNDS: u64 = 200;

/// aarch64 is tested in an emulator. That one guards its translated code by spin
/// locks, for which a real-time thread spins when it has preempted the ordinary
/// thread that holds one: once in 140 runs of the second test, and by its profile in
/// no code of ours.
const EMULATED: bool = cfg!(target_arch = "aarch64");

/// Makes the calling thread a real-time one; `false` if it may not.
fn become_realtime() -> bool {
    // SAFETY: zero bytes are a valid sched_param.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = 1;
    // SAFETY: `param` is a valid priority of SCHED_FIFO.
    let made = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } == 0;
    if !made {
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    }
    made
}

/// Whether a thread may become a real-time one here.
fn is_possible() -> bool {
    if EMULATED {
        eprintln!("skipped: an emulator spins in its own locks");
        return false;
    }
    let possible = thread::spawn(become_realtime).join().unwrap();
    if !possible {
        eprintln!("skipped: no privilege for real-time threads");
    }
    possible
}

/// Keeps the calling thread and those that it starts on one CPU.
fn pin() {
    let allowed = sched_getaffinity(None).unwrap();
    let cpu = (0..CpuSet::MAX_CPU)
        .find(|&cpu| allowed.is_set(cpu))
        .unwrap();
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).unwrap();
}

/// Adds 1, as a real-time thread. Whoever spins for what never comes does so
/// until the kernel lets ordinary threads run after most of a second.
fn add_in_time(counter: &Counter) {
    let began = cpu_time();
    counter.add();
    let spent = cpu_time() - began;
    assert!(spent < Duration::from_millis(300), "{spent:?} on a CPU");
}

/// How long the calling thread has been on a CPU.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

#[test]
fn a_realtime_thread_waits_for_an_ordinary_owner_on_its_cpu() {
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    let counter = &Counter::<osq::Event>::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            pin();
            for _ in 0..ROUNDS {
                let coming = &AtomicBool::new(false);
                counter.mutex.lock();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        assert!(become_realtime());
                        coming.store(true, Relaxed);
                        add_in_time(counter);
                    });
                    while !coming.load(Relaxed) {
                        thread::yield_now();
                    }
                    counter.add_and_unlock();
                });
            }
        });
    });
    assert_eq!(counter.total(), 2 * ROUNDS);
}

/// Real-time threads preempt ordinary ones wherever these are: with the mutex,
/// in its spin queue, in its gate, on the way from here to there.
#[test]
fn a_realtime_thread_preempts_ordinary_ones_wherever_they_are() {
    const ORDINARY: usize = 4;
    if !is_possible() {
        return;
    }
    let _alone = Alone::begin();
    let counter = &Counter::<osq::Event>::new();
    let stop = &AtomicBool::new(false);
    let total: u64 = thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin();
            thread::scope(|scope| {
                let ordinary = [(); ORDINARY].map(|()| {
                    scope.spawn(|| {
                        let mut adds = 0;
                        // Held for long and given up soon: so they are in the
                        // mutex's queue most of the time, on the way in or out.
                        while !stop.load(Relaxed) {
                            if counter.mutex.lock_until(Linux::after(1_000)) {
                                thread::yield_now();
                                counter.add_and_unlock();
                                adds += 1;
                            }
                        }
                        adds
                    })
                });
                let realtime = [(); 2]
                    .map(|()| {
                        scope.spawn(|| {
                            assert!(become_realtime());
                            for i in 0..2 * ROUNDS {
                                // 30 to 130 µs: no step of the ordinary threads is safe.
                                thread::sleep(Duration::from_nanos(30_000 + i * 7_919 % 100_000));
                                add_in_time(counter);
                            }
                        })
                    })
                    .map(|realtime| realtime.join());
                stop.store(true, Relaxed);
                assert!(realtime.iter().all(Result::is_ok));
                ordinary
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum::<u64>()
            })
        });
        pinned.join().unwrap()
    });
    assert_eq!(counter.total(), total + 4 * ROUNDS);
}
