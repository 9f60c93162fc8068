//! The broken twins: each has one fault, and the model that is for it must
//! find it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use anyhow::{bail, ensure};

use crate::variants::{Catch, Models, Suite, Tree, Verdict};

mod torture;
mod twin;

use twin::Twin;

/// The twins of these names; all if there is none.
///
/// # Errors
/// An unknown name; a file that is no twin.
pub fn named(root: &Path, names: &[String]) -> anyhow::Result<Vec<Twin>> {
    let mut twins = twin::read(root)?;
    for name in names {
        ensure!(
            twins.iter().any(|twin| twin.name == *name),
            "no {}/{name}.toml",
            twin::TWINS
        );
    }
    twins.retain(|twin| names.is_empty() || names.contains(&twin.name));
    Ok(twins)
}

/// The first twin of each lock that has a model.
///
/// # Errors
/// A file that is no twin.
pub fn sample(root: &Path) -> anyhow::Result<Vec<Twin>> {
    let mut twins = twin::read(root)?;
    let mut locks = BTreeSet::new();
    twins.retain(|twin| {
        let lock = twin.breaks().filter(|_| twin.model.is_some());
        lock.is_some_and(|lock| locks.insert(lock))
    });
    Ok(twins)
}

/// Puts each fault into a copy of the locks, and prints what its model says, and
/// with `all` its exploration and the lab's torture. Returns whether all were caught.
///
/// # Errors
/// A model that fails, or does not end, without a fault.
pub fn run(root: &Path, all: bool, mut twins: Vec<Twin>) -> anyhow::Result<bool> {
    // Together, for the explorations are compiled only for those without a model.
    twins.sort_by_key(|twin| twin.model.is_some());
    pass_unbroken(root, &twins, all)?;
    let batches = batches(&twins);
    let next = AtomicUsize::new(0);
    let missed = AtomicUsize::new(0);
    let judge_some = |worker| -> anyhow::Result<()> {
        let mut tree = Tree::new(root, worker)?;
        while let Some(batch) = batches.get(next.fetch_add(1, Relaxed)) {
            for (twin, judged) in judge_all(&mut tree, batch, all) {
                match judged {
                    Ok(catches) => {
                        for catch in catches {
                            println!("{:24} {catch}", twin.name);
                        }
                    }
                    Err(error) => {
                        missed.fetch_add(1, Relaxed);
                        println!("{:24} NOT CAUGHT: {error:#}", twin.name);
                    }
                }
            }
        }
        Ok(())
    };
    // To compile a variant takes one CPU, for the most part.
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.min(batches.len()))
            .map(|worker| scope.spawn(move || judge_some(worker)))
            .collect();
        let mut ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended.try_for_each(|ended| ended.expect("no worker panics"))
    })?;
    let missed = missed.into_inner();
    println!("busted: {} caught, {missed} not", twins.len() - missed);
    Ok(missed == 0)
}

/// Makes sure that what is to find the faults finds none where there is none: it could not tell
/// one from what is wrong with itself.
fn pass_unbroken(root: &Path, twins: &[Twin], all: bool) -> anyhow::Result<()> {
    let tree = Tree::new(root, 0)?;
    let models = twins.iter().filter_map(|twin| twin.model.as_deref());
    let explored = twins.iter().filter(|twin| all || twin.model.is_none());
    let explorations = explored.filter_map(|twin| twin.exploration.as_deref());
    for (suite, names) in [
        (Suite::Models, models.collect::<BTreeSet<_>>()),
        (Suite::Explorations, explorations.collect()),
    ] {
        if names.is_empty() {
            continue;
        }
        let names: Vec<&str> = names.into_iter().collect();
        match Models::build(&tree, suite)?.run(&names, None)? {
            Verdict::Passed => {}
            Verdict::Caught(Catch { model, what, .. }) => {
                bail!("{model} fails of locks without a fault: {what}")
            }
            Verdict::TimedOut(late) => bail!("without a fault these do not end: {late:?}"),
        }
    }
    Ok(())
}

/// Twins that are compiled together: of different locks, so that the model of one
/// does not run what another breaks.
fn batches(twins: &[Twin]) -> Vec<Vec<&Twin>> {
    let mut batches: Vec<Vec<&Twin>> = Vec::new();
    for twin in twins {
        let fits = |batch: &&mut Vec<&Twin>| {
            twin.breaks().is_some()
                && batch
                    .iter()
                    .all(|other| other.breaks().is_some() && other.breaks() != twin.breaks())
        };
        match batches.iter_mut().find(fits) {
            Some(batch) => batch.push(twin),
            None => batches.push(vec![twin]),
        }
    }
    batches
}

/// Puts the faults of a batch into the tree, and judges each.
fn judge_all<'a>(
    tree: &mut Tree,
    batch: &[&'a Twin],
    all: bool,
) -> Vec<(&'a Twin, anyhow::Result<Vec<String>>)> {
    let mut texts = BTreeMap::new();
    let mut judged = Vec::new();
    let mut broken = Vec::new();
    for twin in batch {
        match twin.texts(|file| tree.core(file).map(str::to_owned)) {
            Ok(its) => {
                texts.extend(its);
                broken.push(*twin);
            }
            Err(error) => judged.push((*twin, Err(error))),
        }
    }
    // Once for all of the batch.
    let built = tree
        .change(&texts)
        .and_then(|()| Models::build(tree, Suite::Models))
        .map_err(|error| format!("{error:#}"));
    judged.extend(broken.into_iter().map(|twin| {
        let catches = match &built {
            Ok(models) => judge(tree, models, twin, all),
            Err(error) => Err(anyhow::anyhow!("{error}")),
        };
        (twin, catches)
    }));
    judged
}

/// How the twin's model fails, and, if it has none or with `all`, its
/// exploration, and with `all` torture; an error when one does not.
fn judge(tree: &Tree, models: &Models, twin: &Twin, all: bool) -> anyhow::Result<Vec<String>> {
    let mut catches = Vec::new();
    if let Some(model) = &twin.model {
        catches.push(fails(models, model, twin)?);
    }
    if let Some(exploration) = &twin.exploration
        && (all || twin.model.is_none())
    {
        let explorations = Models::build(tree, Suite::Explorations)?;
        catches.push(fails(&explorations, exploration, twin)?);
    }
    if let Some(lock) = &twin.torture
        && all
    {
        catches.push(torture::fails(tree, lock, twin)?);
    }
    ensure!(
        !catches.is_empty(),
        "it names neither a model nor an exploration"
    );
    Ok(catches)
}

fn fails(models: &Models, name: &str, twin: &Twin) -> anyhow::Result<String> {
    ensure!(
        models.names().iter().any(|known| known == name),
        "no {name} among the quick ones"
    );
    match models.run(&[name], None)? {
        Verdict::Caught(Catch {
            model,
            execution,
            what,
        }) => Ok(format!("{model} in execution {execution}: {what}")),
        Verdict::Passed => bail!("{name} passes, although: {}", twin.what),
        Verdict::TimedOut(_) => bail!("{name} does not end"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_one_of_each_lock() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let twins = sample(&root).unwrap();
        assert!(twins.iter().all(|twin| twin.model.is_some()));
        let locks: Vec<_> = twins.iter().filter_map(Twin::breaks).collect();
        assert_eq!(
            locks,
            ["mutex", "futex", "percpu_rwsem", "rtmutex", "rwsem"]
        );
        assert_eq!(batches(&twins).len(), 1, "compiled together");
    }
}
