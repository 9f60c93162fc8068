//! Seed 000, "locking/rtmutex: Reduce top-waiter blocking on a lock" (Davidlohr
//! Bueso, September 2016): rt-tests' pi_stress on a real-time mutex whose top waiter
//! sleeps, and on one whose top waiter spins while the owner runs.
//!
//! The mail gives the tool, 32 cores, the numbers of groups and 30 seconds. It does
//! not say what CPU it was, nor how the tool was called. The tool pins the threads
//! of a group to one CPU, where an owner cannot run while a waiter does; so the
//! groups run pinned, and unpinned.

mod stress;
mod text;
mod verdict;

use std::time::Duration;

use self::{
    stress::{Bench, Row, Setting},
    verdict::{PAPER, Verdict},
};
use super::Args;
use crate::{
    failure::Failure,
    place, registry,
    screen::{self, Screen, json_lines},
    values::World,
};

const NAME: &str = "000";
const MACHINE: &str = "x86-32c";
const LOCKS: [&str; 2] = ["rtmutex:block", "rtmutex"];
const SECONDS: Duration = Duration::from_millis(20);
/// The paper has a standard deviation; one of three runs would say nothing.
const SEEDS: u32 = 10;

/// Stresses both locks.
pub fn run(args: &Args) -> Result<(), Failure> {
    let seconds = args.seconds.unwrap_or(SECONDS).as_secs_f64();
    let setting = |pinned| {
        PAPER.map(|paper| {
            let groups = paper.groups;
            let setting = Setting {
                pinned,
                groups,
                seconds,
            };
            (setting, paper)
        })
    };
    let bench = Bench {
        machine: place::machine(MACHINE)?,
        locks: registry::named(&LOCKS.map(Into::into), World::Sim)?,
        seeds: args.seeds.unwrap_or(SEEDS),
        settings: [true, false].map(setting).concat(),
    };
    if !args.json {
        screen::print(&text::header(&bench))?;
    }
    let mut rows: Vec<Row> = Vec::new();
    let screen = Screen::new(bench.runs(), None);
    let measured = bench.measure(&screen, &mut rows);
    screen.close();

    // Whatever ended the runs, what they measured is not lost.
    let verdict = Verdict::new(&bench, &rows);
    screen::print(&if args.json {
        json_lines(&rows) + &json_lines(&[&verdict])
    } else {
        text::results(&rows) + &text::verdict(&bench.machine, &verdict)
    })?;
    measured
}
