//! Weakens the orderings of a lock one by one, and asks the models whether
//! they notice.

use std::{cmp::Reverse, collections::BTreeMap, path::Path};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::variants::{Models, Suite, Tree, Verdict};

mod record;
pub mod sites;
mod survivors;

use record::{Caught, Record};
use sites::{Site, Weakening};

/// A lock, or what locks are made of, whose orderings can be weakened.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Lock {
    /// The spin queue
    Osq,
    /// The mutex
    Mutex,
    /// The gate of a wait queue
    Gate,
    /// The queue of sleeping waiters
    WaitQueue,
    /// The condition variable
    Condvar,
    /// The reader-writer semaphore
    Rwsem,
    /// The reader-writer semaphore's biases and reservations
    RwsemBias,
    /// The per-CPU reader-writer semaphore
    PercpuRwsem,
    /// The mutex with the kernel's priority inheritance
    Pimutex,
    /// The real-time mutex
    Rtmutex,
    /// The futex
    Futex,
    /// Which thread goes by which number
    Roster,
    /// The keys of words that address spaces share
    FutexKeys,
    /// Guarded stores that cannot be restarted
    Announced,
}

impl Lock {
    /// The module of its models.
    fn models(self) -> &'static str {
        match self {
            Lock::Osq => "osq::",
            Lock::Mutex => "mutex::",
            Lock::Gate => "gate::",
            Lock::WaitQueue => "wait_queue::",
            Lock::Condvar => "condvar::",
            Lock::Rwsem | Lock::RwsemBias => "rwsem::",
            Lock::PercpuRwsem => "percpu::",
            Lock::Pimutex => "pimutex::",
            Lock::Rtmutex => "rtmutex::",
            Lock::Futex => "futex::",
            Lock::Roster => "roster::",
            Lock::FutexKeys => "futex::lookup::",
            Lock::Announced => "announced::",
        }
    }

    /// Its files, from crates/core/src.
    fn files(self) -> &'static [&'static str] {
        match self {
            Lock::Osq => &["osq.rs"],
            Lock::Mutex => &[
                "mutex.rs",
                "mutex/keep.rs",
                "mutex/leaving.rs",
                "mutex/left.rs",
                "mutex/spin.rs",
                "mutex/wait.rs",
            ],
            Lock::Gate => &["gate.rs", "gate/guarded.rs"],
            Lock::Pimutex => &["pimutex.rs"],
            Lock::WaitQueue => &["wait_queue.rs"],
            Lock::Condvar => &["condvar.rs", "mutex/batch.rs"],
            Lock::Rwsem => &[
                "rwsem.rs",
                "rwsem/at_once.rs",
                "rwsem/enter.rs",
                "rwsem/plain.rs",
                "rwsem/spin.rs",
                "rwsem/wait.rs",
                "rwsem/wake.rs",
            ],
            Lock::RwsemBias => &[
                "rwsem/bias.rs",
                "rwsem/fenced.rs",
                "rwsem/keep.rs",
                "rwsem/readers.rs",
            ],
            Lock::PercpuRwsem => &["percpu_rwsem.rs", "percpu_rwsem/waiting.rs"],
            Lock::Rtmutex => &["rtmutex.rs"],
            Lock::Futex => &[
                "futex.rs",
                "futex/alone.rs",
                "futex/queue.rs",
                "futex/shared.rs",
            ],
            Lock::Roster => &["roster.rs"],
            Lock::FutexKeys => &["futex/lookup.rs", "futex/memory.rs"],
            Lock::Announced => &["announced.rs"],
        }
    }
}

/// Whether the file, from crates/core/src, is a lock's.
pub fn is_listed(file: &str) -> bool {
    let mut files = Lock::value_variants().iter().flat_map(|lock| lock.files());
    files.any(|known| *known == file)
}

/// Executions in which a model catches most of what it catches.
const SOON: u64 = 300;

/// Weakens each site of a lock, prints what the models say, writes down which of them caught it,
/// and compares what survives with the list of survivors. Only those in these functions, if any
/// is named. Returns whether they agree.
///
/// # Errors
/// No such function has a site; what the compiler says, or a model that fails in no execution.
pub fn run(root: &Path, lock: Lock, functions: &[String]) -> anyhow::Result<bool> {
    let is_asked = |site: &Site| functions.is_empty() || functions.contains(&site.function);
    let survivors = survivors::read(root)?;
    let mut record = Record::read(root)?;
    let mut tree = Tree::new(root, 0)?;
    let mut tally = Tally::default();
    let mut seen = Vec::new();
    for file in lock.files() {
        let text = tree.core(file)?.to_owned();
        for weakening in sites::find(file, &text)? {
            let site = &weakening.site;
            if !is_asked(site) {
                continue;
            }
            let listed = survivors.iter().any(|survivor| survivor.site == *site);
            let verdict = judge(&mut tree, lock, &text, &weakening, listed, &record)?;
            println!(
                "{:30} {:34} {}",
                format!("{file}:{} {}", weakening.line, site.function),
                format!("({}) {}", site.label, site.change),
                tally.note(&verdict, listed)
            );
            let caught = match &verdict {
                Verdict::Caught(catch) => Some(Caught::from(catch)),
                _ => None,
            };
            record.note(site, caught);
            record.write(root)?;
            seen.push(weakening.site);
        }
        if functions.is_empty() {
            record.keep(file, &seen);
        }
    }
    let known = |function: &String| seen.iter().any(|site| site.function == *function);
    if let Some(unknown) = functions.iter().find(|function| !known(function)) {
        bail!("no function '{unknown}' of this lock has anything to weaken");
    }
    record.write(root)?;
    for survivor in &survivors {
        let ours = lock.files().contains(&survivor.site.file.as_str()) && is_asked(&survivor.site);
        if ours && !seen.contains(&survivor.site) {
            tally.wrong += 1;
            println!(
                "{} lists what is not there: {:?}",
                survivors::LIST,
                survivor.site
            );
        }
    }
    println!(
        "weaken: {} caught, {} survive, {} wrong",
        tally.caught, tally.survive, tally.wrong
    );
    Ok(tally.wrong == 0)
}

/// Runs the model that caught it last; else the lock's models, first those that catch most;
/// and, unless it is known to survive, all the others.
fn judge(
    tree: &mut Tree,
    lock: Lock,
    text: &str,
    weakening: &Weakening,
    survives: bool,
    record: &Record,
) -> anyhow::Result<Verdict> {
    let Weakening { site, range, .. } = weakening;
    let mut text = text.to_owned();
    text.replace_range(range.clone(), weakening.with);
    tree.change(&BTreeMap::from([(site.file.clone(), text)]))?;
    let models = Models::build(tree, Suite::Models).with_context(|| format!("{site:?}"))?;
    let names = models.names().iter().map(String::as_str);
    let last = record.of(site).map(|Caught(model, _)| model.as_str());
    let (last, names): (Vec<&str>, Vec<&str>) = names.partition(|name| last == Some(*name));
    let (mut own, others): (Vec<&str>, Vec<&str>) = names
        .into_iter()
        .partition(|name| name.starts_with(lock.models()));
    own.sort_by_key(|name| Reverse(record.catches(name)));
    let others = if survives { Vec::new() } else { others };
    let mut late = Vec::new();
    // Most are caught soon, and a model that passes takes long.
    for (names, most) in [
        (&last, None),
        (&own, Some(SOON)),
        (&own, None),
        (&others, None),
    ] {
        match models.run(names, most)? {
            Verdict::Passed => {}
            Verdict::TimedOut(names) => late.extend(names),
            caught @ Verdict::Caught(_) => return Ok(caught),
        }
    }
    Ok(match late.is_empty() {
        true => Verdict::Passed,
        false => Verdict::TimedOut(late),
    })
}

#[derive(Default)]
struct Tally {
    caught: u32,
    survive: u32,
    wrong: u32,
}

impl Tally {
    /// Counts a verdict and says it in words.
    fn note(&mut self, verdict: &Verdict, listed: bool) -> String {
        let caught = matches!(verdict, Verdict::Caught(_));
        let count = if caught {
            &mut self.caught
        } else {
            &mut self.survive
        };
        *count += 1;
        let mut words = match verdict {
            Verdict::Caught(catch) => {
                format!(
                    "{} in execution {}: {}",
                    catch.model, catch.execution, catch.what
                )
            }
            Verdict::Passed => "survives".to_owned(),
            Verdict::TimedOut(late) => format!("timed out: {}", late.join(", ")),
        };
        if caught == listed {
            self.wrong += 1;
            words += if listed {
                " -- WRONG: listed as surviving"
            } else {
                " -- WRONG: not listed"
            };
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_site_is_caught_or_survives() {
        let root = &crate::root().unwrap();
        let mut sites = Vec::new();
        for file in Lock::value_variants().iter().flat_map(|lock| lock.files()) {
            let text = fs::read_to_string(root.join("crates/core/src").join(file)).unwrap();
            sites.extend(sites::find(file, &text).unwrap());
        }
        let survivors = survivors::read(root).unwrap();
        for survivor in &survivors {
            let site = &survivor.site;
            assert!(sites.iter().any(|known| known.site == *site), "{site:?}");
        }
        let record = Record::read(root).unwrap();
        for (file, caught) in record.all() {
            let is_there = |site: &Site| site.file == file && record::key(site) == caught;
            assert!(
                sites.iter().any(|known| is_there(&known.site)),
                "{file}: {caught}"
            );
        }
        let is_told_once = |site: &Site| {
            let survives = survivors.iter().any(|survivor| survivor.site == *site);
            record.of(site).is_some() != survives
        };
        let unknown = sites.iter().map(|known| &known.site);
        let unknown: Vec<&Site> = unknown.filter(|site| !is_told_once(site)).collect();
        assert!(unknown.is_empty(), "ask `cargo xtask weaken`: {unknown:#?}");
    }

    #[test]
    fn a_verdict_is_held_against_the_list() {
        let mut tally = Tally::default();
        let late = Verdict::TimedOut(vec!["a::b".to_owned()]);
        assert_eq!(tally.note(&late, true), "timed out: a::b");
        assert_eq!(tally.note(&Verdict::Passed, true), "survives");
        assert_eq!(tally.wrong, 0);
        assert!(tally.note(&Verdict::Passed, false).contains("WRONG"));
        assert_eq!((tally.survive, tally.wrong), (3, 1));
    }
}
