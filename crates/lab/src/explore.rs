//! `lockyard explore`: schedules of small configurations, on simulated machines.

use std::panic::resume_unwind;

use clap::builder::PossibleValuesParser;
use lockyard_core::{
    osq::{Event, Poll},
    percpu_rwsem::{Barging, Bounded, Handoff},
    rtmutex::{Block, Spin},
    rwsem::{Lockless, Trylock},
};
use lockyard_rivals::toys::{Drepper, Mcs, Tas, Ticket};
use lockyard_sim::{Sim, Timeline};
use lockyard_torture::{
    explore::{self, Subject},
    interrupted,
    subjects::{Guarded, Mutex, Percpu, Plain, RtMutexes, Rwsem},
};
use serde::Serialize;

use crate::{
    failure::Failure,
    format, measure,
    registry::DEFAULT,
    screen::{self, Screen},
    values,
};

/// Explore schedules of a lock: few threads, in orders a machine seldom takes
///
/// On a small simulated machine, threads lock, try and time out, wake and are
/// preempted, some of them with real-time priorities. A schedule fails when two
/// are inside at once, when threads wait for ever, or when the lock panics. The
/// same command gives the same output, and a schedule is replayed by its number.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to explore, one after the other
    #[arg(long, default_value = DEFAULT, value_delimiter = ',')]
    #[arg(value_name = "LOCK,...", value_parser = parser())]
    lock: Vec<String>,

    /// Numbers of threads, from 2 to 16: the fewer there are, the larger the
    /// part of their schedules that is explored
    #[arg(long, value_name = "N,...", default_value = "3", value_delimiter = ',')]
    #[arg(value_parser = values::tasks, allow_hyphen_values = true)]
    threads: Vec<usize>,

    /// How many schedules to run of each lock with each number of threads
    #[arg(long, value_name = "N", default_value = "10000", value_parser = values::schedules)]
    #[arg(allow_negative_numbers = true)]
    schedules: u64,

    /// The number of the first schedule; the next one is N + 1
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Run this schedule of one lock and one number of threads, and print what
    /// happens in it
    #[arg(long, value_name = "SCHEDULE", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true, conflicts_with_all = ["schedules", "seed"])]
    replay: Option<u64>,

    /// Print one JSON object per lock and number of threads
    #[arg(long)]
    json: bool,
}

/// Runs the schedules, or replays one.
pub fn run(args: &Args) -> Result<(), Failure> {
    let locks = named(&args.lock);
    let threads = values::distinct(&args.threads);
    match (args.replay, &locks[..], &threads[..]) {
        (None, ..) => all(args, &locks, &threads),
        (Some(schedule), [lock], &[threads]) => replay(args, lock, threads, schedule),
        (Some(schedule), ..) => Err(Failure::Usage(format!(
            "--replay '{schedule}': use one --lock and one number of --threads"
        ))),
    }
}

/// A lock to explore.
struct Entry {
    name: &'static str,
    run: fn(usize, &mut dyn Iterator<Item = u64>) -> explore::Explored,
    replay: fn(usize, u64) -> (Option<String>, Timeline),
}

impl Entry {
    fn new<S: Subject>(name: &'static str) -> Self {
        Self {
            name,
            run: |threads, schedules| explore::run::<S>(threads, schedules, interrupted),
            replay: explore::replay::<S>,
        }
    }
}

const ENTRIES: [fn() -> Entry; 14] = [
    || Entry::new::<Mutex<Event>>(DEFAULT),
    || Entry::new::<Mutex<Poll>>("mutex:poll"),
    || Entry::new::<Guarded<Event>>("condvar"),
    || Entry::new::<Rwsem<Lockless>>("rwsem"),
    || Entry::new::<Rwsem<Trylock>>("rwsem:trylock"),
    || Entry::new::<Percpu<Bounded>>("percpu"),
    || Entry::new::<Percpu<Barging>>("percpu:barging"),
    || Entry::new::<Percpu<Handoff>>("percpu:handoff"),
    || Entry::new::<RtMutexes<Spin>>("rtmutex"),
    || Entry::new::<RtMutexes<Block>>("rtmutex:block"),
    || Entry::new::<Plain<Tas<Sim>>>("tas"),
    || Entry::new::<Plain<Ticket<Sim>>>("ticket"),
    || Entry::new::<Plain<Mcs<Sim>>>("mcs"),
    || Entry::new::<Plain<Drepper<Sim>>>("drepper"),
];

fn entries() -> impl Iterator<Item = Entry> {
    ENTRIES.into_iter().map(|entry| entry())
}

fn parser() -> PossibleValuesParser {
    PossibleValuesParser::new(entries().map(|entry| entry.name))
}

/// The locks of these names, which the parser has let through, each once.
fn named(names: &[String]) -> Vec<Entry> {
    let names = values::distinct(names);
    let found = names.iter().map(|name| {
        let entry = entries().find(|entry| entry.name == name);
        entry.expect("the parser lets only known names through")
    });
    found.collect()
}

/// What came of the schedules of a lock and a number of threads.
#[derive(Serialize)]
struct Outcome {
    lock: &'static str,
    threads: usize,
    seed: u64,
    /// Those that were run.
    schedules: u64,
    /// The last of them, if it failed.
    failure: Option<Failed>,
}

#[derive(Serialize)]
struct Failed {
    schedule: u64,
    what: String,
    /// The command that replays it.
    replay: String,
}

impl Outcome {
    fn text(&self) -> String {
        let title = title(self.lock, self.threads);
        match &self.failure {
            None => {
                let s = if self.schedules == 1 { "" } else { "s" };
                let count = format::count(self.schedules);
                format!("{title}: {count} schedule{s}, none fails\n")
            }
            Some(Failed {
                schedule,
                what,
                replay,
            }) => {
                format!("{title}: schedule {schedule} fails: {what}; replay it with `{replay}`\n")
            }
        }
    }
}

fn title(lock: &str, threads: usize) -> String {
    format!("{lock} with {threads} threads")
}

fn all(args: &Args, locks: &[Entry], threads: &[usize]) -> Result<(), Failure> {
    let configurations = locks.len() * threads.len();
    let planned = args.schedules * configurations as u64;
    let screen = Screen::new(planned, None);
    let (mut ran, mut failed) = (0, 0);
    let pairs = (locks.iter()).flat_map(|lock| threads.iter().map(move |&threads| (lock, threads)));
    for (lock, threads) in pairs {
        let outcome = explored(args, lock, threads, &screen);
        ran += outcome.schedules;
        failed += usize::from(outcome.failure.is_some());
        let text = match args.json {
            true => screen::json_lines(&[&outcome]),
            false => outcome.text(),
        };
        screen.print(&text)?;
        if interrupted() {
            let (ran, planned) = (format::count(ran), format::count(planned));
            screen::log(&format!("interrupted: {ran} of {planned} schedules"));
            break;
        }
    }
    screen.close();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Check(format!(
            "{failed} of {configurations} explorations found a schedule that fails"
        ))),
    }
}

fn explored(args: &Args, lock: &Entry, threads: usize, screen: &Screen) -> Outcome {
    screen.begins(title(lock.name, threads));
    let numbers = (0..args.schedules).map(|i| args.seed.wrapping_add(i));
    let mut numbers = numbers.inspect(|_| screen.ended());
    let explored = quietly(|| (lock.run)(threads, &mut numbers));
    let failure = explored
        .failure
        .map(|explore::Failure { schedule, what }| Failed {
            replay: format!(
                "lockyard explore --lock {} --threads {threads} --replay {schedule}",
                lock.name
            ),
            schedule,
            what,
        });
    Outcome {
        lock: lock.name,
        threads,
        seed: args.seed,
        schedules: explored.schedules,
        failure,
    }
}

/// A lock's panic is what was looked for: nobody prints it but `work`'s caller.
fn quietly<R>(work: impl FnOnce() -> R) -> R {
    measure::quietly(work).unwrap_or_else(|panic| resume_unwind(panic))
}

/// A schedule that was replayed.
#[derive(Serialize)]
struct Replayed {
    lock: &'static str,
    threads: usize,
    schedule: u64,
    /// How it failed, if it did.
    what: Option<String>,
    timeline: Vec<String>,
}

fn replay(args: &Args, lock: &Entry, threads: usize, schedule: u64) -> Result<(), Failure> {
    let (what, timeline) = quietly(|| (lock.replay)(threads, schedule));
    let (title, timeline) = (title(lock.name, threads), timeline.to_string());
    let fails = what.is_some();
    screen::print(&if args.json {
        screen::json_lines(&[Replayed {
            lock: lock.name,
            threads,
            schedule,
            what,
            timeline: timeline.lines().map(str::to_owned).collect(),
        }])
    } else {
        let end = match what {
            Some(what) => format!("fails: {what}"),
            None => "does not fail".into(),
        };
        format!("{timeline}{title}: schedule {schedule} {end}\n")
    })?;
    match fails {
        true => Err(Failure::Check(format!(
            "{title}: schedule {schedule} fails"
        ))),
        false => Ok(()),
    }
}
