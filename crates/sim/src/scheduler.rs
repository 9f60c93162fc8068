//! The scheduler: a queue for each CPU, a fair class and the real-time classes,
//! ticks, a quota, and a hypervisor.
//!
//! After Linux, with one weight for all fair tasks: the one that has run least
//! comes first, and runs until its slice is over; a tick notices that. A woken
//! task does not cut the slice of a fair one short. Those that a quota limits are
//! a group, which has on each CPU the weight of one task beside the others.

use std::fmt;

use fixedbitset::FixedBitSet;

use crate::{
    agenda::{Happening, TaskIndex},
    cache::LineId,
    engine::{Engine, Pending, Spending, State, Task, scaled},
    machine::{Costs, Picos},
    queues::{End, Queues},
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
    /// The tasks that wait for it.
    pub(crate) ready: Queues,
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
}

/// All CPUs.
pub(crate) struct Fleet {
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) idle: FixedBitSet,
    /// CPUs with tasks in their queues.
    pub(crate) crowded: FixedBitSet,
    /// Those of them with real-time tasks there.
    pub(crate) urgent: FixedBitSet,
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
            urgent: FixedBitSet::with_capacity(cpus),
            cores: vec![core; topology.cores()],
            enqueued: 0,
            quota_left: 0,
            throttled: false,
        }
    }

    /// The queues of a CPU have changed.
    fn note_queue(&mut self, cpu: Cpu) {
        let ready = &self.cpus[cpu].ready;
        self.crowded.set(cpu, ready.len() > 0);
        self.urgent.set(cpu, ready.most_urgent() > 0);
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
            self.enqueue(cpu, task, End::Back);
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
    pub(crate) fn enqueue(&mut self, cpu: Cpu, task: TaskIndex, end: End) {
        self.account(cpu);
        let state = &mut self.tasks[task];
        state.state = State::Ready;
        state.cpu = cpu;
        let ready = &mut self.fleet.cpus[cpu].ready;
        match state.policy {
            Policy::Fair => {
                let (limited, number) = (state.limited, self.fleet.enqueued);
                self.fleet.enqueued += 1;
                state.vruntime = ready.admit(limited, state.vruntime);
                ready.push_fair(limited, state.vruntime, number, task);
            }
            policy => ready.push_real_time(policy.priority(), end, task),
        }
        self.fleet.note_queue(cpu);
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
        let picked = self.fleet.cpus[cpu].ready.pop(self.fleet.throttled);
        self.fleet.note_queue(cpu);
        picked
    }

    /// The tasks in a queue that may run now, in their order.
    pub(crate) fn queue(&self, cpu: Cpu) -> impl Iterator<Item = TaskIndex> {
        self.fleet.cpus[cpu].ready.tasks(self.fleet.throttled)
    }

    /// Takes a task out of a queue.
    pub(crate) fn dequeue(&mut self, cpu: Cpu, task: TaskIndex) {
        self.fleet.cpus[cpu].ready.remove(task);
        self.fleet.note_queue(cpu);
    }

    /// Gives the CPU, which is free, to whoever is next; after `latency`.
    fn fill(&mut self, cpu: Cpu, latency: Picos) {
        self.pull_urgent(cpu);
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
    pub(crate) fn preempt(&mut self, cpu: Cpu, end: End) {
        if let Some(task) = self.fleet.cpus[cpu].current {
            self.interrupt(cpu, task);
            self.enqueue(cpu, task, end);
            self.leave(cpu);
            self.push_urgent(cpu);
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
            let state = &mut self.tasks[task];
            state.vruntime += ran;
            queue.ready.ran(state.limited, state.vruntime, ran);
            if state.limited {
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
        self.note(task, |_| "is woken".into());
        self.move_to(self.place(task), task);
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
            let state = &mut self.tasks[task];
            let ready = &mut self.fleet.cpus[cpu].ready;
            state.vruntime = ready.admit(state.limited, state.vruntime);
            self.run(cpu, task, latency);
            return;
        }
        self.enqueue(cpu, task, End::Back);
        let queue = &self.fleet.cpus[cpu];
        let Some(current) = queue.current else { return };
        let its = self.tasks[current].policy;
        let over = its == Policy::Fair && now >= queue.began + self.costs.slice;
        if its.priority() < policy.priority() || over {
            self.preempt(cpu, End::Front);
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
            Policy::Fair => ran >= self.costs.slice && queue.ready.fair_len() > 0,
            Policy::Fifo(_) => false,
            Policy::RoundRobin(priority) => ran >= RR_SLICE && queue.ready.peers(priority) > 0,
        };
        if over {
            self.preempt(cpu, End::Back);
        } else {
            self.push_away(cpu);
        }
        if self.fleet.cpus[cpu].ready.len() > 0 || self.quota.is_some() {
            self.start_ticking(cpu);
        }
    }

    /// The active task lets others run. Whether it went on at once.
    pub(crate) fn yield_now(&mut self) -> bool {
        let task = self.active;
        self.reschedule(task);
        let cpu = self.tasks[task].cpu;
        let queue = &self.fleet.cpus[cpu];
        let alone = queue.ready.len() == 0
            || queue.ready.most_urgent() < self.tasks[task].policy.priority()
            || self.tasks[task].state != State::Running;
        if alone {
            let until = self.now + self.costs.yields;
            return self.advance(until, Spending::Compute);
        }
        let state = &mut self.tasks[task];
        if let Some(last) = queue.ready.max_vruntime(state.limited) {
            state.vruntime = state.vruntime.max(last + 1);
        }
        let descheduled = self.tasks[task].spin.descheduled;
        self.preempt(cpu, End::Back);
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
                self.preempt(cpu, End::Front);
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
