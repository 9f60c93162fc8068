//! Runs the models with their reports.

use std::{path::Path, process::Command};

use anyhow::Context;

/// Runs the models of the locks, with `full` each to its end, and also the long
/// ones, and holds the reduction against more programs; each prints how many executions it
/// took. Returns whether all passed.
pub fn run(root: &Path, full: bool) -> anyhow::Result<bool> {
    let args = "test --package lockyard-check --release --test models";
    let status = Command::new("cargo")
        .args(args.split(' '))
        .args(full.then_some(["--test", "memory"]).into_iter().flatten())
        .args(["--", "--nocapture"])
        .args(full.then_some("--include-ignored"))
        .envs(full.then_some(("MODELS_IN_FULL", "1")))
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    Ok(status.success())
}
