//! Where a command's runs take place: on this machine or on a simulated one.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    thread::available_parallelism,
};

use lockyard_sim::Machine;

use crate::{failure::Failure, measure, values::World};

/// What `--machine host` reads: the command that makes it writes it here.
const HOST_FILE: &str = "host.toml";

/// The flags that say where.
#[derive(clap::Args)]
pub struct Flags {
    /// The world to run in: this machine, or a simulated one
    #[arg(long, default_value = "native", value_enum)]
    world: World,

    /// The simulated machine: a name that comes with the simulator, a machine
    /// file, or `host` for this machine as `lockyard calibrate --out host.toml`
    /// described it
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<OsString>,
}

impl Flags {
    /// The place that they name.
    ///
    /// # Errors
    /// There is no such machine, or it does not go with the world.
    pub fn place(&self) -> Result<Place, Failure> {
        match (self.world, &self.machine) {
            (World::Native, None) => Ok(Place::Here),
            (World::Native, Some(name)) => Err(Failure::Usage(format!(
                "--machine '{}' is a simulated machine: use it with --world sim",
                name.display()
            ))),
            // None is the default: no machine stands for the others.
            (World::Sim, None) => Err(Failure::Usage(format!(
                "--world sim needs a --machine: use {}",
                valid_machines()
            ))),
            (World::Sim, Some(name)) => Ok(Place::Simulated(Box::new(machine(name)?))),
        }
    }
}

/// The machine that `--machine` names.
///
/// # Errors
/// There is no such machine.
pub fn machine(name: impl AsRef<OsStr>) -> Result<Machine, Failure> {
    let name = name.as_ref();
    let refuse = |why: String| Failure::Usage(format!("--machine '{}': {why}", name.display()));
    let file = file(name);
    if file.is_none_or(|file| Path::new(file).exists()) {
        return Machine::find(file.unwrap_or(name)).map_err(|why| refuse(why.to_string()));
    }
    Err(refuse(if name == "host" {
        format!("no {HOST_FILE} here: `lockyard calibrate --out {HOST_FILE}` makes one")
    } else {
        format!("no such machine or file: use {}", valid_machines())
    }))
}

/// The file that `--machine` names; none for a machine that comes with the
/// simulator.
pub fn file(name: &OsStr) -> Option<&OsStr> {
    let preset = Machine::presets().any(|preset| preset == name);
    let file = if name == "host" {
        HOST_FILE.as_ref()
    } else {
        name
    };
    (!preset).then_some(file)
}

fn valid_machines() -> String {
    let presets: Vec<_> = Machine::presets().collect();
    format!("one of {}, host, or a machine file", presets.join(", "))
}

/// Where runs take place.
pub enum Place {
    /// On this machine.
    Here,
    /// On that simulated machine.
    Simulated(Box<Machine>),
}

impl Place {
    /// The world of its runs.
    pub fn world(&self) -> World {
        match self {
            Self::Here => World::Native,
            Self::Simulated(_) => World::Sim,
        }
    }

    /// The CPUs that a run may use.
    pub fn cpus(&self) -> usize {
        match self {
            Self::Here => available_parallelism().map_or(1, usize::from),
            Self::Simulated(machine) => machine.cpus(),
        }
    }

    /// Makes sure that so many threads can run.
    ///
    /// # Errors
    /// This machine cannot start them.
    pub fn can_start(&self, threads: usize) -> Result<(), Failure> {
        match self {
            Self::Here => measure::can_start(threads),
            Self::Simulated(_) => Ok(()), // tasks are no threads of this machine
        }
    }

    /// How seldom to sample waits: one acquisition in so many, on average.
    pub fn sampling(&self, load: u32, gap: u32) -> u32 {
        match self {
            Self::Here => measure::sampling(load, gap, &measure::COSTS),
            Self::Simulated(machine) => measure::sampling(load, gap, &costs(machine)),
        }
    }
}

/// What decides on the sampling: an operation without contention is an atomic
/// read-modify-write to lock and a store to unlock.
fn costs(machine: &Machine) -> measure::Costs {
    let costs = &machine.costs;
    measure::Costs {
        sample_ns: nanos(2 * costs.clock),
        operation_ns: nanos(costs.locked + costs.hit),
        unit_ns: nanos(costs.work_unit),
    }
}

/// Picoseconds, in nanoseconds.
pub fn nanos(picos: lockyard_sim::Picos) -> f64 {
    picos as f64 / 1e3
}

/// The machine's name and size.
pub fn titled(machine: &Machine) -> String {
    let s = if machine.cpus() == 1 { "" } else { "s" };
    format!("{}, {} CPU{s}", machine.name, machine.cpus())
}
