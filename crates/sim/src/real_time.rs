//! Which CPUs real-time tasks run on: the most urgent of all that are ready do, as far as their
//! affinities let them. One that must give up its CPU goes to that of somebody less urgent, and a
//! CPU about to run somebody less urgent takes one that waits elsewhere.

use crate::{agenda::TaskIndex, engine::Engine, queues::End, topology::Cpu};

impl Engine {
    /// The CPU of those that the task may run on whose current task is the least urgent, `near`
    /// if that is one; and the priority there, 0 for a fair task or none.
    pub(crate) fn least_urgent_cpu(&self, task: TaskIndex, near: Cpu) -> Option<(Cpu, u8)> {
        let runs = |cpu: Cpu| {
            let current = self.fleet.cpus[cpu].current;
            current.map_or(0, |current| self.tasks[current].policy.priority())
        };
        let all = (0..self.fleet.cpus.len()).filter(|&cpu| self.may_run(task, cpu));
        let all = all.map(|cpu| (cpu, runs(cpu)));
        all.min_by_key(|&(cpu, priority)| (priority, !self.fleet.idle.contains(cpu), cpu != near))
    }

    /// The real-time tasks that wait for this CPU go where they can run.
    pub(crate) fn push_urgent(&mut self, cpu: Cpu) {
        while let Some((task, to)) = self.misplaced(cpu) {
            self.dequeue(cpu, task);
            self.move_to(to, task);
        }
    }

    /// A real-time task that waits for this CPU and could run on that one.
    fn misplaced(&self, cpu: Cpu) -> Option<(TaskIndex, Cpu)> {
        let mut waiting = self.fleet.cpus[cpu].ready.real_time_tasks();
        waiting.find_map(|task| {
            let (to, runs) = self.least_urgent_cpu(task, cpu)?;
            let goes = to != cpu && runs < self.tasks[task].policy.priority();
            goes.then_some((task, to))
        })
    }

    /// The CPU is free: if a task that waits for another is more urgent than all that wait for
    /// this one, it comes here.
    pub(crate) fn pull_urgent(&mut self, cpu: Cpu) {
        let here = self.fleet.cpus[cpu].ready.most_urgent();
        let elsewhere = self.fleet.urgent.ones().filter(|&other| other != cpu);
        let tasks = elsewhere.flat_map(|other| self.fleet.cpus[other].ready.real_time_tasks());
        let tasks = tasks.filter(|&task| self.may_run(task, cpu));
        let Some(task) = tasks.max_by_key(|&task| self.tasks[task].policy.priority()) else {
            return;
        };
        if self.tasks[task].policy.priority() > here {
            let from = self.tasks[task].cpu;
            self.dequeue(from, task);
            self.enqueue(cpu, task, End::Front);
        }
    }
}
