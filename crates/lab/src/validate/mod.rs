//! `lockyard validate`: the simulator against this host.
//!
//! The same runs, on this host and on its model. Nothing in the model is
//! fitted to them: calibration never sees a lock. So the errors are those of
//! the model, and of a host that changes its mood between two runs.

mod grid;
mod text;
mod verdict;

use std::{ffi::OsString, fs, path::PathBuf, time::Duration};

use lockyard_sim::Machine as Simulated;

use self::{
    grid::Grid,
    verdict::{Compared, Scope, Verdict},
};
use crate::{
    calibrate::{Calibration, Host},
    compare::Out,
    failure::Failure,
    place, registry,
    screen::{self, json_lines},
    values::{self, Work},
};

/// Hold the simulator against this host
///
/// Calibrates this host, runs locktest over a grid on it and on its simulated
/// twin, and says how far their throughputs lie apart and how often they put
/// two locks into the same order. Calibration measures primitives only, never
/// a lock, and no parameter is fitted afterwards. Let nothing else run
/// meanwhile: what disturbs a run is an error of the simulator here. Exit
/// status 1 when a bound is missed.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to run
    #[arg(
        long,
        default_value = "mutex,tas,ticket,mcs,drepper",
        value_delimiter = ','
    )]
    #[arg(value_name = "LOCK,...", value_parser = registry::parser())]
    lock: Vec<String>,

    /// Numbers of threads [default: 1, and 1 and 4 per CPU]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = values::threads)]
    #[arg(allow_hyphen_values = true)]
    threads: Vec<usize>,

    /// Work units inside the critical section and between two of them
    #[arg(long, value_name = "LOAD/GAP,...", value_delimiter = ',', value_parser = values::work)]
    #[arg(
        default_value = "0/0,50/50,500/500,50/1000",
        allow_hyphen_values = true
    )]
    points: Vec<Work>,

    /// Rounds on this host, each of which runs every lock once at every point
    #[arg(long, value_name = "R", default_value = "3", value_parser = values::rounds)]
    #[arg(allow_negative_numbers = true)]
    rounds: u32,

    /// Seconds of each run, and of simulated time of each simulated one
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Duration,

    /// Rounds of the calibration
    #[arg(long, value_name = "R", default_value = "40", value_parser = values::rounds)]
    #[arg(allow_negative_numbers = true, conflicts_with = "machine")]
    calibration: u32,

    /// Calibrate nothing and simulate this machine: a machine file, `host` for
    /// host.toml, or a name that comes with the simulator
    #[arg(long, value_name = "FILE|host|NAME")]
    machine: Option<OsString>,

    /// Seed of the order of the locks, of the sampling and of the simulations
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Write raw.jsonl (every run), summary.jsonl (every point and the verdict)
    /// and machine.toml (unless it comes with the simulator) to this directory,
    /// which may not hold them yet
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object per point, and one with the verdict
    #[arg(long)]
    json: bool,
}

/// Measures, simulates and judges.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = Source::new(args)?;
    let grid = Grid::new(args)?;
    let create = |directory: &PathBuf| Out::create(directory, "machine.toml");
    let mut out = args.out.as_ref().map(create).transpose()?;
    let (machine, file) = source.machine()?;
    if let (Some(out), Some(file)) = (&mut out, &file) {
        out.machine(file)?;
    }
    if !args.json {
        screen::print(&text::header(&grid, &machine))?;
    }
    let scope = Scope {
        machine: machine.name.clone(),
        points: grid.size(),
        rounds: args.rounds,
    };
    let mut cells = grid.cells();
    let measured = grid.measure(machine, out.as_mut(), &mut cells);

    // Whatever ended the measurement, what it measured is not lost.
    let points: Vec<Compared> = cells.iter().filter_map(Compared::new).collect();
    let verdict = Verdict::new(scope, &points);
    let objects = json_lines(&points) + &json_lines(&[&verdict]);
    let written = match &mut out {
        Some(out) => out.summary(&objects),
        None => Ok(()),
    };
    let text = if args.json {
        objects
    } else {
        text::table(&points) + &text::summary(&verdict)
    };
    screen::print(&text)?;
    measured?;
    written?;
    match verdict.holds {
        Some(false) => Err(Failure::Check(text::missed(&verdict))),
        _ => Ok(()),
    }
}

/// Where the machine comes from.
enum Source {
    Calibration(Host, u32),
    Given(Box<Simulated>, Option<String>),
}

impl Source {
    /// What the flags say, without calibrating yet.
    fn new(args: &Args) -> Result<Self, Failure> {
        let Some(name) = &args.machine else {
            return Ok(Self::Calibration(Host::here()?, args.calibration));
        };
        let machine = place::machine(name)?;
        let text = place::file(name).and_then(|path| fs::read_to_string(path).ok());
        Ok(Self::Given(Box::new(machine), text))
    }

    /// The machine and its file, if it has one.
    fn machine(self) -> Result<(Simulated, Option<String>), Failure> {
        match self {
            Self::Calibration(host, rounds) => {
                let calibration = Calibration::new(&host, rounds);
                Ok((calibration.machine()?, Some(calibration.toml())))
            }
            Self::Given(machine, text) => Ok((*machine, text)),
        }
    }
}
