//! The scheduler: a queue for each CPU, a fair class and the real-time classes,
//! ticks, a quota, and a hypervisor.
//!
//! After Linux, with one weight for all fair tasks: the one that has run least
//! comes first, and runs until its slice is over; a tick notices that. A woken
//! task does not cut the slice of a fair one short. Those that a quota limits are
//! a group, which has on each CPU the weight of one task beside the others.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
};

use fixedbitset::FixedBitSet;

use crate::{
    agenda::{Happening, TaskIndex},
    cache::LineId,
    engine::{Engine, Pending, Spending, State, Task, scaled},
    machine::{Costs, Picos},
    smt::CoreState,
    topology::{Cpu, Topology},
};

/// The slice of SCHED_RR, as the kernel's default.
const RR_SLICE: Picos = 100_000_000_000;

/// Which class schedules a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The fair class.
    Fair,
    /// SCHED_FIFO with this priority, from 1, the lowest, to 99.
    Fifo(u8),
    /// SCHED_RR with this priority.
    RoundRobin(u8),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fair => f.write_str("fair"),
            Self::Fifo(priority) => write!(f, "fifo {priority}"),
            Self::RoundRobin(priority) => write!(f, "rr {priority}"),
        }
    }
}

impl Policy {
    pub(crate) fn priority(self) -> u8 {
        match self {
            Self::Fair => 0,
            Self::Fifo(priority) | Self::RoundRobin(priority) => priority,
        }
    }
}

/// A task of a simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Which class schedules it.
    pub policy: Policy,
    /// The CPUs that it may run on; all if there are none.
    pub cpus: Vec<Cpu>,
}

impl From<Policy> for Spec {
    fn from(policy: Policy) -> Self {
        let cpus = Vec::new();
        Self { policy, cpus }
    }
}

/// Fair tasks that wait for a CPU, who has run least in front.
#[derive(Default)]
struct FairQueue {
    waiting: BTreeSet<(Picos, u64, TaskIndex)>,
    min_vruntime: Picos,
}

/// A CPU's store buffer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Buffer {
    /// When it is empty.
    pub(crate) drained: Picos,
    /// The line that it then waits for.
    pub(crate) line: LineId,
}

/// A CPU.
#[derive(Default)]
pub(crate) struct CpuState {
    pub(crate) current: Option<TaskIndex>,
    /// The fair tasks, and apart those that the quota limits.
    fair: [FairQueue; 2],
    /// How long the latter have run together, beside the former.
    limited_vruntime: Picos,
    pub(crate) real_time: BTreeMap<Reverse<u8>, VecDeque<TaskIndex>>,
    idle_since: Picos,
    /// When the current task got the CPU.
    began: Picos,
    /// Until when its run time has been accounted.
    accounted: Picos,
    ticking: bool,
    /// The hypervisor has it until then.
    stolen_until: Picos,
    pub(crate) buffer: Buffer,
    /// Its share of the core that it competes for, in thousandths.
    pub(crate) activity: u32,
}

impl CpuState {
    /// It runs a task that computes.
    pub(crate) const COMPUTES: u32 = 1_000;
    /// It does not compete for its core.
    pub(crate) const IDLES: u32 = 0;

    pub(crate) fn queued(&self) -> usize {
        let fair: usize = self.fair.iter().map(|queue| queue.waiting.len()).sum();
        fair + self.real_time.values().map(VecDeque::len).sum::<usize>()
    }

    /// The highest priority of those that wait, 0 if they are fair.
    pub(crate) fn most_urgent(&self) -> u8 {
        let mut waiting = self.real_time.iter().filter(|(_, tasks)| !tasks.is_empty());
        waiting.next().map_or(0, |(priority, _)| priority.0)
    }

    /// Whose turn it is among the fair tasks: those that the quota limits, unless
    /// they are `throttled`, or the others.
    fn fair_turn(&self, throttled: bool) -> bool {
        let [free, limited] = &self.fair;
        let free = free.waiting.first().map(|&(vruntime, _, _)| vruntime);
        let waits = !limited.waiting.is_empty() && !throttled;
        waits && free.is_none_or(|free| self.limited_vruntime <= free)
    }

    /// The queue of a fair task's kind.
    fn fair_of(&mut self, limited: bool) -> &mut FairQueue {
        &mut self.fair[usize::from(limited)]
    }

    /// The least that a task of that kind has run for, as far as the CPU knows.
    pub(crate) fn min_vruntime(&self, limited: bool) -> Picos {
        self.fair[usize::from(limited)].min_vruntime
    }
}

/// All CPUs.
pub(crate) struct Fleet {
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) idle: FixedBitSet,
    /// CPUs with tasks in their queues.
    pub(crate) crowded: FixedBitSet,
    pub(crate) cores: Vec<CoreState>,
    enqueued: u64,
    /// What is left of the quota, and whether those that it limits must wait for
    /// more.
    quota_left: Picos,
    throttled: bool,
}

impl Fleet {
    pub(crate) fn new(topology: &Topology, costs: &Costs) -> Self {
        let core = CoreState::new(costs);
        let cpus = topology.cpus();
        let mut idle = FixedBitSet::with_capacity(cpus);
        idle.insert_range(..);
        Self {
            cpus: (0..cpus).map(|_| CpuState::default()).collect(),
            idle,
            crowded: FixedBitSet::with_capacity(cpus),
            cores: vec![core; topology.cores()],
            enqueued: 0,
            quota_left: 0,
            throttled: false,
        }
    }
}

impl Engine {
    /// Puts every task on a CPU, and starts the clocks.
    pub(crate) fn start(&mut self) {
        let order = self.topology.spread();
        for task in 0..self.tasks.len() {
            let turn = task % order.len();
            let cpu = self.first_cpu(task, order[turn..].iter().chain(&order).copied());
            self.tasks[task].cpu = cpu;
            // Threads that start together do not start at once.
            self.tasks[task].left = Pending::Step(self.dice.u64(0..self.costs.wake.max(1)));
            self.enqueue(cpu, task);
        }
        for cpu in order {
            if self.fleet.crowded.contains(cpu) {
                self.fill(cpu, 0);
            }
        }
        if let Some(quota) = self.quota {
            self.fleet.quota_left = quota.runtime;
            self.agenda.push(quota.period, Happening::Refill);
        }
        if self.hypervisor.is_some() {
            for cpu in 0..self.fleet.cpus.len() {
                self.plan_steal(cpu);
            }
        }
    }

    /// Plans the end of the step that a task on a CPU is at.
    pub(crate) fn resume_at(&mut self, task: TaskIndex, pending: Pending) {
        let state = &mut self.tasks[task];
        state.generation += 1;
        state.pending = pending;
        let generation = state.generation;
        if let Pending::Step(at) | Pending::Work(at) | Pending::Until(at) = pending {
            self.agenda.push(at, Happening::Resume(task, generation));
        }
    }

    /// Puts a ready task into a CPU's queue.
    pub(crate) fn enqueue(&mut self, cpu: Cpu, task: TaskIndex) {
        let state = &mut self.tasks[task];
        state.state = State::Ready;
        state.cpu = cpu;
        let queue = &mut self.fleet.cpus[cpu];
        match state.policy {
            Policy::Fair => {
                if state.limited && queue.fair[1].waiting.is_empty() {
                    // What the others ran meanwhile is not owed to the group.
                    let free = queue.min_vruntime(false);
                    queue.limited_vruntime = queue.limited_vruntime.max(free);
                }
                let queue = queue.fair_of(state.limited);
                state.vruntime = state.vruntime.max(queue.min_vruntime);
                self.fleet.enqueued += 1;
                queue
                    .waiting
                    .insert((state.vruntime, self.fleet.enqueued, task));
            }
            policy => {
                let queue = queue.real_time.entry(Reverse(policy.priority()));
                queue.or_default().push_back(task);
            }
        }
        self.fleet.crowded.insert(cpu);
        self.start_ticking(cpu);
    }

    fn start_ticking(&mut self, cpu: Cpu) {
        let queue = &mut self.fleet.cpus[cpu];
        if !std::mem::replace(&mut queue.ticking, true) {
            // CPUs do not tick together.
            let offset = self.costs.tick / self.fleet.cpus.len() as u64 * cpu as u64;
            let next = (self.now + self.costs.tick - offset) / self.costs.tick;
            let at = next * self.costs.tick + offset;
            self.agenda.push(at.max(self.now + 1), Happening::Tick(cpu));
        }
    }

    /// Takes the task out of the queue that should run next on the CPU.
    pub(crate) fn pick(&mut self, cpu: Cpu) -> Option<TaskIndex> {
        let picked = loop {
            match self.pop(cpu) {
                Some(task) if self.tasks[task].state == State::Done => {}
                picked => break picked,
            }
        };
        if self.fleet.cpus[cpu].queued() == 0 {
            self.fleet.crowded.set(cpu, false);
        }
        picked
    }

    fn pop(&mut self, cpu: Cpu) -> Option<TaskIndex> {
        let throttled = self.fleet.throttled;
        let queue = &mut self.fleet.cpus[cpu];
        let mut real_time = queue.real_time.values_mut();
        if let Some(task) = real_time.find_map(VecDeque::pop_front) {
            return Some(task);
        }
        let limited = queue.fair_turn(throttled);
        let queue = queue.fair_of(limited);
        let (vruntime, _, task) = queue.waiting.pop_first()?;
        queue.min_vruntime = queue.min_vruntime.max(vruntime);
        Some(task)
    }

    /// The tasks in a queue that may run now, in their order.
    pub(crate) fn queue(&self, cpu: Cpu) -> impl Iterator<Item = TaskIndex> {
        let queue = &self.fleet.cpus[cpu];
        let kinds = if self.fleet.throttled { 1 } else { 2 };
        let fair = queue.fair.iter().take(kinds);
        let fair = fair.flat_map(|queue| queue.waiting.iter().map(|&(_, _, task)| task));
        let real_time = queue.real_time.values().flatten().copied();
        let all = real_time.chain(fair);
        all.filter(|&task| self.tasks[task].state != State::Done)
    }

    /// Takes a task out of a queue.
    pub(crate) fn dequeue(&mut self, cpu: Cpu, task: TaskIndex) {
        let queue = &mut self.fleet.cpus[cpu];
        for queue in &mut queue.fair {
            queue.waiting.retain(|&(_, _, other)| other != task);
        }
        for queue in queue.real_time.values_mut() {
            queue.retain(|&other| other != task);
        }
        if queue.queued() == 0 {
            self.fleet.crowded.set(cpu, false);
        }
    }

    /// Gives the CPU, which is free, to whoever is next; after `latency`.
    fn fill(&mut self, cpu: Cpu, latency: Picos) {
        let Some(task) = self.pick(cpu).or_else(|| self.pull(cpu)) else {
            let queue = &mut self.fleet.cpus[cpu];
            queue.idle_since = self.now;
            self.fleet.idle.insert(cpu);
            self.set_activity(cpu, CpuState::IDLES);
            return;
        };
        self.run(cpu, task, latency);
    }

    pub(crate) fn run(&mut self, cpu: Cpu, task: TaskIndex, latency: Picos) {
        let now = self.now;
        self.fleet.idle.set(cpu, false);
        if self.quota.is_some() {
            self.start_ticking(cpu);
        }
        let queue = &mut self.fleet.cpus[cpu];
        queue.current = Some(task);
        queue.began = now + latency;
        queue.accounted = now + latency;
        let begin = (now + latency).max(queue.stolen_until);
        self.note(task, |_| format!("runs on CPU {cpu}"));
        let state = &mut self.tasks[task];
        state.state = State::Running;
        state.cpu = cpu;
        let before = state.before;
        state.spend(before, now);
        let left = state.left;
        self.set_activity(cpu, CpuState::COMPUTES);
        let pending = match left {
            Pending::Step(left) => Pending::Step(begin + left),
            Pending::Work(left) => {
                Pending::Work(begin + scaled(left, 1.0 / self.core_of(cpu).speed))
            }
            Pending::Until(until) => Pending::Until(until.max(begin)),
            Pending::Nothing | Pending::Spin => Pending::Step(begin),
        };
        self.resume_at(task, pending);
    }

    /// The current task gives up its CPU, for whoever is next.
    pub(crate) fn leave(&mut self, cpu: Cpu) {
        let switch = self.costs.switch;
        self.account(cpu);
        if let Some(task) = self.fleet.cpus[cpu].current.take() {
            self.tasks[task].off_since = self.now;
            let seen = self.now + self.costs.off_cpu_seen();
            self.alert_observers(task, seen);
        }
        self.fill(cpu, switch);
    }

    /// Takes the current task off its CPU and puts it back into the queue.
    pub(crate) fn preempt(&mut self, cpu: Cpu) {
        if let Some(task) = self.fleet.cpus[cpu].current {
            self.interrupt(cpu, task);
            self.enqueue(cpu, task);
            self.leave(cpu);
        }
    }

    /// The current task of a CPU stops in the middle of what it does.
    pub(crate) fn interrupt(&mut self, cpu: Cpu, task: TaskIndex) {
        let now = self.now;
        let left = self.rest(task, self.tasks[task].pending);
        self.account(cpu);
        let state = &mut self.tasks[task];
        state.left = left;
        state.generation += 1;
        state.pending = Pending::Nothing;
        state.before = state.spending();
        state.spend(Spending::Ready, now);
        state.spin.descheduled = true;
        self.note(task, |_| format!("is off CPU {cpu}, ready"));
    }

    /// Adds what the current task has run to its account.
    pub(crate) fn account(&mut self, cpu: Cpu) {
        let now = self.now;
        let queue = &mut self.fleet.cpus[cpu];
        let ran = now.saturating_sub(queue.accounted);
        queue.accounted = queue.accounted.max(now);
        if let Some(task) = queue.current
            && self.tasks[task].policy == Policy::Fair
        {
            self.tasks[task].vruntime += ran;
            if self.tasks[task].limited {
                queue.limited_vruntime += ran;
                self.fleet.quota_left = self.fleet.quota_left.saturating_sub(ran);
            }
        }
    }

    /// A task that sleeps is to run again.
    pub(crate) fn wake(&mut self, task: TaskIndex) {
        let now = self.now;
        let state = &mut self.tasks[task];
        state.generation += 1;
        state.spend(Spending::Ready, now);
        state.before = Spending::Ready;
        state.off_since = now;
        state.left = Pending::Step(0);
        let cpu = self.place(task);
        self.note(task, |_| "is woken".into());
        self.settle(cpu, task);
    }

    /// A ready task comes to a CPU: it runs there, or queues up.
    pub(crate) fn settle(&mut self, cpu: Cpu, task: TaskIndex) {
        let (now, policy) = (self.now, self.tasks[task].policy);
        if self.fleet.idle.contains(cpu) && !self.must_wait(task) {
            let deep = now - self.fleet.cpus[cpu].idle_since >= self.costs.deep_after;
            let latency = match deep {
                true => self.costs.deep_wake,
                false => self.costs.wake,
            };
            self.tasks[task].arriving = true;
            let least = self.fleet.cpus[cpu].min_vruntime(self.tasks[task].limited);
            self.tasks[task].vruntime = self.tasks[task].vruntime.max(least);
            self.run(cpu, task, latency);
            return;
        }
        self.enqueue(cpu, task);
        let queue = &self.fleet.cpus[cpu];
        let Some(current) = queue.current else { return };
        let its = self.tasks[current].policy;
        let over = its == Policy::Fair && now >= queue.began + self.costs.slice;
        if its.priority() < policy.priority() || over {
            self.preempt(cpu);
        }
    }

    /// Whether the task may not run before the quota's next period.
    pub(crate) fn must_wait(&self, task: TaskIndex) -> bool {
        let Task {
            policy, limited, ..
        } = self.tasks[task];
        policy == Policy::Fair && limited && self.fleet.throttled
    }

    pub(crate) fn tick(&mut self, cpu: Cpu) {
        self.fleet.cpus[cpu].ticking = false;
        self.account(cpu);
        if self.quota.is_some() && self.fleet.quota_left == 0 && !self.fleet.throttled {
            self.throttle();
        }
        self.end_overdue_loan(cpu);
        let queue = &self.fleet.cpus[cpu];
        let Some(current) = queue.current else {
            return;
        };
        let ran = self.now.saturating_sub(queue.began);
        let over = match self.tasks[current].policy {
            Policy::Fair => {
                let others = queue.fair.iter().any(|queue| !queue.waiting.is_empty());
                ran >= self.costs.slice && others
            }
            Policy::Fifo(_) => false,
            Policy::RoundRobin(priority) => {
                let peers = queue.real_time.get(&Reverse(priority));
                ran >= RR_SLICE && peers.is_some_and(|peers| !peers.is_empty())
            }
        };
        if over {
            self.preempt(cpu);
        } else {
            self.push_away(cpu);
        }
        if self.fleet.cpus[cpu].queued() > 0 || self.quota.is_some() {
            self.start_ticking(cpu);
        }
    }

    /// The active task lets others run. Whether it went on at once.
    pub(crate) fn yield_now(&mut self) -> bool {
        let task = self.active;
        self.reschedule(task);
        let cpu = self.tasks[task].cpu;
        let queue = &self.fleet.cpus[cpu];
        let alone = queue.queued() == 0
            || queue.most_urgent() < self.tasks[task].policy.priority()
            || self.tasks[task].state != State::Running;
        if alone {
            let until = self.now + self.costs.yields;
            return self.advance(until, Spending::Compute);
        }
        let peers = &queue.fair[usize::from(self.tasks[task].limited)];
        if let Some(&(last, _, _)) = peers.waiting.last() {
            let state = &mut self.tasks[task];
            state.vruntime = state.vruntime.max(last + 1);
        }
        let descheduled = self.tasks[task].spin.descheduled;
        self.preempt(cpu);
        // It knows that it let others run.
        self.tasks[task].spin.descheduled = descheduled;
        false
    }

    /// The active task goes to sleep.
    pub(crate) fn sleep(&mut self, deadline: Option<Picos>) {
        let (task, now) = (self.active, self.now);
        let state = &mut self.tasks[task];
        if state.state == State::Ready {
            // Preempted by what it did itself: it looks again when it runs.
            state.left = Pending::Step(0);
            return;
        }
        state.state = State::Parked;
        state.timed_out = false;
        state.generation += 1;
        state.pending = Pending::Nothing;
        state.spend(Spending::Sleep, now);
        let (cpu, generation) = (state.cpu, state.generation);
        if let Some(deadline) = deadline {
            self.agenda
                .push(deadline.max(now), Happening::Timer(task, generation));
        }
        self.reschedule(task);
        self.leave(cpu);
    }

    /// Those that the quota limits have used it up.
    fn throttle(&mut self) {
        self.fleet.throttled = true;
        for cpu in 0..self.fleet.cpus.len() {
            let current = self.fleet.cpus[cpu].current;
            if current.is_some_and(|task| self.must_wait(task)) {
                self.preempt(cpu);
            }
        }
    }

    pub(crate) fn refill(&mut self) {
        let Some(quota) = self.quota else { return };
        self.fleet.quota_left = quota.runtime;
        self.agenda.push(self.now + quota.period, Happening::Refill);
        if std::mem::replace(&mut self.fleet.throttled, false) {
            for cpu in 0..self.fleet.cpus.len() {
                if self.fleet.idle.contains(cpu) {
                    self.fill(cpu, self.costs.switch);
                }
            }
        }
    }

    fn plan_steal(&mut self, cpu: Cpu) {
        if let Some(hypervisor) = self.hypervisor {
            let mean = hypervisor.steal_every as f64;
            let wait = -(1.0 - self.dice.f64()).ln() * mean;
            let at = self.now + wait as Picos + 1;
            self.agenda.push(at, Happening::Steal(cpu));
        }
    }

    /// The hypervisor takes a CPU away for a while; what runs on it does not
    /// know.
    pub(crate) fn steal(&mut self, cpu: Cpu) {
        let Some(hypervisor) = self.hypervisor else {
            return;
        };
        self.fleet.cpus[cpu].stolen_until = self.now + hypervisor.steal_for;
        if let Some(task) = self.fleet.cpus[cpu].current {
            let later = |at: Picos| at.max(self.now) + hypervisor.steal_for;
            match self.tasks[task].pending {
                Pending::Step(at) => self.resume_at(task, Pending::Step(later(at))),
                Pending::Work(at) => self.resume_at(task, Pending::Work(later(at))),
                Pending::Spin => {
                    let end = self.now + hypervisor.steal_for;
                    self.resume_at(task, Pending::Step(end));
                }
                Pending::Until(at) => {
                    let end = self.now + hypervisor.steal_for;
                    self.resume_at(task, Pending::Until(at.max(end)));
                }
                Pending::Nothing => {}
            }
        }
        self.plan_steal(cpu);
    }
}
