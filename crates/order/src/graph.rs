//! What is known of the order of locks.
//!
//! A *chain* is: a thread that holds some locks waits for another. It gives an edge from
//! each lock held to the lock wanted. A cycle of edges is a deadlock that is possible if
//! - each wait is for somebody who holds the lock in a mode that keeps the waiter out, and
//! - no two of its chains hold a lock that only one of them can have: such a *gate* lock
//!   lets only one of the two threads into the cycle at a time.
//!
//! The second is the gate-lock rule of Goodlock (Havelund 2000; Bensalem and Havelund 2006),
//! for every pair of chains. As in the kernel's lockdep, one thread may give all
//! the edges: what one thread does now another may do next time.
//!
//! All tables are of a fixed size. When one is full, what is known of locks that are gone makes
//! room (`compact.rs`). If that is too little everything is forgotten but what was reported,
//! and learnt anew: an order that is not known is not reported.

use std::{
    ptr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    held::{DEPTH, Holds},
    lock::{Kind, Known},
    mode::Mode,
    report::Limit,
    stack::{Stack, mix},
};

mod compact;

/// Locks that were taken while another was held.
const LOCKS: usize = 1 << 14;
const CHAINS: usize = 1 << 14;
const EDGES: usize = 1 << 16;
const STACKS: usize = 1 << 14;
/// Inversions that are reported.
const REPORTED: usize = 1 << 8;
/// Edges of the longest cycle that is found.
pub const LONGEST: usize = 16;
/// Edges that a search looks at: with gate locks it may be long.
const STEPS: u32 = 1 << 17;

/// Those that it still looks at once it has found a cycle that was reported: a program that
/// takes its locks so does it with many of them, from the same places.
const MORE_STEPS: u32 = 1 << 11;

/// The steps that are left to a search.
struct Steps {
    left: u32,
    /// Whether it has found a cycle that was reported.
    is_known: bool,
}

impl Steps {
    const fn new() -> Self {
        Self {
            left: STEPS,
            is_known: false,
        }
    }

    fn take(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    fn found_known(&mut self) {
        if !self.is_known {
            self.is_known = true;
            self.left = self.left.min(MORE_STEPS);
        }
    }
}

/// Index 0 of each table is none.
#[derive(Clone, Copy)]
struct Node {
    key: u64,
    address: usize,
    kind: Kind,
    gone: bool,
    /// The latest edge from it.
    first: u32,
    /// The search that last saw it.
    seen: u32,
}

/// A lock in a chain.
#[derive(Clone, Copy)]
struct Place {
    lock: u16,
    mode: Mode,
    stack: u16,
}

impl Place {
    const NONE: Self = Self {
        lock: 0,
        mode: Mode::Exclusive,
        stack: 0,
    };
}

#[derive(Clone, Copy)]
struct Chain {
    hash: u64,
    thread: u32,
    wanted: Place,
    len: u8,
    held: [Place; DEPTH],
}

impl Chain {
    fn held(&self) -> &[Place] {
        &self.held[..usize::from(self.len)]
    }

    /// Whether a gate lock keeps two threads from being in these chains at a time.
    fn excludes(&self, other: &Self) -> bool {
        self.held().iter().any(|a| {
            let mut others = other.held().iter();
            others.any(|b| a.lock == b.lock && a.mode.excludes(b.mode))
        })
    }
}

/// From a lock that a chain holds to the one that it wants.
#[derive(Clone, Copy)]
pub struct Edge {
    chain: u16,
    held: u8,
    /// The next edge from the same lock.
    next: u32,
}

/// A hash table of indices, by hashes that are not zero.
struct Index<const N: usize> {
    at: [u16; N],
}

impl<const N: usize> Index<N> {
    /// The index for which `is` holds, or the empty place for it.
    fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mut place = (hash >> 32) as usize % N;
        loop {
            match usize::from(self.at[place]) {
                0 => return Err(place),
                found if is(found) => return Ok(found),
                _ => place = (place + 1) % N,
            }
        }
    }
}

/// A lock of a cycle, and how one thread holds it while it wants the next.
pub struct Step<'a> {
    pub thread: u32,
    pub held: (usize, Kind, Mode),
    pub held_at: &'a Stack,
    pub wanted: (usize, Kind, Mode),
    pub wanted_at: &'a Stack,
}

/// All of it, zero when nothing is known.
pub struct Graph {
    locks: usize,
    chains: usize,
    edges: usize,
    stacks: usize,
    reported: usize,
    searches: u32,
    node: [Node; LOCKS],
    chain: [Chain; CHAINS],
    edge: [Edge; EDGES],
    stack: [Stack; STACKS],
    chain_index: Index<{ CHAINS * 2 }>,
    stack_index: Index<{ STACKS * 2 }>,
    lock_index: Index<{ LOCKS * 2 }>,
    reported_hash: [u64; REPORTED],
    queue: [u16; LOCKS],
    /// The cycle that was found: the last chain's is the first edge.
    cycle: [Edge; LONGEST],
}

/// A graph in memory of its own: most programs' orders are never asked for, and those that
/// lock their memory lock none for that.
pub struct Mapped(Option<&'static mut Graph>);

impl Mapped {
    /// One that is mapped when there is something to learn.
    pub const fn new() -> Self {
        Self(None)
    }

    /// The graph, if it was ever learnt from.
    pub fn if_any(&mut self) -> Option<&mut Graph> {
        self.0.as_deref_mut()
    }

    /// The graph; `None` when there is no memory for it.
    pub fn get(&mut self) -> Option<&mut Graph> {
        if self.0.is_none() {
            self.0 = map();
        }
        self.if_any()
    }
}

fn map() -> Option<&'static mut Graph> {
    // SAFETY: a new private mapping at an address of the kernel's choice touches no other
    // memory.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<Graph>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: it is mapped, aligned to a page, of that size, zeroed, which is valid, never
    // unmapped, and nobody else's.
    Some(unsafe { &mut *mapped.cast::<Graph>() })
}

/// How often everything was forgotten.
static AGE: AtomicU32 = AtomicU32::new(0);

/// What a thread knows to be known is forgotten when this changes. Whoever sees that late is
/// late to learn anew, no more.
pub fn age() -> u32 {
    AGE.load(Relaxed)
}

/// What there is to say of a chain.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Found {
    Nothing,
    /// A new cycle of so many edges, [`Graph::cycle`].
    Cycle(usize),
    Limit(Limit),
}

impl Graph {
    /// Whether a chain that holds so many locks finds room in all tables.
    fn has_room(&self, held: usize) -> bool {
        self.locks + held + 1 < LOCKS
            && self.chains + 1 < CHAINS
            && self.edges + held < EDGES
            && self.stacks + held + 1 < STACKS
    }

    /// Forgets all but what was reported.
    fn forget(&mut self) {
        (self.locks, self.chains, self.edges, self.stacks) = (0, 0, 0, 0);
        self.lock_index.at.fill(0);
        self.chain_index.at.fill(0);
        self.stack_index.at.fill(0);
        AGE.fetch_add(1, Relaxed); // a count
    }

    fn find(&self, key: u64) -> Result<usize, usize> {
        self.lock_index.find(key, |at| self.node[at].key == key)
    }

    fn node(&mut self, lock: &Known) -> u16 {
        let found = match self.find(lock.key) {
            Ok(found) => found,
            Err(place) => {
                self.locks += 1;
                self.node[self.locks] = Node {
                    key: lock.key,
                    address: lock.address,
                    kind: lock.kind,
                    gone: false,
                    first: 0,
                    seen: 0,
                };
                self.lock_index.at[place] = self.locks as u16;
                self.locks
            }
        };
        found as u16
    }

    /// The lock does not exist any more.
    pub fn gone(&mut self, key: u64) {
        if let Ok(node) = self.find(key) {
            self.node[node].gone = true;
        }
    }

    fn keep(&mut self, stack: &Stack) -> u16 {
        let hash = stack.hash();
        let is = |at: usize| self.stack[at].frames() == stack.frames();
        let found = match self.stack_index.find(hash, is) {
            Ok(found) => found,
            Err(place) => {
                self.stacks += 1;
                self.stack[self.stacks] = *stack;
                self.stack_index.at[place] = self.stacks as u16;
                self.stacks
            }
        };
        found as u16
    }

    fn find_chain(&self, hash: u64) -> Result<usize, usize> {
        self.chain_index
            .find(hash, |at| self.chain[at].hash == hash)
    }

    /// Whether there is a chain of this hash.
    pub fn knows(&self, hash: u64) -> bool {
        self.find_chain(hash).is_ok()
    }

    /// Learns that the thread, which holds `holds`, is about to wait for `wanted`.
    pub fn learn(
        &mut self,
        thread: u32,
        holds: &Holds,
        wanted: &Known,
        mode: Mode,
        at: &Stack,
    ) -> Found {
        let mut found = Found::Nothing;
        if !self.has_room(holds.iter().count()) && !self.compact() {
            self.forget();
            found = Found::Limit(Limit::Orders);
        }
        let hash = holds.chain(wanted, mode);
        if let Err(place) = self.find_chain(hash) {
            self.chain_index.at[place] = self.chains as u16 + 1;
            let wanted = Place {
                lock: self.node(wanted),
                mode,
                stack: self.keep(at),
            };
            self.add(hash, thread, holds, wanted);
            match self.search(self.chains) {
                Found::Nothing => {}
                more => found = more,
            }
        }
        found
    }

    fn add(&mut self, hash: u64, thread: u32, holds: &Holds, wanted: Place) {
        let mut chain = Chain {
            hash,
            thread,
            wanted,
            len: 0,
            held: [Place::NONE; DEPTH],
        };
        for held in holds.iter() {
            chain.held[usize::from(chain.len)] = Place {
                lock: self.node(&held.lock()),
                mode: held.mode(),
                stack: self.keep(&held.stack()),
            };
            chain.len += 1;
        }
        self.chains += 1;
        self.chain[self.chains] = chain;
        self.link(self.chains);
    }

    /// Makes a chain's edges.
    fn link(&mut self, at: usize) {
        let chain = self.chain[at];
        let number = at as u16;
        for (at, held) in chain.held().iter().enumerate() {
            if held.lock == chain.wanted.lock {
                continue; // that is said where it is wanted
            }
            self.edges += 1;
            let node = &mut self.node[usize::from(held.lock)];
            self.edge[self.edges] = Edge {
                chain: number,
                held: at as u8,
                next: node.first,
            };
            node.first = self.edges as u32;
        }
    }

    /// Looks for a cycle through a chain that was not reported, a shortest one first.
    fn search(&mut self, chain: usize) -> Found {
        let Some(shortest) = self.distance(chain) else {
            return Found::Nothing;
        };
        let mut steps = Steps::new();
        for longest in shortest..=LONGEST {
            match self.search_to(chain, longest, &mut steps) {
                Some(Found::Nothing) => {}
                Some(found) => return found,
                None if steps.is_known => break,
                None => return Found::Limit(Limit::Search),
            }
        }
        Found::Nothing
    }

    /// The edges of the shortest way through the chain back to it, whatever the modes and
    /// the gates: most chains have none.
    fn distance(&mut self, chain: usize) -> Option<usize> {
        let chain = self.chain[chain];
        self.searches += 1;
        let (mut read, mut written, mut edges) = (0, 1, 1);
        self.queue[0] = chain.wanted.lock;
        while read < written {
            let as_far = read..written;
            edges += 1;
            for at in as_far.clone() {
                let mut next = self.node[usize::from(self.queue[at])].first;
                while next != 0 {
                    let edge = self.edge[next as usize];
                    next = edge.next;
                    let to = self.chain[usize::from(edge.chain)].wanted.lock;
                    if chain.held().iter().any(|held| held.lock == to) {
                        return Some(edges);
                    }
                    let node = &mut self.node[usize::from(to)];
                    if node.seen != self.searches {
                        node.seen = self.searches;
                        self.queue[written] = to;
                        written += 1;
                    }
                }
            }
            read = as_far.end;
        }
        None
    }

    /// Looks for a cycle of `longest` edges or fewer, depth first. `None` when it has taken
    /// too many steps.
    fn search_to(&mut self, chain: usize, longest: usize, steps: &mut Steps) -> Option<Found> {
        self.cycle[0].chain = chain as u16;
        let mut depth = 0; // edges behind the new one
        let mut next = self.first_from(chain);
        loop {
            if next == 0 {
                if depth == 0 {
                    return Some(Found::Nothing);
                }
                next = self.cycle[depth].next;
                depth -= 1;
                continue;
            }
            steps.take()?;
            let edge = self.edge[next as usize];
            next = edge.next;
            if depth + 2 > longest || !self.may_follow(depth, edge) {
                continue;
            }
            depth += 1;
            self.cycle[depth] = edge;
            if let Some(held) = self.closes(edge) {
                self.cycle[0].held = held;
                match self.first_time(depth + 1) {
                    Found::Nothing => steps.found_known(),
                    found => return Some(found),
                }
            }
            next = self.first_from(usize::from(edge.chain));
        }
    }

    /// The first edge from what a chain wants.
    fn first_from(&self, chain: usize) -> u32 {
        self.node[usize::from(self.chain[chain].wanted.lock)].first
    }

    /// Whether an edge may come after the first `depth + 1` of the cycle.
    fn may_follow(&self, depth: usize, edge: Edge) -> bool {
        let chain = &self.chain[usize::from(edge.chain)];
        let before = &self.cycle[..=depth];
        let waiter = &self.chain[usize::from(before[depth].chain)];
        let held = chain.held[usize::from(edge.held)];
        !self.node[usize::from(held.lock)].gone
            && waiter.wanted.mode.waits_for(held.mode)
            && before
                .iter()
                .all(|edge| !self.chain[usize::from(edge.chain)].excludes(chain))
    }

    /// The lock of the first chain that the edge leads back to.
    fn closes(&self, edge: Edge) -> Option<u8> {
        let wanted = self.chain[usize::from(edge.chain)].wanted;
        let first = &self.chain[usize::from(self.cycle[0].chain)];
        let back = |held: &Place| held.lock == wanted.lock && wanted.mode.waits_for(held.mode);
        let held = first.held().iter().position(back)?;
        Some(held as u8)
    }

    /// Whether no cycle was reported from the same places of the program.
    fn first_time(&mut self, edges: usize) -> Found {
        let mut hash = 0_u64;
        for edge in &self.cycle[..edges] {
            let chain = &self.chain[usize::from(edge.chain)];
            let held = chain.held[usize::from(edge.held)];
            let [held, wanted] = [held, chain.wanted].map(|at| self.stack[usize::from(at.stack)]);
            // The same sum wherever the cycle begins.
            hash = hash.wrapping_add(mix(held.hash(), wanted.hash()));
        }
        if self.reported_hash[..self.reported].contains(&hash) {
            return Found::Nothing;
        }
        if self.reported == REPORTED {
            return Found::Limit(Limit::Reports);
        }
        self.reported_hash[self.reported] = hash;
        self.reported += 1;
        Found::Cycle(edges)
    }

    /// The cycle that was found last.
    pub fn cycle(&self, edges: usize) -> impl Iterator<Item = Step<'_>> {
        self.cycle[..edges].iter().map(|edge| {
            let chain = &self.chain[usize::from(edge.chain)];
            let held = chain.held[usize::from(edge.held)];
            let lock = |place: Place| {
                let node = self.node[usize::from(place.lock)];
                (node.address, node.kind, place.mode)
            };
            Step {
                thread: chain.thread,
                held: lock(held),
                held_at: &self.stack[usize::from(held.stack)],
                wanted: lock(chain.wanted),
                wanted_at: &self.stack[usize::from(chain.wanted.stack)],
            }
        })
    }
}

#[cfg(test)]
mod tests;
