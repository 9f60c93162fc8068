//! The machine at work: tasks, time, and what each access costs.
//!
//! A task runs until its step costs time; if nothing else happens before that
//! time has passed, it goes on at once, else the agenda says who is next.
//! Loads and read-modify-writes take effect when the core holds the line. A
//! store takes effect at once, and the line, which the core requests, keeps
//! others from seeing it before the core holds it; the core itself does not
//! wait: its store buffer does. A read-modify-write waits for the buffer. So
//! memory is sequentially consistent, and the time is that of a store buffer.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;
use fixedbitset::FixedBitSet;
use lockyard_core::{
    Event,
    keeper::{GRAIN, Keeper},
};

use crate::{
    agenda::{Agenda, Happening, Order, TaskIndex},
    cache::{Access, Cache, LineId},
    machine::{Costs, Machine, Picos},
    pace::Pace,
    scheduler::{Buffer, CpuState, Fleet, Policy, Spec},
    smt::CoreState,
    spin::Spin,
    timeline::{Names, Timeline},
    topology::{Cpu, Topology},
};

/// What a task spends its time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Spending {
    /// Computing: work, and accesses of lines in its own cache.
    Compute,
    /// Waiting for a cache line.
    Cache,
    /// Spinning: waiting for another task's step, on its CPU.
    Spin,
    /// Parked.
    Sleep,
    /// Ready to run, but without a CPU; and on the way to one.
    Ready,
}

/// The kinds of [`Spending`].
pub const SPENDINGS: usize = 5;

/// Whether a task is on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Ready,
    Running,
    Parked,
    Done,
}

/// What a task on a CPU is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pending {
    /// It is the one whose code runs now.
    Nothing,
    /// A step that ends then.
    Step(Picos),
    /// Work that ends then, if the core's speed stays as it is.
    Work(Picos),
    /// A wait that lasts until then, whether it is on a CPU or not.
    Until(Picos),
    /// A spin that ends when somebody writes, or when its resumption comes.
    Spin,
}

/// A task.
pub(crate) struct Task {
    pub(crate) state: State,
    pub(crate) cpu: Cpu,
    /// Counts what it was resumed for, so that a happening that is out of date
    /// is known as such.
    pub(crate) generation: u32,
    pub(crate) pending: Pending,
    /// What is left of its step, when it was taken off its CPU.
    pub(crate) left: Pending,
    /// What schedules it: its own policy, or one that it is lent.
    pub(crate) policy: Policy,
    pub(crate) own: Policy,
    /// The real-time priority that it is lent, 0 for none.
    pub(crate) lent: u8,
    /// When it gave that back, if it has not lost it yet.
    pub(crate) loses: Option<Picos>,
    /// Where it may run, if not everywhere.
    pub(crate) cpus: Option<FixedBitSet>,
    /// The machine's quota limits it.
    pub(crate) limited: bool,
    pub(crate) vruntime: Picos,
    pub(crate) token: bool,
    /// It is on the way into sleep.
    pub(crate) parking: bool,
    pub(crate) timed_out: bool,
    /// Since when it is off its CPU.
    pub(crate) off_since: Picos,
    /// It has been woken and is on the way to an idle CPU.
    pub(crate) arriving: bool,
    /// Spinners that asked whether it runs.
    pub(crate) observers: Vec<(TaskIndex, u32)>,
    pub(crate) spin: Spin,
    pub(crate) pace: Pace,
    pub(crate) keeper: Keeper,
    spending: Spending,
    pub(crate) before: Spending,
    since: Picos,
    pub(crate) spent: [Picos; SPENDINGS],
}

impl Task {
    pub(crate) fn new(spec: &Spec, quota: bool) -> Self {
        let cpus = spec.cpus.iter().copied();
        Self {
            state: State::Ready,
            cpu: 0,
            generation: 0,
            pending: Pending::Nothing,
            left: Pending::Step(0),
            policy: spec.policy,
            own: spec.policy,
            lent: 0,
            loses: None,
            cpus: (!spec.cpus.is_empty()).then(|| cpus.collect()),
            limited: quota,
            vruntime: 0,
            token: false,
            parking: false,
            timed_out: false,
            off_since: 0,
            arriving: false,
            observers: Vec::new(),
            spin: Spin::default(),
            pace: Pace::default(),
            keeper: Keeper::new(|_| false), // nobody lends by what it keeps
            spending: Spending::Ready,
            before: Spending::Compute,
            since: 0,
            spent: [0; SPENDINGS],
        }
    }

    /// From `now` on the task spends its time so.
    pub(crate) fn spend(&mut self, spending: Spending, now: Picos) {
        self.spent[self.spending as usize] += now.saturating_sub(self.since);
        self.spending = spending;
        self.since = now;
    }

    pub(crate) fn spending(&self) -> Spending {
        self.spending
    }
}

/// An access of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Load,
    Store,
    Update,
}

/// What the machine does next.
pub(crate) enum Next {
    /// Lets the task's code run.
    Resume(TaskIndex),
    /// The same, after so many steps that an interrupt may have come.
    Breathe(TaskIndex),
    /// Tells the workload to stop.
    Stop,
    /// All tasks have finished.
    Finished,
    /// Some never will.
    Stuck,
}

/// Steps without a pause, or resumptions, between two questions whether to stop at once.
pub(crate) const QUANTUM: u32 = 1 << 16;

/// The machine and its tasks.
pub(crate) struct Engine {
    pub(crate) now: Picos,
    /// The steps that no pause has followed, of a quantum.
    steps: u32,
    pub(crate) topology: Topology,
    pub(crate) costs: Costs,
    pub(crate) quota: Option<crate::machine::Quota>,
    pub(crate) hypervisor: Option<crate::machine::Hypervisor>,
    pub(crate) agenda: Agenda,
    pub(crate) cache: Cache,
    pub(crate) fleet: Fleet,
    pub(crate) tasks: Vec<Task>,
    /// The task whose code runs.
    pub(crate) active: TaskIndex,
    /// The condition of a spin is being evaluated.
    pub(crate) looking: bool,
    /// The probe looks: a load is free.
    pub(crate) peeks: bool,
    /// The lines that the condition has read.
    pub(crate) looked: Vec<LineId>,
    pub(crate) dice: Rng,
    /// What the last task gained that knew it.
    pub(crate) gain: Option<u32>,
    /// How often tests of [`Platform::store_if`](lockyard_core::Platform::store_if)
    /// have been made void.
    pub(crate) quiesced: u64,
    pub(crate) happened: u64,
    pub(crate) accesses: u64,
    pub(crate) events: [u64; Event::ALL.len()],
    /// Whoever still runs after so many happenings is stuck.
    pub(crate) most: u64,
    /// What has happened, for people, if somebody wants to know.
    pub(crate) timeline: Option<Timeline>,
    pub(crate) names: Names,
    /// The locks that tasks may keep, by address: numbered as they come, for an
    /// address is the host's.
    kept: HashMap<usize, usize>,
    unfinished: usize,
}

impl Engine {
    pub(crate) fn new(machine: &Machine, seed: u64, specs: &[Spec], order: Order) -> Self {
        let topology = Topology::new(machine);
        let mut engine = Self {
            now: 0,
            steps: 0,
            fleet: Fleet::new(&topology, &machine.costs),
            topology,
            costs: machine.costs.clone(),
            quota: machine.quota,
            hypervisor: machine.hypervisor,
            agenda: Agenda::new(order),
            cache: Cache::new(Rng::with_seed(seed ^ 1)),
            tasks: specs
                .iter()
                .map(|spec| Task::new(spec, machine.quota.is_some()))
                .collect(),
            active: 0,
            looking: false,
            peeks: false,
            looked: Vec::new(),
            dice: Rng::with_seed(seed),
            gain: None,
            quiesced: 0,
            happened: 0,
            accesses: 0,
            events: [0; Event::ALL.len()],
            most: u64::MAX,
            timeline: None,
            names: Names::default(),
            kept: HashMap::new(),
            unfinished: specs.len(),
        };
        for task in &engine.tasks {
            task.keeper.begin(true);
        }
        engine.start();
        engine
    }

    /// How long a line takes from one end of a socket to the other.
    pub(crate) fn far_transfer(&self) -> Picos {
        let last = self.topology.socket(0).end - 1;
        self.topology.transfer(&self.costs, 0, last)
    }

    /// What the active task remembers of the locks it takes, and what it knows the
    /// one at this address by. `None` in a kernel, where nobody keeps one.
    pub(crate) fn keeper(&mut self, lock: usize) -> Option<(&Keeper, usize)> {
        self.costs.user_space?;
        let next = GRAIN * (self.kept.len() + 1);
        let name = *self.kept.entry(lock).or_insert(next);
        Some((&self.tasks[self.active].keeper, name))
    }

    /// Writes a line of the timeline, if there is one.
    #[inline]
    pub(crate) fn note(&mut self, task: TaskIndex, text: impl FnOnce(&mut Self) -> String) {
        if self.timeline.is_some() {
            let text = text(self);
            let timeline = self.timeline.as_mut().expect("it is there");
            timeline.push(self.now, task, text);
        }
    }

    /// What happens next that concerns more than the machine.
    pub(crate) fn next(&mut self) -> Next {
        if self.steps == QUANTUM {
            self.steps = 0;
            return Next::Breathe(self.active);
        }
        loop {
            if self.unfinished == 0 {
                return Next::Finished;
            }
            let tasks = &self.tasks;
            let valid = |what| is_valid(tasks, what);
            let Some((at, what)) = self.agenda.pop(valid) else {
                return Next::Stuck;
            };
            if !is_valid(&self.tasks, what) {
                continue;
            }
            self.now = self.now.max(at);
            self.happened += 1;
            if self.happened > self.most {
                return Next::Stuck;
            }
            match what {
                Happening::Resume(task, _) | Happening::Look(task, _) => {
                    self.arrive(task);
                    return Next::Resume(task);
                }
                Happening::Timer(task, _) => {
                    self.tasks[task].timed_out = true;
                    self.note(task, |_| "reaches its deadline".into());
                    self.wake(task);
                }
                Happening::Tick(cpu) => self.tick(cpu),
                Happening::Steal(cpu) => self.steal(cpu),
                Happening::Refill => self.refill(),
                Happening::Stop => return Next::Stop,
                Happening::Limit => return Next::Stuck,
            }
        }
    }

    /// The task's step has ended: its code runs.
    fn arrive(&mut self, task: TaskIndex) {
        let now = self.now;
        self.active = task;
        let state = &mut self.tasks[task];
        state.generation += 1;
        state.pending = Pending::Nothing;
        state.arriving = false;
        state.spend(Spending::Compute, now);
        let cpu = state.cpu;
        self.set_activity(cpu, CpuState::COMPUTES);
    }

    /// The active task's step lasts until `until`. Whether the task goes on;
    /// if not, it must pause.
    #[inline]
    pub(crate) fn advance(&mut self, until: Picos, spending: Spending) -> bool {
        self.step(Pending::Step(until), until, spending)
    }

    #[inline]
    fn step(&mut self, pending: Pending, until: Picos, spending: Spending) -> bool {
        let (now, active) = (self.now, self.active);
        let task = &mut self.tasks[active];
        task.spend(spending, now);
        if task.state != State::Running || task.pending != Pending::Nothing {
            // Preempted by what it did itself.
            self.delay(active, pending);
            return false;
        }
        if until < self.agenda.next_at() {
            self.now = until;
            self.tasks[active].spend(Spending::Compute, until);
            self.steps += 1;
            return self.steps < QUANTUM;
        }
        task.pending = pending;
        let generation = task.generation;
        self.agenda
            .push(until, Happening::Resume(active, generation));
        false
    }

    /// A task that is no longer on its CPU, or has just come back to one, has
    /// this step before it.
    fn delay(&mut self, task: TaskIndex, pending: Pending) {
        let rest = self.rest(task, pending);
        let now = self.now;
        let state = &mut self.tasks[task];
        match (state.pending, rest) {
            (Pending::Step(at), Pending::Step(left) | Pending::Work(left)) => {
                self.resume_at(task, Pending::Step(at + left));
            }
            (Pending::Step(at), Pending::Until(until)) => {
                self.resume_at(task, Pending::Until(at.max(until)));
            }
            _ => {
                state.before = state.spending;
                state.spend(Spending::Ready, now);
                state.left = rest;
            }
        }
    }

    /// What is left of a step at this moment, work as on a core of its own.
    pub(crate) fn rest(&self, task: TaskIndex, pending: Pending) -> Pending {
        match pending {
            Pending::Nothing | Pending::Spin => Pending::Step(0),
            Pending::Step(at) => Pending::Step(at.saturating_sub(self.now)),
            Pending::Until(at) => Pending::Until(at),
            Pending::Work(at) => {
                let speed = self.core_of(self.tasks[task].cpu).speed;
                Pending::Work(scaled(at.saturating_sub(self.now), speed))
            }
        }
    }

    /// The active task works for so long, on a core of its own.
    pub(crate) fn work(&mut self, alone: Picos) -> bool {
        let speed = self.core_of(self.tasks[self.active].cpu).speed;
        let until = self.now + scaled(alone, 1.0 / speed);
        self.step(Pending::Work(until), until, Spending::Compute)
    }

    /// The active task keeps its CPU busy until then.
    pub(crate) fn busy_until(&mut self, until: Picos) -> bool {
        self.step(Pending::Until(until), until, Spending::Compute)
    }

    /// The active task accesses a word. Whether the access has been made
    /// already; if not, the task must pause before it takes effect.
    #[inline]
    pub(crate) fn access(&mut self, address: usize, kind: Kind) -> bool {
        self.accesses += 1;
        let line = self.cache.line(address);
        let cpu = self.tasks[self.active].cpu;
        let core = self.topology.core(cpu);
        let CoreState { hit, locked, .. } = self.fleet.cores[core];
        let (topology, costs) = (&self.topology, &self.costs);
        let now = self.now;
        match kind {
            Kind::Load => match self.cache.read(topology, costs, line, core, now) {
                Access::Hit => self.advance(now + hit, Spending::Compute),
                Access::At(at) => {
                    let at = at.max(now);
                    self.cache.waited(line, at - now);
                    self.advance(at + hit, Spending::Cache)
                }
            },
            Kind::Store => {
                let at = match self.cache.write(topology, costs, line, core, now) {
                    Access::Hit => now,
                    Access::At(at) => at.max(now),
                };
                let buffer = &mut self.fleet.cpus[cpu].buffer;
                if at > buffer.drained {
                    *buffer = Buffer { drained: at, line };
                }
                self.alert_watchers(line, at);
                self.advance(now + hit, Spending::Compute)
            }
            Kind::Update => {
                let buffer = self.fleet.cpus[cpu].buffer;
                let begin = now.max(buffer.drained);
                let access = self.cache.write(topology, costs, line, core, begin);
                if begin > now {
                    self.cache.waited(buffer.line, begin - now);
                }
                match access {
                    Access::Hit if begin == now => self.advance(now + locked, Spending::Compute),
                    Access::Hit => self.advance(begin + locked, Spending::Cache),
                    Access::At(at) => {
                        let at = at.max(begin);
                        self.cache.waited(line, at - begin);
                        self.advance(at + locked, Spending::Cache)
                    }
                }
            }
        }
    }

    /// How long tasks waited for the lines of what has a name.
    pub(crate) fn lines_waited_for(&self) -> BTreeMap<&'static str, Picos> {
        let mut all = BTreeMap::new();
        for (line, waited) in self.cache.waits() {
            if let Some(name) = self.names.in_line(line) {
                *all.entry(name).or_default() += waited;
            }
        }
        all
    }

    /// The active task's read-modify-write has been made.
    pub(crate) fn updated(&mut self, address: usize) {
        let line = self.cache.line(address);
        self.alert_watchers(line, self.now);
    }

    /// The active task has ended. What it did last may have preempted it.
    pub(crate) fn finish(&mut self, task: TaskIndex) {
        self.unfinished -= 1;
        let now = self.now;
        let state = &mut self.tasks[task];
        let before = std::mem::replace(&mut state.state, State::Done);
        state.generation += 1;
        state.spend(Spending::Sleep, now);
        let cpu = state.cpu;
        self.note(task, |_| "has finished".into());
        if before == State::Ready {
            self.dequeue(cpu, task);
        } else if self.fleet.cpus[cpu].current == Some(task) {
            self.leave(cpu);
        }
    }
}

/// Whether a happening still concerns the step that it was meant for.
fn is_valid(tasks: &[Task], what: Happening) -> bool {
    match what {
        Happening::Resume(task, generation) | Happening::Look(task, generation) => {
            tasks[task].generation == generation
        }
        Happening::Timer(task, generation) => {
            tasks[task].state == State::Parked && tasks[task].generation == generation
        }
        _ => true,
    }
}

/// A time at another speed.
pub(crate) fn scaled(time: Picos, by: f64) -> Picos {
    if by == 1.0 {
        return time;
    }
    (time as f64 * by).round() as Picos
}
