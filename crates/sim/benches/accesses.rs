//! How many accesses a second the simulator makes on this host, from 2 to 1,024
//! CPUs: the cost of one may grow no faster than the logarithm of that number.

use divan::{Bencher, counter::ItemsCount};
use lockyard_core::{Ordering::*, RawMutex, Word};
use lockyard_sim::{Machine, Policy, Scenario, Sim, SimWord, work};

const CPUS: [usize; 6] = [2, 8, 32, 128, 512, 1_024];

/// About so many accesses altogether.
const ACCESSES: usize = 1_000_000;

fn main() {
    divan::main();
}

#[repr(align(128))]
struct Line(SimWord);

fn bench(bencher: Bencher, machine: &Machine, body: impl Fn(usize) + Sync) {
    let scenario = Scenario {
        machine: machine.clone(),
        seed: 1,
    };
    let policies = vec![Policy::Fair; machine.cpus()];
    let run = || scenario.simulate(&policies, None, &body).expect("it ends");
    let accesses = run().accesses;
    bencher.counter(ItemsCount::new(accesses)).bench(run);
}

fn machine(cpus: usize) -> Machine {
    let machine = Machine::find("x86-32c").expect("a preset");
    machine.resized(cpus, 1)
}

/// Each task writes a line of its own, and now and then one that all share.
#[divan::bench(args = CPUS, sample_count = 10)]
fn words(bencher: Bencher, cpus: usize) {
    let machine = machine(cpus);
    let lines: Vec<Line> = (0..=cpus).map(|_| Line(SimWord::ZERO)).collect();
    bench(bencher, &machine, |task| {
        for i in 0..ACCESSES / cpus {
            let line = if i % 8 == 0 {
                &lines[cpus]
            } else {
                &lines[task]
            };
            line.0.fetch_add(1, Relaxed);
        }
    });
}

/// Every task locks one mutex again and again.
#[divan::bench(args = CPUS, sample_count = 10)]
fn mutex(bencher: Bencher, cpus: usize) {
    let mutex = RawMutex::<Sim>::new();
    bench(bencher, &machine(cpus), |_| {
        for _ in 0..ACCESSES / 10 / cpus {
            mutex.lock();
            work(1);
            // SAFETY: locked above.
            unsafe { mutex.unlock() };
        }
    });
}

/// The same on the machine of seed 001, with its 224 hardware threads.
#[divan::bench(sample_count = 10)]
fn seed_001(bencher: Bencher) {
    let machine = Machine::find("arm64-2s56c224t").expect("a preset");
    let mutex = RawMutex::<Sim>::new();
    bench(bencher, &machine, |_| {
        for _ in 0..ACCESSES / 10 / 224 {
            mutex.lock();
            work(1);
            // SAFETY: locked above.
            unsafe { mutex.unlock() };
        }
    });
}
