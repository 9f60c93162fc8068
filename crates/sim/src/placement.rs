//! Which CPU a task runs on. A woken one goes to the CPU that it last ran on, or
//! to an idle one that shares a cache with that; a CPU that becomes idle takes a
//! task from another's queue, and ticks even the queues out.

use std::cmp::Reverse;

use crate::{agenda::TaskIndex, engine::Engine, queues::End, scheduler::Policy, topology::Cpu};

impl Engine {
    /// Whether the task's affinity lets it run there.
    pub(crate) fn may_run(&self, task: TaskIndex, cpu: Cpu) -> bool {
        let cpus = self.tasks[task].cpus.as_ref();
        cpus.is_none_or(|cpus| cpus.contains(cpu))
    }

    /// The CPU on which a task starts: the first in `order` that it may run on.
    pub(crate) fn first_cpu(&self, task: TaskIndex, mut order: impl Iterator<Item = Cpu>) -> Cpu {
        let first = order.find(|&cpu| self.may_run(task, cpu));
        first.expect("an affinity names a CPU of the machine")
    }

    /// Where a woken task goes.
    pub(crate) fn place(&self, task: TaskIndex) -> Cpu {
        let last = self.tasks[task].cpu;
        let idle = &self.fleet.idle;
        if idle.contains(last) && self.may_run(task, last) {
            return last;
        }
        let cores = self.topology.cluster(self.topology.core(last));
        let cpus = self.topology.cpus_of(cores);
        if idle.contains_any_in_range(cpus.clone()) {
            let whole = |cpu: &Cpu| self.core_of(*cpu).activity == 0;
            let mut free = cpus.filter(|&cpu| idle.contains(cpu) && self.may_run(task, cpu));
            let some = free.clone().next();
            if let Some(cpu) = free.find(whole).or(some) {
                return cpu;
            }
        }
        if self.tasks[task].policy == Policy::Fair {
            let all = (0..self.fleet.cpus.len()).filter(|&cpu| self.may_run(task, cpu));
            let stays = self.may_run(task, last).then_some(last);
            let shortest =
                all.min_by_key(|&cpu| (!idle.contains(cpu), self.fleet.cpus[cpu].ready.len()));
            return stays.or(shortest).unwrap_or(last);
        }
        let least = self.least_urgent_cpu(task, last);
        least.map_or(last, |(cpu, _)| cpu)
    }

    /// A task from another CPU's queue, for one that has nothing to do.
    pub(crate) fn pull(&mut self, cpu: Cpu) -> Option<TaskIndex> {
        let from = self.crowded_near(cpu)?;
        let task = self.take_for(from, cpu)?;
        self.bring_claim(task, from, cpu);
        Some(task)
    }

    /// A task that is ready, and in no queue, comes to a CPU.
    pub(crate) fn move_to(&mut self, cpu: Cpu, task: TaskIndex) {
        self.bring_claim(task, self.tasks[task].cpu, cpu);
        self.settle(cpu, task);
    }

    /// A task that moves brings its claim along, relative to the others.
    fn bring_claim(&mut self, task: TaskIndex, from: Cpu, to: Cpu) {
        if from == to {
            return;
        }
        let limited = self.tasks[task].limited;
        let [from, to] = [from, to].map(|cpu| {
            self.account(cpu);
            self.fleet.cpus[cpu].ready.min_vruntime(limited)
        });
        let behind = self.tasks[task].vruntime.saturating_sub(from);
        self.tasks[task].vruntime = to + behind;
    }

    /// Takes the first task out of a queue that may run on `to`.
    fn take_for(&mut self, from: Cpu, to: Cpu) -> Option<TaskIndex> {
        let task = self.first_for(from, to)?;
        self.dequeue(from, task);
        Some(task)
    }

    fn first_for(&self, from: Cpu, to: Cpu) -> Option<TaskIndex> {
        let mut queued = self.queue(from);
        queued.find(|&task| self.may_run(task, to))
    }

    /// A CPU with a task in its queue that may run on `cpu`: of the cluster, of
    /// the socket, of all.
    fn crowded_near(&self, cpu: Cpu) -> Option<Cpu> {
        let core = self.topology.core(cpu);
        let crowded = &self.fleet.crowded;
        let first = |cores| {
            let mut cpus = self.topology.cpus_of(cores);
            let some = crowded.contains_any_in_range(cpus.clone());
            let has = |from: &Cpu| crowded.contains(*from) && self.first_for(*from, cpu).is_some();
            some.then(|| cpus.find(has))?
        };
        first(self.topology.cluster(core))
            .or_else(|| first(self.topology.socket(core)))
            .or_else(|| first(0..self.topology.cores()))
    }

    /// Balances: a task that waits here while a CPU idles goes there.
    pub(crate) fn push_away(&mut self, cpu: Cpu) {
        if self.fleet.cpus[cpu].ready.len() == 0 {
            return;
        }
        let mut idle = self.fleet.idle.ones();
        let Some(idle) = idle.find(|&idle| self.first_for(cpu, idle).is_some()) else {
            self.even_out(cpu);
            return;
        };
        if let Some(task) = self.pull(idle) {
            self.run(idle, task, self.costs.wake);
        }
    }

    /// Takes a fair task from the longest queue if that is longer by two.
    fn even_out(&mut self, cpu: Cpu) {
        let mine = self.fleet.cpus[cpu].ready.len();
        let longest = (0..self.fleet.cpus.len())
            .max_by_key(|&other| (self.fleet.cpus[other].ready.len(), Reverse(other)));
        let Some(other) = longest else { return };
        if self.fleet.cpus[other].ready.len() < mine + 2 {
            return;
        }
        let fair = |task: &TaskIndex| self.tasks[*task].policy == Policy::Fair;
        let found = self
            .queue(other)
            .filter(fair)
            .find(|&task| self.may_run(task, cpu));
        if let Some(task) = found {
            self.dequeue(other, task);
            self.bring_claim(task, other, cpu);
            self.enqueue(cpu, task, End::Back);
        }
    }
}
