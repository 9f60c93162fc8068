//! `lockyard calibrate`: this host's machine file for the simulator.
//!
//! What is measured is what the simulator charges for: instructions, lines,
//! switches, wake-ups; never a lock. A host has moods that last for seconds,
//! so everything is measured a little in each of many rounds, and the medians
//! of all rounds count.

mod beyond;
mod caches;
mod cpu;
mod event;
mod file;
mod samples;
mod scheduling;
pub mod threads;
mod topology;
mod wake;

use std::{path::PathBuf, time::Duration};

use lockyard_sim::Machine as Simulated;
use lockyard_torture::interrupted;

use self::file::{Out, Parameter};
pub use self::topology::Host;
use crate::{
    failure::Failure,
    machine::Machine,
    screen::{self, Screen},
    values,
};

/// What the machine is called.
const NAME: &str = "host";
/// About how long a round takes.
const ROUND: Duration = Duration::from_millis(220);

/// Measure this host into a machine file for the simulator
///
/// Prints the file, or writes it with --out and prints a table. Every number
/// in it says how it was measured. Let nothing else run meanwhile.
#[derive(clap::Args)]
pub struct Args {
    /// Write the machine file here, in place of another one, and print a table;
    /// after Ctrl-C another one stays
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Rounds, each of which measures everything
    #[arg(long, value_name = "R", default_value = "40", value_parser = values::rounds)]
    #[arg(allow_negative_numbers = true)]
    rounds: u32,

    /// Print one JSON object per parameter
    #[arg(long)]
    json: bool,
}

/// What was measured of this host.
pub struct Calibration {
    about: String,
    parameters: Vec<Parameter>,
}

impl Calibration {
    /// Measures a host in so many rounds, or fewer after an interrupt.
    pub fn new(host: &Host, rounds: u32) -> Self {
        let about = Machine::here().to_string();
        let mut groups: [Box<dyn Group>; 5] = [
            Box::<cpu::Cpu>::default(),
            Box::<event::Events>::default(),
            Box::<caches::Caches>::default(),
            Box::<scheduling::Scheduling>::default(),
            Box::<wake::Wake>::default(),
        ];
        let screen = Screen::new(rounds.into(), ROUND * rounds);
        for round in 0..rounds {
            for group in &mut groups {
                screen.begins(group.name().into());
                group.round(host, round as usize);
            }
            screen.ended();
            if interrupted() {
                let ended = screen.count();
                screen::log(&format!("interrupted: {ended} of {rounds} rounds"));
                break;
            }
        }
        screen.close();
        let mut parameters = host.parameters();
        parameters.extend(groups.iter().flat_map(|group| group.parameters(host)));
        Self { about, parameters }
    }

    /// The machine file.
    pub fn toml(&self) -> String {
        file::toml(NAME, &self.about, &self.parameters)
    }

    /// The machine.
    ///
    /// # Errors
    /// The simulator cannot simulate it.
    pub fn machine(&self) -> Result<Simulated, Failure> {
        Simulated::parse(NAME, &self.toml()).map_err(|why| Failure::Check(why.to_string()))
    }
}

/// Some parameters that are measured in the same way.
trait Group {
    /// What the progress bar calls it.
    fn name(&self) -> &'static str;
    /// Measures each a little.
    fn round(&mut self, host: &Host, round: usize);
    /// The parameters, from all rounds.
    fn parameters(&self, host: &Host) -> Vec<Parameter>;
}

/// Calibrates and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let host = Host::here()?;
    let out = args.out.as_deref().map(Out::new).transpose()?;
    let calibration = Calibration::new(&host, args.rounds);
    calibration.machine()?;
    let toml = calibration.toml();
    let written = out.filter(is_due).map(|out| out.write(&toml));

    // Whatever became of the file, what was measured is not lost.
    let parameters = &calibration.parameters;
    let text = match &written {
        _ if args.json => screen::json_lines(parameters),
        Some(Ok(())) => file::table(parameters),
        _ => toml,
    };
    screen::print(&text)?;
    Ok(written.unwrap_or(Ok(()))?)
}

/// Whether the file is written: after an interrupt only one that holds no machine
/// yet, whose rounds may have been more.
fn is_due(out: &Out) -> bool {
    let is_due = !interrupted() || out.is_empty();
    if !is_due {
        let name = out.path.display();
        screen::log(&format!(
            "'{name}' stays as it was: what was measured follows"
        ));
    }
    is_due
}
