//! A simulated machine, and the world that it is for the locks: N CPUs with
//! caches, SMT and a scheduler; time is simulated, and the same scenario and
//! seed give the same result on any host.
//!
//! ```
//! use lockyard_core::RawMutex;
//! use lockyard_sim::{Machine, Policy, Scenario, Sim, work};
//!
//! let machine = Machine::find("x86-32c").unwrap();
//! let scenario = Scenario { machine, seed: 1 };
//! let mutex = RawMutex::<Sim>::new();
//! let stats = scenario
//!     .simulate(&[Policy::Fair; 8], None, |_task| {
//!         for _ in 0..100 {
//!             mutex.lock();
//!             work(50);
//!             // SAFETY: locked above.
//!             unsafe { mutex.unlock() };
//!         }
//!     })
//!     .unwrap();
//! assert!(stats.simulated_ps > 8 * 100 * 50 * 100);
//! ```

mod agenda;
mod cache;
mod control;
mod engine;
mod machine;
mod pace;
mod paging;
mod placement;
mod priority;
mod queues;
mod real_time;
mod records;
mod scheduler;
mod schedules;
mod smt;
mod spin;
mod timeline;
mod topology;
mod world;

use std::{collections::BTreeMap, fmt};

use lockyard_core::Event;
use lockyard_fiber::{Fiber, Stop};

pub use control::{busy, confine, cpus, exempt, rests};
pub use engine::{SPENDINGS, Spending};
pub use lockyard_paging::{Paging, Sizes};
pub use machine::{Costs, Hypervisor, Kernel, Machine, Picos, Quota, Refused, UserSpace};
pub use paging::{new_memory, system_call};
pub use priority::{runs_at, set_policy, set_policy_of};
pub use scheduler::{Policy, Spec};
pub use schedules::Strategy;
pub use timeline::Timeline;
pub use world::{Sim, SimWord, name, note, now_ns, work};

use agenda::{Happening, Order, TaskIndex};
use engine::{Engine, Next, QUANTUM, State, Task};
use schedules::Schedule;

/// A machine and a seed: all that a simulation depends on besides its tasks.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The machine.
    pub machine: Machine,
    /// The seed of its jitter.
    pub seed: u64,
}

/// When a workload is told to stop.
pub struct Until<'a> {
    /// The simulated time from the start.
    pub time: Picos,
    /// Tells it.
    pub stop: &'a dyn Fn(),
    /// Whether it is to be told at once.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// What looks at the machine after each happening, and says what is wrong there. It
/// takes no time and leaves no trace: it may load words, and ask for what tells about
/// tasks, and nothing else.
pub type Probe<'a> = &'a dyn Fn() -> Result<(), String>;

/// What a simulation was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    /// How long it lasted, in simulated picoseconds.
    pub simulated_ps: Picos,
    /// When the workload was told to stop, if it was.
    pub stopped_ps: Option<Picos>,
    /// What happened: steps of tasks, ticks, timers.
    pub happened: u64,
    /// Accesses of words.
    pub accesses: u64,
    /// What each task spent its time on, by [`Spending`].
    pub spent: Vec<[Picos; SPENDINGS]>,
    /// How often the locks took each rare path, by [`Event`].
    pub events: [u64; Event::ALL.len()],
    /// How long tasks waited for the cache lines of what has a [`name`], all together.
    pub lines: BTreeMap<&'static str, Picos>,
}

/// Why a simulation did not end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A task panicked, with this message.
    Panicked(String),
    /// The probe found this.
    Found(String),
    /// Nothing will happen any more, or only for ever the same; the tasks and
    /// what they are at.
    Stuck(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) | Self::Found(message) => f.write_str(message),
            Self::Stuck(tasks) => write!(f, "stuck: {tasks}"),
        }
    }
}

/// A workload that has been told to stop, or was never to be told, should end
/// within this simulated time.
const PATIENCE: Picos = 60_000_000_000_000;

/// A schedule should end within so many happenings.
const STEPS: u64 = 100_000;

impl Scenario {
    /// Runs `body(0)` to `body(n - 1)`, each in a task of its own, on the
    /// machine.
    ///
    /// # Errors
    /// A task panics, or they do not end.
    ///
    /// # Panics
    /// Inside a simulation, without tasks, or when one may run on no CPU.
    pub fn simulate(
        &self,
        tasks: &[impl Clone + Into<Spec>],
        until: Option<Until<'_>>,
        body: impl Fn(usize),
    ) -> Result<Stats, Failure> {
        let specs = specs(tasks);
        let mut engine = Engine::new(&self.machine, self.seed, &specs, Order::Time);
        let end = until.as_ref().map_or(0, |until| until.time);
        if until.is_some() {
            engine.agenda.push(end, Happening::Stop);
        }
        engine.agenda.push(end + PATIENCE, Happening::Limit);
        run(engine, until.as_ref(), None, body).0
    }

    /// Runs the tasks in one of their schedules, whatever the time that steps
    /// would take. Returns what happened, too, if `timeline` asks for it.
    ///
    /// # Errors
    /// A task panics, or they do not end, or the probe finds a fault.
    ///
    /// # Panics
    /// As [`Scenario::simulate`].
    pub fn explore(
        &self,
        strategy: Strategy,
        tasks: &[impl Clone + Into<Spec>],
        timeline: bool,
        probe: Option<Probe<'_>>,
        body: impl Fn(usize),
    ) -> (Result<Stats, Failure>, Timeline) {
        let specs = specs(tasks);
        let schedule = Schedule::new(strategy, specs.len(), self.seed);
        let order = Order::Schedule(schedule);
        let mut engine = Engine::new(&self.machine, self.seed, &specs, order);
        engine.most = STEPS;
        if timeline {
            engine.timeline = Some(Timeline::default());
            engine.note_start();
        }
        run(engine, None, probe, body)
    }
}

fn specs(tasks: &[impl Clone + Into<Spec>]) -> Vec<Spec> {
    tasks.iter().cloned().map(Into::into).collect()
}

fn run(
    engine: Engine,
    until: Option<&Until<'_>>,
    probe: Option<Probe<'_>>,
    body: impl Fn(usize),
) -> (Result<Stats, Failure>, Timeline) {
    let tasks = 0..engine.tasks.len();
    assert!(!tasks.is_empty(), "a simulation without tasks");
    world::install(engine);
    paging::name_parts();
    let body = &body;
    let mut fibers: Vec<_> = tasks.map(|task| Fiber::new(move || body(task))).collect();
    let (stopped_ps, failure) = drive(&mut fibers, until, probe);
    let engine = world::uninstall();
    for (task, fiber) in fibers.into_iter().enumerate() {
        world::set_me(task); // its guards unlock what it holds
        drop(fiber);
    }
    let stats = Stats {
        simulated_ps: engine.now,
        stopped_ps,
        happened: engine.happened,
        accesses: engine.accesses,
        spent: engine.tasks.iter().map(|task| task.spent).collect(),
        events: engine.events,
        lines: engine.lines_waited_for(),
    };
    let timeline = engine.timeline.unwrap_or_default();
    (failure.map_or(Ok(stats), Err), timeline)
}

/// Lets the machine run until its tasks have ended.
fn drive(
    fibers: &mut [Fiber<'_>],
    until: Option<&Until<'_>>,
    probe: Option<Probe<'_>>,
) -> (Option<Picos>, Option<Failure>) {
    let mut stopped = None;
    let mut quantum = 0;
    let stop = |stopped: &mut Option<Picos>| {
        if let (None, Some(until)) = (*stopped, until) {
            *stopped = world::ask(|engine| engine.now);
            (until.stop)();
        }
    };
    loop {
        let next = world::ask(Engine::next).expect("installed before");
        if let Some(Err(what)) = probe.map(world::peek) {
            return (stopped, Some(Failure::Found(what)));
        }
        let (task, ask) = match next {
            Next::Resume(task) => {
                quantum += 1;
                (task, quantum % QUANTUM == 0)
            }
            Next::Breathe(task) => (task, true),
            Next::Stop => {
                stop(&mut stopped);
                continue;
            }
            Next::Finished => return (stopped, None),
            Next::Stuck => {
                let tasks = world::ask(describe).unwrap_or_default();
                return (stopped, Some(Failure::Stuck(tasks)));
            }
        };
        if ask && until.is_some_and(|until| (until.interrupted)()) {
            stop(&mut stopped);
        }
        world::set_me(task);
        match fibers[task].resume() {
            Stop::Paused => {}
            Stop::Finished => {
                world::ask(|engine| engine.finish(task));
            }
            Stop::Panicked(message) => {
                let message = world::ask(|engine| engine.without_addresses(&message));
                let message = message.unwrap_or_default();
                return (stopped, Some(Failure::Panicked(message)));
            }
        }
    }
}

/// The tasks that have not ended, and what they are at; the first of many.
fn describe(engine: &mut Engine) -> String {
    const MOST: usize = 8;
    let all = 0..engine.tasks.len();
    let stuck: Vec<_> = all
        .filter(|&task| engine.tasks[task].state != State::Done)
        .collect();
    let shown = stuck.iter().take(MOST);
    let mut text: Vec<String> = shown
        .map(|&task| format!("task {} {}", task + 1, doing(engine, task)))
        .collect();
    if stuck.len() > MOST {
        text.push(format!("and {} more", stuck.len() - MOST));
    }
    text.join(", ")
}

/// Under which policy a task is at what: `(fair) parked`.
fn doing(engine: &mut Engine, task: TaskIndex) -> String {
    let Task { policy, cpu, .. } = engine.tasks[task];
    match (engine.tasks[task].state, engine.tasks[task].spending()) {
        (State::Parked | State::Done, _) => format!("({policy}) is parked"),
        (State::Ready, _) => format!("({policy}) is ready on CPU {cpu}"),
        (State::Running, Spending::Spin) => {
            let (address, value) = engine.tasks[task].spin.sees;
            let (word, value) = (engine.word(address), timeline::Value(value));
            format!("({policy}) spins on CPU {cpu} while {word} is {value}")
        }
        (State::Running, _) => format!("({policy}) runs on CPU {cpu}"),
    }
}
