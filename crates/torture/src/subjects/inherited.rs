//! Real-time mutexes, one taken inside the other, and who runs at which priority.

use std::cell::RefCell;

use fastrand::Rng;
use lockyard_core::{Platform, Prio, Priority, RawRtMutex, TaskId, rtmutex};
use lockyard_sim::{Policy, Sim, name, note, rests, runs_at, set_policy_of, work};

use super::deadline;
use crate::explore::{Checks, Sections, Subject};

const LOCKS: usize = 3;
const RTMUTEX: &[&str] = &["owner", "top", "arrivals", "gate"];

/// Some real-time mutexes, always taken in one order: locked, tried, locked with a
/// deadline and with a look for deadlocks, while priorities change. After each happening
/// every owner must run at least at the priority of who waits for it, and of who waits
/// for that one; and when no task is on its way through a lock, at just that.
pub struct RtMutexes<W> {
    locks: [RawRtMutex<Sim, W>; LOCKS],
    /// What each task says that it does, by its number.
    tasks: RefCell<Vec<Task>>,
}

#[derive(Clone, Default)]
struct Task {
    holds: [bool; LOCKS],
    calls: bool,
    /// The lock for which its call may wait.
    wants: Option<usize>,
}

impl Task {
    /// Whether it waits, or is outside of all calls.
    fn is_still(&self, number: usize) -> bool {
        !self.calls || (self.wants.is_some() && rests(number))
    }

    fn waits_for(&self, owner: &Task) -> bool {
        self.wants.is_some_and(|lock| owner.holds[lock])
    }
}

impl<W: rtmutex::Policy> RtMutexes<W> {
    /// What the calling task says of itself.
    fn me<R>(&self, says: impl FnOnce(&mut Task) -> R) -> R {
        let me = Sim::me().number() as usize;
        let mut tasks = self.tasks.borrow_mut();
        let known = tasks.len().max(me);
        tasks.resize_with(known, Task::default);
        says(&mut tasks[me - 1])
    }

    /// Makes a call that may wait for a lock, and notes what comes of it.
    fn call<R: Copy>(
        &self,
        wants: Option<usize>,
        call: impl FnOnce() -> R,
        note: impl FnOnce(&mut Task, R),
    ) -> R {
        self.me(|task| (task.calls, task.wants) = (true, wants));
        let result = call();
        self.me(|task| {
            (task.calls, task.wants) = (false, None);
            note(task, result);
        });
        result
    }

    fn take(&self, dice: &mut Rng, which: usize) -> bool {
        let lock = &self.locks[which];
        let (way, end) = (dice.u8(0..8), deadline(dice));
        let lock = || match way {
            0 => {
                note("calls try_lock");
                lock.try_lock()
            }
            1 => {
                note("calls lock_until");
                lock.lock_until(end)
            }
            2 => {
                note("calls lock_checked");
                let taken = lock.lock_checked(Some(end));
                assert_ne!(taken, Err(rtmutex::Refused::Deadlock), "there is none");
                taken.is_ok()
            }
            _ => {
                note("calls lock");
                lock.lock();
                true
            }
        };
        self.call(Some(which), lock, |task, taken| task.holds[which] = taken)
    }

    fn release(&self, which: usize) {
        if self.me(|task| task.holds[which]) {
            note("calls unlock");
            // SAFETY: the caller took it, and has not released it since.
            let unlock = || unsafe { self.locks[which].unlock() };
            self.call(None, unlock, |task, ()| task.holds[which] = false);
        }
    }

    /// Gives some task another priority.
    fn adjust(&self, dice: &mut Rng) {
        let task = dice.usize(0..self.tasks.borrow().len());
        let policy = match dice.u8(0..5) {
            0 => Policy::Fair,
            level => Policy::Fifo(level),
        };
        self.call(None, || set_policy_of(task, policy), |_, ()| ());
    }

    /// Whether no task is on its way through a lock.
    fn are_still(&self) -> bool {
        let tasks = self.tasks.borrow();
        (0..)
            .zip(&*tasks)
            .all(|(number, task)| task.is_still(number))
    }

    /// The chain of owners that a task waits for, as far as every priority has been passed
    /// on: each must run at those before it.
    fn follow(&self, waiter: usize, checks: &mut Checks) -> Result<(), String> {
        let (mut at, mut due) = (id(waiter), Prio::FAIR);
        for depth in 1..=LOCKS {
            let Some(link) = self.locks.iter().find_map(|lock| lock.link(at)) else {
                break;
            };
            let passed_on = link.queued == link.prio;
            due = if passed_on {
                due.max(link.queued)
            } else {
                link.queued
            };
            let owner = link.owner.number();
            if runs_at(owner as usize - 1) < due {
                return Err(format!(
                    "task {owner} runs below task {} that waits for it, {depth} locks away",
                    waiter + 1
                ));
            }
            let lent = due > Sim::own(link.owner);
            checks.lent += u64::from(lent);
            checks.deep += u64::from(lent && passed_on && depth > 1);
            if !passed_on && self.are_still() {
                let at = at.number();
                return Err(format!("task {at} is queued by a priority that it had"));
            }
            if !passed_on {
                break;
            }
            at = link.owner;
        }
        Ok(())
    }

    /// Compares who runs at which priority with who waits for whom, as the tasks say.
    fn compare(&self) -> Result<(), String> {
        let tasks = self.tasks.borrow();
        for (number, task) in (0..).zip(&*tasks) {
            let waiters = (0..)
                .zip(&*tasks)
                .filter(|(_, other)| other.waits_for(task));
            let due = waiters
                .map(|(waiter, _)| runs_at(waiter))
                .fold(Sim::own(id(number)), Prio::max);
            if runs_at(number) != due {
                let task = number + 1;
                return Err(format!(
                    "task {task} does not run at the priority that it is due"
                ));
            }
        }
        Ok(())
    }
}

fn id(task: usize) -> TaskId {
    TaskId::new(task as u32 + 1).expect("counted from 1")
}

impl<W: rtmutex::Policy> Subject for RtMutexes<W> {
    fn new() -> Self {
        Self {
            locks: [const { RawRtMutex::new() }; LOCKS],
            tasks: RefCell::default(),
        }
    }

    fn act(&self, dice: &mut Rng, sections: &Sections<'_>) {
        let wanted = dice.u8(1..1 << LOCKS);
        let mut wanted = (0..LOCKS).filter(|which| wanted >> which & 1 == 1);
        // The first that it does not get is the last that it asks for.
        wanted.all(|which| self.take(dice, which));
        if dice.bool() {
            self.adjust(dice);
        }
        match self.me(|task| task.holds[0]) {
            true => (sections.alone)(),
            false => work(dice.u32(0..400)),
        }
        if dice.bool() {
            note("naps inside");
            Sim::park(Some(deadline(dice)));
        }
        (0..LOCKS).rev().for_each(|which| self.release(which));
    }

    fn is_free(&self) -> bool {
        let mut locks = self.locks.iter();
        locks.all(|lock| !lock.is_locked() && !lock.is_contended())
    }

    fn name(&self) {
        for (lock, called) in self.locks.iter().zip(["first", "second", "third"]) {
            name(lock, called, RTMUTEX);
        }
    }

    fn probe(&self, checks: &mut Checks) -> Result<(), String> {
        let tasks = self.tasks.borrow().len();
        (0..tasks).try_for_each(|waiter| self.follow(waiter, checks))?;
        match self.are_still() {
            true => self.compare(),
            false => Ok(()),
        }
    }
}
