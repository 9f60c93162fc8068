//! What a task does to the scheduling of tasks while they run: it keeps its CPU,
//! and says on which CPUs another task may run, or asks whether that does anything.

use crate::{
    agenda::TaskIndex,
    engine::{Engine, Pending, State},
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

/// Whether the task of this number, from 0, waits for others: it sleeps, or spins and
/// has seen nothing new.
pub fn rests(task: usize) -> bool {
    let rests = |engine: &mut Engine| {
        let task = &engine.tasks[task];
        task.state == State::Parked || task.pending == Pending::Spin && !task.spin.alerted
    };
    ask(rests).unwrap_or(false)
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
    fn exempt(&mut self) {
        let task = self.active;
        let cpu = self.tasks[task].cpu;
        self.account(cpu);
        let state = &mut self.tasks[task];
        state.limited = false;
        state.vruntime = self.fleet.cpus[cpu].ready.min_vruntime(false);
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
        self.move_to(self.place(task), task);
    }
}
