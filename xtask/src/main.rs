//! The project's chores: `cargo xtask tidy` and `cargo xtask ci`.

use std::{path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

mod ci;
mod tidy;

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
}

fn main() -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace");
    let passed = match Args::parse().chore {
        Chore::Tidy { write } => tidy::run(root, write)?,
        Chore::Ci => ci::run(root)?,
    };
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
