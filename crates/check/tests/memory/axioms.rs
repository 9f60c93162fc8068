//! The outcomes that RC11 allows (Lahav, Vafeiadis, Kang, Hur and Dreyer, PLDI
//! 2017, with the release sequences of C++20), found by trying all reads-from
//! and modification orders: an oracle that shares nothing with the explorer.
//! `SeqCst` accesses are not covered, only fences.

use std::collections::BTreeSet;

use lockyard_core::Ordering;

use crate::program::{Instr, Outcome, Program, locations};

/// A relation between events: row `a` has bit `b` when `a` is related to `b`.
#[derive(Clone)]
struct Relation(Vec<u32>);

impl Relation {
    fn none(events: usize) -> Self {
        Self(vec![0; events])
    }

    fn add(&mut self, a: usize, b: usize) {
        self.0[a] |= 1 << b;
    }

    fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 != 0
    }

    fn join(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    fn then(&self, other: &Self) -> Self {
        let row = |row: &u32| {
            (0..other.0.len())
                .filter(|b| row >> b & 1 != 0)
                .fold(0, |all, b| all | other.0[b])
        };
        Self(self.0.iter().map(row).collect())
    }

    /// The transitive closure.
    fn plus(mut self) -> Self {
        loop {
            let more = self.join(&self.then(&self));
            if more.0 == self.0 {
                return self;
            }
            self = more;
        }
    }

    fn is_irreflexive(&self) -> bool {
        (0..self.0.len()).all(|a| !self.has(a, a))
    }
}

#[derive(Clone, Copy)]
struct Event {
    thread: usize,
    instr: Instr,
    at: Option<usize>,
}

/// A candidate execution: what each event read and wrote.
struct Candidate<'a> {
    events: &'a [Event],
    po: Relation,
    /// The source of each reading event.
    rf: Vec<Option<usize>>,
    read: Vec<Option<u32>>,
    wrote: Vec<Option<u32>>,
}

fn reads(instr: Instr) -> bool {
    !matches!(instr, Instr::W(..) | Instr::F(_))
}

fn writes(instr: Instr) -> bool {
    !matches!(instr, Instr::R(..) | Instr::F(_))
}

fn is_release(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

fn is_acquire(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

impl Candidate<'_> {
    fn order(&self, event: usize) -> Ordering {
        match self.events[event].instr {
            // A compare-exchange that failed was a relaxed load.
            Instr::Cas(..) if self.wrote[event].is_none() => Ordering::Relaxed,
            Instr::W(_, _, order)
            | Instr::R(_, order)
            | Instr::Swap(_, _, order)
            | Instr::Add(_, _, order)
            | Instr::Cas(_, _, _, order)
            | Instr::F(order) => order,
        }
    }

    fn is_fence(&self, event: usize) -> bool {
        matches!(self.events[event].instr, Instr::F(_))
    }

    /// What each event reads and writes; `None` when there is no order in which
    /// they could have happened.
    fn evaluate(&mut self) -> Option<()> {
        let count = self.events.len();
        let mut porf = self.po.clone();
        for (event, source) in self.rf.iter().enumerate() {
            if let Some(source) = *source {
                porf.add(source, event);
            }
        }
        let porf = porf.plus();
        if !porf.is_irreflexive() {
            return None;
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&e| (0..count).filter(|&before| porf.has(before, e)).count());
        for event in order {
            let read = match self.rf[event] {
                Some(source) => Some(self.wrote[source]?),
                None => None,
            };
            self.read[event] = read;
            self.wrote[event] = match (self.events[event].instr, read) {
                (Instr::W(_, value, _) | Instr::Swap(_, value, _), _) => Some(value),
                (Instr::Add(_, value, _), Some(old)) => Some(old.wrapping_add(value)),
                (Instr::Cas(_, old, new, _), Some(found)) => (found == old).then_some(new),
                _ => None,
            };
        }
        Some(())
    }

    /// Whether the axioms hold for this modification order.
    fn is_consistent(&self, mo: &Relation) -> bool {
        let count = self.events.len();
        let (mut rf, mut rb) = (Relation::none(count), Relation::none(count));
        for (event, source) in self.rf.iter().enumerate() {
            let Some(source) = *source else { continue };
            rf.add(source, event);
            for later in (0..count).filter(|&later| mo.has(source, later) && later != event) {
                rb.add(event, later);
            }
            let between = |w: usize| mo.has(source, w) && mo.has(w, event);
            if self.wrote[event].is_some() && (!mo.has(source, event) || (0..count).any(between)) {
                return false;
            }
        }
        let hb = self.po.join(&self.synchronises()).plus();
        let eco = rf.join(mo).join(&rb).plus();
        let mut psc = Relation::none(count);
        let path = hb.join(&hb.then(&eco).then(&hb));
        let is_sc = |e: usize| self.is_fence(e) && self.order(e) == Ordering::SeqCst;
        for a in (0..count).filter(|&a| is_sc(a)) {
            for b in (0..count).filter(|&b| is_sc(b) && path.has(a, b)) {
                psc.add(a, b);
            }
        }
        hb.is_irreflexive() && hb.then(&eco).is_irreflexive() && psc.plus().is_irreflexive()
    }

    fn synchronises(&self) -> Relation {
        let count = self.events.len();
        let mut sw = Relation::none(count);
        for reader in (0..count).filter(|&e| self.rf[e].is_some()) {
            let acquirers: Vec<usize> = (0..count)
                .filter(|&e| is_acquire(self.order(e)))
                .filter(|&e| e == reader || self.is_fence(e) && self.po.has(reader, e))
                .collect();
            // Back along the release sequence.
            let mut head = self.rf[reader];
            while let Some(write) = head {
                for releaser in (0..count).filter(|&e| is_release(self.order(e))) {
                    if releaser == write || self.is_fence(releaser) && self.po.has(releaser, write)
                    {
                        for &acquirer in &acquirers {
                            sw.add(releaser, acquirer);
                        }
                    }
                }
                head = self.rf[write];
            }
        }
        sw
    }
}

/// All orders of the elements.
fn permutations(elements: &[usize]) -> Vec<Vec<usize>> {
    if elements.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, &first) in elements.iter().enumerate() {
        let mut rest = elements.to_vec();
        rest.remove(at);
        for mut tail in permutations(&rest) {
            tail.insert(0, first);
            all.push(tail);
        }
    }
    all
}

fn events_of(program: &Program) -> Vec<Event> {
    // The initial writes belong to no thread: they are before everything.
    let initial = (0..locations(program)).map(|at| Event {
        thread: usize::MAX,
        instr: Instr::W(at, 0, Ordering::Relaxed),
        at: Some(at),
    });
    let own = program.iter().enumerate().flat_map(|(thread, instrs)| {
        instrs.iter().map(move |&instr| Event {
            thread,
            instr,
            at: match instr {
                Instr::W(at, ..)
                | Instr::R(at, ..)
                | Instr::Swap(at, ..)
                | Instr::Add(at, ..)
                | Instr::Cas(at, ..) => Some(at),
                Instr::F(_) => None,
            },
        })
    });
    initial.chain(own).collect()
}

/// The outcomes that are allowed.
pub fn allowed(program: &Program) -> BTreeSet<Outcome> {
    let events = events_of(program);
    let count = events.len();
    let mut po = Relation::none(count);
    for a in 0..count {
        for b in a + 1..count {
            let initial = events[a].thread == usize::MAX && events[b].thread != usize::MAX;
            if initial || events[a].thread == events[b].thread && events[a].thread != usize::MAX {
                po.add(a, b);
            }
        }
    }
    let readers: Vec<usize> = (0..count).filter(|&e| reads(events[e].instr)).collect();
    let sources: Vec<Vec<usize>> = readers
        .iter()
        .map(|&r| {
            (0..count)
                .filter(|&w| w != r && events[w].at == events[r].at && writes(events[w].instr))
                .collect()
        })
        .collect();
    let mut outcomes = BTreeSet::new();
    let total: usize = sources.iter().map(Vec::len).product();
    for mut number in 0..total {
        let mut rf = vec![None; count];
        for (reader, sources) in readers.iter().zip(&sources) {
            rf[*reader] = Some(sources[number % sources.len()]);
            number /= sources.len();
        }
        let mut candidate = Candidate {
            events: &events,
            po: po.clone(),
            rf,
            read: vec![None; count],
            wrote: vec![None; count],
        };
        if candidate.evaluate().is_some() {
            modification_orders(
                &candidate,
                0,
                &Relation::none(count),
                &mut Vec::new(),
                &mut outcomes,
            );
        }
    }
    outcomes
}

fn modification_orders(
    candidate: &Candidate<'_>,
    at: usize,
    mo: &Relation,
    finals: &mut Vec<u32>,
    outcomes: &mut BTreeSet<Outcome>,
) {
    let events = candidate.events;
    let is_initial = |e: usize| events[e].thread == usize::MAX;
    let Some(initial) = (0..events.len()).find(|&e| is_initial(e) && events[e].at == Some(at))
    else {
        if candidate.is_consistent(mo) {
            let read = candidate.read.iter().flatten().copied().collect();
            outcomes.insert((read, finals.clone()));
        }
        return;
    };
    let others: Vec<usize> = (0..events.len())
        .filter(|&e| events[e].at == Some(at) && candidate.wrote[e].is_some() && e != initial)
        .collect();
    for order in permutations(&others) {
        let order: Vec<usize> = std::iter::once(initial).chain(order).collect();
        let mut mo = mo.clone();
        for (index, &a) in order.iter().enumerate() {
            for &b in &order[index + 1..] {
                mo.add(a, b);
            }
        }
        let last = *order.last().expect("at least the initial write");
        finals.push(candidate.wrote[last].expect("a write"));
        modification_orders(candidate, at + 1, &mo, finals, outcomes);
        finals.pop();
    }
}
