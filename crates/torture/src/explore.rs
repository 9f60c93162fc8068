//! Schedules of a small configuration, on a simulated machine: tasks that lock,
//! try, time out and are preempted, with and without real-time priorities, in
//! orders that a machine would seldom take. A number is all that a schedule
//! depends on.

use std::cell::Cell;

use fastrand::Rng;
use lockyard_core::Platform;
use lockyard_sim::{Machine, Policy, Scenario, Sim, Strategy, Timeline, UserSpace, note, work};

/// A lock under exploration.
pub trait Subject {
    /// Whether some tasks have real-time priorities in every schedule, and not in
    /// some.
    const REAL_TIME: bool = false;

    /// A lock that nobody holds.
    fn new() -> Self;

    /// Does one of the things that a user of the lock may do, and runs one of
    /// the `sections` whenever it holds the lock.
    fn act(&self, dice: &mut Rng, sections: &Sections<'_>);

    /// Whether the lock is as it was at first, when no task uses it any more.
    fn is_free(&self) -> bool;

    /// Names its words, for timelines and failures.
    fn name(&self);

    /// Looks at the lock after each happening, if there is anything to see, and counts
    /// what it has checked.
    ///
    /// # Errors
    /// What is wrong.
    fn probe(&self, _checks: &mut Checks) -> Result<(), String> {
        Ok(())
    }
}

/// How often the probe has found something to check.
#[derive(Clone, Copy, Default, Debug)]
pub struct Checks {
    /// Tasks that owe the priority at which they run to a waiter.
    pub lent: u64,
    /// Those of them that do through two locks and more.
    pub deep: u64,
}

/// What became of some schedules.
pub struct Explored {
    /// How many were run.
    pub schedules: u64,
    /// What the probe has checked.
    pub checks: Checks,
    /// How the last of them failed, if it did.
    pub failure: Option<Failure>,
}

/// What a task does while it holds the lock, with a look at who else is inside.
pub struct Sections<'a> {
    /// As the only one.
    pub alone: &'a dyn Fn(),
    /// As one of those who share it.
    pub shared: &'a dyn Fn(),
}

/// A schedule in which the lock fails.
#[derive(Debug)]
pub struct Failure {
    /// The number of the schedule.
    pub schedule: u64,
    /// How it fails, in a line.
    pub what: String,
}

/// Runs the schedules of these numbers until one fails, or `stop` says so
/// between two.
pub fn run<S: Subject>(
    tasks: usize,
    schedules: impl IntoIterator<Item = u64>,
    stop: impl Fn() -> bool,
) -> Explored {
    let checks = Cell::default();
    let mut explored = Explored {
        schedules: 0,
        checks: Checks::default(),
        failure: None,
    };
    for schedule in schedules {
        if explored.failure.is_some() || stop() {
            break;
        }
        explored.schedules += 1;
        let (result, _) = one::<S>(tasks, schedule, false, &checks);
        explored.failure = result.err().map(|what| Failure { schedule, what });
    }
    explored.checks = checks.get();
    explored
}

/// Runs one schedule; returns how it fails, if it does, and what happened.
pub fn replay<S: Subject>(tasks: usize, schedule: u64) -> (Option<String>, Timeline) {
    let (result, timeline) = one::<S>(tasks, schedule, true, &Cell::default());
    (result.err(), timeline)
}

/// On cache lines of its own: else which words share one would depend on the
/// stack's address, and what happens on that.
#[repr(align(128))]
struct Aligned<S>(S);

/// What a schedule's number stands for.
struct Plan {
    scenario: Scenario,
    strategy: Strategy,
    policies: Vec<Policy>,
    /// How often each task acts.
    acts: u32,
}

impl Plan {
    fn new(tasks: usize, schedule: u64, all_real_time: bool) -> Self {
        let mut dice = Rng::with_seed(schedule);
        let machine = Machine::find("x86-32c").expect("a preset is well-formed");
        let mut machine = machine.resized(dice.usize(1..=tasks), 1);
        // Short slices, so that there are preemptions; and a kernel, or user
        // space, where a spinner learns late that the owner is off its CPU.
        machine.costs.tick = dice.u64(10..=1_000) * 1_000_000;
        machine.costs.slice = machine.costs.tick;
        machine.costs.user_space = dice.bool().then_some(UserSpace {
            ask: 40_000,
            off_cpu_seen: 4_000_000,
            spin_budget: 600_000_000,
        });
        let strategy = match dice.bool() {
            true => Strategy::Random,
            false => Strategy::Pct {
                changes: dice.u32(0..=3),
                steps: dice.u32(50..=800),
            },
        };
        let real_time = dice.u8(0..4) == 0 || all_real_time;
        let policy = |_| match dice.u8(0..3) {
            0 if real_time => Policy::Fifo(dice.u8(1..=3)),
            1 if real_time => Policy::RoundRobin(dice.u8(1..=3)),
            _ => Policy::Fair,
        };
        Self {
            policies: (0..tasks).map(policy).collect(),
            acts: dice.u32(2..=5),
            strategy,
            scenario: Scenario {
                machine,
                seed: schedule,
            },
        }
    }
}

/// Who is inside. The tasks share one thread of this machine.
#[derive(Default)]
struct Inside {
    /// The last that came, plus 1.
    last: Cell<usize>,
    alone: Cell<bool>,
    shared: Cell<u32>,
}

impl Inside {
    fn alone(&self, task: usize, length: u32) {
        self.come(task, self.alone.get() || self.shared.get() > 0);
        self.alone.set(true);
        work(length);
        self.alone.set(false);
        note("leaves the section");
    }

    fn shared(&self, task: usize, length: u32) {
        self.come(task, self.alone.get());
        self.shared.set(self.shared.get() + 1);
        work(length);
        self.shared.set(self.shared.get() - 1);
        note("leaves the section");
    }

    fn come(&self, task: usize, excluded: bool) {
        let last = self.last.replace(task + 1);
        assert!(
            !excluded,
            "tasks {last} and {} are inside at once",
            task + 1
        );
        note("enters the section");
    }
}

fn one<S: Subject>(
    tasks: usize,
    schedule: u64,
    timeline: bool,
    checks: &Cell<Checks>,
) -> (Result<(), String>, Timeline) {
    let plan = Plan::new(tasks, schedule, S::REAL_TIME);
    let lock = Aligned(S::new());
    let lock = &lock.0;
    let inside = Inside::default();
    let named = Cell::new(false);
    let body = |task: usize| {
        let mut dice = Rng::with_seed(schedule ^ (task as u64 + 1) << 32);
        if !named.replace(true) {
            lock.name();
        }
        let length = dice.u32(0..400);
        let sections = Sections {
            alone: &|| inside.alone(task, length),
            shared: &|| inside.shared(task, length),
        };
        for _ in 0..plan.acts {
            if dice.u8(0..3) == 0 {
                // Comes back at any moment, and with its priority.
                Sim::park(Some(Sim::after(dice.u64(0..50_000))));
            }
            lock.act(&mut dice, &sections);
            work(dice.u32(0..400));
        }
    };
    let probe = || {
        let mut made = checks.get();
        let found = lock.probe(&mut made);
        checks.set(made);
        found
    };
    let (result, timeline) =
        plan.scenario
            .explore(plan.strategy, &plan.policies, timeline, Some(&probe), body);
    let result = match result {
        Err(failure) => Err(failure.to_string()),
        Ok(_) if !lock.is_free() => Err("the lock is not free when all have left".to_owned()),
        Ok(_) => Ok(()),
    };
    (result, timeline)
}
