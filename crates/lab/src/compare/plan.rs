//! What a comparison runs.

use std::{collections::BTreeSet, fmt, time::Duration};

use lockyard_torture::locktest::Config;
use serde::Serialize;

use super::{Args, ground::Ground, verdict::Scope};
use crate::{
    failure::Failure,
    place::Place,
    registry::{self, Entry, Kind},
    values::{self, MAX_THREADS, Work, World},
};

/// What all runs together should last when nothing else is asked for.
const BUDGET: Duration = Duration::from_secs(60);
/// A shorter run says little, and a longer one little more.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
const FULL: Duration = Duration::from_millis(500);
/// A simulated run. With more threads than CPUs it must last for more than the
/// first slice, which is some 10 ms.
const SIMULATED: Duration = Duration::from_millis(10);
const OVERSUBSCRIBED: Duration = Duration::from_millis(100);
/// So many times as long with `--full`.
const FULLER: u32 = 5;

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
    /// Where.
    pub place: Place,
    /// The lock that is compared, and then those it is compared with.
    pub locks: Vec<Entry>,
    /// The grid: for each work, each number of threads.
    pub points: Vec<Point>,
    /// How often each lock runs at each point.
    pub rounds: u32,
    /// Seed of the order and of the sampling.
    pub seed: u64,
    left_out: Vec<LeftOut>,
    seconds: Option<Duration>,
    full: bool,
}

impl Plan {
    /// The plan that the flags ask for.
    ///
    /// # Errors
    /// A lock that was named cannot run there, there is no such machine, or
    /// there is nothing to compare.
    pub fn new(args: &Args) -> Result<Self, Failure> {
        let place = args.place.place()?;
        let (locks, left_out) = if args.lock.is_empty() {
            everyone(place.world())
        } else {
            (named(&args.lock, place.world())?, Vec::new())
        };
        let threads = if args.threads.is_empty() {
            grid(place.cpus(), place.world())
        } else {
            values::distinct(&args.threads)
        };
        let works = values::distinct(&args.points);
        let points: Vec<Point> = works
            .into_iter()
            .flat_map(|work| threads.iter().map(move |&threads| Point { work, threads }))
            .collect();
        Ok(Self {
            place,
            locks,
            points,
            rounds: args.rounds.unwrap_or(if args.full { 7 } else { 3 }),
            seed: args.seed,
            left_out,
            seconds: args.seconds,
            full: args.full,
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

    /// What all runs last together, where that is known.
    pub fn planned(&self) -> Option<Duration> {
        let each = self.duration(1);
        matches!(self.place, Place::Here).then(|| each.mul_f64(self.runs() as f64))
    }

    /// How long a run lasts. A simulated one never asks how fast this machine
    /// is: the same command gives the same output.
    fn duration(&self, threads: usize) -> Duration {
        let share = BUDGET.div_f64(self.runs() as f64);
        let oversubscribed = threads > self.place.cpus();
        let default = match (&self.place, self.full) {
            (Place::Here, false) => share.clamp(SHORTEST, LONGEST),
            (Place::Here, true) => FULL,
            (Place::Simulated(_), full) => {
                let short = if oversubscribed {
                    OVERSUBSCRIBED
                } else {
                    SIMULATED
                };
                short * if full { FULLER } else { 1 }
            }
        };
        self.seconds.unwrap_or(default)
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
            read_pct: 0,
            sample: self.place.sampling(1, 1),
            seed: self.seed,
        }
    }

    /// The runs of a point in a round: the same for every lock.
    pub fn config(&self, point: Point, round: u32) -> Config {
        Config {
            threads: point.threads,
            duration: self.duration(point.threads),
            load: point.work.load,
            gap: point.work.gap,
            read_pct: 0,
            sample: self.place.sampling(point.work.load, point.work.gap),
            seed: self.seed.wrapping_add(u64::from(round) - 1),
        }
    }

    /// The plan for people.
    pub fn text(&self, machine: &Ground) -> String {
        let (locks, points, rounds) = (self.locks.len(), self.points.len(), self.rounds);
        let mut text = format!(
            "{machine}\n\
             {locks} locks at {points} points, {rounds} rounds of {}: {} runs{}\n\
             load/gap are work units of {:.2} ns inside and outside the critical section\n\
             every wait includes {} ns for reading the clock\n",
            self.lengths(),
            self.runs(),
            match self.planned() {
                Some(all) => format!(", about {} s", all.as_secs_f64().ceil()),
                None => String::new(),
            },
            machine.work_unit_ns(),
            machine.clock_ns(),
        );
        let simulated = matches!(self.place, Place::Simulated(_));
        if simulated && self.locks[1..].iter().all(|lock| lock.kind == Kind::Toy) {
            text += "the rivals are toys: locks of others do not run in the simulated world\n";
        }
        for LeftOut { lock, why } in &self.left_out {
            text += &format!("{lock} is left out: {why}\n");
        }
        text
    }

    /// How long the runs last.
    fn lengths(&self) -> String {
        let each = |threads| format!("{:.3} s", self.duration(threads).as_secs_f64());
        let (few, many) = (each(1), each(self.most_threads()));
        if few == many {
            return format!("{few} a run");
        }
        format!("{few} a run, {many} with more threads than CPUs")
    }
}

/// Our mutex and every rival that can run here, and those that cannot; in the
/// simulated world, the toys.
fn everyone(world: World) -> (Vec<Entry>, Vec<LeftOut>) {
    let others = match world {
        World::Native => Kind::Rival,
        World::Sim => Kind::Toy,
    };
    let mut locks = Vec::new();
    let mut left_out = Vec::new();
    for entry in registry::all().into_iter().filter(|entry| !entry.shared) {
        let takes_part = entry.kind == others || entry.name == registry::DEFAULT;
        if !takes_part || !entry.worlds().contains(&world) {
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
fn named(names: &[String], world: World) -> Result<Vec<Entry>, Failure> {
    let mut locks = registry::named(names, world)?;
    match locks.iter().position(|lock| lock.kind == Kind::Ours) {
        Some(ours) => locks[..=ours].rotate_right(1),
        None => locks
            .splice(..0, registry::named(&[registry::DEFAULT.into()], world)?)
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

/// One thread, two, and one, four and 32 for each CPU; of a simulated machine,
/// which may be large, one and two for each.
fn grid(cpus: usize, world: World) -> Vec<usize> {
    let per_cpu: &[usize] = match world {
        World::Native => &[1, 4, 32],
        World::Sim => &[1, 2],
    };
    let many = per_cpu.iter().map(|n| n * cpus);
    let all = [1, 2].into_iter().chain(many);
    let distinct: BTreeSet<_> = all.map(|n| n.min(MAX_THREADS)).collect();
    distinct.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_each_number_of_threads_once() {
        let native = |cpus| grid(cpus, World::Native);
        assert_eq!(native(1), [1, 2, 4, 32]);
        assert_eq!(native(2), [1, 2, 8, 64]);
        assert_eq!(native(224), [1, 2, 224, 896, 7168]);
        assert_eq!(native(512), [1, 2, 512, 2048, MAX_THREADS]);
        assert_eq!(grid(2, World::Sim), [1, 2, 4]);
        assert_eq!(grid(32, World::Sim), [1, 2, 32, 64]);
    }

    #[test]
    fn the_lock_that_is_compared_comes_first() {
        let first = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let locks = named(&names, World::Native)
                .ok()
                .expect("these can run anywhere");
            locks.iter().map(|lock| lock.name).collect::<Vec<_>>()
        };
        assert_eq!(first(&["std"]), ["mutex", "std"]);
        assert_eq!(
            first(&["std", "mutex:poll", "mutex"]),
            ["mutex:poll", "std", "mutex"]
        );
    }
}
