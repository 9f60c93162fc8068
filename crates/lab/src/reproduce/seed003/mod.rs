//! Seed 003, "locking/rwsem: Check wait_list without lock if spinner present"
//! (Waiman Long, March 2017): writers on a rwsem whose unlock tries the lock of
//! the queue when a spinner is there to take over, and on one whose unlock only
//! looks.
//!
//! The mail gives the machine, the threads and the operations of each. It says
//! neither what a thread does under the lock nor what it does in between; so
//! both are varied, and the threads.

mod text;
mod verdict;

use serde::Serialize;

use self::verdict::{Scope, Verdict};
use super::{
    Args,
    pairs::{Bench, Row, Setting},
};
use crate::{
    failure::Failure,
    place, registry,
    screen::{self, json_lines},
    values::{self, World},
};

const NAME: &str = "003";
const MACHINE: &str = "x86-2s36c";
const LOCKS: [&str; 2] = ["rwsem:trylock", "rwsem"];
const LOAD: u32 = 1;

/// What is varied.
const THREADS: [usize; 5] = [9, 18, 36, 72, 144];
const LOADS: [u32; 3] = [1, 50, 500];
const GAPS: [u32; 3] = [0, 50, 500];

/// The paper's rates, in thousands per second. It prints millions, with which
/// its 36 million operations would have lasted 7 ms.
const PAPER_KOPS: [f64; 2] = [4_923.0, 5_136.0];
/// The operations of each of its threads.
const PAPER_OPS: f64 = 1_000_000.0;

/// What a row is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// The experiment as it is published.
    Experiment,
    /// Other numbers of threads.
    Threads,
    /// Other loads.
    Load,
    /// Other gaps.
    Gap,
}

/// Runs the experiment and what is varied beside it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    if !args.json {
        screen::print(&text::header(&plan))?;
    }
    let settings = plan.settings();
    let (pairs, measured) = plan.bench.measure(&settings);

    // Whatever ended the runs, what they measured is not lost.
    let row = |&(kind, setting): &(Kind, Setting)| {
        let at = settings.iter().position(|other| *other == setting)?;
        Row::new(kind, NAME, setting, LOCKS, &pairs[at])
    };
    let rows: Vec<Row<Kind>> = plan.rows.iter().filter_map(row).collect();
    let scope = Scope {
        machine: plan.bench.machine.name.clone(),
        seeds: plan.bench.seeds as usize,
        rows: plan.rows.len(),
        runs_planned: plan.bench.runs(&settings),
        runs: 2 * pairs.iter().map(Vec::len).sum::<usize>(),
    };
    let verdict = Verdict::new(scope, &rows);
    screen::print(&if args.json {
        json_lines(&rows) + &json_lines(&[&verdict])
    } else {
        text::results(&rows) + &text::verdict(&verdict)
    })?;
    measured
}

/// What is run.
struct Plan {
    bench: Bench,
    /// What each row is for, and its setting. Rows may have one in common.
    rows: Vec<(Kind, Setting)>,
}

impl Plan {
    fn new(args: &Args) -> Result<Self, Failure> {
        let machine = place::machine(MACHINE)?;
        let locks = registry::named(&LOCKS.map(Into::into), World::Sim)?;
        let [before, after] = <[_; 2]>::try_from(locks).ok().expect("two locks are named");
        let published = Setting {
            threads_per_core: machine.threads_per_core,
            threads: machine.cpus(),
            load: LOAD,
            gap: 0,
            seconds: args.locktest_seconds().as_secs_f64(),
        };
        let bench = Bench {
            machine,
            before,
            after,
            seeds: args.seeds(),
        };
        Ok(Self {
            rows: rows(published, (args.locktest_seconds() * 2 / 5).as_secs_f64()),
            bench,
        })
    }

    /// Every setting once.
    fn settings(&self) -> Vec<Setting> {
        let all: Vec<Setting> = self.rows.iter().map(|(_, setting)| *setting).collect();
        values::distinct(&all)
    }
}

/// The experiment, and what is varied beside it.
fn rows(published: Setting, seconds: f64) -> Vec<(Kind, Setting)> {
    let all = Setting {
        seconds,
        ..published
    };
    let threads = THREADS.map(|threads| (Kind::Threads, Setting { threads, ..all }));
    let loads = LOADS.map(|load| (Kind::Load, Setting { load, ..all }));
    let gaps = GAPS.map(|gap| (Kind::Gap, Setting { gap, ..all }));
    let mut rows = vec![(Kind::Experiment, published)];
    rows.extend(threads.into_iter().chain(loads).chain(gaps));
    rows
}
