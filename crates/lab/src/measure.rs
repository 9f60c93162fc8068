//! Runs, and what this machine's own need.

use std::{
    any::Any,
    env, fs,
    hint::black_box,
    io,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{Mutex, mpsc},
    thread,
    time::Instant,
};

use lockyard_sim::{Machine, Scenario, Stats};
use lockyard_torture::{
    Host, Native, NoThread, Policy, chains,
    locktest::{Config, Report},
    locktorture, pistress,
};
use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
};

use crate::{failure::Failure, place::Place, registry::Entry};

/// Nanoseconds that one work unit takes: the least of a few attempts.
pub fn work_unit_ns() -> f64 {
    const UNITS: u32 = 1_000_000;
    let attempt = || {
        let begin = Instant::now();
        black_box(Native::work(UNITS, 1));
        begin.elapsed().as_nanos() as f64 / f64::from(UNITS)
    };
    (0..5).map(|_| attempt()).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds between two readings of the clock, one after the other: every
/// measured wait includes them.
pub fn clock_ns() -> u64 {
    let pair = |_| {
        let begin = Native::now_ns();
        Native::now_ns() - begin
    };
    let mut all: Vec<u64> = (0..1001).map(pair).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

/// What decides how seldom to sample.
pub struct Costs {
    /// A sample: the clock is read twice.
    pub sample_ns: f64,
    /// An operation without contention and without work.
    pub operation_ns: f64,
    /// A work unit.
    pub unit_ns: f64,
}

/// What they are about on this machine. Reading the clock also drains the
/// processor's pipeline.
pub const COSTS: Costs = Costs {
    sample_ns: 100.0,
    operation_ns: 5.0,
    unit_ns: 1.0,
};

/// How seldom to sample waits: one acquisition in so many, on average. The
/// samples may slow an operation without contention by 2 %; that of a lock which is faster
/// than [`COSTS`] has it, by as much more.
pub fn sampling(load: u32, gap: u32, costs: &Costs) -> u32 {
    const SLOWER: f64 = 0.02;
    let work = costs.unit_ns * (f64::from(load) + f64::from(gap));
    let seldom = costs.sample_ns / (SLOWER * (costs.operation_ns + work));
    seldom.ceil().max(1.0) as u32
}

/// What was measured.
pub struct Measured {
    /// By the workload.
    pub report: Report,
    /// By the simulated machine.
    pub stats: Option<Stats>,
}

/// Runs the microbenchmark on a lock. A simulation's seed is that of the
/// sampling.
///
/// # Errors
/// The lock let two threads in at once; in a simulation, also when a thread
/// panicked or they never ended.
pub fn locktest(place: &Place, entry: &Entry, config: &Config) -> Result<Measured, Failure> {
    let measured = match place {
        Place::Here => catch_unwind(AssertUnwindSafe(|| Measured {
            report: (entry.on_threads().locktest)(config),
            stats: None,
        })),
        Place::Simulated(machine) => quietly(|| simulate(machine, entry, config)),
    };
    let with = format!("{} threads", config.threads);
    measured.map_err(|panic| failed(place, entry, &with, config.seed, panic.as_ref()))
}

/// Tortures a lock.
///
/// # Errors
/// A thread panicked; in a simulation, also when they never ended.
pub fn torture(
    place: &Place,
    entry: &Entry,
    config: &locktorture::Config<'_>,
) -> Result<(locktorture::Report, Option<Stats>), Failure> {
    let seed = config.seed;
    let measured = match place {
        Place::Here => catch_unwind(AssertUnwindSafe(|| {
            ((entry.on_threads().torture)(config), None)
        })),
        Place::Simulated(machine) => quietly(|| {
            let machine = Machine::clone(machine);
            let torture = entry.in_simulation().torture;
            let (report, stats) = torture(Scenario { machine, seed }, config);
            (report, Some(stats))
        }),
    };
    let with = format!("{} writers and {} readers", config.writers, config.readers);
    measured.map_err(|panic| failed(place, entry, &with, seed, panic.as_ref()))
}

/// Has a lock's threads invert priorities, from a thread above them all. A
/// simulation has this seed.
///
/// # Errors
/// A thread panicked; in a simulation, also when they never ended.
pub fn pi_stress(
    place: &Place,
    entry: &Entry,
    config: &pistress::Config<'_>,
    seed: u64,
) -> Result<(pistress::Report, Option<Stats>), Failure> {
    let measured = match place {
        Place::Here => above(|| ((entry.on_threads().pi_stress)(config), None)),
        Place::Simulated(machine) => quietly(|| {
            let machine = Machine::clone(machine);
            let pi_stress = entry.in_simulation().pi_stress;
            let (report, stats) = pi_stress(Scenario { machine, seed }, config);
            (report, Some(stats))
        }),
    };
    let with = format!("{} groups", config.groups);
    measured.map_err(|panic| failed(place, entry, &with, seed, panic.as_ref()))
}

/// Measures how soon a lock's inherited priorities arrive, from a thread above
/// those that inherit.
///
/// # Errors
/// A thread panicked; in a simulation, also when they never ended.
pub fn chains(
    place: &Place,
    entry: &Entry,
    config: &chains::Config<'_>,
) -> Result<(chains::Report, Option<Stats>), Failure> {
    let seed = config.seed;
    let measured = match place {
        Place::Here => above(|| ((entry.on_threads().chains)(config), None)),
        Place::Simulated(machine) => quietly(|| {
            let machine = Machine::clone(machine);
            let chains = entry.in_simulation().chains;
            let (report, stats) = chains(Scenario { machine, seed }, config);
            (report, Some(stats))
        }),
    };
    measured.map_err(|panic| failed(place, entry, "chains", seed, panic.as_ref()))
}

/// Does `work` in a thread above all those that it starts.
fn above<R: Send>(work: impl FnOnce() -> R + Send) -> thread::Result<R> {
    let work = || {
        let policy = Policy::Fifo(pistress::ABOVE);
        Native::schedule(policy).unwrap_or_else(|why| panic!("{why}"));
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work);
        let none = |why| -> Box<dyn Any + Send> { Box::new(NoThread(why)) };
        thread.map_err(none)?.join()
    })
}

/// Whether threads may be scheduled so here, tried in one of its own.
///
/// # Errors
/// They may not: a line says what to grant.
pub fn may_schedule(policy: Policy) -> Result<(), String> {
    let tried = thread::scope(|scope| scope.spawn(|| Native::schedule(policy)).join());
    tried.unwrap_or_else(|_| Err("the thread that tried it panicked".into()))
}

/// The line about a run that ended in a panic: that of a thread that cannot be
/// started is no fault of the lock.
fn failed(
    place: &Place,
    entry: &Entry,
    with: &str,
    seed: u64,
    panic: &(dyn Any + Send),
) -> Failure {
    let on = match place {
        Place::Here => String::new(),
        Place::Simulated(machine) => format!(" on {} with seed {seed}", machine.name),
    };
    let name = entry.name;
    if let Some(NoThread(why)) = panic.downcast_ref() {
        return Failure::Usage(format!(
            "{with} are too many for {name}: this machine cannot start another thread ({why})"
        ));
    }
    let why = message(panic);
    Failure::Check(format!("{name} failed with {with}{on}: {why}"))
}

fn simulate(machine: &Machine, entry: &Entry, config: &Config) -> Measured {
    let scenario = Scenario {
        machine: machine.clone(),
        seed: config.seed,
    };
    let (report, stats) = (entry.in_simulation().locktest)(scenario, config);
    Measured {
        report,
        stats: Some(stats),
    }
}

/// Catches a panic of a simulation before it is printed: its message is in the
/// result, and a simulation can be repeated with `RUST_BACKTRACE` set.
pub fn quietly<R>(work: impl FnOnce() -> R) -> thread::Result<R> {
    let work = AssertUnwindSafe(work);
    if env::var_os("RUST_BACKTRACE").is_some() {
        return catch_unwind(work);
    }
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let result = catch_unwind(work);
    panic::set_hook(usual);
    result
}

/// What a panic said, in a line.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let first = text.and_then(|t| t.lines().next());
    first.unwrap_or("a thread panicked").into()
}

/// Threads of a run beside its tasks: who watches them, who is above them, and who
/// draws the bar.
const BESIDE: usize = 3;

/// Makes sure that this machine can start so many threads for the tasks of a run,
/// and those beside them, by starting them: limits of users, groups and address
/// spaces are too many to ask. That of the address space is asked all the same,
/// before each: a thread that finds no room dies before it can say so. What a run
/// allocates is not tried: without memory for that it panics, or aborts. Nor is it
/// sure that the run gets its threads: the kernel may still count these.
///
/// # Errors
/// It cannot.
pub fn can_start(threads: usize) -> Result<(), Failure> {
    let gate = Mutex::new(());
    let closed = gate.lock();
    let (came, comers) = mpsc::channel();
    let wait = || {
        let _ = came.send(());
        drop(gate.lock());
    };
    thread::scope(|scope| {
        for started in 0..BESIDE + threads {
            let thread = thread::Builder::new().stack_size(128 << 10);
            let thread = room(BESIDE + threads).and_then(|()| thread.spawn_scoped(scope, wait));
            if let Err(why) = thread {
                drop(closed);
                let started = started.saturating_sub(BESIDE);
                return Err(Failure::Usage(format!(
                    "{threads} threads are too many: beside {BESIDE} others this machine \
                     starts only {started} at once ({why})"
                )));
            }
            let _ = comers.recv(); // what it maps to begin with is there now
        }
        drop(closed);
        Ok(())
    })
}

/// Whether the address space has room for another thread, and for what so many
/// need beside their stacks.
fn room(threads: usize) -> io::Result<()> {
    const EACH: u64 = 16 << 10;
    const ALL: u64 = 2 << 20;
    let Some(limit) = getrlimit(Resource::As).current else {
        return Ok(());
    };
    let pages = fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split(' ').next().and_then(|pages| pages.parse().ok());
    let used = pages.unwrap_or(0_u64) * page_size() as u64;
    if used + ALL + EACH * threads as u64 > limit {
        return Err(io::Error::other("`ulimit -v` leaves no room for more"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{registry, values::World};

    #[test]
    fn a_thread_that_cannot_be_started_is_no_fault_of_the_lock() {
        let locks = registry::named(&["mutex".into()], World::Native);
        let Ok([mutex]) = locks.as_deref() else {
            panic!("there is one");
        };
        let failed = |panic| failed(&Place::Here, mutex, "9 threads", 1, panic);
        let none = NoThread(io::Error::other("enough"));
        assert!(matches!(failed(&none), Failure::Usage(line) if line.contains("9 threads")));
        assert!(matches!(failed(&"torn"), Failure::Check(line) if line.contains("torn")));
    }
}
