//! Chains and trees of threads, and how soon an inherited priority arrives.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment};
use hdrhistogram::Histogram;
use lockyard_sim::Stats;
use lockyard_torture::{
    chains::{Config, Report, Shape},
    interrupted,
};
use serde::Serialize;

use super::{Plan, Scene, Throttling, hung, policy, say_interrupted};
use crate::{
    failure::Failure,
    format, measure,
    place::Place,
    registry::Entry,
    screen::{self, Screen},
    simulation::Simulation,
    values::World,
};

/// How long a row takes when nothing else is asked for.
const SECONDS: Duration = Duration::from_secs(1);
const SIMULATED: Duration = Duration::from_millis(10);

/// The deepest chain.
const DEEPEST: usize = 8;

/// What is measured, one row each.
pub fn shapes() -> impl ExactSizeIterator<Item = Shape> {
    let all: Vec<_> = (1..=DEEPEST)
        .map(Shape::Chain)
        .chain([Shape::Forest])
        .collect();
    all.into_iter()
}

/// Measures each lock.
pub(super) fn run(plan: &Plan<'_>) -> Result<(), Failure> {
    let default = match plan.scene.place {
        Place::Here => SECONDS,
        Place::Simulated(_) => SIMULATED,
    };
    let duration = plan.args.seconds.unwrap_or(default);
    let rows = plan.locks.len() * shapes().len();
    let screen = plan.screen(rows, duration);
    let done = all(plan, duration, &screen);
    say_interrupted(&screen, rows);
    screen.close();
    done
}

fn all(plan: &Plan<'_>, duration: Duration, screen: &Screen) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for lock in &plan.locks {
        let rows = rows(plan, lock, duration, screen)?;
        if plan.args.json {
            screen.print(&screen::json_lines(&rows))?;
        } else {
            let title = format!(
                "Running pi-stress --chains with {} [runtime = {}s each, {}, limit = {}ms]\n",
                lock.name,
                duration.as_secs_f64(),
                policy(plan.args.rr),
                plan.args.limit.as_millis()
            );
            screen.print(&(title + &table(&rows)))?;
        }
        failures.extend(rows.iter().find_map(Row::failure));
        if interrupted() {
            break;
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::Check(failures.join("; "))),
    }
}

/// The rows of a lock, up to the first in which it fails.
fn rows(
    plan: &Plan<'_>,
    lock: &Entry,
    duration: Duration,
    screen: &Screen,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for shape in shapes() {
        screen.begins(format!("{}, {}", lock.name, named(shape)));
        let config = Config {
            shape,
            round_robin: plan.args.rr,
            duration,
            limit: plan.args.limit,
            seed: plan.scene.seed,
            hung: &|tasks| hung(lock.name, tasks),
        };
        let row = Row::measure(&plan.scene, lock, &config)?;
        screen.ended();
        let last = row.unbounded || interrupted();
        rows.push(row);
        if last {
            break;
        }
    }
    Ok(rows)
}

/// What a shape is called.
pub fn named(shape: Shape) -> String {
    match shape {
        Shape::Chain(depth) => format!("chain of {depth}"),
        Shape::Forest => "random trees".into(),
    }
}

/// One row, as `--json` prints it: the field order is part of the interface.
#[derive(Clone, Serialize)]
pub struct Row {
    world: World,
    pub lock: &'static str,
    /// Locks from the high thread to the owner that runs; null for random trees.
    pub depth: Option<usize>,
    policy: &'static str,
    limit_ms: u64,
    pub rounds: u64,
    /// From the high thread's call until the owner ran.
    pub owner_runs: Times,
    /// From the high thread's call until it had its lock.
    pub high_has_it: Times,
    /// Whether the high thread waited beyond the limit.
    pub unbounded: bool,
    seed: u64,
    #[serde(flatten)]
    throttling: Throttling,
    /// In the simulated world: what the simulation was.
    #[serde(flatten)]
    simulation: Option<Simulation>,
}

/// Times that were measured; null when none was.
#[derive(Clone, Serialize)]
pub struct Times {
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
}

impl Times {
    fn new(times: &Histogram<u64>) -> Self {
        let at = |quantile| (!times.is_empty()).then(|| times.value_at_quantile(quantile));
        Self {
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            max_ns: at(1.0),
        }
    }

    fn cells(&self) -> [String; 3] {
        [self.p50_ns, self.p99_ns, self.max_ns].map(|ns| ns.map_or("-".into(), format::time))
    }
}

impl Row {
    /// Measures a lock.
    ///
    /// # Errors
    /// A thread panicked; in a simulation, also when they never ended.
    pub fn measure(scene: &Scene, lock: &Entry, config: &Config<'_>) -> Result<Self, Failure> {
        let measured = measure::chains(&scene.place, lock, config)?;
        Ok(Self::new(scene, lock.name, config, &measured))
    }

    fn new(
        scene: &Scene,
        lock: &'static str,
        config: &Config<'_>,
        (report, stats): &(Report, Option<Stats>),
    ) -> Self {
        let rounds = report.waits.len();
        let simulation = match (&scene.place, stats) {
            (Place::Simulated(machine), Some(stats)) => {
                Some(Simulation::new(&machine.name, stats, rounds))
            }
            _ => None,
        };
        Self {
            world: scene.place.world(),
            lock,
            depth: match config.shape {
                Shape::Chain(depth) => Some(depth),
                Shape::Forest => None,
            },
            policy: policy(config.round_robin),
            limit_ms: config.limit.as_millis() as u64,
            rounds,
            owner_runs: Times::new(&report.owner_runs),
            high_has_it: Times::new(&report.waits),
            unbounded: report.unbounded,
            seed: config.seed,
            throttling: scene.throttling,
            simulation,
        }
    }

    /// What to say of the lock, if it failed.
    fn failure(&self) -> Option<String> {
        self.unbounded.then(|| {
            let to = match self.depth {
                Some(depth) => format!("at the end of a chain of {depth}"),
                None => "in a tree".into(),
            };
            format!(
                "{}: the high thread {to} waited for more than {} ms while the medium one ran: \
                 this lock does not inherit priority",
                self.lock, self.limit_ms
            )
        })
    }

    fn cells(&self) -> Vec<String> {
        let depth = self.depth.map_or("trees".into(), |depth| depth.to_string());
        let head = [depth, format::count(self.rounds)];
        let times = [self.owner_runs.cells(), self.high_has_it.cells()];
        head.into_iter()
            .chain(times.into_iter().flatten())
            .collect()
    }
}

fn table(rows: &[Row]) -> String {
    let mut table = screen::table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = [
        "depth",
        "rounds",
        "owner runs p50",
        "p99",
        "max",
        "high has it p50",
        "p99",
        "max",
    ];
    table.set_header(head.map(|name| right(name.into())));
    for row in rows {
        table.add_row(row.cells().into_iter().map(right));
    }
    screen::rendered(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(depth: Option<usize>, unbounded: bool) -> Row {
        let mut times = Histogram::new(3).expect("three digits are allowed");
        (1..=100).for_each(|us| times.record(us * 1_000).expect("it grows"));
        Row {
            world: World::Native,
            lock: "a",
            depth,
            policy: "fifo",
            limit_ms: 40,
            rounds: 100,
            owner_runs: Times::new(&times),
            high_has_it: Times::new(&Histogram::new(3).expect("three digits are allowed")),
            unbounded,
            seed: 1,
            throttling: Throttling::default(),
            simulation: None,
        }
    }

    #[test]
    fn a_row_has_the_quantiles_of_both_times() {
        let cells = row(Some(3), false).cells();
        assert_eq!(
            cells,
            ["3", "100", "50.0 µs", "99.0 µs", "100 µs", "-", "-", "-"]
        );
    }

    #[test]
    fn only_an_unbounded_wait_is_a_failure() {
        assert_eq!(row(Some(3), false).failure(), None);
        let said = row(Some(3), true).failure().expect("it failed");
        assert!(said.starts_with("a: the high thread at the end of a chain of 3 waited for more"));
        assert!(said.contains("than 40 ms"));
        let said = row(None, true).failure().expect("it failed");
        assert!(said.contains("in a tree"));
    }
}
