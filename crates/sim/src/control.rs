//! What a task does to the scheduling of tasks while they run: it keeps its CPU,
//! takes another policy, and says on which CPUs another task may run.

use crate::{
    agenda::TaskIndex,
    engine::{Engine, Spending, State},
    scheduler::Policy,
    topology::Cpu,
    world::{ask, spend},
};

/// The active task keeps its CPU busy for so many nanoseconds of the machine's
/// time. They pass while others have the CPU, too.
pub fn busy(nanos: u64) {
    spend(|engine| nanos == 0 || engine.busy_until(engine.now + nanos * 1_000));
}

/// How many CPUs the machine has.
///
/// # Panics
/// Outside a simulation.
pub fn cpus() -> usize {
    ask(|engine| engine.topology.cpus()).expect("a machine has CPUs inside a simulation")
}

/// The active task is scheduled by another policy from now on. That is a short
/// system call.
pub fn set_policy(policy: Policy) {
    // After it the task is on a CPU.
    spend(|engine| engine.advance(engine.now + engine.costs.yields, Spending::Compute));
    ask(|engine| engine.set_policy(policy));
}

/// The machine's quota, if it has one, does not limit the active task from now on.
pub fn exempt() {
    ask(Engine::exempt);
}

/// The task of this number, from 0, may run on these CPUs only from now on. If it
/// is on another, it moves at once. That takes the active task no time.
///
/// # Panics
/// When the machine has none of the CPUs.
pub fn confine(task: usize, cpus: &[usize]) {
    ask(|engine| engine.confine(task, cpus));
}

impl Engine {
    fn set_policy(&mut self, policy: Policy) {
        let task = self.active;
        let cpu = self.tasks[task].cpu;
        self.account(cpu);
        let queue = &self.fleet.cpus[cpu];
        let state = &mut self.tasks[task];
        state.policy = policy;
        // What it ran as a real-time task is not held against it.
        state.vruntime = state.vruntime.max(queue.min_vruntime(state.limited));
        let mut waiting = queue
            .real_time
            .iter()
            .filter(|(_, tasks)| !tasks.is_empty());
        let outranked = waiting.any(|(priority, _)| priority.0 > policy.priority());
        self.note(task, |_| format!("is {policy} now"));
        if outranked || self.must_wait(task) {
            self.preempt(cpu);
        }
    }

    fn exempt(&mut self) {
        let task = self.active;
        let cpu = self.tasks[task].cpu;
        self.account(cpu);
        let state = &mut self.tasks[task];
        state.limited = false;
        state.vruntime = self.fleet.cpus[cpu].min_vruntime(false);
    }

    fn confine(&mut self, task: TaskIndex, cpus: &[Cpu]) {
        let known = cpus.iter().any(|&cpu| cpu < self.topology.cpus());
        assert!(known, "an affinity names a CPU of the machine");
        self.tasks[task].cpus = Some(cpus.iter().copied().collect());
        let cpu = self.tasks[task].cpu;
        if self.may_run(task, cpu) {
            return;
        }
        match self.tasks[task].state {
            State::Running => {
                self.interrupt(cpu, task);
                self.tasks[task].arriving = false;
                self.leave(cpu);
            }
            State::Ready => self.dequeue(cpu, task),
            // It is placed when it is woken.
            State::Parked | State::Done => return,
        }
        let to = self.place(task);
        self.bring_claim(task, cpu, to);
        self.settle(to, task);
    }
}
