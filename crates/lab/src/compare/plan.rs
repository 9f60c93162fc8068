//! What a comparison runs.

use std::{collections::BTreeSet, fmt, time::Duration};

use lockyard_torture::locktest::Config;
use serde::Serialize;

use super::{
    Args,
    bounds::PERCPU,
    gauges::{self, LIMIT, LOOP, Part},
    ground::Ground,
    verdict::Scope,
};
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
/// With more threads than CPUs each should have had its turn, which may be four milliseconds
/// long, and the first of them another.
const TURN: Duration = Duration::from_millis(5);
/// A simulated run. With more threads than CPUs it must last for more than the
/// first slice, which is some 10 ms.
const SIMULATED: Duration = Duration::from_millis(10);
const OVERSUBSCRIBED: Duration = Duration::from_millis(100);
/// So many times as long with `--full`.
const FULLER: u32 = 5;

/// With `--rw`: the percentages of readers, and the works.
const READERS: [u32; 5] = [0, 50, 90, 99, 100];
const RW_WORKS: [Work; 2] = [work(0, 0), work(50, 50)];
const WORKS: [Work; 4] = [work(0, 0), work(50, 50), work(500, 500), work(50, 1000)];

/// The percentage of readers that writers must get through in time.
pub const MANY_READERS: u32 = 99;
/// A run in which every wait is timed lasts so many times as long as others.
const TIMED: u32 = 5;

const fn work(load: u32, gap: u32) -> Work {
    Work { load, gap }
}

/// What each thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Setting {
    /// Its work.
    #[serde(flatten)]
    pub work: Work,
    /// The percentage of its operations that only read; none of a mutex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_pct: Option<u32>,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read_pct {
            None => self.work.fmt(f),
            Some(percentage) => write!(f, "{}, {percentage} % reads", self.work),
        }
    }
}

/// A point of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Point {
    /// What each thread does.
    #[serde(flatten)]
    pub setting: Setting,
    /// The threads that contend.
    pub threads: usize,
}

impl Point {
    /// A point of threads that have such work and all write.
    pub const fn new(work: Work, threads: usize) -> Self {
        let setting = Setting {
            work,
            read_pct: None,
        };
        Self { setting, threads }
    }

    /// The same, but so many per cent of the operations only read.
    pub const fn reading(mut self, percentage: u32) -> Self {
        self.setting.read_pct = Some(percentage);
        self
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.threads == 1 { "" } else { "s" };
        write!(f, "{} with {} thread{s}", self.setting, self.threads)
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
    /// The locks that are compared, and then those they are compared with.
    pub locks: Vec<Entry>,
    /// How many are compared.
    pub subjects: usize,
    /// The grid: for each work and percentage of readers, each number of threads.
    pub points: Vec<Point>,
    /// How often each lock runs at each point.
    pub rounds: u32,
    /// Seed of the order and of the sampling.
    pub seed: u64,
    /// The rivals that cannot run here.
    pub left_out: Vec<LeftOut>,
    /// What all runs together should last when nothing else is asked for.
    pub budget: Duration,
    /// How long each lasts, where that was asked for.
    pub seconds: Option<Duration>,
    /// Whether it is the long form.
    pub full: bool,
    /// Whether locks for readers and writers are compared.
    pub rw: bool,
}

impl Plan {
    /// The plan that the flags ask for.
    ///
    /// # Errors
    /// A lock that was named cannot run there, there is no such machine, or
    /// there is nothing to compare.
    pub fn new(args: &Args) -> Result<Self, Failure> {
        let place = args.place.place()?;
        let (locks, left_out) = match (args.lock.is_empty(), args.rw) {
            (true, rw) => everyone(place.world(), rw),
            (false, false) => (named(&args.lock, place.world())?, Vec::new()),
            (false, true) => (named_shared(&args.lock, place.world())?, Vec::new()),
        };
        let subjects = if args.rw { ours(&locks) } else { 1 };
        let threads = if args.threads.is_empty() {
            grid(place.cpus(), place.world())
        } else {
            values::distinct(&args.threads)
        };
        Ok(Self {
            place,
            locks,
            subjects,
            points: points(args, &threads),
            rounds: args.rounds(),
            seed: args.seed,
            left_out,
            budget: BUDGET,
            seconds: args.seconds,
            full: args.full,
            rw: args.rw,
        })
    }

    /// What the verdicts speak of, one for each lock that is compared.
    pub fn scopes(&self) -> Vec<Scope> {
        let names = self.names();
        let (subjects, rivals) = names.split_at(self.subjects);
        // Without rivals they stand beside each other.
        let others = if rivals.is_empty() { subjects } else { rivals };
        let scope = |subject: &&'static str| Scope {
            locks: std::iter::once(*subject)
                .chain(others.iter().copied().filter(|other| other != subject))
                .collect(),
            left_out: self.left_out.clone(),
            points: self.points.len(),
            rounds: self.rounds,
        };
        subjects.iter().map(scope).collect()
    }

    /// The locks by name.
    pub fn names(&self) -> Vec<&'static str> {
        self.locks.iter().map(|lock| lock.name).collect()
    }

    /// Whether there are bounds to hold: they speak of rivals and this machine.
    pub fn bounded(&self) -> bool {
        self.rw && matches!(self.place, Place::Here)
    }

    /// Whether others than ours take part.
    pub fn has_rivals(&self) -> bool {
        self.subjects < self.locks.len()
    }

    /// All that runs at a point in a round.
    pub fn parts(&self) -> Vec<Part<'_>> {
        self.locks.iter().map(Part::Lock).collect()
    }

    /// These locks, to be run at a point.
    pub fn parts_named(&self, locks: &[&str]) -> Vec<Part<'_>> {
        let all = self.locks.iter();
        let named = all.filter(|lock| locks.contains(&lock.name));
        named.map(Part::Lock).collect()
    }

    /// The points at which readers are held against gauges.
    pub fn gauged(&self) -> Vec<Point> {
        let held = self.bounded() && self.names().contains(&PERCPU);
        let points = gauges::THREADS.map(gauges::readers).into_iter();
        points
            .filter(|point| held && self.points.contains(point))
            .collect()
    }

    /// What runs there in turns.
    pub fn gauged_parts(&self) -> Vec<Part<'_>> {
        let gauges = [LIMIT, LOOP].map(Part::Gauge);
        let held = self.parts_named(&[PERCPU]);
        held.into_iter().chain(gauges).collect()
    }

    /// The runs of their own in which every wait is timed: with many readers, at
    /// the longest section.
    pub fn timed(&self) -> Vec<(Point, &Entry)> {
        let many = |p: &&Point| p.setting.read_pct == Some(MANY_READERS) && self.bounded();
        let points = self.points.iter().copied();
        let longest = self
            .points
            .iter()
            .filter(many)
            .map(|p| p.setting.work.load)
            .max();
        points
            .filter(|p| many(&p) && Some(p.setting.work.load) == longest)
            .flat_map(|point| self.locks.iter().map(move |lock| (point, lock)))
            .collect()
    }

    /// The configuration of such a run.
    pub fn timed_config(&self, point: Point) -> Config {
        Config {
            sample: 1,
            duration: self.timed_duration(point.threads),
            ..self.config(point, 1)
        }
    }

    fn timed_duration(&self, threads: usize) -> Duration {
        self.duration(threads).max(self.duration(1) * TIMED)
    }

    /// The points at which there are runs, and how many, but for those in which every wait is
    /// timed.
    fn untimed(&self) -> impl Iterator<Item = (Point, u32)> {
        let rounds = self.locks.len() as u32 * self.rounds;
        let gauged = self.gauged_parts().len() as u32 * gauges::ROUNDS;
        let points = self.points.iter().map(move |point| (*point, rounds));
        points.chain(self.gauged().into_iter().map(move |point| (point, gauged)))
    }

    /// How many runs there are.
    pub fn runs(&self) -> u64 {
        let untimed = self.untimed().map(|(_, runs)| u64::from(runs));
        untimed.sum::<u64>() + self.timed().len() as u64
    }

    /// What all runs last together, where that is known.
    pub fn planned(&self) -> Option<Duration> {
        let at = |(point, runs): (Point, u32)| self.duration(point.threads) * runs;
        let timed = self.timed();
        let timed = timed
            .iter()
            .map(|(point, _)| self.timed_duration(point.threads));
        let all = self.untimed().map(at).chain(timed).sum();
        matches!(self.place, Place::Here).then_some(all)
    }

    /// What a run lasts in which that is enough for the turns of all threads: what the others
    /// leave of the budget.
    fn share(&self) -> Duration {
        let mut share = LONGEST;
        loop {
            let (mut left, mut shares) = (self.budget, self.timed().len() as u32 * TIMED);
            for (point, runs) in self.untimed() {
                match self.turns(point.threads) {
                    turns if turns > share => left = left.saturating_sub(turns * runs),
                    _ => shares += runs,
                }
            }
            let less = (left / shares.max(1)).max(SHORTEST);
            if less >= share {
                return share;
            }
            share = less;
        }
    }

    /// What so many threads need for their turns.
    fn turns(&self, threads: usize) -> Duration {
        TURN * threads.div_ceil(self.place.cpus()) as u32
    }

    /// How long a run lasts. A simulated one never asks how fast this machine
    /// is: the same command gives the same output.
    fn duration(&self, threads: usize) -> Duration {
        let oversubscribed = threads > self.place.cpus();
        let default = match (&self.place, self.full) {
            (Place::Here, false) => self.share().max(self.turns(threads)),
            (Place::Here, true) => FULL.max(self.turns(threads)),
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
            read_pct: if self.rw { 50 } else { 0 },
            lines: 0,
            sample: self.place.sampling(1, 1),
            seed: self.seed,
        }
    }

    /// The runs of a point in a round: the same for every lock.
    pub fn config(&self, point: Point, round: u32) -> Config {
        let work = point.setting.work;
        Config {
            threads: point.threads,
            duration: self.duration(point.threads),
            load: work.load,
            gap: work.gap,
            read_pct: point.setting.read_pct.unwrap_or(0),
            lines: 0,
            sample: self.place.sampling(work.load, work.gap),
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
        text += self.who();
        for LeftOut { lock, why } in &self.left_out {
            text += &format!("{lock} is left out: {why}\n");
        }
        text
    }

    /// Who stands beside ours where locks of others do not run.
    fn who(&self) -> &'static str {
        let rivals = &self.locks[self.subjects..];
        match self.place {
            Place::Simulated(_) if rivals.is_empty() => {
                "ours stand beside each other: locks of others do not run in the simulated world\n"
            }
            Place::Simulated(_) if rivals.iter().all(|lock| lock.kind == Kind::Toy) => {
                "the rivals are toys: locks of others do not run in the simulated world\n"
            }
            _ => "",
        }
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

/// The grid that the flags ask for.
fn points(args: &Args, threads: &[usize]) -> Vec<Point> {
    let works = args.works(if args.rw { &RW_WORKS } else { &WORKS });
    let of = |work| {
        threads
            .iter()
            .map(move |&threads| Point::new(work, threads))
    };
    if !args.rw {
        return works.into_iter().flat_map(of).collect();
    }
    let settings = works
        .into_iter()
        .flat_map(|work| READERS.map(|p| (work, p)));
    settings
        .flat_map(|(work, percentage)| of(work).map(move |point| point.reading(percentage)))
        .collect()
}

/// How many of the locks are ours: they stand in front.
fn ours(locks: &[Entry]) -> usize {
    locks.iter().filter(|lock| lock.kind == Kind::Ours).count()
}

/// Our lock, or those for readers and writers, and every rival that can run
/// here, and those that cannot; in the simulated world, the toys.
fn everyone(world: World, shared: bool) -> (Vec<Entry>, Vec<LeftOut>) {
    let default: &[&str] = if shared {
        &registry::DEFAULT_RW
    } else {
        &[registry::DEFAULT]
    };
    let others = match world {
        World::Native => Kind::Rival,
        World::Sim => Kind::Toy,
    };
    let mut locks = Vec::new();
    let mut left_out = Vec::new();
    for entry in registry::all()
        .into_iter()
        .filter(|entry| entry.shared == shared)
    {
        let takes_part = entry.kind == others || default.contains(&entry.name);
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
    accompanied(locks)
}

/// The named locks, all for readers and writers, ours in front.
fn named_shared(names: &[String], world: World) -> Result<Vec<Entry>, Failure> {
    let mut locks = registry::named(names, world)?;
    if let Some(lock) = locks.iter().find(|lock| !lock.shared) {
        let valid = registry::all().into_iter().filter(|lock| lock.shared);
        let valid: Vec<_> = valid.map(|lock| lock.name).collect();
        return Err(Failure::Usage(format!(
            "--lock '{}' is not for readers and writers: with --rw, use some of {}",
            lock.name,
            valid.join(", ")
        )));
    }
    if ours(&locks) == 0 {
        let default = registry::DEFAULT_RW.map(String::from);
        locks
            .splice(..0, registry::named(&default, world)?)
            .for_each(drop);
    }
    locks.sort_by_key(|lock| lock.kind != Kind::Ours);
    accompanied(locks)
}

/// These locks, unless there is only one.
fn accompanied(locks: Vec<Entry>) -> Result<Vec<Entry>, Failure> {
    match locks[..] {
        [Entry { name, .. }] => Err(Failure::Usage(format!(
            "--lock '{name}' has nobody beside it: name another lock (`lockyard locks` lists them)"
        ))),
        _ => Ok(locks),
    }
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
