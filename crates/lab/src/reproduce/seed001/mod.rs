//! Seed 001, "locking/osq: Use optimized spinning loop for arm64" (Waiman Long,
//! January 2020): locktest on a mutex whose queued spinners poll, and on one
//! whose queued spinners wait for events.
//!
//! The mail says how many threads there were, for how long they ran, and that
//! the load was 1. It says neither what a unit of load is nor what locktest
//! does between two operations; so the gap is varied, too.

mod explanation;
mod text;
mod verdict;

use lockyard_sim::Machine;
use serde::Serialize;

use self::verdict::{Scope, Verdict};
use super::{
    Args,
    pairs::{Bench, Pair, Row, Setting},
};
use crate::{
    failure::Failure,
    place, registry,
    screen::{self, json_lines},
    values::{self, World},
};

const NAME: &str = "001";
const MACHINE: &str = "arm64-2s56c224t";
const LOCKS: [&str; 2] = ["mutex:poll", registry::DEFAULT];
const LOAD: u32 = 1;

/// What is varied: threads per core, threads, and the gap.
const SMT: [usize; 3] = [1, 2, 4];
const THREADS: [usize; 5] = [14, 28, 56, 112, 224];
const GAPS: [u32; 4] = [0, 10, 50, 200];

/// What a row is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// The experiment as it is published.
    Experiment,
    /// Other numbers of threads per core, each with a thread on every CPU.
    Smt,
    /// Other numbers of threads.
    Threads,
    /// Other gaps.
    Gap,
}

/// What the paper's output says of a lock.
#[derive(Clone, Copy, Serialize)]
struct Published {
    rate_kops: f64,
    ops_min: f64,
    ops_mean: f64,
    ops_max: f64,
}

impl Published {
    /// The share of all operations that the most favoured of the threads made.
    fn max_share(&self) -> f64 {
        self.ops_max / (self.ops_mean * PAPER_THREADS)
    }
}

const PAPER_THREADS: f64 = 224.0;
const PAPER_SECONDS: f64 = 10.0;
const PAPER: [Published; 2] = [
    Published {
        rate_kops: 2_757.0,
        ops_min: 316.0,
        ops_mean: 123_143.0,
        ops_max: 2_121_269.0,
    },
    Published {
        rate_kops: 3_311.0,
        ops_min: 334.0,
        ops_mean: 147_836.0,
        ops_max: 1_304_787.0,
    },
];

/// The paper's effect on a number: 0.2 when there is a fifth more after.
fn paper_effect(of: impl Fn(&Published) -> f64) -> f64 {
    of(&PAPER[1]) / of(&PAPER[0]) - 1.0
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
    let rows = plan.rows(&settings, &pairs);
    let runs = 2 * pairs.iter().map(Vec::len).sum::<usize>();
    let verdict = Verdict::new(plan.scope(runs), &rows);
    screen::print(&if args.json {
        json_lines(&rows) + &json_lines(&[&verdict])
    } else {
        text::results(&plan, &rows) + &text::verdict(&verdict)
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
        let rows = rows(
            &machine,
            args.locktest_seconds().as_secs_f64(),
            (args.locktest_seconds() * 2 / 5).as_secs_f64(),
        );
        let bench = Bench {
            machine,
            before,
            after,
            seeds: args.seeds(),
        };
        Ok(Self { bench, rows })
    }

    /// Every setting once.
    fn settings(&self) -> Vec<Setting> {
        let all: Vec<Setting> = self.rows.iter().map(|(_, setting)| *setting).collect();
        values::distinct(&all)
    }

    /// The rows that have been measured.
    fn rows(&self, settings: &[Setting], pairs: &[Vec<Pair>]) -> Vec<Row<Kind>> {
        let row = |&(kind, setting): &(Kind, Setting)| {
            let at = settings.iter().position(|other| *other == setting)?;
            Row::new(kind, NAME, setting, LOCKS, &pairs[at])
        };
        self.rows.iter().filter_map(row).collect()
    }

    fn scope(&self, runs: usize) -> Scope {
        let machine = &self.bench.machine;
        Scope {
            machine: machine.name.clone(),
            seeds: self.bench.seeds as usize,
            gaps: GAPS.len(),
            runs_planned: self.bench.runs(&self.settings()),
            runs,
        }
    }
}

/// The experiment, and what is varied beside it.
fn rows(machine: &Machine, seconds: f64, varied: f64) -> Vec<(Kind, Setting)> {
    let published = Setting {
        threads_per_core: machine.threads_per_core,
        threads: machine.cpus(),
        load: LOAD,
        gap: 0,
        seconds,
    };
    let all = Setting {
        seconds: varied,
        ..published
    };
    let smt = SMT.map(|threads_per_core| Setting {
        threads_per_core,
        threads: machine.cores() * threads_per_core,
        ..all
    });
    let threads = THREADS.map(|threads| Setting { threads, ..all });
    let gaps = GAPS.map(|gap| Setting { gap, ..all });
    let each = |kind| move |setting| (kind, setting);
    let experiment = [(Kind::Experiment, published)].into_iter();
    experiment
        .chain(smt.map(each(Kind::Smt)))
        .chain(threads.map(each(Kind::Threads)))
        .chain(gaps.map(each(Kind::Gap)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_is_quoted_right() {
        for paper in PAPER {
            let rate = paper.ops_mean * PAPER_THREADS / PAPER_SECONDS / 1e3;
            assert!((rate - paper.rate_kops).abs() < 2.0, "{rate}");
        }
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        assert_eq!(percent(paper_effect(|paper| paper.rate_kops)), "20.1");
        assert_eq!(
            PAPER.map(|paper| percent(paper.max_share())),
            ["7.7", "3.9"]
        );
    }

    #[test]
    fn every_thread_of_a_core_can_be_left_out() {
        let machine = Machine::find(MACHINE).expect("it comes with the simulator");
        let rows = rows(&machine, 1.0, 0.4);
        let of = |kind: Kind| rows.iter().filter(move |(other, _)| *other == kind);
        assert_eq!(of(Kind::Experiment).count(), 1);
        for ((_, setting), threads) in of(Kind::Smt).zip([56, 112, 224]) {
            let smt = setting.threads_per_core;
            let cut = machine.clone().with_threads_per_core(smt);
            assert_eq!((cut.cpus(), setting.threads), (threads, threads));
            assert_eq!(cut.costs.smt_speed, machine.costs.smt_speed[..smt]);
            assert_eq!((cut.sockets, cut.cores()), (2, 56));
        }
        let uncut = machine.clone().with_threads_per_core(4);
        assert_eq!(uncut, machine);
    }
}
