//! What a profile says, for people, programs and flame graphs.

mod folded;
mod names;
mod text;

use std::{cmp::Reverse, collections::HashMap, sync::atomic::Ordering::Relaxed, time::Duration};

use serde::Serialize;

use crate::{
    Profile,
    histogram::Histogram,
    locks::{Lock, Mode},
    stacks::Sampled,
    symbols::{self, Frame, Symbols},
};

/// The profile of a process at its end. Times are in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program's name.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// How long it ran.
    pub seconds: f64,
    /// Acquisitions of locks that there was no room for.
    pub dropped_acquisitions: u64,
    /// Samples of call sites that there was no room for.
    pub dropped_samples: u64,
    /// The longest wait in all first.
    pub locks: Vec<LockReport>,
}

/// What is known of a lock. A reader-writer lock is two: for reading, and for writing.
#[derive(Debug, Serialize)]
pub struct LockReport {
    /// The object's name, or who made it, or its address.
    pub name: String,
    /// What it is taken for.
    pub mode: Mode,
    /// Where it is.
    pub address: usize,
    /// The stack that made it, innermost first; empty if that was not seen.
    pub created: Vec<Frame>,
    /// How often it was taken.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// Those that waited and did not sleep.
    pub spun: u64,
    /// Those that slept.
    pub slept: u64,
    /// Those that waited and saw the owner off its CPU.
    pub owner_off: u64,
    /// How long those waited that had to; `None` if none had.
    pub wait: Option<Times>,
    /// How long it was held, from a sample; `None` if none of that was timed.
    pub hold: Option<Times>,
    /// Where it was taken, from a sample; the longest wait in all first.
    pub sites: Vec<Site>,
}

/// Times in nanoseconds; a quantile is at most an eighth too long.
#[derive(Debug, Serialize)]
pub struct Times {
    /// All together.
    pub sum_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// What all but one in a hundred do not exceed.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Where a lock was taken. The numbers are estimates from a sample: `docs/preload.md` says how
/// exact they are.
#[derive(Debug, Serialize)]
pub struct Site {
    /// How often.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// How long they did, together.
    pub wait_ns: u64,
    /// Innermost first.
    pub stack: Vec<Frame>,
}

impl Report {
    /// Of the calling process, which has run for so long.
    pub fn new(profile: &Profile, seconds: Duration) -> Self {
        let mut sampled = HashMap::<u32, Vec<Sampled>>::new();
        for site in profile.stacks.sampled() {
            sampled.entry(site.lock).or_default().push(site);
        }
        let mut symbols = Symbols::default();
        let mut stack = |number| symbols.stack(&profile.stacks.frames(number));
        let taken: Vec<_> = profile.locks.taken().collect();
        let created: Vec<_> = (taken.iter().map(|(_, lock)| stack(lock.created()))).collect();
        let names = names::by_makers(&created);
        let locks = taken.into_iter().zip(created).zip(names);
        let locks = locks.map(|(((number, lock), created), name)| {
            let sites = sampled.remove(&number).unwrap_or_default();
            LockReport::new(lock, name, created, sites_of(&sites, &mut stack))
        });
        let mut locks: Vec<_> = locks.collect();
        let waited = |lock: &LockReport| lock.wait.as_ref().map_or(0, |wait| wait.sum_ns);
        locks.sort_by_key(|lock| Reverse((waited(lock), lock.acquisitions)));
        let named: Vec<_> = (locks.iter().map(|lock| (&*lock.name, lock.address))).collect();
        let numbers = names::numbers(&named);
        for (lock, number) in locks.iter_mut().zip(numbers) {
            if let Some(number) = number {
                lock.name += &format!(" #{number}");
            }
        }
        let program = std::env::current_exe().unwrap_or_default();
        let program = program.file_name().unwrap_or_default();
        Self {
            program: program.to_string_lossy().into_owned(),
            pid: std::process::id(),
            seconds: seconds.as_secs_f64(),
            dropped_acquisitions: profile.dropped.load(Relaxed), // statistics
            dropped_samples: profile.stacks.dropped.load(Relaxed), // likewise
            locks,
        }
    }

    /// As one JSON object, and the end of the line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data has a JSON form") + "\n"
    }
}

impl LockReport {
    /// `maker` is its name, if it is no object.
    fn new(lock: &Lock, maker: Option<String>, created: Vec<Frame>, sites: Vec<Site>) -> Self {
        let [acquisitions, contended, slept, owner_off] = lock.counts();
        let (address, mode) = (lock.key().address(), lock.key().mode());
        let name = symbols::object(address).or(maker);
        Self {
            name: name.unwrap_or_else(|| format!("{address:#x}")),
            mode,
            address,
            created,
            acquisitions,
            contended,
            spun: contended.saturating_sub(slept),
            slept,
            owner_off,
            wait: Times::new(&lock.wait),
            hold: Times::new(&lock.hold),
            sites,
        }
    }
}

impl Times {
    fn new(times: &Histogram) -> Option<Self> {
        (!times.is_empty()).then(|| Self {
            sum_ns: times.sum(),
            p50_ns: times.quantile(0.5),
            p99_ns: times.quantile(0.99),
            max_ns: times.max(),
        })
    }
}

/// The sites of a lock. Addresses in one line are one place.
fn sites_of(sampled: &[Sampled], mut stack: impl FnMut(u32) -> Vec<Frame>) -> Vec<Site> {
    let mut sites = HashMap::<Vec<Frame>, [u64; 3]>::new();
    for site in sampled.iter().filter(|site| site.stack != 0) {
        let sums = sites.entry(stack(site.stack)).or_default();
        let more = [site.acquisitions, site.contended, site.wait_ns];
        sums.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    }
    let site = |(stack, [acquisitions, contended, wait_ns]): (_, [u64; 3])| Site {
        acquisitions,
        contended,
        wait_ns,
        stack,
    };
    let mut sites: Vec<_> = sites.into_iter().map(site).collect();
    sites.sort_by_key(|site| Reverse((site.wait_ns, site.acquisitions)));
    sites
}
