//! `lockyard compare`: our lock beside its rivals, over a grid.
//!
//! On a noisy machine the moment of a run matters as much as its lock. So the
//! locks are interleaved: in each round every point of the grid runs every
//! lock once, in an order shuffled anew, and what is compared are medians over
//! the rounds and runs of the same round, which are neighbours in time.

mod ground;
mod out;
mod plan;
mod sentences;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod verdict;

use std::{path::PathBuf, time::Duration};

use lockyard_torture::{interrupted, locktest::Config};
use serde::Serialize;

use self::{ground::Ground, plan::Plan, verdict::Verdict};
pub use self::{out::Out, plan::Point, summary::median};
use crate::{
    failure::Failure,
    measure,
    place::{self, Place},
    record::Record,
    registry::{self, Entry},
    screen::{self, Screen},
    values::{self, Work},
};

/// Measure our lock beside its rivals over a grid of threads and work
///
/// Runs locktest on every lock at every point of a grid of threads and work,
/// interleaved, and compares medians over the rounds. Without flags it takes
/// about a minute: the seconds of a run follow from the number of runs. On a
/// simulated machine rounds differ by their seed, and the same command gives
/// the same output.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to compare: the first of ours (mutex, when none of ours is named)
    /// beside the others [default: mutex and every rival that can run here; in
    /// the simulated world, mutex and the toys]
    #[arg(long, value_name = "LOCK,...", value_delimiter = ',', value_parser = registry::parser())]
    lock: Vec<String>,

    /// Numbers of threads [default: 1, 2, and 1, 4 and 32 per CPU; in the
    /// simulated world 1, 2, and 1 and 2 per CPU]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::threads)]
    #[arg(allow_negative_numbers = true)]
    threads: Vec<usize>,

    /// Work units inside the critical section and between two of them
    #[arg(long, value_name = "LOAD/GAP,...", value_delimiter = ',', value_parser = values::work)]
    #[arg(
        default_value = "0/0,50/50,500/500,50/1000",
        allow_negative_numbers = true
    )]
    points: Vec<Work>,

    /// Rounds, each of which runs every lock once at every point [default: 3;
    /// 7 with --full]
    #[arg(long, value_name = "R", value_parser = values::rounds)]
    #[arg(allow_negative_numbers = true)]
    rounds: Option<u32>,

    /// Seconds of each run [default: a minute shared by all runs, but from
    /// 0.02 to 1; 0.5 with --full; in the simulated world 0.01, 0.1 with more
    /// threads than CPUs, and 5 times as much with --full]
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

    /// Write raw.jsonl (every run), summary.jsonl (every point and the verdict)
    /// and machine.json to this directory, which may not hold them yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object per point, and one with the verdict
    #[arg(long)]
    json: bool,
}

/// A run and the round that it belongs to.
#[derive(Clone, Debug, Serialize)]
pub struct Raw {
    #[serde(flatten)]
    record: Record,
    round: u32,
}

/// Measures and compares.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    plan.place.can_start(plan.most_threads())?;
    let create = |directory: &PathBuf| Out::create(directory, "machine.json");
    let mut out = args.out.as_ref().map(create).transpose()?;

    let machine = Ground::of(&plan.place);
    if let Some(out) = &mut out {
        out.machine(&machine.json())?;
    }
    if !args.json {
        screen::print(&plan.text(&machine))?;
    }
    let mut raws = Vec::new();
    let measured = measure_all(&plan, out.as_mut(), &mut raws);

    // Whatever ended the measurement, what it measured is not lost.
    let scope = plan.scope();
    let points = summary::summarise(&raws, &scope.locks, machine.clock_ns());
    let verdict = Verdict::new(&scope, &points, machine.clock_ns());
    let objects = screen::json_lines(&points) + &screen::json_lines(&[&verdict]);
    let written = match &mut out {
        Some(out) => out.summary(&objects),
        None => Ok(()),
    };
    let text = if args.json {
        objects
    } else {
        tables::text(&points) + &sentences::text(&verdict)
    };
    screen::print(&text)?;
    measured?;
    Ok(written?)
}

fn measure_all(plan: &Plan, out: Option<&mut Out>, raws: &mut Vec<Raw>) -> Result<(), Failure> {
    let screen = Screen::new(plan.runs(), plan.planned());
    let measured = rounds(plan, out, &screen, raws);
    screen.close();
    measured
}

/// Runs the plan until its end or an interrupt. Only whole runs count.
fn rounds(
    plan: &Plan,
    mut out: Option<&mut Out>,
    screen: &Screen,
    raws: &mut Vec<Raw>,
) -> Result<(), Failure> {
    let mut dice = fastrand::Rng::with_seed(plan.seed);
    warm_up(plan)?;
    for round in 1..=plan.rounds {
        for point in &plan.points {
            let mut order: Vec<&Entry> = plan.locks.iter().collect();
            dice.shuffle(&mut order);
            for lock in order {
                screen.begins(format!("round {round}, {point}, {}", lock.name));
                let run = raws.len() as u32 + 1;
                let record = one(plan, lock, &plan.config(*point, round), run)?;
                if interrupted() {
                    return Ok(());
                }
                let raw = Raw { record, round };
                if let Some(out) = out.as_mut() {
                    out.raw(&raw)?;
                }
                raws.push(raw);
                screen.ended();
            }
        }
    }
    Ok(())
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

fn one(plan: &Plan, lock: &Entry, config: &Config, run: u32) -> Result<Record, Failure> {
    let measured = measure::locktest(&plan.place, lock, config)?;
    Ok(Record::new(&plan.place, lock.name, config, run, &measured))
}
