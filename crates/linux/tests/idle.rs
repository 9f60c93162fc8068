//! Whoever waits for long does not use up a CPU.

#[path = "support/alone.rs"]
mod alone;

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use alone::Alone;
use lockyard_core::RawMutex;
use lockyard_linux::Linux;
use rustix::time::{ClockId, clock_gettime};

/// aarch64 is tested in an emulator, whose own work would count.
const EMULATED: bool = cfg!(target_arch = "aarch64");

const LONG: Duration = Duration::from_secs(1);

/// How long the calling thread has been on a CPU.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Has threads wait while `hold` goes on. Each may be on a CPU for a hundredth
/// of the time.
fn waiters_idle(waiters: usize, hold: impl FnOnce()) {
    if EMULATED {
        eprintln!("skipped: an emulator's own work would count");
        return;
    }
    let _alone = Alone::begin();
    let mutex = &RawMutex::<Linux>::new();
    let begun = &Barrier::new(waiters + 1);
    mutex.lock();
    thread::scope(|scope| {
        for _ in 0..waiters {
            scope.spawn(|| {
                begun.wait();
                let (began, cpu) = (Instant::now(), cpu_time());
                mutex.lock();
                let (waited, cpu) = (began.elapsed(), cpu_time() - cpu);
                // SAFETY: this thread holds it.
                unsafe { mutex.unlock() };
                assert!(cpu < waited / 100, "{cpu:?} on a CPU in {waited:?}");
            });
        }
        begun.wait();
        hold();
        // SAFETY: this thread holds it.
        unsafe { mutex.unlock() };
    });
}

#[test]
fn a_waiter_idles_while_the_owner_sleeps() {
    waiters_idle(1, || thread::sleep(LONG));
}

#[test]
fn waiters_idle_while_the_owner_works() {
    waiters_idle(4, || {
        let began = Instant::now();
        while began.elapsed() < LONG {}
    });
}
