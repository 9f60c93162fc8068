//! Room in full tables: that of what is known of locks that are gone.
//!
//! Nobody wants such a lock any more, so no new cycle goes through it. Therefore a chain that
//! wants one, or holds nothing else, is dropped. Of other chains they are taken out, if that
//! lets no two into a cycle that one of them kept apart as a gate:
//! - One that a single chain holds keeps nothing apart but two threads in that chain, which
//!   may do so by another lock.
//! - Chains that differ in locks that are gone only are alike. One of them that holds none says
//!   all that they say.
//! - So would such a one if so many of them, no two of which hold the same lock that is gone,
//!   are alike that none can be missed: in whatever cycle, the others hold fewer locks that are
//!   gone than that, and keep out no more of these than one by each.
//!
//! Locks, chains and stacks have new numbers then, which nobody has but the graph, under its
//! lock. A lock and who holds it know its key, of a number that no other lock gets; a thread
//! remembers chains by the hashes of keys. The age stays: one that remembers a chain that was
//! dropped, or had locks taken out, is right not to tell it again, for it is of no use, or is
//! known. And who still holds a lock that is gone makes it a new one of the graph's, as if it
//! had never nested before: nobody comes to want that, as the lock has another number or none.

use std::{iter, mem};

use super::{CHAINS, Chain, EDGES, Graph, LOCKS, LONGEST, Node, Place, STACKS};
use crate::{held, lock::Known};

// Of all three something is noted in the queue, which nothing is in between searches.
const _: () = assert!(CHAINS <= LOCKS && STACKS <= LOCKS);

impl Chain {
    fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        let held = &mut self.held[..usize::from(self.len)];
        iter::once(&mut self.wanted).chain(held)
    }
}

impl Graph {
    /// Drops what is of no use. Returns whether a quarter of each table is free now: else the
    /// next time would come too soon for what this takes.
    pub(super) fn compact(&mut self) -> bool {
        let most = self.find_alike();
        self.merge_alike(LONGEST * most);
        self.find_gates();
        self.compact_chains();
        self.compact_locks();
        self.compact_stacks();
        self.edges = 0;
        for chain in 1..=self.chains {
            self.link(chain);
        }
        let tables = [
            (self.locks, LOCKS),
            (self.chains, CHAINS),
            (self.edges, EDGES),
            (self.stacks, STACKS),
        ];
        tables.iter().all(|(used, of)| *used <= of / 4 * 3)
    }

    fn is_gone(&self, place: &Place) -> bool {
        self.node[usize::from(place.lock)].gone
    }

    fn is_of_use(&self, chain: usize) -> bool {
        let chain = &self.chain[chain];
        !self.is_gone(&chain.wanted) && chain.held().iter().any(|held| !self.is_gone(held))
    }

    /// Keeps chains that are of use, with the hash of what is not gone of them. The first of
    /// those that are alike is in the index, and in the queue for each another. Returns how
    /// many locks that are gone a chain holds at most.
    fn find_alike(&mut self) -> usize {
        self.chain_index.at.fill(0);
        self.queue.fill(0);
        let mut most = 0;
        for at in 1..=mem::take(&mut self.chains) {
            if !self.is_of_use(at) {
                continue;
            }
            let all = self.chain[at].len;
            let left = self.only(at, |node| !node.gone);
            most = most.max(usize::from(all - left.len));
            self.chains += 1; // no more than `at`
            self.chain[self.chains] = Chain {
                hash: left.hash,
                ..self.chain[at]
            };
            let number = self.chains as u16;
            match self.find_chain(left.hash) {
                Err(place) => self.chain_index.at[place] = number,
                Ok(first) => self.queue[self.chains] = mem::replace(&mut self.queue[first], number),
            }
        }
        most
    }

    /// Makes one of those that are alike, if they are enough. The others hold nothing then.
    fn merge_alike(&mut self, enough: usize) {
        for node in &mut self.node[1..=self.locks] {
            node.seen = 0;
        }
        for first in 1..=self.chains {
            let is_first = self.find_chain(self.chain[first].hash) == Ok(first);
            if is_first && self.are_enough(first, enough) {
                self.chain[first] = self.only(first, |node| !node.gone);
                let mut next = usize::from(self.queue[first]);
                while next != 0 {
                    self.chain[next].len = 0;
                    next = usize::from(self.queue[next]);
                }
            }
        }
    }

    /// Whether one of those that are alike holds no lock that is gone, or so many are apart.
    fn are_enough(&mut self, first: usize, enough: usize) -> bool {
        let (mut apart, mut next) = (0, first);
        while next != 0 {
            let chain = self.chain[next];
            next = usize::from(self.queue[next]);
            let gone = || chain.held().iter().filter(|held| self.is_gone(held));
            let is_seen = |held: &Place| self.node[usize::from(held.lock)].seen == first as u32;
            if gone().next().is_none() {
                return true;
            }
            if gone().any(is_seen) {
                continue;
            }
            apart += 1;
            for held in chain.held() {
                self.node[usize::from(held.lock)].seen = first as u32;
            }
        }
        apart >= enough
    }

    /// Notes for each lock the first chain that holds it, in `first`; and in `seen`, if it is
    /// gone, whether it may be the only gate.
    fn find_gates(&mut self) {
        for node in &mut self.node[1..=self.locks] {
            (node.first, node.seen) = (0, 0);
        }
        for number in 1..=self.chains {
            let chain = &self.chain[number];
            let is_gate = |held: &Place| !self.is_gone(held) && held.mode.excludes(held.mode);
            let has_gate = chain.held().iter().any(is_gate);
            for held in chain.held() {
                let node = &mut self.node[usize::from(held.lock)];
                if node.first == 0 {
                    node.first = number as u32;
                }
                let has_another = node.first != number as u32;
                node.seen |= u32::from(has_another || !has_gate);
            }
        }
    }

    /// Keeps chains that hold something, without the locks that are gone and no gates.
    fn compact_chains(&mut self) {
        self.chain_index.at.fill(0);
        for at in 1..=mem::take(&mut self.chains) {
            if self.chain[at].len == 0 {
                continue;
            }
            let chain = self.only(at, |node| !node.gone || node.seen != 0);
            if let Err(place) = self.find_chain(chain.hash) {
                self.chains += 1; // no more than `at`
                self.chain[self.chains] = chain;
                self.chain_index.at[place] = self.chains as u16;
            }
        }
    }

    /// A chain with only those of the locks that it holds.
    fn only(&self, chain: usize, stays: impl Fn(&Node) -> bool) -> Chain {
        let mut left = self.chain[chain];
        left.len = 0;
        for held in self.chain[chain].held() {
            if stays(&self.node[usize::from(held.lock)]) {
                left.held[usize::from(left.len)] = *held;
                left.len += 1;
            }
        }
        let how = |place: &Place| (self.node[usize::from(place.lock)].key, place.mode);
        left.hash = held::hash(left.held().iter().map(how), how(&left.wanted));
        left
    }

    /// Keeps the locks that are in chains.
    fn compact_locks(&mut self) {
        self.queue.fill(0);
        for chain in &mut self.chain[1..=self.chains] {
            for place in chain.places() {
                self.queue[usize::from(place.lock)] = 1;
            }
        }
        self.lock_index.at.fill(0);
        for at in 1..=mem::take(&mut self.locks) {
            if self.queue[at] != 0 {
                let node = self.node[at];
                let new = self.node(&Known {
                    key: node.key,
                    address: node.address,
                    kind: node.kind,
                });
                self.node[usize::from(new)].gone = node.gone;
                self.queue[at] = new;
            }
        }
        for chain in &mut self.chain[1..=self.chains] {
            for place in chain.places() {
                place.lock = self.queue[usize::from(place.lock)];
            }
        }
    }

    /// Keeps the stacks that are in chains.
    fn compact_stacks(&mut self) {
        self.queue.fill(0);
        for chain in &mut self.chain[1..=self.chains] {
            for place in chain.places() {
                self.queue[usize::from(place.stack)] = 1;
            }
        }
        self.stack_index.at.fill(0);
        for at in 1..=mem::take(&mut self.stacks) {
            if self.queue[at] != 0 {
                let stack = self.stack[at];
                self.queue[at] = self.keep(&stack);
            }
        }
        for chain in &mut self.chain[1..=self.chains] {
            for place in chain.places() {
                place.stack = self.queue[usize::from(place.stack)];
            }
        }
    }
}
