//! The workloads that load a lock of any kind, as tables for a list of locks.

use lockyard_sim::{Scenario, Stats};

use crate::{Lock, Native, Simulated, chains, locktest, locktorture, pistress};

/// Each workload, for a lock, on this machine's threads.
#[derive(Clone, Copy)]
pub struct OnThreads {
    /// The microbenchmark. Panics when the lock lets two in at once.
    pub locktest: fn(&locktest::Config) -> locktest::Report,
    /// Torture. Panics when tasks may not be boosted and are to be.
    pub torture: fn(&locktorture::Config<'_>) -> locktorture::Report,
    /// Inverted priorities. Panics when tasks may not have any.
    pub pi_stress: fn(&pistress::Config<'_>) -> pistress::Report,
    /// Chains of tasks. Panics when they may not have priorities.
    pub chains: fn(&chains::Config<'_>) -> chains::Report,
}

impl OnThreads {
    /// Those of this lock.
    pub fn of<L: Lock>() -> Self {
        Self {
            locktest: locktest::run::<Native, L>,
            torture: locktorture::run::<Native, L>,
            pi_stress: pistress::run::<Native, L>,
            chains: chains::run::<Native, L>,
        }
    }
}

/// Each workload, for a lock, on a simulated machine, and what the simulation was.
/// Panics also when tasks do, or never end.
#[derive(Clone, Copy)]
pub struct InSimulation {
    /// As [`OnThreads::locktest`].
    pub locktest: fn(Scenario, &locktest::Config) -> (locktest::Report, Stats),
    /// As [`OnThreads::torture`].
    pub torture: fn(Scenario, &locktorture::Config<'_>) -> (locktorture::Report, Stats),
    /// As [`OnThreads::pi_stress`].
    pub pi_stress: fn(Scenario, &pistress::Config<'_>) -> (pistress::Report, Stats),
    /// As [`OnThreads::chains`].
    pub chains: fn(Scenario, &chains::Config<'_>) -> (chains::Report, Stats),
}

impl InSimulation {
    /// Those of this lock.
    pub fn of<L: Lock>() -> Self {
        type S = Simulated;
        Self {
            locktest: |scenario, config| S::on(scenario, || locktest::run::<S, L>(config)),
            torture: |scenario, config| S::on(scenario, || locktorture::run::<S, L>(config)),
            pi_stress: |scenario, config| S::on(scenario, || pistress::run::<S, L>(config)),
            chains: |scenario, config| S::on(scenario, || chains::run::<S, L>(config)),
        }
    }
}
