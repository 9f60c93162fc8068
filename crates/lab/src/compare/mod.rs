//! `lockyard compare`: our lock beside its rivals, over a grid.
//!
//! On a noisy machine the moment of a run matters as much as its lock. So the
//! locks are interleaved: in each round every point of the grid runs every
//! lock once, in an order shuffled anew, and what is compared are medians over
//! the rounds and runs of the same round, which are neighbours in time.

mod again;
mod bound;
mod bounds;
mod gauges;
mod ground;
mod idle;
mod lines;
mod out;
mod pi;
mod plan;
mod sentences;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod verdict;

use std::{io, path::PathBuf, time::Duration};

use lockyard_torture::{interrupted, locktest::Config};
use serde::Serialize;

use self::{
    bounds::{Bounds, Evidence},
    gauges::Part,
    ground::Ground,
    idle::Idle,
    plan::Plan,
    summary::PointSummary,
    verdict::{Scope, Verdict},
};
pub use self::{out::Out, plan::Point, summary::median};
use crate::{
    failure::Failure,
    measure,
    place::{self, Place},
    record::{Record, rounded},
    registry,
    screen::{self, Screen},
    values::{self, Work},
};

/// Measure our locks beside their rivals over a grid of threads and work
///
/// Runs locktest on every lock at every point of a grid of threads and work,
/// interleaved, and compares medians over the rounds. Without flags it takes
/// about a minute: the seconds of a run follow from the number of runs. A rival that
/// is better than ours in throughput and in the tail, but in its slowest round not far
/// ahead of ours in its fastest, is measured again beside it, in 12 more rounds. On a
/// simulated machine rounds differ by their seed, and the same command gives the same
/// output. With --rw the grid has percentages of readers too. With --pi the locks are
/// those that inherit priority, and real-time threads invert theirs, as in pi-stress.
/// With either, what our locks promise is held against what was measured: exit status
/// 1 when a promise is broken.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to compare: the first of ours (mutex, when none of ours is named)
    /// beside the others [default: mutex and every rival that can run here; in
    /// the simulated world, mutex and the toys]; with --rw, each of ours (rwsem
    /// and percpu) beside the others
    #[arg(long, value_name = "LOCK,...", value_delimiter = ',', value_parser = registry::parser())]
    lock: Vec<String>,

    /// Compare locks for readers and writers, with 0, 50, 90, 99 and 100 % readers
    #[arg(long)]
    rw: bool,

    /// Compare pimutex and pimutex:strict with pthread-pi, and with mutex, which
    /// inherits nothing: the grid with ordinary threads, then groups and chains of
    /// real-time ones, where this user may have them
    #[arg(long, conflicts_with_all = ["rw", "lock"])]
    pi: bool,

    /// Numbers of threads [default: 1, 2, and 1, 4 and 32 per CPU; with --pi 1, 2,
    /// 4, 8, 16, 32 and 64; in the simulated world 1, 2, and 1 and 2 per CPU]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::threads)]
    #[arg(allow_hyphen_values = true)]
    threads: Vec<usize>,

    /// Work units inside the critical section and between two of them [default:
    /// 0/0,50/50,500/500,50/1000; with --rw 0/0,50/50; with --pi 0/0,500/500]
    #[arg(long, value_name = "LOAD/GAP,...", value_delimiter = ',', value_parser = values::work)]
    #[arg(allow_hyphen_values = true)]
    points: Vec<Work>,

    /// Rounds, each of which runs every lock once at every point [default: 3;
    /// 7 with --full or --pi]; groups of real-time threads have 30 at least
    #[arg(long, value_name = "R", value_parser = values::rounds)]
    #[arg(allow_negative_numbers = true)]
    rounds: Option<u32>,

    /// Seconds of each run [default: a minute shared by all runs, but from
    /// 0.02 to 1; 0.5 with --full; of real-time threads 0.08, 0.5 with --full; in
    /// the simulated world 0.01, 0.1 with more threads than CPUs, and 5 times as
    /// much with --full]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// The long form: 7 rounds of longer runs
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    place: place::Flags,

    /// Seed of the order of the locks, of the sampling and of the simulated
    /// machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Write raw.jsonl (every run), summary.jsonl (every point and the verdicts)
    /// and machine.json to this directory, which may not hold them yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object per point, one with each verdict, and with --rw and
    /// --pi one with the bounds
    #[arg(long)]
    json: bool,
}

impl Args {
    fn rounds(&self) -> u32 {
        // A contended pthread-pi has several speeds: of three rounds the one in the
        // middle is often none of the usual ones.
        let more = self.full || self.pi;
        self.rounds.unwrap_or(if more { 7 } else { 3 })
    }

    fn works(&self, default: &[Work]) -> Vec<Work> {
        match self.points[..] {
            [] => default.to_vec(),
            _ => values::distinct(&self.points),
        }
    }
}

/// A run and the round that it belongs to.
#[derive(Clone, Debug, Serialize)]
pub struct Raw {
    #[serde(flatten)]
    record: Record,
    round: u32,
    /// What a cache line took from CPU to CPU right before, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer_ns: Option<f64>,
    #[serde(skip)]
    point: Point,
}

/// All that was measured.
#[derive(Default)]
struct Runs {
    /// The rounds.
    raws: Vec<Raw>,
    /// Those of the points that were measured again, which follow them.
    again: Vec<Raw>,
    /// Those of a lock of ours in turns with the gauges, which follow both.
    gauged: Vec<Raw>,
    /// Those in which every wait was timed, which belong to no round.
    timed: Vec<(Point, Record)>,
    idle: Option<Idle>,
}

/// A lock of ours beside its rivals.
type Judged = (Vec<PointSummary>, Verdict);

/// Measures and compares.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.pi {
        return pi::run(args);
    }
    let plan = Plan::new(args)?;
    plan.place.can_start(plan.most_threads())?;
    let (machine, mut out) = open(args, &plan.place)?;
    if !args.json {
        screen::print(&plan.text(&machine))?;
    }
    let mut runs = Runs::default();
    let measured = measure_all(&plan, out.as_mut(), &mut runs, machine.clock_ns());

    // Whatever ended the measurement, what it measured is not lost.
    let judged = judge(&plan, &runs, machine.clock_ns());
    let bounds = plan.bounded().then(|| bounds(&plan, &runs, &judged));
    let text = || {
        let every = summary::summarise(&runs.raws, &plan.names(), machine.clock_ns());
        text(&judged, &every, &lines::text(&runs.raws), bounds.as_ref())
    };
    let shown = show(args, out, objects(&judged, bounds.as_ref()), text);
    measured?;
    shown?;
    bounds.map_or(Ok(()), |bounds| bounds.check())
}

/// The machine, and the files of `--out`, if it was asked for, with the machine's in
/// them.
fn open(args: &Args, place: &Place) -> Result<(Ground, Option<Out>), Failure> {
    let create = |directory: &PathBuf| Out::create(directory, "machine.json");
    let mut out = args.out.as_ref().map(create).transpose()?;
    let machine = Ground::of(place);
    if let Some(out) = &mut out {
        out.machine(&machine.json())?;
    }
    Ok((machine, out))
}

/// Writes the objects, and prints them or the text.
fn show(
    args: &Args,
    out: Option<Out>,
    objects: String,
    text: impl FnOnce() -> String,
) -> io::Result<()> {
    let written = out.map_or(Ok(()), |mut out| out.summary(&objects));
    screen::print(&if args.json { objects } else { text() })?;
    written
}

fn judge(plan: &Plan, runs: &Runs, clock_ns: u64) -> Vec<Judged> {
    let scopes = plan.scopes().into_iter();
    scopes
        .map(|scope| judged(&scope, &runs.raws, &runs.again, clock_ns))
        .collect()
}

fn judged(scope: &Scope, raws: &[Raw], again: &[Raw], clock_ns: u64) -> Judged {
    let mut points = summary::summarise(raws, &scope.locks, clock_ns);
    again::confirm(&mut points, again, clock_ns);
    let mut verdict = Verdict {
        cut_short: summary::cut_short(raws, &scope.locks, &points),
        ..Verdict::new(scope, &points, clock_ns)
    };
    for collapse in &mut verdict.collapse {
        if let Some(kept) = again::kept(collapse, verdict.lock, again) {
            collapse.kept.insert(verdict.lock, rounded(kept, 1e4));
            collapse.measured_again = true;
        }
    }
    (points, verdict)
}

fn bounds(plan: &Plan, runs: &Runs, judged: &[Judged]) -> Bounds {
    Bounds::new(&Evidence {
        gauged: &runs.gauged,
        judged: if plan.has_rivals() { judged } else { &[] },
        timed: &runs.timed,
        to_be_timed: plan.timed().len(),
        idle: runs.idle.as_ref(),
    })
}

fn objects(judged: &[Judged], bounds: Option<&Bounds>) -> String {
    let of = |(points, verdict): &Judged| {
        screen::json_lines(points) + &screen::json_lines(std::slice::from_ref(verdict))
    };
    let bounds = bounds.map(|bounds| screen::json_lines(std::slice::from_ref(bounds)));
    judged.iter().map(of).chain(bounds).collect()
}

fn text(judged: &[Judged], every: &[PointSummary], lines: &str, bounds: Option<&Bounds>) -> String {
    let ours: Vec<&[PointSummary]> = judged.iter().map(|(points, _)| &points[..]).collect();
    let sentences = judged.iter().map(|(_, verdict)| sentences::text(verdict));
    let bounds = bounds.map(Bounds::text);
    [tables::text(&ours, every)]
        .into_iter()
        .chain(sentences)
        .chain([lines.into()])
        .chain(bounds)
        .collect()
}

fn measure_all(
    plan: &Plan,
    out: Option<&mut Out>,
    runs: &mut Runs,
    clock_ns: u64,
) -> Result<(), Failure> {
    let screen = Screen::new(plan.runs(), plan.planned());
    let mut measurement = Measurement::new(plan, out, &screen);
    let measured = measurement
        .rounds(&mut runs.raws)
        .and_then(|()| measurement.again(runs, clock_ns))
        .and_then(|()| measurement.gauged(&mut runs.gauged))
        .and_then(|()| measurement.timed(&mut runs.timed));
    screen.close();
    if plan.bounded() {
        runs.idle = idle::measure(plan.place.cpus());
    }
    measured
}

/// A measurement under way. An interrupt ends it; only whole runs count.
struct Measurement<'a> {
    plan: &'a Plan,
    out: Option<&'a mut Out>,
    screen: &'a Screen,
    /// How many there were.
    runs: u32,
}

impl<'a> Measurement<'a> {
    fn new(plan: &'a Plan, out: Option<&'a mut Out>, screen: &'a Screen) -> Self {
        Self {
            plan,
            out,
            screen,
            runs: 0,
        }
    }

    /// Runs the rounds of the plan.
    fn rounds(&mut self, raws: &mut Vec<Raw>) -> Result<(), Failure> {
        let plan = self.plan;
        let mut dice = fastrand::Rng::with_seed(plan.seed);
        warm_up(plan)?;
        for round in 1..=plan.rounds {
            for &point in &plan.points {
                let mut order = plan.parts();
                dice.shuffle(&mut order);
                self.round(round, point, &order, raws)?;
            }
        }
        Ok(())
    }

    /// Runs those that may dominate our locks by chance in some more, and ours where they seem to
    /// collapse.
    fn again(&mut self, runs: &mut Runs, clock_ns: u64) -> Result<(), Failure> {
        let plan = self.plan;
        let mut dice = fastrand::Rng::with_seed(plan.seed);
        let judged = judge(plan, runs, clock_ns);
        let more = (plan.rounds + 1..).take(again::ROUNDS as usize);
        for again::Call { point, locks } in again::calls(&judged) {
            let mut order = plan.parts_named(&locks);
            self.screen
                .expect(order.len() as u64 * u64::from(again::ROUNDS));
            for round in more.clone() {
                dice.shuffle(&mut order);
                self.round(round, point, &order, &mut runs.again)?;
            }
        }
        for (lock, points) in again::collapsed(&judged) {
            let order = plan.parts_named(&[lock]);
            self.screen.expect(2 * u64::from(again::ROUNDS));
            for round in more.clone().map(|round| round + again::ROUNDS) {
                for point in points {
                    self.round(round, point, &order, &mut runs.again)?;
                }
            }
        }
        Ok(())
    }

    /// Holds readers against the gauges.
    fn gauged(&mut self, raws: &mut Vec<Raw>) -> Result<(), Failure> {
        let plan = self.plan;
        let mut dice = fastrand::Rng::with_seed(plan.seed);
        let mut order = plan.gauged_parts();
        let before = plan.rounds + 2 * again::ROUNDS;
        for round in (1..=gauges::ROUNDS).map(|round| before + round) {
            for point in plan.gauged() {
                dice.shuffle(&mut order);
                self.round(round, point, &order, raws)?;
            }
        }
        Ok(())
    }

    fn round(
        &mut self,
        round: u32,
        point: Point,
        order: &[Part<'_>],
        raws: &mut Vec<Raw>,
    ) -> Result<(), Failure> {
        for part in order {
            if interrupted() {
                return Ok(());
            }
            let name = format!("round {round}, {point}, {}", part.name());
            let transfer_ns = lines::transfer_ns(&self.plan.place).map(|ns| rounded(ns, 10.0));
            let raw = |record| Raw {
                record,
                round,
                transfer_ns,
                point,
            };
            raws.extend(self.run(name, part, &self.plan.config(point, round), raw)?);
        }
        Ok(())
    }

    /// Runs those in which every wait is timed.
    fn timed(&mut self, timed: &mut Vec<(Point, Record)>) -> Result<(), Failure> {
        for (point, lock) in self.plan.timed() {
            let name = format!("every wait, {point}, {}", lock.name);
            let config = self.plan.timed_config(point);
            let record = self.run(name, &Part::Lock(lock), &config, |record| record)?;
            timed.extend(record.map(|record| (point, record)));
        }
        Ok(())
    }

    fn run<T: Serialize>(
        &mut self,
        name: String,
        part: &Part<'_>,
        config: &Config,
        raw: impl FnOnce(Record) -> T,
    ) -> Result<Option<T>, Failure> {
        if interrupted() {
            return Ok(None);
        }
        self.screen.begins(name);
        let record = part.run(&self.plan.place, config, self.runs + 1)?;
        if interrupted() {
            return Ok(None);
        }
        let raw = raw(record);
        if let Some(out) = &mut self.out {
            out.raw(&raw)?;
        }
        self.runs += 1;
        self.screen.ended();
        Ok(Some(raw))
    }
}

/// Brings in code, stacks and thread records before anything counts.
fn warm_up(plan: &Plan) -> Result<(), Failure> {
    if let Place::Simulated(_) = plan.place {
        return Ok(()); // its time counts nothing of this machine
    }
    for lock in &plan.locks {
        measure::locktest(&plan.place, lock, &plan.warm_up())?;
    }
    Ok(())
}
