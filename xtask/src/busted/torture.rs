//! The lab's torture as a judge of twins.

use std::process::Command;

use anyhow::{Context, ensure};

use super::Twin;
use crate::variants::{Tree, compile};

/// How it tortures: more tasks than the machine has CPUs, so that some are kept
/// from theirs, and many short runs, for a wake-up that was lost is made up for by
/// the next one, unless the run ends before.
const FLAGS: &str = "--world sim --machine x86-32c --delays none --writers 40 \
                     --stutter 0.01 --shuffle 0.003 --boost --seconds 0.02 --runs 100";

/// What the lab says of the fault.
///
/// # Errors
/// It finds none, or cannot be compiled.
pub fn fails(tree: &Tree, lock: &str, twin: &Twin) -> anyhow::Result<String> {
    // Optimised or not, a simulation is the same.
    let lab = compile(tree, "build --package lockyard-lab", "lockyard")?;
    let output = Command::new(lab)
        .args(["torture", "--lock", lock])
        .args(FLAGS.split_whitespace())
        // Else a panic of the simulation is printed, too.
        .env_remove("RUST_BACKTRACE")
        .output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(
        output.status.code() == Some(1),
        "torture of {lock} ends with {}, although: {}\n{said}",
        output.status,
        twin.what
    );
    let line = said.lines().last().context("it fails without a word")?;
    let line = line.strip_prefix("lockyard: ").unwrap_or(line);
    Ok(format!("torture: {line}"))
}
