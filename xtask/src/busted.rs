//! The broken twins: each has one fault, and the model that is for it must
//! find it.

use std::path::Path;

use anyhow::ensure;

use crate::variants::{Catch, Models, Tree, Verdict};

mod twin;

use twin::Twin;

/// Puts each fault into a copy of the locks, and prints what its model says;
/// with names, only those. Returns whether all were caught.
pub fn run(root: &Path, names: &[String]) -> anyhow::Result<bool> {
    let mut twins = twin::read(root)?;
    for name in names {
        ensure!(
            twins.iter().any(|twin| twin.name == *name),
            "no {}/{name}.toml",
            twin::TWINS
        );
    }
    twins.retain(|twin| names.is_empty() || names.contains(&twin.name));
    let mut tree = Tree::new(root)?;
    let mut missed = 0;
    for twin in &twins {
        match judge(&mut tree, twin) {
            Ok(catch) => println!(
                "{:24} {} in execution {}: {}",
                twin.name, catch.model, catch.execution, catch.what
            ),
            Err(error) => {
                missed += 1;
                println!("{:24} NOT CAUGHT: {error:#}", twin.name);
            }
        }
    }
    println!("busted: {} caught, {missed} not", twins.len() - missed);
    Ok(missed == 0)
}

/// How the twin's model fails; an error when it does not.
fn judge(tree: &mut Tree, twin: &Twin) -> anyhow::Result<Catch> {
    tree.change(&twin.texts(tree)?)?;
    let models = Models::build(tree)?;
    ensure!(
        models.names().contains(&twin.model),
        "no model {} among the quick ones",
        twin.model
    );
    match models.run(&[&twin.model])? {
        Verdict::Caught(catch) => Ok(catch),
        Verdict::Passed => anyhow::bail!("{} passes, although: {}", twin.model, twin.what),
        Verdict::TimedOut(_) => anyhow::bail!("{} does not end", twin.model),
    }
}
