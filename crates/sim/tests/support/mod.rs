//! Machines to test on.

use lockyard_sim::{Machine, Scenario};

/// One cluster of so many cores with so many threads each.
pub fn machine(cores: usize, threads: usize) -> Machine {
    let machine = Machine::find("x86-32c").expect("a preset");
    machine.resized(cores, threads)
}

pub fn scenario(machine: Machine) -> Scenario {
    Scenario { machine, seed: 1 }
}

pub fn within(value: f64, expected: f64, part: f64) {
    let ok = (value - expected).abs() <= part * expected;
    assert!(ok, "{value} is not about {expected}");
}
