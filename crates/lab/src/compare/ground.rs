//! What a comparison is made on: this machine or a simulated one.

use std::fmt;

use serde::Serialize;

use crate::{
    machine::Machine,
    place::{self, Place},
};

/// The machine, as `machine.json` describes it.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Ground {
    /// This one.
    Here(Box<Machine>),
    /// A simulated one.
    Simulated(Box<Simulated>),
}

/// Every parameter of a simulated machine, and this program.
#[derive(Serialize)]
pub struct Simulated {
    lockyard: &'static str,
    commit: Option<&'static str>,
    rustc: Option<&'static str>,
    /// The unit of the machine's times.
    times_in: &'static str,
    machine: lockyard_sim::Machine,
}

impl Ground {
    /// The machine of this place.
    pub fn of(place: &Place) -> Self {
        match place {
            Place::Here => Self::Here(Box::new(Machine::here())),
            Place::Simulated(machine) => Self::Simulated(Box::new(Simulated {
                lockyard: env!("CARGO_PKG_VERSION"),
                commit: option_env!("LOCKYARD_COMMIT"),
                rustc: option_env!("LOCKYARD_RUSTC"),
                times_in: "picoseconds",
                machine: machine.as_ref().clone(),
            })),
        }
    }

    /// All of it, as `machine.json` holds it.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data has a JSON form") + "\n"
    }

    /// Nanoseconds that a unit of work takes.
    pub fn work_unit_ns(&self) -> f64 {
        match self {
            Self::Here(machine) => machine.work_unit_ns,
            Self::Simulated(on) => place::nanos(on.machine.costs.work_unit),
        }
    }

    /// Nanoseconds for reading the clock that every wait includes.
    pub fn clock_ns(&self) -> u64 {
        match self {
            Self::Here(machine) => machine.clock_ns,
            Self::Simulated(on) => place::nanos(on.machine.costs.clock).round() as u64,
        }
    }
}

impl fmt::Display for Ground {
    /// The machine in a line or two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(machine) => machine.fmt(f),
            Self::Simulated(on) => {
                let machine = &on.machine;
                write!(f, "simulated {}\n{}", place::titled(machine), machine.about)
            }
        }
    }
}
