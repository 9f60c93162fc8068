//! Cache lines: who holds them, how far away, and until when they move.
//!
//! A core that does not hold a line requests it, and requests for a line are
//! served one after the other in the order in which they came. An exclusive
//! holder keeps the line until the next request reaches it, at any moment of
//! the transfer, as it is near the line's home or far from it; so who has just
//! got a line can use it for a while although others wait for it. Hardware
//! threads of a core share its cache.

use std::collections::VecDeque;

use fastrand::Rng;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

use crate::{
    engine::scaled,
    machine::{Costs, Picos},
    topology::{Core, Topology},
};

/// The bytes of a line.
pub(crate) const LINE: usize = 64;

/// A line's number, in the order of first use.
pub(crate) type LineId = usize;

/// What a task is waiting for: it, and its generation then.
pub(crate) type Watcher = (usize, u32);

/// A core that holds a line alone.
struct Tenure {
    core: Core,
    from: Picos,
    until: Picos,
}

#[derive(Default)]
struct Line {
    /// Exclusive holders, one after the other; the last without an end unless
    /// the line is shared by now.
    tenures: VecDeque<Tenure>,
    /// Who holds a copy; nobody while the last tenure lasts.
    sharers: FixedBitSet,
    /// Those of them whose copy is on its way, and when it is there.
    coming: Vec<(Core, Picos)>,
    shared: bool,
    /// When the line has been served to all who have requested it.
    free: Picos,
    watchers: Vec<Watcher>,
    /// When to look for watchers that have gone.
    crowded: usize,
    /// How long tasks have waited for it.
    waited: Picos,
}

/// Every line of memory that somebody has touched.
pub(crate) struct Cache {
    numbers: FxHashMap<usize, LineId>,
    lines: Vec<Line>,
    dice: Rng,
}

/// How an access of a line goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The core holds the line.
    Hit,
    /// It will at that moment.
    At(Picos),
}

impl Cache {
    pub(crate) fn new(dice: Rng) -> Self {
        Self {
            numbers: FxHashMap::default(),
            lines: Vec::new(),
            dice,
        }
    }

    /// The line of an address.
    pub(crate) fn line(&mut self, address: usize) -> LineId {
        let fresh = self.lines.len();
        let line = *self.numbers.entry(address / LINE).or_insert(fresh);
        if line == fresh {
            self.lines.push(Line::default());
        }
        line
    }

    /// A task has waited so long for a line.
    #[inline]
    pub(crate) fn waited(&mut self, line: LineId, time: Picos) {
        self.lines[line].waited += time;
    }

    /// The address of each line that somebody has waited for, and how long.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (usize, Picos)> {
        let all = self.numbers.iter();
        let waits = all.map(|(address, &line)| (address * LINE, self.lines[line].waited));
        waits.filter(|(_, waited)| *waited > 0)
    }

    /// A core wants to read a line.
    pub(crate) fn read(
        &mut self,
        topology: &Topology,
        costs: &Costs,
        line: LineId,
        core: Core,
        now: Picos,
    ) -> Access {
        let line = &mut self.lines[line];
        if let Some(access) = line.held(core, now) {
            return access;
        }
        if line.shared {
            if line.sharers.contains(core) {
                return line.copy_of(core, now);
            }
            let transfer = jittered(&mut self.dice, line.nearest(topology, costs, core));
            let begin = now.max(line.free);
            line.free = begin + costs.occupancy;
            return line.share(core, begin + transfer);
        }
        let begin = now.max(line.free);
        let last = line.tenures.back_mut();
        let transfer = match &last {
            Some(last) => topology.transfer(costs, last.core, core),
            None => costs.memory,
        };
        let transfer = jittered(&mut self.dice, transfer);
        line.sharers.grow(topology.cores());
        if let Some(last) = last {
            last.until = begin + self.dice.u64(0..=transfer);
            line.sharers.insert(last.core);
        }
        line.shared = true;
        line.free = begin + transfer;
        line.share(core, begin + transfer)
    }

    /// A core wants to write a line.
    pub(crate) fn write(
        &mut self,
        topology: &Topology,
        costs: &Costs,
        line: LineId,
        core: Core,
        now: Picos,
    ) -> Access {
        let line = &mut self.lines[line];
        if !line.shared
            && let Some(access) = line.held(core, now)
        {
            return access;
        }
        let transfer = if line.shared {
            scaled(line.farthest(topology, costs, core), costs.upgrade)
        } else {
            match line.tenures.back() {
                Some(last) => topology.transfer(costs, last.core, core),
                None => costs.memory,
            }
        };
        let transfer = jittered(&mut self.dice, transfer);
        let begin = now.max(line.free);
        let from = begin + transfer;
        if line.shared {
            line.sharers.clear();
            line.coming.clear();
            line.shared = false;
        } else if let Some(last) = line.tenures.back_mut() {
            last.until = begin + self.dice.u64(0..=transfer);
        }
        line.tenures.push_back(Tenure {
            core,
            from,
            until: Picos::MAX,
        });
        line.free = from;
        if transfer == 0 {
            Access::Hit
        } else {
            Access::At(from)
        }
    }

    /// Has a task told when the line is written.
    pub(crate) fn watch(
        &mut self,
        line: LineId,
        watcher: Watcher,
        is_waiting: impl Fn(Watcher) -> bool,
    ) {
        let line = &mut self.lines[line];
        if line.watchers.len() >= line.crowded.max(16) {
            line.watchers.retain(|&watcher| is_waiting(watcher));
            line.crowded = 2 * line.watchers.len();
        }
        line.watchers.push(watcher);
    }

    /// Who watched a line; they must watch again. The list is to be given back.
    pub(crate) fn take_watchers(&mut self, line: LineId) -> Vec<Watcher> {
        std::mem::take(&mut self.lines[line].watchers)
    }

    /// Gives an emptied list back, for its memory.
    pub(crate) fn give_back(&mut self, line: LineId, mut watchers: Vec<Watcher>) {
        watchers.clear();
        self.lines[line].watchers = watchers;
    }
}

/// A time give or take a sixteenth of it: no two transfers take the same, and a
/// machine on which they did would fall into patterns that no real one has.
fn jittered(dice: &mut Rng, transfer: Picos) -> Picos {
    transfer * 15 / 16 + dice.u64(0..=transfer / 8)
}

impl Line {
    /// Whether the core is an exclusive holder, now or as the last in line.
    fn held(&mut self, core: Core, now: Picos) -> Option<Access> {
        while self.tenures.front().is_some_and(|first| first.until <= now)
            && (self.tenures.len() > 1 || self.shared)
        {
            self.tenures.pop_front();
        }
        let first = self.tenures.front()?;
        if first.core == core && first.from <= now && now < first.until {
            return Some(Access::Hit);
        }
        let last = self.tenures.back()?;
        (last.core == core && last.until == Picos::MAX).then_some(Access::At(last.from))
    }

    /// A copy is on its way to the core, which no other of its threads requests.
    fn share(&mut self, core: Core, at: Picos) -> Access {
        self.sharers.insert(core);
        self.coming.push((core, at));
        Access::At(at)
    }

    /// How a core that is among the sharers reads the line.
    fn copy_of(&mut self, core: Core, now: Picos) -> Access {
        self.coming.retain(|&(_, at)| at > now);
        let its = self.coming.iter().find(|&&(to, _)| to == core);
        its.map_or(Access::Hit, |&(_, at)| Access::At(at))
    }

    /// The transfer from the nearest core that has a copy.
    fn nearest(&self, topology: &Topology, costs: &Costs, core: Core) -> Picos {
        let has = |cores| self.sharers.contains_any_in_range(cores);
        if has(topology.cluster(core)) {
            costs.cluster
        } else if has(topology.socket(core)) {
            costs.socket
        } else {
            costs.remote
        }
    }

    /// What it takes until no other core has a copy: 0 if none has.
    fn farthest(&self, topology: &Topology, costs: &Costs, core: Core) -> Picos {
        let all = self.sharers.count_ones(..);
        let within = |cores| self.sharers.count_ones(cores);
        let own = self.sharers.contains(core);
        if all == usize::from(own) {
            0
        } else if within(topology.socket(core)) < all {
            costs.remote
        } else if within(topology.cluster(core)) < all {
            costs.socket
        } else {
            costs.cluster
        }
    }
}
