//! Spinning: what a spinner that sees nothing new would do again and again is
//! left out. A look notes which lines its condition read, which tasks it asked
//! about and when an answer that depends on the time would be another; the next
//! look comes when one of these changes, on the spinner's own grid of looks.

use lockyard_core::Look;

use crate::{
    agenda::{Happening, TaskIndex},
    cache::LineId,
    engine::{Engine, Pending, Spending, State},
    machine::Picos,
    scheduler::CpuState,
};

/// What a task remembers of its spin.
#[derive(Default)]
pub(crate) struct Spin {
    /// When [`Platform::spin_begin`](lockyard_core::Platform::spin_begin) was
    /// called.
    pub(crate) began: Picos,
    /// It has been taken off its CPU since then.
    pub(crate) descheduled: bool,
    /// When the wait began.
    first: Picos,
    /// Between two looks.
    every: Picos,
    /// When it has had its last look.
    last: Picos,
    /// Its condition asks about tasks and the time.
    asks: bool,
    /// It sleeps lightly between looks, so that the line that it waits for
    /// wakes it, and all else only at the end of a wait.
    event: bool,
    line: LineId,
    /// The word that it waits for, and its value at the last look.
    pub(crate) sees: (usize, u32),
    /// The first moment at which the condition may say something else.
    flips: Picos,
    /// There is something new to see.
    pub(crate) alerted: bool,
}

impl Engine {
    /// The active task begins to wait for a word.
    pub(crate) fn spin_until(&mut self, address: usize, look: Look, looks: u32) {
        let line = self.cache.line(address);
        let (now, costs) = (self.now, &self.costs);
        let (every, event) = match (look, costs.event_wake) {
            (Look::Event, Some(_)) => (costs.event_stream, true),
            (Look::Poll | Look::Event, _) => (costs.poll, false),
            (Look::Every(nanos), _) => (u64::from(nanos) * 1_000, false),
        };
        let last = match looks {
            u32::MAX => Picos::MAX,
            looks => now + u64::from(looks) * every,
        };
        let spin = &mut self.tasks[self.active].spin;
        *spin = Spin {
            began: spin.began,
            descheduled: spin.descheduled,
            first: now,
            every,
            last,
            asks: false,
            event,
            line,
            sees: (address, 0),
            flips: last,
            alerted: false,
        };
    }

    /// A look begins, or the first one: the word has this value.
    pub(crate) fn look(&mut self, value: u32) {
        let spin = &mut self.tasks[self.active].spin;
        spin.sees.1 = value;
        spin.flips = spin.last;
        spin.alerted = false;
        self.looking = true;
        self.looked.clear();
    }

    /// The condition has been evaluated. Whether the active task has seen
    /// enough, or has had as many looks as it wanted; if not, it must pause.
    pub(crate) fn stops_looking(&mut self, stops: bool) -> bool {
        self.looking = false;
        let ask = self.costs.user_space.map_or(0, |user| user.ask);
        let spin = &mut self.tasks[self.active].spin;
        if std::mem::take(&mut spin.asks) && spin.every == self.costs.poll {
            spin.every += ask;
        }
        let stops = stops || self.now >= self.tasks[self.active].spin.last;
        if !stops {
            self.spin_on();
        }
        stops
    }

    /// The condition of the spin that is being evaluated depends on this line.
    pub(crate) fn depends_on(&mut self, address: usize) {
        let line = self.cache.line(address);
        self.looked.push(line);
    }

    /// An answer that the active task gets now may be another then.
    pub(crate) fn flips_at(&mut self, then: Picos) {
        let then = then.max(self.now + 1);
        let spin = &mut self.tasks[self.active].spin;
        spin.flips = spin.flips.min(then);
    }

    fn spin_on(&mut self) {
        let (task, now) = (self.active, self.now);
        let state = &mut self.tasks[task];
        if state.state != State::Running {
            state.left = Pending::Step(0);
            return;
        }
        state.pending = Pending::Spin;
        state.spend(Spending::Spin, now);
        let (cpu, generation) = (state.cpu, state.generation);
        let (own, event, flips) = (state.spin.line, state.spin.event, state.spin.flips);
        self.watch(own, task, generation);
        for at in 0..self.looked.len() {
            let line = self.looked[at];
            if line != own {
                let core = self.topology.core(cpu);
                // It has read the line, so who writes it must take it away.
                self.cache
                    .read(&self.topology, &self.costs, line, core, now);
                self.watch(line, task, generation);
            }
        }
        if flips < Picos::MAX {
            let at = self.next_look(task, flips);
            self.agenda.push(at, Happening::Look(task, generation));
        }
        let share = match event {
            true => CpuState::IDLES,
            false => self.poll_activity(),
        };
        self.set_activity(cpu, share);
    }

    fn watch(&mut self, line: LineId, task: TaskIndex, generation: u32) {
        let tasks = &self.tasks;
        self.cache.watch(line, (task, generation), |(task, then)| {
            tasks[task].generation == then && tasks[task].pending == Pending::Spin
        });
    }

    /// The first look at or after `then`, but not before now.
    fn next_look(&self, task: TaskIndex, then: Picos) -> Picos {
        let spin = &self.tasks[task].spin;
        let since = then.max(self.now).saturating_sub(spin.first);
        (spin.first + since.div_ceil(spin.every) * spin.every).min(spin.last.max(self.now))
    }

    /// Whoever watches the line has something new to see from `at` on.
    pub(crate) fn alert_watchers(&mut self, line: LineId, at: Picos) {
        let watchers = self.cache.take_watchers(line);
        for &(task, generation) in &watchers {
            let spin = &self.tasks[task].spin;
            let wakes = (spin.event && spin.line == line).then_some(self.costs.event_wake);
            match wakes.flatten() {
                Some(wake) => self.alert(task, generation, at + wake),
                None => self.alert_at_next_look(task, generation, at),
            }
        }
        self.cache.give_back(line, watchers);
    }

    /// Whoever asked whether the task runs gets another answer from `at` on.
    pub(crate) fn alert_observers(&mut self, of: TaskIndex, at: Picos) {
        let observers = std::mem::take(&mut self.tasks[of].observers);
        for (task, generation) in observers {
            self.alert_at_next_look(task, generation, at);
        }
    }

    /// What does not wake a task that sleeps lightly is seen at the end of its wait, unless the
    /// line that it waits for ends that before.
    fn alert_at_next_look(&mut self, task: TaskIndex, generation: u32, at: Picos) {
        let look = self.next_look(task, at);
        match self.tasks[task].spin.event {
            true => (self.agenda).push(look, Happening::Look(task, generation)),
            false => self.alert(task, generation, look),
        }
    }

    fn alert(&mut self, task: TaskIndex, generation: u32, look: Picos) {
        let state = &mut self.tasks[task];
        if state.generation == generation && state.pending == Pending::Spin {
            state.spin.alerted = true;
            // What else it waits for may come before that.
            self.agenda.push(look, Happening::Resume(task, generation));
        }
    }

    /// Whether `of` is off its CPU, as far as the active task can know.
    pub(crate) fn is_off(&mut self, of: TaskIndex) -> Option<bool> {
        self.tasks[self.active].spin.asks = true;
        let state = &self.tasks[of];
        if state.state == State::Running && !state.arriving {
            let asker = (self.active, self.tasks[self.active].generation);
            let observers = &mut self.tasks[of].observers;
            if observers.last() != Some(&asker) {
                observers.push(asker);
            }
            return Some(false);
        }
        if state.arriving {
            // On its CPU soon: somebody who asks again will hear.
            let again = self.now + self.costs.wake;
            self.flips_at(again);
            return None;
        }
        let seen = state.off_since + self.costs.off_cpu_seen();
        if self.now >= seen {
            return Some(true);
        }
        self.flips_at(seen);
        None
    }

    pub(crate) fn spin_begin(&mut self) {
        let now = self.now;
        let spin = &mut self.tasks[self.active].spin;
        spin.began = now;
        spin.descheduled = false;
    }

    /// Whether the active task's spin should stop.
    pub(crate) fn need_resched(&mut self) -> bool {
        let spin = &mut self.tasks[self.active].spin;
        spin.asks = true;
        if spin.descheduled || self.topology.cpus() == 1 {
            return true;
        }
        let Some(user) = self.costs.user_space else {
            return false;
        };
        let end = spin.began + user.spin_budget;
        if self.now < end {
            self.flips_at(end);
        }
        self.now >= end
    }
}
