//! What a run of groups did, for programs and for people.

use lockyard_sim::Stats;
use lockyard_torture::pistress::{Config, Report};
use serde::Serialize;

use super::{Scene, Throttling, policy};
use crate::{
    failure::Failure, format, measure, place::Place, record::rounded, registry::Entry,
    simulation::Simulation, values::World,
};

/// One run, as `--json` prints it: the field order is part of the interface.
#[derive(Clone, Serialize)]
pub struct Record {
    world: World,
    pub lock: &'static str,
    pub groups: usize,
    pinned: bool,
    policy: &'static str,
    limit_ms: u64,
    /// How long it did: measured, not planned.
    seconds: f64,
    /// Those that were resolved, of all groups.
    inversions: u64,
    pub inversions_per_s: f64,
    /// How long the high threads waited; null when none did.
    pub wait_p50_ns: Option<u64>,
    wait_p99_ns: Option<u64>,
    wait_p999_ns: Option<u64>,
    pub wait_max_ns: Option<u64>,
    /// How often a medium thread ran while a high one waited, and for how long at
    /// most.
    inverted: u64,
    longest_inversion_ns: u64,
    /// The group, from 0, whose high thread waited beyond the limit; or null.
    pub unbounded_group: Option<usize>,
    seed: u64,
    #[serde(flatten)]
    throttling: Throttling,
    /// In the simulated world: what the simulation was.
    #[serde(flatten)]
    simulation: Option<Simulation>,
}

impl Record {
    /// Measures a lock.
    ///
    /// # Errors
    /// A thread panicked; in a simulation, also when they never ended.
    pub fn measure(scene: &Scene, lock: &Entry, config: &Config<'_>) -> Result<Self, Failure> {
        let measured = measure::pi_stress(&scene.place, lock, config, scene.seed)?;
        Ok(Self::new(scene, lock.name, config, &measured))
    }

    fn new(
        scene: &Scene,
        lock: &'static str,
        config: &Config<'_>,
        (report, stats): &(Report, Option<Stats>),
    ) -> Self {
        let total = report.total();
        let seconds = report.elapsed_ns as f64 / 1e9;
        let waits = &report.waits;
        let wait = |quantile| (!waits.is_empty()).then(|| waits.value_at_quantile(quantile));
        let simulation = match (&scene.place, stats) {
            (Place::Simulated(machine), Some(stats)) => {
                Some(Simulation::new(&machine.name, stats, total))
            }
            _ => None,
        };
        Self {
            world: scene.place.world(),
            lock,
            groups: config.groups,
            pinned: config.pinned,
            policy: policy(config.round_robin),
            limit_ms: config.limit.unwrap_or_default().as_millis() as u64,
            seconds,
            inversions: total,
            inversions_per_s: rounded(total as f64 / seconds.max(1e-9), 1e1),
            wait_p50_ns: wait(0.5),
            wait_p99_ns: wait(0.99),
            wait_p999_ns: wait(0.999),
            wait_max_ns: wait(1.0),
            inverted: report.inverted,
            longest_inversion_ns: report.longest_inversion_ns,
            unbounded_group: report.unbounded,
            seed: scene.seed,
            throttling: scene.throttling,
            simulation,
        }
    }

    /// The lines of rt-tests, and what it does not measure.
    pub fn text(&self) -> String {
        let waits = [
            self.wait_p50_ns,
            self.wait_p99_ns,
            self.wait_p999_ns,
            self.wait_max_ns,
        ];
        let waits = waits.map(|ns| ns.map_or("-".into(), format::time));
        let mut text = format!(
            "Total inversion performed: {}\nTest Duration: {}\n\
             Inversions per second: {}\nWait of high p50/p99/p99.9/Max = {}\n\
             Medium ran while high waited: {} times, {} at most\n",
            self.inversions,
            days(self.seconds.round() as u64),
            format::number(self.inversions_per_s),
            waits.join("/"),
            format::count(self.inverted),
            format::time(self.longest_inversion_ns),
        );
        if let Some(simulation) = &self.simulation {
            text += &simulation.text(&format!("Groups = {}", self.groups));
        }
        text
    }

    /// What to say of the lock, if it failed.
    pub fn failure(&self) -> Option<String> {
        let group = self.unbounded_group?;
        Some(format!(
            "{}: the high thread of group {group} waited for more than {} ms while the medium \
             one ran: this lock does not inherit priority",
            self.lock, self.limit_ms
        ))
    }
}

/// A duration as rt-tests prints it.
fn days(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    format!(
        "{} days, {} hours, {} minutes, {} seconds",
        hours / 24,
        hours % 24,
        minutes % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            world: World::Native,
            lock: "a",
            groups: 3,
            pinned: true,
            policy: "fifo",
            limit_ms: 40,
            seconds: 93_783.9,
            inversions: 1_234_567,
            inversions_per_s: 13.2,
            wait_p50_ns: Some(7_000),
            wait_p99_ns: Some(8_000),
            wait_p999_ns: Some(9_000),
            wait_max_ns: None,
            inverted: 1_000,
            longest_inversion_ns: 41_000_000,
            unbounded_group: None,
            seed: 1,
            throttling: Throttling::default(),
            simulation: None,
        }
    }

    #[test]
    fn lines_are_those_of_rt_tests_and_more() {
        assert_eq!(
            record().text(),
            "Total inversion performed: 1234567\n\
             Test Duration: 1 days, 2 hours, 3 minutes, 4 seconds\n\
             Inversions per second: 13.2\n\
             Wait of high p50/p99/p99.9/Max = 7.00 µs/8.00 µs/9.00 µs/-\n\
             Medium ran while high waited: 1,000 times, 41.0 ms at most\n"
        );
    }

    #[test]
    fn only_an_unbounded_inversion_is_a_failure() {
        assert_eq!(record().failure(), None);
        let failed = Record {
            unbounded_group: Some(2),
            ..record()
        };
        let line = "a: the high thread of group 2 waited for more than 40 ms while the medium one \
                    ran: this lock does not inherit priority";
        assert_eq!(failed.failure().as_deref(), Some(line));
    }
}
