//! The per-CPU reader-writer lock on the simulated machine.

use std::cell::Cell;

use lockyard_core::{
    Event, RawPercpuRwLock,
    percpu_rwsem::{Barging, Bounded, Grant, Handoff},
};
use lockyard_sim::{Machine, Policy, Scenario, Sim, Stats, now_ns, work};

const CPUS: usize = 8;
const ROUNDS: u32 = 200;

/// A quarter of the tasks write, more tasks than CPUs; nobody is in with a writer.
fn exclude<G: Grant>(seed: u64) -> Stats {
    let machine = Machine::find("x86-32c").expect("a preset");
    let machine = machine.resized(CPUS, 1);
    let lock = RawPercpuRwLock::<Sim, G>::new();
    let (readers, written) = (Cell::new(0), Cell::new(0u32));
    let write = || {
        lock.write();
        assert_eq!(readers.get(), 0);
        let before = written.get();
        work(2_000);
        assert_eq!((readers.get(), written.get()), (0, before));
        written.set(before + 1);
        // SAFETY: locked above.
        unsafe { lock.unlock_write() };
    };
    let read = || {
        lock.read();
        readers.set(readers.get() + 1);
        let before = written.get();
        work(500);
        assert_eq!(written.get(), before);
        readers.set(readers.get() - 1);
        // SAFETY: locked above.
        unsafe { lock.unlock_read() };
    };
    let scenario = Scenario { machine, seed };
    let stats = scenario.simulate(&[Policy::Fair; CPUS + 4], None, |task| {
        for _ in 0..ROUNDS {
            if task % 4 == 0 { write() } else { read() }
        }
    });
    assert!(!lock.is_locked());
    assert_eq!(written.get(), ROUNDS * (CPUS as u32 + 4) / 4);
    stats.expect("nobody is left behind")
}

#[test]
fn readers_and_writers_exclude_each_other_under_every_policy() {
    for seed in 0..3 {
        let bounded = exclude::<Bounded>(seed);
        let barging = exclude::<Barging>(seed);
        let handoff = exclude::<Handoff>(seed);
        let count = |stats: &Stats, event| stats.events[event as usize];
        assert!(count(&bounded, Event::WokeFirst) > 0);
        assert!(count(&barging, Event::Bypassed) > 0);
        assert_eq!(count(&barging, Event::HandedOff), 0);
        assert!(count(&handoff, Event::HandedOff) > 0);
        assert_eq!(count(&handoff, Event::WokeFirst), 0);
    }
}

/// The time in which every CPU reads so often.
fn reading(cpus: usize) -> u64 {
    let machine = Machine::find("x86-32c").expect("a preset");
    let machine = machine.resized(cpus, 1);
    let lock = RawPercpuRwLock::<Sim>::new();
    let took = Cell::new(0);
    let scenario = Scenario { machine, seed: 1 };
    let result = scenario.simulate(&vec![Policy::Fair; cpus], None, |_| {
        let began = now_ns();
        for _ in 0..1_000 {
            lock.read();
            // SAFETY: locked above.
            unsafe { lock.unlock_read() };
        }
        took.set(took.get().max(now_ns() - began));
    });
    result.expect("readers wait for nobody");
    took.get()
}

#[test]
fn readers_do_not_slow_each_other_down() {
    let (alone, together) = (reading(1), reading(16));
    assert!(together < alone * 3 / 2, "{together} ns, alone {alone} ns");
}
