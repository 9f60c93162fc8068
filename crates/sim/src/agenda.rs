//! What is to happen, and when.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use crate::{machine::Picos, schedules::Schedule, topology::Cpu};

/// A task's number, from 0.
pub(crate) type TaskIndex = usize;

/// Something to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// A task goes on, unless its generation is another by then.
    Resume(TaskIndex, u32),
    /// A spinner looks again, as an answer may be another by then, unless its
    /// generation is.
    Look(TaskIndex, u32),
    /// The deadline of a parked task, unless its generation is another.
    Timer(TaskIndex, u32),
    /// The tick of a CPU.
    Tick(Cpu),
    /// The hypervisor takes a CPU away.
    Steal(Cpu),
    /// A period of the quota begins.
    Refill,
    /// The workload is told to stop.
    Stop,
    /// Whoever still runs is stuck.
    Limit,
}

struct Entry {
    at: Picos,
    number: u64,
    what: Happening,
}

impl Entry {
    fn key(&self) -> (Picos, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// How the next happening is chosen.
pub(crate) enum Order {
    /// The earliest first.
    Time,
    /// As a schedule has it, whatever the time: then the time is the latest of
    /// those that have happened.
    Schedule(Schedule),
}

/// What is to happen.
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    /// The happenings of a schedule, in the order of their entry.
    list: Vec<Entry>,
    order: Order,
    entered: u64,
}

impl Agenda {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            heap: BinaryHeap::new(),
            list: Vec::new(),
            order,
            entered: 0,
        }
    }

    pub(crate) fn push(&mut self, at: Picos, what: Happening) {
        let number = self.entered;
        self.entered += 1;
        let entry = Entry { at, number, what };
        match self.order {
            Order::Time => self.heap.push(Reverse(entry)),
            Order::Schedule(_) => self.list.push(entry),
        }
    }

    /// Until when a task that runs may go on at once: the time of the next.
    #[inline]
    pub(crate) fn next_at(&self) -> Picos {
        match self.order {
            Order::Time => self.heap.peek().map_or(Picos::MAX, |first| first.0.at),
            Order::Schedule(_) => 0,
        }
    }

    /// The next; one that is not `valid` any more may be left out.
    pub(crate) fn pop(&mut self, valid: impl Fn(Happening) -> bool) -> Option<(Picos, Happening)> {
        let entry = match &mut self.order {
            Order::Time => self.heap.pop().map(|Reverse(entry)| entry),
            Order::Schedule(schedule) => {
                self.list.retain(|entry| valid(entry.what));
                let all = self.list.iter().map(|entry| (entry.at, entry.what));
                let chosen = schedule.choose(all.collect());
                chosen.map(|chosen| self.list.remove(chosen))
            }
        };
        entry.map(|entry| (entry.at, entry.what))
    }
}
