//! `lockyard locktest`: the microbenchmark of seeds 001 and 003.

use std::{thread::available_parallelism, time::Duration};

use lockyard_torture::{interrupted, locktest::Config};

use crate::{
    events::Events,
    failure::Failure,
    measure,
    record::Record,
    registry::{self, Entry, Kind},
    screen::{self, Screen},
    values::{self, World},
};

/// Load locks: threads loop lock, work, unlock, work
///
/// Each thread loops: lock, LOAD work units, unlock, GAP work units. A work
/// unit is about a nanosecond; the first line says how long it is here.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to load, one after the other
    #[arg(long, default_value = registry::DEFAULT, value_delimiter = ',')]
    #[arg(value_name = "LOCK,...", value_parser = registry::parser())]
    lock: Vec<String>,

    /// Numbers of threads, one run for each [default: one per CPU]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::threads)]
    #[arg(allow_negative_numbers = true)]
    threads: Vec<usize>,

    /// How long each run lasts, in seconds
    #[arg(long, value_name = "S", default_value = "1", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Duration,

    /// Work units inside the critical section
    #[arg(long, value_name = "UNITS", default_value = "1", value_parser = values::units)]
    #[arg(allow_negative_numbers = true)]
    load: u32,

    /// Work units between an unlock and the next lock
    #[arg(long, value_name = "UNITS", default_value = "0", value_parser = values::units)]
    #[arg(allow_negative_numbers = true)]
    gap: u32,

    /// The world to run in
    #[arg(long, default_value = "native", value_enum)]
    world: World,

    /// How often to run everything
    #[arg(long, value_name = "R", default_value = "1", value_parser = values::runs)]
    #[arg(allow_negative_numbers = true)]
    runs: u32,

    /// Measure the wait of one acquisition in N, on average; the longest wait
    /// printed is the longest one measured [default: so seldom that it slows
    /// an uncontended lock by 2 %]
    #[arg(long, value_name = "N", value_parser = values::sample)]
    #[arg(allow_negative_numbers = true)]
    sample: Option<u32>,

    /// Seed of the sampling; run R uses N + R - 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Count the rare paths that our locks take
    #[arg(long)]
    events: bool,

    /// Print one JSON object per run, whose seconds are those measured
    #[arg(long)]
    json: bool,
}

/// Runs the microbenchmark for each run, lock and number of threads.
pub fn run(args: &Args) -> Result<(), Failure> {
    let locks = registry::named(&args.lock)?;
    let threads = threads(args);
    measure::can_start(threads.iter().copied().max().unwrap_or(1))?;

    let runs = args.runs as usize * locks.len() * threads.len();
    let screen = Screen::new(runs as u64, args.seconds * runs as u32);
    if !args.json {
        screen.print(&format!("Work unit = {:.2} ns\n", measure::work_unit_ns()))?;
    }
    let done = all(args, &locks, &threads, &screen);
    if interrupted() {
        let ended = screen.count();
        screen::log(&format!(
            "interrupted: {ended} of {runs} runs, the last cut short"
        ));
    }
    screen.close();
    done
}

fn threads(args: &Args) -> Vec<usize> {
    if args.threads.is_empty() {
        return vec![available_parallelism().map_or(1, usize::from)];
    }
    values::distinct(&args.threads)
}

fn all(args: &Args, locks: &[Entry], threads: &[usize], screen: &Screen) -> Result<(), Failure> {
    for run in 1..=args.runs {
        for lock in locks {
            if !args.json {
                screen.print(&header(args, lock, run))?;
            }
            for &threads in threads {
                screen.begins(format!("{} with {threads} threads", lock.name));
                let record = one(args, lock, threads, run)?;
                screen.ended();
                let text = if args.json {
                    screen::json_lines(&[record])
                } else {
                    record.text()
                };
                screen.print(&text)?;
                if interrupted() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn one(args: &Args, lock: &Entry, threads: usize, run: u32) -> Result<Record, Failure> {
    let config = Config {
        threads,
        duration: args.seconds,
        load: args.load,
        gap: args.gap,
        sample: args
            .sample
            .unwrap_or_else(|| measure::sampling(args.load, args.gap)),
        seed: args.seed.wrapping_add(u64::from(run) - 1),
    };
    let counted = args.events && lock.kind == Kind::Ours;
    let (report, events) = Events::during(counted, || match args.world {
        World::Native => measure::locktest(lock, &config),
    });
    Ok(Record {
        events,
        ..Record::new(args.world, lock.name, &config, run, &report?)
    })
}

/// The seeds' header; what they do not have stands at its end, when used.
fn header(args: &Args, lock: &Entry, run: u32) -> String {
    let (name, seconds) = (lock.name, args.seconds.as_secs_f64());
    let mut more = String::new();
    if args.gap > 0 {
        more += &format!(", gap = {}", args.gap);
    }
    if args.runs > 1 {
        more += &format!(", run = {run} of {}", args.runs);
    }
    let load = args.load;
    format!("Running locktest with {name} [runtime = {seconds}s, load = {load}{more}]\n")
}
