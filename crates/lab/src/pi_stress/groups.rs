//! Groups of threads, and how many inversions they resolve.

use std::time::Duration;

use lockyard_torture::{interrupted, pistress::Config};

use super::{Plan, Record, hung, policy, say_interrupted};
use crate::{
    failure::Failure,
    place::Place,
    registry::Entry,
    screen::{self, Screen},
    values::MAX_THREADS,
};

/// How long a run lasts when nothing else is asked for. A simulated machine
/// needs no time to warm up, and it costs more.
const SECONDS: Duration = Duration::from_secs(10);
const SIMULATED: Duration = Duration::from_millis(100);
/// And when a number of inversions is.
const LONG: Duration = Duration::from_secs(86_400);

/// Stresses each lock.
pub(super) fn run(plan: &Plan<'_>) -> Result<(), Failure> {
    let groups = Groups::new(plan)?;
    let runs = plan.locks.len();
    let screen = plan.screen(runs, groups.duration);
    let done = groups.all(&screen);
    say_interrupted(&screen, runs);
    screen.close();
    done
}

/// How many groups there are when nothing else is asked for, and the medium threads
/// of each.
pub fn usual(pinned: bool, cpus: usize) -> (usize, usize) {
    match pinned {
        true => (cpus.saturating_sub(1).max(1), 1),
        false => (1, cpus),
    }
}

/// What the flags ask of the groups.
struct Groups<'a> {
    plan: &'a Plan<'a>,
    number: usize,
    mediums: usize,
    duration: Duration,
}

impl<'a> Groups<'a> {
    fn new(plan: &'a Plan<'a>) -> Result<Self, Failure> {
        let args = plan.args;
        let pinned = args.pinned || !args.unpinned;
        let (default, mediums) = usual(pinned, plan.scene.cpus());
        let number = args.groups.unwrap_or(default);
        let threads = number * (2 + mediums);
        if threads > MAX_THREADS {
            return Err(Failure::Usage(format!(
                "--groups '{number}' are {threads} threads here: use at most {}",
                MAX_THREADS / (2 + mediums)
            )));
        }
        plan.scene.place.can_start(threads)?;
        let duration = match (&plan.scene.place, args.inversions) {
            (_, Some(_)) => LONG,
            (Place::Here, None) => SECONDS,
            (Place::Simulated(_), None) => SIMULATED,
        };
        Ok(Self {
            plan,
            number,
            mediums,
            duration: args.seconds.unwrap_or(duration),
        })
    }

    fn all(&self, screen: &Screen) -> Result<(), Failure> {
        let mut failures = Vec::new();
        for lock in &self.plan.locks {
            let json = self.plan.args.json;
            if !json {
                screen.print(&self.title(lock))?;
            }
            screen.begins(lock.name.into());
            let record = self.one(lock)?;
            screen.ended();
            let text = match json {
                true => screen::json_lines(&[&record]),
                false => record.text(),
            };
            screen.print(&text)?;
            failures.extend(record.failure());
            if interrupted() {
                break;
            }
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(Failure::Check(failures.join("; "))),
        }
    }

    fn one(&self, lock: &Entry) -> Result<Record, Failure> {
        let Plan { args, scene, .. } = self.plan;
        let config = Config {
            groups: self.number,
            pinned: !args.unpinned,
            mediums: self.mediums,
            round_robin: args.rr,
            duration: self.duration,
            inversions: args.inversions.unwrap_or(u64::MAX),
            limit: Some(args.limit),
            hung: &|tasks| hung(lock.name, tasks),
        };
        Record::measure(scene, lock, &config)
    }

    fn title(&self, lock: &Entry) -> String {
        let Plan { args, .. } = self.plan;
        let mut ends = String::new();
        if let Some(inversions) = args.inversions {
            ends += &format!("inversions = {inversions}, ");
        }
        if args.inversions.is_none() || args.seconds.is_some() {
            ends += &format!("runtime = {}s, ", self.duration.as_secs_f64());
        }
        format!(
            "Running pi-stress with {} [{ends}groups = {}, {}, {}, limit = {}ms]\n",
            lock.name,
            self.number,
            if args.unpinned { "unpinned" } else { "pinned" },
            policy(args.rr),
            args.limit.as_millis()
        )
    }
}
