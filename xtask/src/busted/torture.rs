//! The lab's torture as a judge of twins.

use std::{path::Path, process::Command};

use anyhow::{Context, bail};

use super::Twin;
use crate::variants::{Tree, compile};

/// How it tortures: few tasks, each with a CPU of its own; and more tasks than the
/// machine has CPUs, moved and paused. There are many short runs, for a wake-up
/// that was lost is made up for by the next one, unless the run ends before.
const WAYS: [&str; 2] = [
    "--writers 6 --stutter 0 --shuffle 0 --seconds 0.003 --runs 1000",
    "--writers 40 --stutter 0.01 --shuffle 0.003 --seconds 0.02 --runs 200",
];
const ALWAYS: &str = "--world sim --machine x86-32c --delays none --long-hold 50 --boost";

/// What the lab says of the fault.
///
/// # Errors
/// It finds none, or cannot be compiled.
pub fn fails(tree: &Tree, lock: &str, twin: &Twin) -> anyhow::Result<String> {
    // Optimised or not, a simulation is the same.
    let lab = compile(tree, "build --package lockyard-lab", "lockyard")?;
    for way in WAYS {
        if let Some(line) = tortured(&lab, lock, way)? {
            return Ok(format!("torture: {line}"));
        }
    }
    bail!("torture of {lock} finds nothing, although: {}", twin.what)
}

/// What the lab says of the lock if it fails.
fn tortured(lab: &Path, lock: &str, way: &str) -> anyhow::Result<Option<String>> {
    // Readers do not share a mutex.
    let readers = if lock.starts_with("mutex") { "0" } else { "10" };
    let output = Command::new(lab)
        .args(["torture", "--lock", lock, "--readers", readers])
        .args(ALWAYS.split_whitespace().chain(way.split_whitespace()))
        // Else a panic of the simulation is printed, too.
        .env_remove("RUST_BACKTRACE")
        .output()?;
    let said = String::from_utf8(output.stderr)?;
    let caught = match output.status.code() {
        Some(0) => return Ok(None),
        Some(1) => said.lines().last().context("it fails without a word")?,
        _ => bail!("torture of {lock} ends with {}:\n{said}", output.status),
    };
    let line = caught.strip_prefix("lockyard: ").unwrap_or(caught);
    Ok(Some(line.to_owned()))
}
