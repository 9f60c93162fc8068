//! `lockyard pi-stress`: rt-tests' pi_stress, on any lock in any world, and how
//! soon an inherited priority arrives.

mod chains;
mod groups;
mod record;

use std::{process::exit, time::Duration};

use lockyard_torture::{Host, Native, Policy, interrupted, pistress};
use serde::Serialize;

pub use self::{
    chains::{Row, Times, named, shapes},
    groups::usual,
    record::Record,
};
use crate::{
    failure::Failure,
    machine, measure,
    place::{self, Place},
    registry::{self, Entry},
    screen::{self, Screen},
    values::{self, World},
};

/// Find whether locks inherit priority: low has one, medium runs, high waits
///
/// As rt-tests' pi_stress: in each group of real-time threads the low one takes
/// the lock, the high one asks for it, and the medium one computes. If the lock
/// lends the low thread the high one's priority, the high one has it at once. If
/// not, it waits for as long as the medium one computes: up to the limit, and then
/// the command fails. Real-time threads take a privilege: CAP_SYS_NICE, or an
/// rtprio limit of 4 or more.
#[derive(clap::Args)]
pub struct Args {
    /// Locks to stress, one after the other [default: pimutex; in the simulated
    /// world rtmutex]
    #[arg(long, value_delimiter = ',')]
    #[arg(value_name = "LOCK,...", value_parser = registry::parser())]
    lock: Vec<String>,

    /// Groups of threads, each with a lock of its own [default: one per CPU but
    /// one; 1 with --unpinned]
    #[arg(long, value_name = "N", value_parser = values::groups)]
    #[arg(allow_negative_numbers = true)]
    groups: Option<usize>,

    /// How long each run lasts, in seconds, or each row with --chains [default:
    /// 10, and 1 with --chains; in the simulated world 0.1 and 0.01; with
    /// --inversions, until they are made]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,

    /// Inversions after which a group ends
    #[arg(long, value_name = "N", value_parser = values::inversions)]
    #[arg(allow_negative_numbers = true)]
    inversions: Option<u64>,

    /// Milliseconds for which a high thread may wait while a medium one runs. With
    /// --unpinned that may happen to any lock, for as long as the kernel leaves the
    /// low one's CPU to ordinary threads: 50 and more
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = values::limit)]
    #[arg(allow_negative_numbers = true)]
    limit: Duration,

    /// Keep each group on one CPU, the groups on successive ones (the default)
    #[arg(long, conflicts_with = "unpinned")]
    pinned: bool,

    /// Let all threads run on all CPUs; each group has as many medium threads as
    /// there are CPUs, so that the low one finds none, and the low one keeps the
    /// lock for 50 us until they have
    #[arg(long)]
    unpinned: bool,

    /// Schedule the threads round robin (SCHED_RR), and not first in first out
    #[arg(long)]
    rr: bool,

    /// Measure how soon an inherited priority arrives: chains of 1 to 8 locks, the
    /// owner of each waiting for the next and the last one kept off its CPU; then
    /// random trees of 12 threads
    #[arg(long, conflicts_with_all = ["groups", "inversions", "pinned", "unpinned"])]
    chains: bool,

    #[command(flatten)]
    place: place::Flags,

    /// Seed of the trees, and of the simulated machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed)]
    #[arg(allow_negative_numbers = true)]
    seed: u64,

    /// Print one JSON object per run, with --chains one per row
    #[arg(long)]
    json: bool,
}

/// Stresses each lock.
pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    if let (Some(line), false) = (plan.scene.throttling.line(), args.json) {
        screen::print(&line)?;
    }
    if args.chains {
        chains::run(&plan)
    } else {
        groups::run(&plan)
    }
}

/// What the flags ask for.
struct Plan<'a> {
    args: &'a Args,
    scene: Scene,
    locks: Vec<Entry>,
}

/// What all runs of a command have in common.
pub struct Scene {
    pub place: Place,
    /// How much of a CPU real-time threads have there.
    pub throttling: Throttling,
    /// Seed of the trees, and of the simulated machine.
    pub seed: u64,
}

impl Scene {
    /// There, with that seed.
    ///
    /// # Errors
    /// It is this machine, and this user may not have real-time threads: a line
    /// says what to grant.
    pub fn new(place: Place, seed: u64) -> Result<Self, String> {
        let here = matches!(place, Place::Here);
        if here {
            measure::may_schedule(Policy::Fifo(pistress::ABOVE))?;
        }
        Ok(Self {
            place,
            throttling: here.then(Throttling::here).unwrap_or_default(),
            seed,
        })
    }

    /// The CPUs that threads may run on.
    pub fn cpus(&self) -> usize {
        match &self.place {
            Place::Here => Native::cpus().len(),
            Place::Simulated(machine) => machine.cpus(),
        }
    }
}

impl<'a> Plan<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let place = args.place.place()?;
        let usual = [match place.world() {
            World::Native => registry::DEFAULT_PI.into(),
            World::Sim => registry::DEFAULT_PI_IN_SIMULATION.into(),
        }];
        let names = if args.lock.is_empty() {
            &usual[..]
        } else {
            &args.lock
        };
        let locks = registry::named(names, place.world())?;
        let scene = Scene::new(place, args.seed);
        Ok(Self {
            args,
            scene: scene.map_err(|why| Failure::Usage(format!("pi-stress: {why}")))?,
            locks,
        })
    }

    fn screen(&self, runs: usize, each: Duration) -> Screen {
        let planned = each.saturating_mul(runs as u32);
        let known = matches!(self.scene.place, Place::Here) && self.args.inversions.is_none();
        Screen::new(runs as u64, known.then_some(planned))
    }
}

/// How the threads are scheduled.
fn policy(round_robin: bool) -> &'static str {
    if round_robin { "rr" } else { "fifo" }
}

/// What becomes of a lock whose threads hang.
pub fn hung(lock: &str, tasks: &str) {
    screen::log(&format!("{lock} hangs: {tasks}"));
    // Nobody can join threads that wait for ever.
    exit(1);
}

/// Says that Ctrl-C came, if it did.
fn say_interrupted(screen: &Screen, of: usize) {
    if interrupted() {
        let ended = screen.count();
        screen::log(&format!(
            "interrupted: {ended} of {of} runs, the last cut short"
        ));
    }
}

/// How much of a CPU the kernel leaves to real-time threads.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Throttling {
    /// In each period they run for so long at most; -1: for all of it; null where
    /// the kernel does not say.
    rt_runtime_us: Option<i64>,
    rt_period_us: Option<i64>,
}

impl Throttling {
    fn here() -> Self {
        let number = |name: &str| {
            let line = machine::line(&format!("/proc/sys/kernel/sched_rt_{name}_us"));
            line.and_then(|line| line.parse().ok())
        };
        Self {
            rt_runtime_us: number("runtime"),
            rt_period_us: number("period"),
        }
    }

    /// What a reader of waits should know of it.
    pub fn line(&self) -> Option<String> {
        let (runtime, period) = (self.rt_runtime_us?, self.rt_period_us?);
        (0..period).contains(&runtime).then(|| {
            format!(
                "Real-time threads have a CPU for {} of {} ms at most (sched_rt_runtime_us): a \
                 wait may contain\nthe rest. Ordinary threads run then, and not low, which is \
                 real-time too.\n",
                runtime / 1_000,
                period / 1_000
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_told_where_there_is_any() {
        let line = |runtime, period| {
            let throttling = Throttling {
                rt_runtime_us: runtime,
                rt_period_us: period,
            };
            throttling.line()
        };
        let said = line(Some(950_000), Some(1_000_000)).expect("it throttles");
        assert!(said.contains("for 950 of 1000 ms"), "{said}");
        let none = [(-1, 1_000_000), (1_000_000, 1_000_000)];
        assert!(none.iter().all(|&(r, p)| line(Some(r), Some(p)).is_none()));
        assert_eq!(line(None, None), None);
    }
}
