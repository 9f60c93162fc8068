//! How long a broadcast takes on simulated machines: from the notifier's lock until the last
//! of those that wait has had the mutex, and until the notifier has unlocked it.

use std::cell::Cell;

use lockyard_core::{Condvar, RawMutex};
use lockyard_sim::{Machine, Policy, Scenario, Sim, now_ns, work};

const ROUNDS: u32 = 20;

/// What the notifier works while those that it has woken go to sleep again.
const SETTLE: u32 = 300_000;

/// Nanoseconds until all have had the mutex, and until the notifier has unlocked it.
fn broadcast(machine: &str, waiters: usize, section: u32) -> (u64, u64) {
    let machine = Machine::find(machine).expect("a preset");
    let mutex = RawMutex::<Sim>::new();
    let condvar = Condvar::<Sim>::new();
    let (round, waiting, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (began, all_out, notifier_out) = (Cell::new(0), Cell::new(0), Cell::new(0));
    // SAFETY: called by who has locked it.
    let unlock = || unsafe { mutex.unlock() };
    let notify = || {
        for next in 1..=ROUNDS {
            loop {
                mutex.lock();
                if waiting.get() == waiters {
                    break;
                }
                unlock();
                work(SETTLE);
            }
            waiting.set(0);
            unlock();
            work(SETTLE);
            mutex.lock();
            began.set(now_ns());
            done.set(0);
            round.set(next);
            condvar.notify_all();
            unlock();
            notifier_out.set(notifier_out.get() + now_ns() - began.get());
        }
    };
    let wait = || {
        for next in 1..=ROUNDS {
            mutex.lock();
            waiting.set(waiting.get() + 1);
            while round.get() < next {
                // SAFETY: locked above.
                unsafe { condvar.wait_until(&mutex, None) };
            }
            work(section);
            done.set(done.get() + 1);
            if done.get() == waiters {
                all_out.set(all_out.get() + now_ns() - began.get());
            }
            unlock();
        }
    };
    let scenario = Scenario { machine, seed: 1 };
    let policies = vec![Policy::Fair; waiters + 1];
    let result = scenario.simulate(&policies, None, |task| match task {
        0 => notify(),
        _ => wait(),
    });
    result.expect("nobody is left behind");
    let mean = |sum: &Cell<u64>| sum.get() / u64::from(ROUNDS);
    (mean(&all_out), mean(&notifier_out))
}

fn main() {
    for machine in ["arm64-2s56c224t", "x86-32c", "x86-72c"] {
        for waiters in [4, 8, 16, 64, 200] {
            for section in [100, 2_000, 20_000] {
                let (all_out, notifier_out) = broadcast(machine, waiters, section);
                println!(
                    "{machine}, {waiters} waiters, {section} units in the mutex: all have had it \
                     after {:.1} us, it is unlocked after {:.1} us",
                    all_out as f64 / 1e3,
                    notifier_out as f64 / 1e3,
                );
            }
        }
    }
}
