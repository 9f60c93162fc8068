//! Seed 004, "futex: Reduce the scope of lock_page, aka lockless futex_get_key()"
//! (Davidlohr Bueso, January 2016): `perf bench futex hash` on shared futexes in
//! anonymous memory, whose keys are found under the page lock, and without it.
//!
//! The mail gives 60 cores, the benchmark, and three sentences on the effect. It gives
//! neither the numbers of threads nor how the benchmark was called, nor where its words
//! lay: 1,024 for each thread and no huge pages are the defaults. So the threads are
//! varied, and the layout. Beside the two stand private futexes, which the mail compares
//! them with, and the keys of later kernels, which refer to nothing.

mod hash;
mod text;
mod verdict;

use std::time::Duration;

use lockyard_torture::futexhash::Layout;

use self::{
    hash::{Bench, Row, Setting},
    verdict::Verdict,
};
use super::Args;
use crate::{
    failure::Failure,
    place,
    screen::{self, Screen, json_lines},
};

const NAME: &str = "004";
const MACHINE: &str = "x86-60c";
const SECONDS: Duration = Duration::from_millis(50);
const FUTEXES: usize = 1_024;
const THREADS: [usize; 6] = [1, 16, 32, 64, 128, 256];
/// The first is what the benchmark does by default.
const LAYOUTS: [Layout; 3] = [Layout::Neighbours, Layout::Apart, Layout::Huge];

/// Runs the benchmark with all kinds of keys.
pub fn run(args: &Args) -> Result<(), Failure> {
    let seconds = args.seconds.unwrap_or(SECONDS).as_secs_f64();
    let settings = LAYOUTS.map(|layout| {
        THREADS.map(|threads| Setting {
            layout: layout.into(),
            threads,
            futexes: FUTEXES,
            seconds,
        })
    });
    let bench = Bench {
        machine: place::machine(MACHINE)?,
        seeds: args.seeds(),
        settings: settings.concat(),
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
        text::results(&rows) + &text::verdict(&verdict)
    })?;
    measured
}
