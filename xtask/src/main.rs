//! The project's chores: `cargo xtask tidy`, `ci`, what is made from the sources
//! (`header`, `install`, `table`), and what shows that the models bite: `check`, `busted`
//! and `weaken`.

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand};

mod busted;
mod check;
mod ci;
mod header;
mod install;
mod table;
mod tidy;
mod variants;
mod weaken;

/// The project's chores
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks the rules that no compiler checks
    Tidy {
        /// Lower the counters that have fallen, and enter new crates
        #[arg(long)]
        write: bool,
    },
    /// Runs everything that must pass before a commit
    Ci,
    /// Makes the C header from the sources of crates/capi
    Header,
    /// Builds the C libraries and the command `lockyard` and installs them, with headers
    Install {
        /// Where to: they go to its include, lib and bin
        #[arg(long)]
        prefix: PathBuf,
        /// Build the libraries alone and without optimisation, as the tests do
        #[arg(long)]
        debug: bool,
    },
    /// Makes the README's table of results from the committed run
    Table,
    /// Runs the models with their reports, 20,000 executions of most at most; that
    /// takes a minute
    Check {
        /// Explore each to its end, and the long ones too; that takes ten minutes
        #[arg(long)]
        full: bool,
    },
    /// Puts known faults into the locks, one by one, and demands that the
    /// models find them; that takes twenty minutes
    Busted {
        /// Demand it of the simulator's explorations and of its torture, too;
        /// that takes far longer
        #[arg(long)]
        all: bool,
        /// One fault of each lock, to see that they are found at all; that takes
        /// two minutes
        #[arg(long, conflicts_with_all = ["all", "names"])]
        sample: bool,
        /// Faults in crates/torture/busted; all if none is given
        names: Vec<String>,
    },
    /// Weakens each ordering of a lock, one by one, and says which model
    /// notices; that takes a quarter of a minute for each, and minutes for one that none does
    Weaken {
        /// The lock
        lock: weaken::Lock,
        /// Only the orderings in these functions; all if none is given
        functions: Vec<String>,
    },
}

/// The workspace that cargo runs this in. What was known when it was compiled may be
/// another checkout's, with the same target directory.
fn root() -> anyhow::Result<PathBuf> {
    let xtask = env::var_os("CARGO_MANIFEST_DIR")
        .context("no CARGO_MANIFEST_DIR: run this as `cargo xtask`, which sets it")?;
    let mut root = PathBuf::from(xtask);
    root.pop();
    Ok(root)
}

fn main() -> anyhow::Result<ExitCode> {
    let chore = Args::parse().chore;
    let root = &root()?;
    let passed = match chore {
        Chore::Tidy { write } => tidy::run(root, write)?,
        Chore::Ci => ci::run(root)?,
        Chore::Header => header::run(root, true)?,
        Chore::Install { prefix, debug } => install::run(root, &prefix, debug)?,
        Chore::Table => table::run(root, true)?,
        Chore::Check { full } => check::run(root, full)?,
        Chore::Busted { sample: true, .. } => busted::run(root, false, busted::sample(root)?)?,
        Chore::Busted { all, names, .. } => busted::run(root, all, busted::named(root, &names)?)?,
        Chore::Weaken { lock, functions } => weaken::run(root, lock, &functions)?,
    };
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
