//! `lockyard torture`: the kernel's locktorture, on any lock in any world.

mod record;

use std::{process::exit, time::Duration};

use clap::ValueEnum;
use lockyard_torture::{
    Policy, interrupted,
    locktorture::{self, Config},
};

use crate::{
    failure::Failure,
    measure,
    place::{self, Place},
    registry::{self, Entry},
    screen::{self, Screen},
    values,
};
use record::{Record, Runs};

/// How long a run lasts when nothing else is asked for. A simulated machine
/// needs no time to warm up, and it costs more.
const SECONDS: Duration = Duration::from_secs(10);
const SIMULATED: Duration = Duration::from_secs(1);

/// Torture locks: writers and readers hold them for odd times, and look who else is in
///
/// As the kernel's locktorture: each writer loops lock, look, stay, unlock, and
/// so does each reader. All pause together now and then, are kept off one CPU
/// after the other, and with --boost become real-time threads for a while. The
/// command fails when somebody is in who should not be, or when nobody gets on
/// any more. As there, ??? stands where one got more than twice what another did,
/// and !!! where somebody was in who should not be.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to torture, one after the other
    #[arg(long, default_value = registry::DEFAULT, value_delimiter = ',')]
    #[arg(value_name = "LOCK,...", value_parser = registry::parser())]
    lock: Vec<String>,

    /// How long each run lasts, in seconds [default: 10; 1 in the simulated
    /// world]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Threads that have the lock for themselves [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    #[arg(allow_negative_numbers = true)]
    writers: Option<usize>,

    /// Threads that share the lock with each other [default: one per CPU; none
    /// for a lock that readers do not share]
    #[arg(long, value_name = "N", value_parser = values::readers)]
    #[arg(allow_negative_numbers = true)]
    readers: Option<usize>,

    /// How long threads hold the lock
    #[arg(long, value_name = "CHOICE", default_value = "new", value_enum)]
    delays: Delays,

    /// A long hold, in milliseconds
    #[arg(long, value_name = "MS", default_value = "100", value_parser = values::hold)]
    #[arg(allow_negative_numbers = true)]
    long_hold: Duration,

    /// All threads run for so many seconds, and pause for as many; 0: never
    /// (the kernel's default is 5 jiffies, 0.02 at 250 Hz)
    #[arg(long, value_name = "S", default_value = "5", value_parser = values::period)]
    #[arg(allow_negative_numbers = true)]
    stutter: Duration,

    /// Keep the threads off another CPU every so many seconds; 0: never (the
    /// kernel's default is 3 jiffies, 0.012 at 250 Hz)
    #[arg(long, value_name = "S", default_value = "3", value_parser = values::period)]
    #[arg(allow_negative_numbers = true)]
    shuffle: Duration,

    /// Make writers SCHED_FIFO threads for a while; that takes a privilege
    #[arg(long)]
    boost: bool,

    #[command(flatten)]
    place: place::Flags,

    /// How often to run everything
    #[arg(long, value_name = "R", default_value = "1", value_parser = values::runs)]
    #[arg(allow_negative_numbers = true)]
    runs: u32,

    /// Seed of the threads' dice, and of the simulated machine; run R uses
    /// N + R - 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Print one JSON object per run, whose seconds are those measured
    #[arg(long)]
    json: bool,
}

/// What `--delays` takes.
#[derive(Clone, Copy, ValueEnum)]
enum Delays {
    /// As the kernel has them since 6.5: writers leave at once, readers stay for
    /// half a long hold; now and then a writer stays for ten, and a reader for two
    New,
    /// As before: the same, but writers stay for a tenth of a long hold
    Old,
    /// Short, and long or interrupted much more often: finds faults soonest
    None,
}

impl Delays {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Old => "old",
            Self::None => "none",
        }
    }
}

impl From<Delays> for locktorture::Delays {
    fn from(delays: Delays) -> Self {
        match delays {
            Delays::New => Self::New,
            Delays::Old => Self::Old,
            Delays::None => Self::None,
        }
    }
}

/// Tortures each lock, so often as is asked for.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    let runs = args.runs as usize * plan.locks.len();
    let planned = plan.duration * runs as u32;
    let here = matches!(plan.place, Place::Here);
    let screen = Screen::new(runs as u64, here.then_some(planned));
    let done = plan.all(&screen);
    if interrupted() {
        let ended = screen.count();
        screen::log(&format!(
            "interrupted: {ended} of {runs} runs, the last cut short"
        ));
    }
    screen.close();
    done
}

/// What the flags ask for.
struct Plan<'a> {
    args: &'a Args,
    place: Place,
    locks: Vec<Entry>,
    writers: usize,
    duration: Duration,
}

impl<'a> Plan<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let place = args.place.place()?;
        let locks = registry::named(&args.lock, place.world())?;
        let readers = args.readers.filter(|&readers| readers > 0);
        if let (Some(readers), Some(lock)) = (readers, locks.iter().find(|lock| !lock.shared)) {
            return Err(Failure::Usage(format!(
                "--readers '{readers}': readers do not share {}: use 0, or a lock that they share",
                lock.name
            )));
        }
        let (here, default) = match place {
            Place::Here => (true, SECONDS),
            Place::Simulated(_) => (false, SIMULATED),
        };
        if here && args.boost {
            let allowed = measure::may_schedule(Policy::Fifo(1));
            allowed.map_err(|why| Failure::Usage(format!("--boost: {why}")))?;
        }
        let plan = Self {
            writers: args.writers.unwrap_or(place.cpus()),
            duration: args.seconds.unwrap_or(default),
            args,
            place,
            locks,
        };
        let most = plan.locks.iter().map(|lock| plan.readers(lock)).max();
        let shuffler = usize::from(!args.shuffle.is_zero());
        let threads = plan.writers + most.unwrap_or(0) + shuffler;
        plan.place.can_start(threads)?;
        Ok(plan)
    }

    fn readers(&self, lock: &Entry) -> usize {
        let default = if lock.shared { self.place.cpus() } else { 0 };
        self.args.readers.unwrap_or(default)
    }

    fn all(&self, screen: &Screen) -> Result<(), Failure> {
        let mut all: Vec<Runs> = self.locks.iter().map(|lock| Runs::of(lock.name)).collect();
        for run in 1..=self.args.runs {
            for (lock, runs) in self.locks.iter().zip(&mut all) {
                if !self.args.json {
                    screen.print(&self.title(lock, run))?;
                }
                screen.begins(format!("{}, run {run}", lock.name));
                let record = self.one(lock, run)?;
                screen.ended();
                let text = match self.args.json {
                    true => screen::json_lines(&[&record]),
                    false => record.text(),
                };
                screen.print(&text)?;
                runs.add(&record);
                if interrupted() {
                    return self.end(&all, screen);
                }
            }
        }
        self.end(&all, screen)
    }

    /// What the runs of each lock have in common, and whether any failed.
    fn end(&self, all: &[Runs], screen: &Screen) -> Result<(), Failure> {
        if self.args.runs > 1 && !self.args.json {
            let tables: Vec<_> = all.iter().filter_map(Runs::table).collect();
            screen.print(&tables.concat())?;
        }
        let failed: Vec<_> = all.iter().filter_map(Runs::failure).collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Failure::Check(failed.join("; "))),
        }
    }

    fn one(&self, lock: &Entry, run: u32) -> Result<Record, Failure> {
        let hung = |tasks: &str| {
            screen::log(&format!("{} hangs: {tasks}", lock.name));
            // Nobody can join threads that wait for ever.
            exit(1);
        };
        let config = Config {
            writers: self.writers,
            readers: self.readers(lock),
            duration: self.duration,
            delays: self.args.delays.into(),
            long_hold: self.args.long_hold,
            gap: Duration::ZERO,
            stutter: self.args.stutter,
            shuffle: self.args.shuffle,
            boost: self.args.boost,
            seed: self.args.seed.wrapping_add(u64::from(run) - 1),
            hung: &hung,
        };
        let (report, stats) = measure::torture(&self.place, lock, &config)?;
        let measured = (&report, stats.as_ref());
        let delays = self.args.delays.name();
        Ok(Record::new(
            &self.place,
            lock.name,
            &config,
            delays,
            run,
            measured,
        ))
    }

    fn title(&self, lock: &Entry, run: u32) -> String {
        let (name, seconds) = (lock.name, self.duration.as_secs_f64());
        let (writers, readers) = (self.writers, self.readers(lock));
        let more = match self.args.runs {
            1 => String::new(),
            runs => format!(", run = {run} of {runs}"),
        };
        format!(
            "Running locktorture with {name} [runtime = {seconds}s, writers = {writers}, \
             readers = {readers}, delays = {}{more}]\n",
            self.args.delays.name()
        )
    }
}
