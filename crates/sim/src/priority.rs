//! Priorities that tasks lend each other, as a kernel's real-time mutex has them.
//!
//! A task keeps the priority that it has of its own, and is scheduled by what it is
//! lent if that is above it. A change takes effect at once, whether the task runs,
//! is ready or sleeps. Where a ready task now outranks the one on its CPU, it gets
//! that after a switch: as for a woken task, the interrupt has no time of its own.
//!
//! One change waits: what the *calling* task loses. An unlock gives back what it
//! was lent before it wakes who lent it. Were it preempted in between, by a task
//! that lies between the two priorities, the wake-up would wait for that one, which
//! is the very inversion that the lock is to end. A kernel has preemption switched
//! off there, from the first look at the queue until the wake-up is done. Here the
//! caller keeps its priority until its next scheduling point: it lets others run, or
//! goes to sleep. One that wakes nobody, since a deadlock made it give back, and
//! computes on, is found by a tick. Lending is the kernel's also where the rest of a
//! lock runs in user space, so this holds for every machine.

use lockyard_core::{Platform, Prio, Priority, TaskId, rtmutex};

use crate::{
    agenda::TaskIndex,
    engine::{Engine, Spending, State, Task},
    queues::End,
    scheduler::Policy,
    topology::Cpu,
    world::{Sim, ask, index, spend},
};

/// The active task is scheduled by another policy from now on. That is a short
/// system call.
pub fn set_policy(policy: Policy) {
    set_policy_of(index(Sim::me()), policy);
}

/// The task of this number, from 0, is scheduled by another policy from now on, and
/// so are those that it lends its priority. That is a system call of the active one.
pub fn set_policy_of(task: usize, policy: Policy) {
    system_call();
    ask(|engine| {
        engine.tasks[task].own = policy;
        engine.reschedule(task);
    });
    if task != index(Sim::me()) {
        let number = TaskId::new(task as u32 + 1).expect("counted from 1");
        rtmutex::adjust::<Sim>(number);
        // It may have taken from the caller, and wakes nobody.
        ask(|engine| engine.reschedule(engine.active));
    }
}

/// The priority at which the task of this number, from 0, is scheduled: its own, or
/// a higher one that it is lent.
///
/// # Panics
/// Outside a simulation.
pub fn runs_at(task: usize) -> Prio {
    let level = ask(|engine| engine.tasks[task].policy.priority());
    Prio::real_time(level.expect("tasks are those of a simulation").into())
}

/// After it the active task is on a CPU.
fn system_call() {
    spend(|engine| engine.advance(engine.now + engine.costs.yields, Spending::Compute));
}

impl Priority for Sim {
    fn own(task: TaskId) -> Prio {
        let own = ask(|engine| engine.tasks[index(task)].own.priority());
        Prio::real_time(own.unwrap_or(0).into())
    }

    /// Takes as long as a system call that changes a policy.
    fn lend(task: TaskId, prio: Prio) {
        let level = prio.level().and_then(|level| u8::try_from(level).ok());
        let level = level.expect("no task here has a deadline, or a level above 99");
        system_call();
        ask(|engine| engine.lend(index(task), level));
    }
}

impl Task {
    fn scheduled_by(&self) -> Policy {
        match self.own {
            own if own.priority() >= self.lent => own,
            Policy::RoundRobin(_) => Policy::RoundRobin(self.lent),
            Policy::Fair | Policy::Fifo(_) => Policy::Fifo(self.lent),
        }
    }
}

impl Engine {
    fn lend(&mut self, task: TaskIndex, level: u8) {
        self.tasks[task].lent = level;
        let state = &self.tasks[task];
        let loses = state.scheduled_by().priority() < state.policy.priority();
        if task == self.active && loses {
            self.tasks[task].loses = Some(self.now);
        } else {
            self.reschedule(task);
        }
    }

    /// At a tick: who gave back what it was lent, a tick ago and more, loses it.
    pub(crate) fn end_overdue_loan(&mut self, cpu: Cpu) {
        let Some(task) = self.fleet.cpus[cpu].current else {
            return;
        };
        let loses = self.tasks[task].loses;
        if loses.is_some_and(|since| self.now >= since + self.costs.tick) {
            self.reschedule(task);
        }
    }

    /// What the task has and is lent takes effect.
    pub(crate) fn reschedule(&mut self, task: TaskIndex) {
        let state = &mut self.tasks[task];
        state.loses = None;
        let (policy, before) = (state.scheduled_by(), state.policy);
        if policy == before {
            return;
        }
        let cpu = state.cpu;
        self.note(task, |_| format!("is {policy} now"));
        match self.tasks[task].state {
            State::Running => {
                self.account(cpu);
                self.tasks[task].policy = policy;
                self.make_way(task);
            }
            State::Ready => {
                self.dequeue(cpu, task);
                self.tasks[task].policy = policy;
                let rises = policy.priority() > before.priority();
                let stays = !rises || self.outranks_current(task);
                let to = if stays { cpu } else { self.place(task) };
                self.move_to(to, task);
            }
            State::Parked | State::Done => self.tasks[task].policy = policy,
        }
    }

    /// Whether a task is above the one that has its CPU.
    fn outranks_current(&self, task: TaskIndex) -> bool {
        let Task { cpu, policy, .. } = self.tasks[task];
        let current = self.fleet.cpus[cpu].current;
        current.is_none_or(|current| self.tasks[current].policy.priority() < policy.priority())
    }

    /// A task whose policy has changed gives up its CPU if it must.
    fn make_way(&mut self, task: TaskIndex) {
        let cpu = self.tasks[task].cpu;
        let queue = &mut self.fleet.cpus[cpu];
        let state = &mut self.tasks[task];
        // What it ran as a real-time task is not held against it.
        state.vruntime = queue.ready.admit(state.limited, state.vruntime);
        let priority = state.policy.priority();
        if queue.ready.most_urgent() > priority || self.must_wait(task) {
            self.preempt(cpu, End::Front);
        }
    }
}
