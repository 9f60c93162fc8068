//! The trail: every choice of an execution, and which executions are next.
//!
//! There are two kinds of choices: whose turn it is, and, within a step, a
//! pick (which message a load reads, where a store goes, whether a rare thing
//! happens).
//!
//! # Reduction
//!
//! Two executions are the same if they differ only in the order of steps that
//! does not matter. What matters is who reads from whom, the modification
//! orders, and the order of the `SeqCst` fences; all else is free, because a
//! load may read an old message and a store may go before a newer one. So of
//! two steps on a word the order matters only when the first *reads* (also as
//! a part of a read-modify-write) and the second *writes*: then the first
//! could read from the second. A load after a store needs no turning round, for
//! it can read something older; two stores need none, for the later one can go
//! in front.
//!
//! On this relation stands source-DPOR (Abdulla, Aronis, Jonsson and Sagonas,
//! POPL 2014): such a pair, not ordered by reads-from, makes a turn of the
//! second's thread, or of one that must go before it, at the first one's place
//! (`want`). A thread whose turn has been explored there sleeps: it comes back
//! only for messages that are newer than that, which its serial number in
//! `asleep` says.

use crate::memory::THREADS;

/// A set of threads.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Set(u8);

impl Set {
    pub(crate) fn insert(&mut self, thread: usize) {
        self.0 |= 1 << thread;
    }

    pub(crate) fn contains(self, thread: usize) -> bool {
        self.0 & 1 << thread != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn meets(self, other: Set) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..THREADS).filter(move |&thread| self.contains(thread))
    }

    fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    fn without(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    fn with(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    fn only(thread: usize) -> Set {
        Set(1 << thread)
    }
}

/// How the space of executions is walked.
#[derive(Clone, Copy)]
pub(crate) enum Strategy {
    /// All of it, up to reordering.
    Reduced,
    /// All of it within so many preemptions, one by one.
    Bounded(u32),
    /// Choices at random.
    Random,
    /// Random priorities that change at so many moments (PCT; Burckhardt,
    /// Kothari, Musuvathi and Nagarakatte, ASPLOS 2010).
    Priorities(u32),
    /// The given choices, and no others.
    Replay,
}

/// Whose turn it is.
struct Turn {
    chosen: usize,
    /// The serial number of the next store.
    serial: u32,
    /// Who could go.
    enabled: Set,
    /// Who could go and would find anything new.
    open: Set,
    /// Who has to be tried.
    want: Set,
    done: Set,
    /// The threads that were tried before, each with the serial number from
    /// which on a message would be new to it; 0 for a thread that is awake.
    asleep: [u32; THREADS],
    /// Who would have to be preempted.
    last: Option<usize>,
    /// The preemptions before.
    preemptions: u32,
}

impl Turn {
    /// Who could have gone: a spinner whose condition holds by an older value alone is
    /// open, and not enabled.
    fn able(&self) -> Set {
        self.enabled.with(self.open)
    }

    fn preemptions(&self) -> u32 {
        self.preemptions + u32::from(self.last.is_some_and(|last| last != self.chosen))
    }
}

/// A choice within a step.
struct Pick {
    options: Vec<u16>,
    at: usize,
}

enum Node {
    Turn(Turn),
    Pick(Pick),
}

/// What the explorer knows when it gives a turn away.
pub(crate) struct Situation {
    pub(crate) serial: u32,
    pub(crate) enabled: Set,
    pub(crate) open: Set,
    /// Who had the last turn.
    pub(crate) last: Option<usize>,
    /// A thread whose step cannot matter to others' turns.
    pub(crate) harmless: Option<usize>,
}

/// So often a thread may sleep in vain.
const NAPS: u32 = 3;

/// Between the priorities that a change hands out, the later the higher, and those of threads that
/// have slept in vain, the later the lower.
const CHANGED: u64 = 1 << 32;

/// The choices of an execution.
pub(crate) struct Trail {
    strategy: Strategy,
    nodes: Vec<Node>,
    cursor: usize,
    last_turn: Option<usize>,
    random: Random,
    priorities: [u64; THREADS],
    changes: Vec<usize>,
    slept: [u32; THREADS],
    turns: usize,
    longest: usize,
}

impl Trail {
    pub(crate) fn new(strategy: Strategy, seed: u64) -> Self {
        Self {
            strategy,
            nodes: Vec::new(),
            cursor: 0,
            last_turn: None,
            random: Random(seed),
            priorities: [0; THREADS],
            changes: Vec::new(),
            slept: [0; THREADS],
            turns: 0,
            longest: 1,
        }
    }

    pub(crate) fn is_reduced(&self) -> bool {
        matches!(self.strategy, Strategy::Reduced)
    }

    /// Whether the coming choice was already made.
    pub(crate) fn is_known(&self) -> bool {
        self.cursor < self.nodes.len()
    }

    /// Goes back to the start, to make the same choices again.
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
        self.last_turn = None;
        self.slept = [0; THREADS];
        self.turns = 0;
    }

    /// Prepares the next execution; `false` when there is none.
    pub(crate) fn advance(&mut self) -> bool {
        self.longest = self.longest.max(self.turns);
        let more = match self.strategy {
            Strategy::Reduced | Strategy::Bounded(_) => self.backtrack(),
            Strategy::Random | Strategy::Priorities(_) => {
                self.nodes.clear();
                true
            }
            Strategy::Replay => false,
        };
        self.rewind();
        more
    }

    /// Before the first execution, and before each one of a random strategy.
    pub(crate) fn shuffle(&mut self) {
        if let Strategy::Priorities(changes) = self.strategy {
            for priority in &mut self.priorities {
                // Above every priority that a change hands out.
                *priority = self.random.next() | 1 << 63;
            }
            self.changes = (0..changes)
                .map(|_| self.random.below(self.longest))
                .collect();
        }
    }

    fn backtrack(&mut self) -> bool {
        while let Some(node) = self.nodes.last_mut() {
            match node {
                Node::Pick(pick) if pick.at + 1 < pick.options.len() => {
                    pick.at += 1;
                    return true;
                }
                Node::Pick(_) => {}
                Node::Turn(turn) => {
                    turn.done.insert(turn.chosen);
                    let rest = Set(turn.want.0 & turn.open.0).without(turn.done);
                    if let Some(next) = rest.iter().next() {
                        turn.chosen = next;
                        return true;
                    }
                }
            }
            self.nodes.pop();
        }
        false
    }

    fn turn_at(&self, index: usize) -> &Turn {
        match &self.nodes[index] {
            Node::Turn(turn) => turn,
            Node::Pick(_) => unreachable!("a step is known by its turn"),
        }
    }

    fn turn_at_mut(&mut self, index: usize) -> &mut Turn {
        match &mut self.nodes[index] {
            Node::Turn(turn) => turn,
            Node::Pick(_) => unreachable!("a step is known by its turn"),
        }
    }

    /// Since when messages are new to each thread, at the coming turn.
    pub(crate) fn asleep(&self) -> [u32; THREADS] {
        let Some(last) = self.last_turn else {
            return [0; THREADS];
        };
        let last = self.turn_at(last);
        let mut asleep = last.asleep;
        if self.is_reduced() {
            for thread in last.done.iter() {
                asleep[thread] = last.serial;
            }
        }
        asleep[last.chosen] = 0;
        asleep
    }

    /// The turn that was made already.
    pub(crate) fn known_turn(&mut self) -> usize {
        self.last_turn = Some(self.cursor);
        self.cursor += 1;
        self.turns += 1;
        self.turn_at(self.cursor - 1).chosen
    }

    /// Chooses whose turn it is; `None` when no turn leads to anything new.
    pub(crate) fn turn(&mut self, now: &Situation) -> Option<usize> {
        let asleep = self.asleep();
        let preemptions = self
            .last_turn
            .map_or(0, |last| self.turn_at(last).preemptions());
        let mut open = now.open;
        let last = now.last.filter(|&last| open.contains(last));
        if let (Strategy::Bounded(most), Some(last)) = (self.strategy, last)
            && preemptions >= most
        {
            open = Set::only(last);
        }
        if open.is_empty() {
            return None;
        }
        let first = last
            .or_else(|| open.iter().find(|&thread| now.enabled.contains(thread)))
            .or_else(|| open.iter().next())?;
        let chosen = match self.strategy {
            Strategy::Reduced => now.harmless.unwrap_or(first),
            Strategy::Bounded(_) | Strategy::Replay => first,
            Strategy::Random => {
                let at = self.random.below(open.len());
                open.iter().nth(at)?
            }
            Strategy::Priorities(_) => self.by_priority(open)?,
        };
        let want = match self.strategy {
            Strategy::Bounded(_) => open,
            _ => Set::only(chosen),
        };
        self.nodes.push(Node::Turn(Turn {
            chosen,
            serial: now.serial,
            enabled: now.enabled,
            open,
            want,
            done: Set::default(),
            asleep,
            last,
            preemptions,
        }));
        Some(self.known_turn())
    }

    fn by_priority(&mut self, open: Set) -> Option<usize> {
        let highest = |priorities: &[u64; THREADS]| open.iter().max_by_key(|&t| priorities[t]);
        if self.changes.contains(&self.turns)
            && let Some(thread) = highest(&self.priorities)
        {
            self.priorities[thread] = CHANGED + self.turns as u64;
        }
        highest(&self.priorities)
    }

    /// The thread has slept in vain. All others go before one that does so again and again, lest it
    /// keep them from what it waits for.
    pub(crate) fn slept(&mut self, thread: usize) {
        self.slept[thread] += 1;
        if self.slept[thread] > NAPS {
            self.priorities[thread] = CHANGED - self.turns as u64;
        }
    }

    /// Since when messages are new to the thread whose turn it is.
    pub(crate) fn asleep_here(&self, thread: usize) -> u32 {
        self.turn_at(self.here()).asleep[thread]
    }

    /// The place of the turn that is being taken.
    pub(crate) fn here(&self) -> usize {
        self.last_turn.expect("a step has its turn")
    }

    /// Makes sure that one of `initials` is tried at that turn.
    pub(crate) fn want_one(&mut self, turn: usize, initials: Set, first: usize) {
        let turn = self.turn_at_mut(turn);
        if turn.want.meets(initials) {
            return;
        }
        if turn.able().contains(first) {
            turn.want.insert(first);
        } else {
            turn.want = turn.want.with(turn.able());
        }
    }

    /// Makes sure that everybody is tried at that turn.
    pub(crate) fn want_all(&mut self, turn: usize) {
        let turn = self.turn_at_mut(turn);
        turn.want = turn.want.with(turn.able());
    }

    /// Whether, by a random strategy, a fork leaves the thread behind later than now: else few
    /// would get far.
    pub(crate) fn spares(&mut self) -> bool {
        let is_random = matches!(self.strategy, Strategy::Random | Strategy::Priorities(_));
        is_random && !self.is_known() && self.random.below(16) != 0
    }

    /// Picks one of `options`, of which only `fresh` lead to anything new.
    pub(crate) fn pick(&mut self, options: &[u16], fresh: &[u16]) -> u16 {
        if let [only] = options {
            return *only;
        }
        if !self.is_known() {
            let options = fresh.to_vec();
            let at = match self.strategy {
                // The first option is the usual one.
                Strategy::Random | Strategy::Priorities(_) if self.random.below(2) == 0 => {
                    self.random.below(options.len())
                }
                _ => 0,
            };
            self.nodes.push(Node::Pick(Pick { options, at }));
        }
        let Node::Pick(pick) = &self.nodes[self.cursor] else {
            unreachable!("the model does not do the same thing twice: it must be deterministic");
        };
        self.cursor += 1;
        pick.options[pick.at]
    }

    /// The choices so far, for [`Trail::from_text`].
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes[..self.cursor] {
            match node {
                Node::Turn(turn) => text.push((b'a' + turn.chosen as u8) as char),
                Node::Pick(pick) => text += &format!("{}.", pick.options[pick.at]),
            }
        }
        text
    }

    /// A trail that makes these choices.
    ///
    /// # Errors
    /// The position of what is no choice.
    pub(crate) fn from_text(text: &str) -> Result<Self, usize> {
        let mut trail = Self::new(Strategy::Replay, 0);
        let mut number: Option<u16> = None;
        for (at, symbol) in text.bytes().enumerate() {
            let node = match (symbol, number) {
                (b'0'..=b'9', _) => {
                    let digit = u16::from(symbol - b'0');
                    let more = number.unwrap_or(0).checked_mul(10);
                    number = Some(more.and_then(|n| n.checked_add(digit)).ok_or(at)?);
                    continue;
                }
                (b'.', Some(option)) => Node::Pick(Pick {
                    options: vec![option],
                    at: 0,
                }),
                (b'a'..=b'h', None) => Node::Turn(Turn {
                    chosen: usize::from(symbol - b'a'),
                    serial: 0,
                    enabled: Set::default(),
                    open: Set::default(),
                    want: Set::default(),
                    done: Set::default(),
                    asleep: [0; THREADS],
                    last: None,
                    preemptions: 0,
                }),
                _ => return Err(at),
            };
            number = None;
            trail.nodes.push(node);
        }
        if number.is_some() {
            return Err(text.len());
        }
        Ok(trail)
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
