//! What is ready for a CPU and waits for it: the fair tasks, who has run least in front, and the
//! real-time ones by their priorities.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use crate::{agenda::TaskIndex, machine::Picos};

/// Where among its peers a real-time task queues up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It has been taken off its CPU, and is next.
    Front,
    /// It comes, or lets the others run.
    Back,
}

/// Fair tasks of one kind.
#[derive(Default)]
struct FairQueue {
    waiting: BTreeSet<(Picos, u64, TaskIndex)>,
    /// The least that one of them has run for, or the one on the CPU: who comes may claim no more
    /// than that one.
    min_vruntime: Picos,
}

impl FairQueue {
    fn first(&self) -> Option<Picos> {
        self.waiting.first().map(|&(vruntime, _, _)| vruntime)
    }

    /// The one on the CPU has run for so long altogether.
    fn ran(&mut self, vruntime: Picos) {
        let least = self.first().map_or(vruntime, |first| first.min(vruntime));
        self.min_vruntime = self.min_vruntime.max(least);
    }
}

/// The queues of a CPU.
#[derive(Default)]
pub(crate) struct Queues {
    /// The fair tasks, and apart those that the quota limits.
    fair: [FairQueue; 2],
    /// How long the latter have run together, beside the former.
    limited_vruntime: Picos,
    real_time: BTreeMap<Reverse<u8>, VecDeque<TaskIndex>>,
}

impl Queues {
    pub(crate) fn len(&self) -> usize {
        self.fair_len() + self.real_time.values().map(VecDeque::len).sum::<usize>()
    }

    pub(crate) fn fair_len(&self) -> usize {
        self.fair.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// How many of that real-time priority there are.
    pub(crate) fn peers(&self, priority: u8) -> usize {
        let peers = self.real_time.get(&Reverse(priority));
        peers.map_or(0, VecDeque::len)
    }

    /// The highest priority, 0 if all are fair.
    pub(crate) fn most_urgent(&self) -> u8 {
        let mut waiting = self.real_time.iter().filter(|(_, tasks)| !tasks.is_empty());
        waiting.next().map_or(0, |(priority, _)| priority.0)
    }

    /// The tasks in their order, without those that the quota limits if they are `throttled`.
    pub(crate) fn tasks(&self, throttled: bool) -> impl Iterator<Item = TaskIndex> {
        let kinds = self.fair.iter().take(if throttled { 1 } else { 2 });
        let fair = kinds.flat_map(|queue| queue.waiting.iter().map(|&(_, _, task)| task));
        self.real_time_tasks().chain(fair)
    }

    /// The real-time tasks, who has the highest priority in front.
    pub(crate) fn real_time_tasks(&self) -> impl Iterator<Item = TaskIndex> {
        self.real_time.values().flatten().copied()
    }

    pub(crate) fn push_real_time(&mut self, priority: u8, end: End, task: TaskIndex) {
        let queue = self.real_time.entry(Reverse(priority)).or_default();
        match end {
            End::Front => queue.push_front(task),
            End::Back => queue.push_back(task),
        }
    }

    /// `number` orders those who have run for the same time.
    pub(crate) fn push_fair(
        &mut self,
        limited: bool,
        vruntime: Picos,
        number: u64,
        task: TaskIndex,
    ) {
        let queue = &mut self.fair[usize::from(limited)];
        queue.waiting.insert((vruntime, number, task));
    }

    /// Takes out who is next.
    pub(crate) fn pop(&mut self, throttled: bool) -> Option<TaskIndex> {
        let mut real_time = self.real_time.values_mut();
        if let Some(task) = real_time.find_map(VecDeque::pop_front) {
            return Some(task);
        }
        let limited = self.is_turn_of_limited(throttled);
        let queue = &mut self.fair[usize::from(limited)];
        let (vruntime, _, task) = queue.waiting.pop_first()?;
        queue.ran(vruntime);
        Some(task)
    }

    /// Whether it is the turn of the fair tasks that the quota limits.
    fn is_turn_of_limited(&self, throttled: bool) -> bool {
        let [free, limited] = &self.fair;
        let waits = !limited.waiting.is_empty() && !throttled;
        waits
            && free
                .first()
                .is_none_or(|free| self.limited_vruntime <= free)
    }

    pub(crate) fn remove(&mut self, task: TaskIndex) {
        for queue in &mut self.fair {
            queue.waiting.retain(|&(_, _, other)| other != task);
        }
        for queue in self.real_time.values_mut() {
            queue.retain(|&other| other != task);
        }
    }

    /// The fair task on the CPU has run for `time` more, `vruntime` altogether.
    pub(crate) fn ran(&mut self, limited: bool, vruntime: Picos, time: Picos) {
        self.fair[usize::from(limited)].ran(vruntime);
        if limited {
            self.limited_vruntime += time;
            self.fair[0].ran(self.limited_vruntime);
        }
    }

    /// What a fair task that comes has run for: what the others ran while it did not want to is
    /// not owed to it, nor to its group.
    pub(crate) fn admit(&mut self, limited: bool, vruntime: Picos) -> Picos {
        if limited && self.fair[1].waiting.is_empty() {
            self.limited_vruntime = self.limited_vruntime.max(self.min_vruntime(false));
        }
        vruntime.max(self.min_vruntime(limited))
    }

    /// The least that a task of that kind has run for.
    pub(crate) fn min_vruntime(&self, limited: bool) -> Picos {
        self.fair[usize::from(limited)].min_vruntime
    }

    /// The most that a task of that kind has that waits.
    pub(crate) fn max_vruntime(&self, limited: bool) -> Option<Picos> {
        let last = self.fair[usize::from(limited)].waiting.last();
        last.map(|&(vruntime, _, _)| vruntime)
    }
}
