//! `lockyard futex-crowd`: what a waiter costs the more of them there are.

use lockyard_linux::futex::{BUCKETS, MOST_BUCKETS, RECORD_BYTES};
use lockyard_torture::{
    crowd::{self, Cost, Report},
    interrupted,
};
use serde::Serialize;

use crate::{
    failure::Failure,
    format, measure,
    record::rounded,
    screen::{self, Screen},
    values,
};

/// Count what a futex does for each of up to a million waiters
///
/// Each waits for a word of its own, in a table as the library's; then each is woken, in
/// a random order. A million threads are more than most machines can start: so these are
/// tasks that share one thread, and one stack of 2 KiB for each of them. Counted is
/// what the table does for each: accesses of shared words, the same in every run. The
/// times beside that are without the kernel's, to put threads to sleep and to wake them,
/// but with the first touch of each task's stack and record.
#[derive(clap::Args)]
pub struct Args {
    /// How many wait; a list
    #[arg(
        short,
        long,
        value_name = "N,...",
        default_value = "10000,100000,1000000"
    )]
    #[arg(value_delimiter = ',', value_parser = values::waiters)]
    #[arg(allow_hyphen_values = true)]
    waiters: Vec<u32>,

    /// Print one JSON object per number of waiters
    #[arg(long)]
    json: bool,
}

/// Counts for each number.
pub fn run(args: &Args) -> Result<(), Failure> {
    let numbers = values::distinct(&args.waiters);
    let screen = Screen::new(numbers.len() as u64, None);
    let mut records = Vec::new();
    let mut failed = Ok(());
    for &waiters in &numbers {
        screen.begins(format!("{waiters} waiters"));
        match record(waiters) {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break,
            Err(failure) => {
                failed = Err(failure);
                break;
            }
        }
        screen.ended();
    }
    if interrupted() {
        let ended = screen.count();
        screen::log(&format!(
            "interrupted: {ended} of {} numbers",
            numbers.len()
        ));
    }
    screen.close();
    screen::print(&match args.json {
        true => screen::json_lines(&records),
        false => text(&records),
    })?;
    failed
}

/// `None` after an interrupt.
fn record(waiters: u32) -> Result<Option<Record>, Failure> {
    let counted = measure::quietly(|| crowd::run::<BUCKETS, MOST_BUCKETS>(waiters));
    let report = counted.map_err(|panic| {
        let why = measure::message(panic.as_ref());
        Failure::Check(format!("{waiters} waiters: {why}"))
    })?;
    Ok(report.map(|report| Record::new(waiters, report)))
}

fn text(records: &[Record]) -> String {
    let mut table = screen::table();
    table.set_header([
        "waiters", "buckets", "wait", "max", "wake", "max", "wait ns", "wake ns",
    ]);
    for of in records {
        table.add_row([
            format::count(of.waiters.into()),
            format::count(of.buckets as u64),
            format::number(of.wait_accesses),
            format::count(of.wait_accesses_max),
            format::number(of.wake_accesses),
            format::count(of.wake_accesses_max),
            format::number(of.wait_ns),
            format::number(of.wake_ns),
        ]);
    }
    format!(
        "Accesses of shared words for each waiter, to wait and to be woken; a thread's record \
         has {RECORD_BYTES} bytes\n{}",
        screen::rendered(table)
    )
}

/// So many waiters, as `--json` prints it: the field order is part of the interface.
#[derive(Serialize)]
struct Record {
    waiters: u32,
    /// The buckets that the table had in the end.
    buckets: usize,
    /// What a thread's places in the queues of all locks take.
    record_bytes: usize,
    /// Accesses of shared words on average, and those of the one that had the most.
    wait_accesses: f64,
    wait_accesses_max: u64,
    wake_accesses: f64,
    wake_accesses_max: u64,
    /// How long it took on average.
    wait_ns: f64,
    wake_ns: f64,
}

impl Record {
    fn new(waiters: u32, report: Report) -> Self {
        let each = |total: f64| rounded(total / f64::from(waiters), 1e2);
        let accesses = |cost: Cost| each(cost.accesses as f64);
        let ns = |cost: Cost| each(cost.elapsed.as_nanos() as f64);
        Self {
            waiters,
            buckets: report.buckets,
            record_bytes: RECORD_BYTES,
            wait_accesses: accesses(report.wait),
            wait_accesses_max: report.wait.most,
            wake_accesses: accesses(report.wake),
            wake_accesses_max: report.wake.most,
            wait_ns: ns(report.wait),
            wake_ns: ns(report.wake),
        }
    }
}
