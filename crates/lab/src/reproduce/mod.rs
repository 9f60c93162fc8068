//! `lockyard reproduce`: the seeds' experiments, on their simulated machines.
//!
//! Each experiment is a module with a function that runs it: what it measures,
//! what the paper says of it, and how far the two agree. Nothing in a machine
//! is fitted to a paper's result, and no paper's result is an input.

pub mod pairs;
mod seed000;
mod seed001;
mod seed002;
mod seed003;
mod seed004;
mod text;

use std::time::Duration;

use clap::ValueEnum;

use crate::{failure::Failure, values};

/// Run a seed's experiment, simulated, and hold it against its paper
///
/// Runs what a paper measured before and after its change on a simulation of
/// its machine, prints the results beside the paper's, and says whether they
/// agree: in direction first, then in size. The machine is not fitted to any
/// result. Seeds differ in the machine's jitter; the same command gives the
/// same output. The verdict is a result: whatever it says, the exit status is 0
/// when the runs were made.
#[derive(clap::Args)]
#[command(override_usage = "lockyard reproduce [OPTIONS] <EXPERIMENT>")]
pub struct Args {
    /// The experiment, by its seed: 000 (the top waiter of a real-time mutex spins
    /// while the owner runs), 001 (spinners in a mutex's queue wait for events
    /// instead of polling), 002 (a percpu-rwsem's writer does not hand the lock
    /// over), 003 (an unlock of a rwsem leaves the queue to a spinner), 004 (the key of
    /// a shared futex is found without the page lock)
    #[arg(value_parser = experiment)]
    experiment: Option<Experiment>,

    /// Simulated seconds of a run [default: 0.05; 0.02 for 000, 600 for 002]; what is varied
    /// beside the experiment itself runs for a part of that
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Seeds, from 1 on: each runs everything once [default: 3; 10 for 000]
    #[arg(long, value_name = "N", value_parser = seeds)]
    #[arg(allow_negative_numbers = true)]
    seeds: Option<u32>,

    /// Then run the story of 002 on this machine, too: it needs a cgroup with a
    /// quota
    #[arg(long)]
    native: bool,

    /// Print one JSON object per row, and one with the verdict
    #[arg(long)]
    json: bool,
}

/// An experiment that can be run.
#[derive(Clone, Copy, ValueEnum)]
enum Experiment {
    #[value(name = "000")]
    Seed000,
    #[value(name = "001")]
    Seed001,
    #[value(name = "002")]
    Seed002,
    #[value(name = "003")]
    Seed003,
    #[value(name = "004")]
    Seed004,
}

/// Runs the experiment.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.native && !matches!(args.experiment, Some(Experiment::Seed002)) {
        let line = "--native: only 002 has a part that runs on this machine";
        return Err(Failure::Usage(line.into()));
    }
    match args.experiment {
        Some(Experiment::Seed000) => seed000::run(args),
        Some(Experiment::Seed001) => seed001::run(args),
        Some(Experiment::Seed002) => seed002::run(args),
        Some(Experiment::Seed003) => seed003::run(args),
        Some(Experiment::Seed004) => seed004::run(args),
        None => Err(Failure::Usage(format!("no experiment: use {}", names()))),
    }
}

fn experiment(text: &str) -> Result<Experiment, String> {
    let refused = |_| format!("no such experiment: use {}", names());
    Experiment::from_str(text, false).map_err(refused)
}

fn names() -> String {
    let all = Experiment::value_variants().iter();
    let names: Vec<String> = all
        .filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()))
        .collect();
    match &names[..] {
        [one] => one.clone(),
        all => format!("one of {}", all.join(", ")),
    }
}

impl Args {
    fn seeds(&self) -> u32 {
        self.seeds.unwrap_or(3)
    }

    /// How long a run lasts, where locktest runs.
    fn locktest_seconds(&self) -> Duration {
        self.seconds.unwrap_or(Duration::from_millis(50))
    }
}

/// A number of seeds. One alone has no deviation.
fn seeds(text: &str) -> Result<u32, String> {
    let n = values::runs(text).ok().filter(|&n| n >= 2);
    n.ok_or_else(|| "use a whole number from 2 to 1000".into())
}
