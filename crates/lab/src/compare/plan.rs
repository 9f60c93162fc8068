//! What a comparison runs.

use std::{collections::BTreeSet, fmt, thread::available_parallelism, time::Duration};

use lockyard_torture::locktest::Config;
use serde::Serialize;

use super::{Args, verdict::Scope};
use crate::{
    failure::Failure,
    machine::Machine,
    measure,
    registry::{self, Entry, Kind},
    values::{self, MAX_THREADS, Work},
};

/// What all runs together should last when nothing else is asked for.
const BUDGET: Duration = Duration::from_secs(60);
/// A shorter run says little, and a longer one little more.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
const FULL: Duration = Duration::from_millis(500);

/// A point of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Point {
    /// The work of each thread.
    #[serde(flatten)]
    pub work: Work,
    /// The threads that contend.
    pub threads: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.threads == 1 { "" } else { "s" };
        write!(f, "{} with {} thread{s}", self.work, self.threads)
    }
}

/// A rival that cannot run here, and why.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// The rival.
    pub lock: &'static str,
    /// Why it cannot.
    pub why: String,
}

/// What to run, in which order, for how long.
pub struct Plan {
    /// The lock that is compared, and then those it is compared with.
    pub locks: Vec<Entry>,
    /// The grid: for each work, each number of threads.
    pub points: Vec<Point>,
    /// How often each lock runs at each point.
    pub rounds: u32,
    /// Seed of the order and of the sampling.
    pub seed: u64,
    left_out: Vec<LeftOut>,
    duration: Duration,
}

impl Plan {
    /// The plan that the flags ask for.
    ///
    /// # Errors
    /// A lock that was named cannot run here, or there is nothing to compare.
    pub fn new(args: &Args) -> Result<Self, Failure> {
        let (locks, left_out) = if args.lock.is_empty() {
            everyone()
        } else {
            (named(&args.lock)?, Vec::new())
        };
        let threads = if args.threads.is_empty() {
            grid(available_parallelism().map_or(1, usize::from))
        } else {
            values::distinct(&args.threads)
        };
        let works = values::distinct(&args.points);
        let points: Vec<Point> = works
            .into_iter()
            .flat_map(|work| threads.iter().map(move |&threads| Point { work, threads }))
            .collect();
        let rounds = args.rounds.unwrap_or(if args.full { 7 } else { 3 });
        let runs = points.len() * locks.len() * rounds as usize;
        let share = BUDGET.div_f64(runs as f64).clamp(SHORTEST, LONGEST);
        let default = if args.full { FULL } else { share };
        Ok(Self {
            locks,
            points,
            rounds,
            seed: args.seed,
            left_out,
            duration: args.seconds.unwrap_or(default),
        })
    }

    /// What the verdict speaks of.
    pub fn scope(&self) -> Scope {
        Scope {
            locks: self.locks.iter().map(|lock| lock.name).collect(),
            left_out: self.left_out.clone(),
            points: self.points.len(),
            rounds: self.rounds,
        }
    }

    /// How many runs there are.
    pub fn runs(&self) -> u64 {
        self.points.len() as u64 * self.locks.len() as u64 * u64::from(self.rounds)
    }

    /// What all runs last together.
    pub fn planned(&self) -> Duration {
        self.duration.mul_f64(self.runs() as f64)
    }

    /// The most threads that a run has.
    pub fn most_threads(&self) -> usize {
        let all = self.points.iter().map(|point| point.threads);
        all.max().unwrap_or(1)
    }

    /// A run in which nothing is measured.
    pub fn warm_up(&self) -> Config {
        Config {
            threads: self.most_threads(),
            duration: Duration::from_millis(5),
            load: 1,
            gap: 1,
            sample: measure::sampling(1, 1),
            seed: self.seed,
        }
    }

    /// The runs of a point in a round: the same for every lock.
    pub fn config(&self, point: Point, round: u32) -> Config {
        Config {
            threads: point.threads,
            duration: self.duration,
            load: point.work.load,
            gap: point.work.gap,
            sample: measure::sampling(point.work.load, point.work.gap),
            seed: self.seed.wrapping_add(u64::from(round) - 1),
        }
    }

    /// The plan for people.
    pub fn text(&self, machine: &Machine) -> String {
        let mut text = format!(
            "{machine}\n\
             {} locks at {} points, {} rounds of {:.3} s a run: {} runs, about {} s\n\
             load/gap are work units of {:.2} ns inside and outside the critical section\n\
             every wait includes {} ns for reading the clock\n",
            self.locks.len(),
            self.points.len(),
            self.rounds,
            self.duration.as_secs_f64(),
            self.runs(),
            self.planned().as_secs_f64().ceil(),
            machine.work_unit_ns,
            machine.clock_ns,
        );
        for LeftOut { lock, why } in &self.left_out {
            text += &format!("{lock} is left out: {why}\n");
        }
        text
    }
}

/// Our mutex and every rival that can run here, and those that cannot.
fn everyone() -> (Vec<Entry>, Vec<LeftOut>) {
    let mut locks = Vec::new();
    let mut left_out = Vec::new();
    for entry in registry::all() {
        if entry.kind != Kind::Rival && entry.name != registry::DEFAULT {
            continue;
        }
        match entry.unavailable() {
            None => locks.push(entry),
            Some(why) => left_out.push(LeftOut {
                lock: entry.name,
                why,
            }),
        }
    }
    (locks, left_out)
}

/// The named locks, the first of ours in front.
fn named(names: &[String]) -> Result<Vec<Entry>, Failure> {
    let mut locks = registry::named(names)?;
    match locks.iter().position(|lock| lock.kind == Kind::Ours) {
        Some(ours) => locks[..=ours].rotate_right(1),
        None => locks
            .splice(..0, registry::named(&[registry::DEFAULT.into()])?)
            .for_each(drop),
    }
    if locks.len() == 1 {
        let only = locks[0].name;
        return Err(Failure::Usage(format!(
            "--lock '{only}' has nobody beside it: name another lock (`lockyard locks` lists them)"
        )));
    }
    Ok(locks)
}

/// One thread, two, and one, four and 32 for each CPU.
fn grid(cpus: usize) -> Vec<usize> {
    let all = [1, 2, cpus, 4 * cpus, 32 * cpus].map(|n| n.min(MAX_THREADS));
    BTreeSet::from(all).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_each_number_of_threads_once() {
        assert_eq!(grid(1), [1, 2, 4, 32]);
        assert_eq!(grid(2), [1, 2, 8, 64]);
        assert_eq!(grid(224), [1, 2, 224, 896, 7168]);
        assert_eq!(grid(512), [1, 2, 512, 2048, MAX_THREADS]);
    }

    #[test]
    fn the_lock_that_is_compared_comes_first() {
        let first = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let locks = named(&names).ok().expect("these can run anywhere");
            locks.iter().map(|lock| lock.name).collect::<Vec<_>>()
        };
        assert_eq!(first(&["std"]), ["mutex", "std"]);
        assert_eq!(
            first(&["std", "mutex:poll", "mutex"]),
            ["mutex:poll", "std", "mutex"]
        );
    }
}
