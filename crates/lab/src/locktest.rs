//! `lockyard locktest`: the microbenchmark of seeds 001 and 003.

use std::time::Duration;

use lockyard_torture::{interrupted, locktest::Config};

use crate::{
    events::Events,
    failure::Failure,
    measure,
    place::{self, Place},
    record::Record,
    registry::{self, Entry, Kind},
    screen::{self, Screen},
    values,
};

/// How long a run lasts when nothing else is asked for. Nothing disturbs a
/// simulated machine, so that less time says as much; and it costs more.
const SECONDS: Duration = Duration::from_secs(1);
const SIMULATED: Duration = Duration::from_millis(10);

/// Load locks: threads loop lock, work, unlock, work
///
/// Each thread loops: lock, LOAD work units, unlock, GAP work units. A work
/// unit is about a nanosecond; the output says how long it is on the machine.
/// On a simulated machine all times are its own, and the same command gives the
/// same output.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to load, one after the other
    #[arg(long, default_value = registry::DEFAULT, value_delimiter = ',')]
    #[arg(value_name = "LOCK,...", value_parser = registry::parser())]
    lock: Vec<String>,

    /// Numbers of threads, one run for each [default: one per CPU]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::threads)]
    #[arg(allow_hyphen_values = true)]
    threads: Vec<usize>,

    /// How long each run lasts, in seconds [default: 1; 0.01 in the simulated
    /// world]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Work units inside the critical section
    #[arg(long, value_name = "UNITS", default_value = "1", value_parser = values::units)]
    #[arg(allow_negative_numbers = true)]
    load: u32,

    /// Work units between an unlock and the next lock
    #[arg(long, value_name = "UNITS", default_value = "0", value_parser = values::units)]
    #[arg(allow_negative_numbers = true)]
    gap: u32,

    /// Percentage of the operations that only read; a lock that readers do not
    /// share is taken for them as for writers
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = values::percentage)]
    #[arg(allow_negative_numbers = true)]
    read: u32,

    /// Cache lines that each critical section writes to, or only reads, beside the one
    /// of a counter: what a lock protects comes from the CPU that had it last, too
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::lines)]
    #[arg(allow_negative_numbers = true)]
    lines: u32,

    #[command(flatten)]
    place: place::Flags,

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

    /// Seed of the sampling, and of the simulated machine; run R uses N + R - 1
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
    let plan = Plan::new(args)?;
    let runs = plan.runs();
    let screen = Screen::new(runs as u64, plan.planned());
    if !args.json {
        screen.print(&plan.header())?;
    }
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
    threads: Vec<usize>,
    duration: Duration,
}

impl<'a> Plan<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let place = args.place.place()?;
        let threads = match args.threads[..] {
            [] => vec![place.cpus()],
            _ => values::distinct(&args.threads),
        };
        let locks = registry::named(&args.lock, place.world())?;
        place.can_start(threads.iter().copied().max().unwrap_or(1))?;
        let default = match place {
            Place::Here => SECONDS,
            Place::Simulated(_) => SIMULATED,
        };
        Ok(Self {
            args,
            place,
            locks,
            threads,
            duration: args.seconds.unwrap_or(default),
        })
    }

    fn runs(&self) -> usize {
        self.args.runs as usize * self.locks.len() * self.threads.len()
    }

    /// How long all runs will take, where that is known.
    fn planned(&self) -> Option<Duration> {
        let all = self.duration * self.runs() as u32;
        matches!(self.place, Place::Here).then_some(all)
    }

    /// What is true of all runs.
    fn header(&self) -> String {
        match &self.place {
            Place::Here => format!("Work unit = {:.2} ns\n", measure::work_unit_ns()),
            Place::Simulated(machine) => format!(
                "Simulated machine = {}: {}\nWork unit = {:.2} ns\n",
                place::titled(machine),
                machine.about,
                place::nanos(machine.costs.work_unit)
            ),
        }
    }

    fn all(&self, screen: &Screen) -> Result<(), Failure> {
        for run in 1..=self.args.runs {
            for lock in &self.locks {
                if !self.args.json {
                    screen.print(&self.title(lock, run))?;
                }
                for &threads in &self.threads {
                    screen.begins(format!("{} with {threads} threads", lock.name));
                    let record = self.one(lock, threads, run)?;
                    screen.ended();
                    let text = if self.args.json {
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

    fn one(&self, lock: &Entry, threads: usize, run: u32) -> Result<Record, Failure> {
        let Args { load, gap, .. } = *self.args;
        let config = Config {
            threads,
            duration: self.duration,
            load,
            gap,
            read_pct: self.args.read,
            lines: self.args.lines,
            sample: (self.args.sample).unwrap_or_else(|| self.place.sampling(load, gap)),
            seed: self.args.seed.wrapping_add(u64::from(run) - 1),
        };
        let counted = self.args.events && lock.kind == Kind::Ours;
        let here = matches!(self.place, Place::Here);
        let (measured, native) = Events::during(counted && here, || {
            measure::locktest(&self.place, lock, &config)
        });
        let measured = measured?;
        let simulated = measured.stats.as_ref().filter(|_| counted);
        Ok(Record {
            events: native.or(simulated.map(Events::of)),
            ..Record::new(&self.place, lock.name, &config, run, &measured)
        })
    }

    /// The seeds' header; what they do not have stands at its end, when used.
    fn title(&self, lock: &Entry, run: u32) -> String {
        let Args {
            load,
            gap,
            lines,
            runs,
            ..
        } = *self.args;
        let mut reads = String::new();
        if self.args.read > 0 {
            reads = format!(", r% = {}%", self.args.read);
        }
        let mut more = String::new();
        if gap > 0 {
            more += &format!(", gap = {gap}");
        }
        if lines > 0 {
            more += &format!(", lines = {lines}");
        }
        if runs > 1 {
            more += &format!(", run = {run} of {runs}");
        }
        let (name, seconds) = (lock.name, self.duration.as_secs_f64());
        format!("Running locktest with {name} [runtime = {seconds}s{reads}, load = {load}{more}]\n")
    }
}
