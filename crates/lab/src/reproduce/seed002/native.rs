//! The story on this machine: the antagonists in a cgroup with a quota.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use lockyard_core::percpu_rwsem::{Barging, Grant, Handoff};
use lockyard_linux::Linux;
use lockyard_torture::{
    Native,
    antagonist::{self, Config, Report, Role},
    interrupted,
};

use super::{
    LOCKS, NAME,
    story::{Teller, Told},
    text,
};
use crate::{
    failure::Failure,
    ours::{Patient, PercpuRwLock},
    place::Place,
    screen,
};

/// Antagonists of each kind for each CPU.
const PER_CPU: usize = 50;
const SECONDS: Duration = Duration::from_secs(5);
/// Runs of each lock, in turns.
const ROUNDS: usize = 3;
/// The kernel's default period of a quota, in microseconds.
const PERIOD: u64 = 100_000;

/// Where the kernel's controller of CPU time is mounted, in its first version; the
/// second moves single threads only in groups of a kind of their own.
const CONTROLLERS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// A group with a quota, for threads.
struct Group(PathBuf);

impl Group {
    /// Half of the machine's CPU time.
    fn new(cpus: usize) -> io::Result<Self> {
        let missing = || io::Error::other("there is no cpu controller of cgroup v1");
        let mut controllers = CONTROLLERS.iter().map(Path::new);
        let at = controllers.find(|at| at.join("tasks").exists());
        let group = Self(
            at.ok_or_else(missing)?
                .join(format!("lockyard-{}", process::id())),
        );
        fs::create_dir(&group.0)?;
        group.write("cpu.cfs_period_us", PERIOD)?;
        group.write("cpu.cfs_quota_us", PERIOD * cpus as u64 / 2)?;
        Ok(group)
    }

    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        fs::write(self.0.join(file), value.to_string())
    }

    /// The calling thread is in the group from now on.
    fn join(&self) -> io::Result<()> {
        self.write("tasks", 0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its threads have ended, but the kernel may not be done with the last.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn run<G: Grant>(group: &Group, each: usize) -> Report {
    antagonist::run::<Native, PercpuRwLock<Linux, G>>(&Config {
        forkers: each,
        soakers: each,
        duration: SECONDS,
        unpreempted: false,
        enlist: &|role| {
            if role != Role::Mover {
                group.join().expect("the group takes threads");
            }
        },
    })
}

const RUNS: [fn(&Group, usize) -> Report; 3] = [run::<Handoff>, run::<Barging>, run::<Patient>];

/// Runs the story, if this user may limit threads.
pub fn run_story(json: bool) -> Result<(), Failure> {
    let cpus = Place::Here.cpus();
    let group = match Group::new(cpus) {
        Ok(group) => group,
        Err(why) => {
            screen::log(&format!(
                "the story on this machine is left out, for it needs a cgroup with a quota: {why}"
            ));
            return Ok(());
        }
    };
    let each = PER_CPU * cpus;
    let mut reports: [Vec<Report>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (run, reports) in RUNS.iter().zip(&mut reports) {
            if interrupted() {
                return Ok(());
            }
            reports.push(run(&group, each));
        }
    }
    let tellers = LOCKS.iter().zip(&reports);
    let told = Told {
        experiment: NAME,
        world: "native",
        quota_cpus: Some(cpus as f64 / 2.0),
        preempted_inside: true,
        forkers: each,
        soakers: each,
        seconds: SECONDS.as_secs_f64(),
        runs: ROUNDS,
        locks: tellers
            .map(|(lock, runs)| Teller::new(lock, runs))
            .collect(),
    };
    let text = match json {
        true => screen::json_lines(&[&told]),
        false => format!(
            "\nThe story on this machine, {each} tasks of each kind on {cpus} CPUs\n{}",
            text::story(&[told])
        ),
    };
    Ok(screen::print(&text)?)
}
