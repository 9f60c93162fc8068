//! Schedules to explore: who goes next, whatever the time.

use std::cmp::Reverse;

use fastrand::Rng;

use crate::{agenda::Happening, machine::Picos};

/// How a schedule is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// Any task that can, with the same probability.
    Random,
    /// Always the task with the highest priority of those that can; priorities
    /// are drawn, and at `changes` of the first `steps` steps the task with the
    /// highest falls to the lowest (S. Burckhardt et al., "A Randomized
    /// Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).
    Pct {
        /// How often the priorities change.
        changes: u32,
        /// In how many steps.
        steps: u32,
    },
}

/// In so many steps the machine's own happenings come in once: ticks, deadlines,
/// and looks of spinners that see no change but that of the time. A spinner must
/// not keep those from going on that it waits for.
const OTHERS: u32 = 24;

/// A schedule.
pub(crate) struct Schedule {
    dice: Rng,
    /// Each task's, the higher the sooner; `None` in a random schedule.
    priorities: Option<Vec<i64>>,
    changes: Vec<u32>,
    step: u32,
}

impl Schedule {
    pub(crate) fn new(strategy: Strategy, tasks: usize, seed: u64) -> Self {
        let mut dice = Rng::with_seed(seed);
        let (priorities, changes) = match strategy {
            Strategy::Random => (None, Vec::new()),
            Strategy::Pct { changes, steps } => {
                let mut priorities: Vec<i64> = (1..=tasks as i64).collect();
                dice.shuffle(&mut priorities);
                let changes = (0..changes).map(|_| dice.u32(..steps)).collect();
                (Some(priorities), changes)
            }
        };
        Self {
            dice,
            priorities,
            changes,
            step: 0,
        }
    }

    /// Which of these is next.
    pub(crate) fn choose(&mut self, all: Vec<(Picos, Happening)>) -> Option<usize> {
        let step = self.step;
        self.step += 1;
        let others = self.dice.u32(..OTHERS) == 0;
        let (steps, machine): (Vec<usize>, Vec<usize>) = (0..all.len())
            .filter(|&i| all[i].1 != Happening::Limit)
            .partition(|&i| matches!(all[i].1, Happening::Resume(..)));
        if steps.is_empty() || others && !machine.is_empty() {
            // The first of the machine's own: time has come for it.
            return machine.into_iter().min_by_key(|&i| all[i].0);
        }
        let Some(priorities) = &mut self.priorities else {
            return self.dice.choice(steps);
        };
        let task = |i: usize| match all[i].1 {
            Happening::Resume(task, _) => task,
            _ => unreachable!("only resumptions are left"),
        };
        let first = |priorities: &[i64]| {
            let highest = steps.iter().min_by_key(|&&i| Reverse(priorities[task(i)]));
            *highest.expect("some task can go on")
        };
        if self.changes.contains(&step) {
            let falls = task(first(priorities));
            priorities[falls] = -i64::from(step) - 1;
        }
        Some(first(priorities))
    }
}
