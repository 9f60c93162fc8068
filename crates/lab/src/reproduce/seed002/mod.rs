//! Seed 002, "locking/percpu-rwsem: do not do lock handoff in percpu_up_write"
//! (Benjamin Segall, January 2024): the kernel's locktorture on a percpu-rwsem
//! whose writer takes the lock for those that it wakes, and on one whose writer
//! only wakes them; and the story behind it (`story`).
//!
//! The mail gives the tool, its delays in two variants, 72 CPUs and ten minutes.
//! It does not say what CPU it was, nor how deeply an idle one sleeps; and nobody
//! knows how long a writer needs to come back. So these are varied.

mod native;
mod story;
mod text;
mod torture;
mod verdict;

use std::time::Duration;

use self::{
    story::{Story, Told},
    torture::{Bench, Row, Setting},
    verdict::Verdict,
};
use super::Args;
use crate::{
    failure::Failure,
    place, registry,
    screen::{self, Screen, json_lines},
    values::World,
};

const NAME: &str = "002";
const MACHINE: &str = "x86-72c";
/// Before, after, and after with a bound.
const LOCKS: [&str; 3] = ["percpu:handoff", "percpu:barging", "percpu:3s"];
const SECONDS: Duration = Duration::from_secs(600);

/// Runs the torture and what is varied beside it, and then the story.
pub fn run(args: &Args) -> Result<(), Failure> {
    let machine = place::machine(MACHINE)?;
    let seconds = args.seconds.unwrap_or(SECONDS);
    let bench = Bench {
        locks: registry::named(&LOCKS.map(Into::into), World::Sim)?,
        seeds: args.seeds(),
        settings: torture::settings(seconds),
    };
    let story = Story::new(machine.clone(), seconds / 60, args.seeds());
    if !args.json {
        screen::print(&text::header(&machine, &bench, &story))?;
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut told: Vec<Told> = Vec::new();
    let screen = Screen::new(bench.runs() + story.runs(), None);
    let measured = bench
        .measure(&machine, &screen, &mut rows)
        .and_then(|()| story.measure(&screen, &mut told));
    screen.close();

    // Whatever ended the runs, what they measured is not lost.
    let verdict = Verdict::new(&machine.name, args.seeds(), &rows, &told);
    screen::print(&if args.json {
        json_lines(&rows) + &json_lines(&told) + &json_lines(&[&verdict])
    } else {
        text::results(&rows, &told) + &text::verdict(&machine, &verdict)
    })?;
    measured?;
    if args.native {
        native::run_story(args.json)?;
    }
    Ok(())
}

/// Whether a setting is one of the experiment as it is published.
fn is_published(setting: &Setting) -> bool {
    setting.kind == torture::Kind::Experiment
}
