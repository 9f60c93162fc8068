//! SMT: the threads of a core share its issue slots.
//!
//! The more threads of a core compute or poll, the slower each is; the machine's
//! file says how much. One that sleeps, or waits for an event, takes nothing. One
//! that waits for a cache line counts as if it computed.

use crate::{
    engine::{Engine, Pending, scaled},
    machine::{Costs, Picos},
    scheduler::CpuState,
    topology::{Core, Cpu},
};

/// A core, which its threads share.
#[derive(Clone)]
pub(crate) struct CoreState {
    /// In thousandths of a thread that computes.
    pub(crate) activity: u32,
    /// The speed of each of its threads.
    pub(crate) speed: f64,
    /// What an access of a line in its own cache costs at that speed.
    pub(crate) hit: Picos,
    /// What an atomic one costs.
    pub(crate) locked: Picos,
}

impl CoreState {
    /// A core that is idle.
    pub(crate) fn new(costs: &Costs) -> Self {
        Self {
            activity: 0,
            speed: 1.0,
            hit: costs.hit,
            locked: costs.locked,
        }
    }
}

impl Engine {
    /// The core of a CPU.
    #[inline]
    pub(crate) fn core_of(&self, cpu: Cpu) -> &CoreState {
        &self.fleet.cores[self.topology.core(cpu)]
    }

    /// What a polling spinner competes for.
    pub(crate) fn poll_activity(&self) -> u32 {
        (self.costs.poll_share * f64::from(CpuState::COMPUTES)).round() as u32
    }

    /// A CPU competes for its core with another share: its siblings' work takes
    /// another time from now on.
    pub(crate) fn set_activity(&mut self, cpu: Cpu, share: u32) {
        if self.costs.smt_speed.len() == 1 {
            return;
        }
        let before = std::mem::replace(&mut self.fleet.cpus[cpu].activity, share);
        if before == share {
            return;
        }
        let number = self.topology.core(cpu);
        let core = &mut self.fleet.cores[number];
        core.activity = core.activity + share - before;
        let speed = speed(&self.costs.smt_speed, core.activity);
        let old = std::mem::replace(&mut core.speed, speed);
        if old != speed {
            core.hit = scaled(self.costs.hit, 1.0 / speed);
            core.locked = scaled(self.costs.locked, 1.0 / speed);
            self.rescale(number, old / speed);
        }
    }

    fn rescale(&mut self, core: Core, by: f64) {
        for cpu in self.topology.siblings(core) {
            let Some(task) = self.fleet.cpus[cpu].current else {
                continue;
            };
            if let Pending::Work(at) = self.tasks[task].pending {
                let left = scaled(at.saturating_sub(self.now), by);
                self.resume_at(task, Pending::Work(self.now + left));
            }
        }
    }
}

/// The speed of each thread of a core with this activity: between the numbers
/// of threads for which it is known, on a straight line.
fn speed(speeds: &[f64], active: u32) -> f64 {
    let threads = f64::from(active) / f64::from(CpuState::COMPUTES);
    let below = (threads.floor().max(1.0) as usize).min(speeds.len());
    let above = (below + 1).min(speeds.len());
    let part = (threads - below as f64).clamp(0.0, 1.0);
    speeds[below - 1] + (speeds[above - 1] - speeds[below - 1]) * part
}
