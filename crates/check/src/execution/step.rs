//! A step: what it may come to, what it does, and what it could have raced
//! with.

use std::{iter, ops::ControlFlow::Continue};

use smallvec::SmallVec;

use super::{Execution, Flow, Mode, SETUP, Step};
use crate::{
    memory::{Clock, Ordering, Store, THREADS},
    op::{Answer, Op},
    trail::Set,
};

// Options of a step that are no message.
pub(super) const STOP: u16 = u16::MAX;
pub(super) const TIMEOUT: u16 = u16::MAX - 1;
pub(super) const SPURIOUS: u16 = u16::MAX - 2;
pub(super) const GONE: u16 = u16::MAX - 3;
const FIRST_SPECIAL: u16 = GONE;

/// What a step may come to: seldom many things.
pub(super) type Options = SmallVec<[u16; 16]>;
/// Words, or steps by their numbers.
type Few = SmallVec<[usize; 8]>;

impl Execution<'_> {
    /// Whether the thread can go on.
    pub(super) fn is_enabled(&self, thread: usize, op: Op) -> bool {
        let state = &self.threads[thread];
        match op {
            Op::Await { word, .. } => {
                state.wait.may_stop(state.whims) || self.accepted(thread, word).next().is_some()
            }
            Op::Park { .. } | Op::Call { .. } => !self.options(thread, op).is_empty(),
            _ => true,
        }
    }

    /// Whether it would find anything new, when messages are new from
    /// `asleep` on.
    pub(super) fn is_open(&self, thread: usize, op: Op, asleep: u32) -> bool {
        let outcomes = self.outcomes(thread, op);
        let mut outcomes = outcomes.into_iter();
        outcomes.any(|option| self.is_new(thread, op, option, asleep))
    }

    fn is_new(&self, thread: usize, op: Op, option: u16, asleep: u32) -> bool {
        if asleep == 0 {
            return true;
        }
        let writes = self.written_by(thread, op).is_some();
        match op {
            // That changes nothing for anybody, whoever went before.
            _ if option == GONE => false,
            // Who gave up was waiting for whatever else could be done, and goes on now.
            _ if self.memory.last_surrender() >= asleep => true,
            Op::Await { .. }
                if option == STOP
                    && (self.is_lasting(thread) || self.threads[thread].wait.stale) =>
            {
                true
            }
            _ if writes && self.memory.last_pair() >= asleep => true,
            Op::Store { .. } => false,
            Op::Fence => self.memory.last_fence() >= asleep,
            Op::Quiesce => self.memory.last_conditional() >= asleep,
            Op::ReplacePair { words, .. } => {
                let written = |word| self.memory.written_since(word, asleep);
                self.memory.last_fence() >= asleep || words.into_iter().any(written)
            }
            Op::StoreIf { .. } | Op::AddIf { .. } if self.memory.last_quiesce() >= asleep => true,
            Op::AddIf { word, .. } if self.memory.written_since(word, asleep) => true,
            Op::Call { kernel, .. } if self.memory.written_since(kernel, asleep) => true,
            Op::Await { .. } if option == STOP => {
                let watched = &self.threads[thread].wait.watched;
                watched
                    .iter()
                    .any(|&word| self.memory.written_since(word, asleep))
            }
            _ if option >= FIRST_SPECIAL => false,
            _ => {
                let word = self.read_by(thread, op);
                word.is_some_and(|word| self.memory.message(word, option).serial >= asleep)
            }
        }
    }

    /// What a turn of the thread may come to: a step, or that a fork leaves it behind.
    fn outcomes(&self, thread: usize, op: Op) -> Options {
        let gone = self.is_left_behind(thread).then_some(GONE);
        self.options(thread, op).into_iter().chain(gone).collect()
    }

    /// What the thread's step may come to: messages to read, or to store
    /// behind, the usual one first.
    pub(super) fn options(&self, thread: usize, op: Op) -> Options {
        let memory = &self.memory;
        let state = &self.threads[thread];
        match op {
            Op::Load { word, .. } => memory.readable(thread, word).collect(),
            Op::Store { word, .. } => self.places(thread, word),
            Op::Update { word, update, .. } => {
                let may_read = |&m: &u16| {
                    update.apply(memory.message(word, m).value).is_none() || memory.is_open(word, m)
                };
                memory.readable(thread, word).filter(may_read).collect()
            }
            Op::Unpark { thread: other } => self.places(thread, self.threads[other].token),
            Op::StoreIf { guard, .. } | Op::AddIf { guard, .. } => {
                memory.testable(thread, guard).collect()
            }
            // It is one step towards all: what it replaces is the newest.
            Op::ReplacePair { words, .. } => iter::once(memory.newest(words[0])).collect(),
            Op::Fence | Op::Quiesce => iter::once(0).collect(),
            Op::Await { word, .. } => {
                let stop = state.wait.may_stop(state.whims)
                    || state.wait.stale
                    || self.may_give_up(thread);
                let accepted = self.accepted(thread, word);
                accepted.chain(stop.then_some(STOP)).collect()
            }
            Op::Park { deadline } => {
                let token = state.token;
                let given = memory
                    .readable(thread, token)
                    .filter(|&m| memory.message(token, m).value != 0 && memory.is_open(token, m));
                let spurious = (state.spurious > 0).then_some(SPURIOUS);
                let timeout = deadline.map(|_| TIMEOUT);
                given.chain(timeout).chain(spurious).collect()
            }
            Op::Call { kernel, call } => self.options_of_call(thread, kernel, call),
        }
    }

    /// The messages that the thread may store behind.
    fn places(&self, thread: usize, word: usize) -> Options {
        let readable = self.memory.readable(thread, word);
        let is_open = |&message: &u16| self.memory.is_open(word, message);
        readable.filter(is_open).collect()
    }

    pub(super) fn step(&mut self, thread: usize) -> Flow {
        let state = &mut self.threads[thread];
        let op = state.pending.take().expect("a turn has a step");
        let asleep = self.trail.asleep_here(thread);
        let options = self.outcomes(thread, op);
        let fresh = options
            .iter()
            .copied()
            .filter(|&option| self.is_new(thread, op, option, asleep));
        let mut fresh: Options = fresh.collect();
        if fresh.len() > 1 && fresh.contains(&GONE) && self.trail.spares() {
            fresh.retain(|option| *option != GONE);
        }
        let option = self.trail.pick(&options, &fresh);
        let is_fresh = !self.trail.is_known();
        if option == TIMEOUT {
            self.trail.slept(thread);
        }
        if option == GONE {
            self.leave_behind(thread, op, is_fresh);
            return Continue(());
        }
        let mut reads = self.reads(thread, op);
        let source = self
            .read_by(thread, op)
            .filter(|_| option < FIRST_SPECIAL)
            .and_then(|word| self.memory.message(word, option).step);
        let mut sources: Few = source.into_iter().collect();
        let augend = self.augend(thread, op);
        let mut rivals = self.rivals(thread, op);
        if option == STOP {
            // That its condition holds, or an older value would do, is their doing.
            let watched = &self.threads[thread].wait.watched;
            rivals.extend(watched.iter().flat_map(|&word| self.memory.writers(word)));
        }
        let lasts = matches!(op, Op::Await { .. }) && self.is_lasting(thread);
        let gives_up = lasts && option == STOP;
        let takers = self.takers(thread, op);
        // A word whose newest message it reads, and which it may write as well.
        let also = match op {
            Op::Call { kernel, .. } => Some(kernel),
            Op::ReplacePair { words, .. } => Some(words[1]),
            _ => None,
        };
        if let Some(word) = also {
            let last = self.memory.newest(word);
            sources.extend(self.memory.message(word, last).step);
        }
        let writes = self.written_by(thread, op);
        let serial = writes.map(|word| self.memory.stores(word));
        let answer = self.perform(thread, op, option)?;
        let written = writes.filter(|&word| Some(self.memory.stores(word)) != serial);
        if let (Some((word, last)), Some(_)) = (augend, written) {
            reads.push(word);
            sources.extend(last);
        }
        let written: Few = written.into_iter().chain(also).collect();

        let before = self.threads[thread].clock;
        let mut clock = before;
        for &earlier in rivals.iter().chain(&sources) {
            clock.join(&self.steps[earlier].clock);
        }
        if gives_up {
            // Behind all that others did, and none of it is turned round: while they could
            // do that, this thread could not give up.
            for other in &self.threads {
                clock.join(&other.clock);
            }
            self.memory.give_up();
        }
        if is_fresh && self.trail.is_reduced() {
            if lasts {
                // It could give up, if whatever the others can do came first.
                self.trail.want_all(self.trail.here());
            }
            if self.limits.pairs && fresh.len() < options.len() {
                // Of the other options a pair may make new ones, if it comes before.
                self.trail.want_all(self.trail.here());
            }
            let readers = written.iter().flat_map(|&word| &self.readers[word]);
            let earlier: Few = rivals.iter().chain(readers).copied().collect();
            for earlier in earlier {
                self.race(earlier, thread, &rivals, &sources, &before);
            }
            if written.is_empty() {
                for earlier in takers {
                    self.race(earlier, thread, &[], &[], &before);
                }
            }
        }
        let step = self.steps.len();
        for word in reads {
            self.readers[word].push(step);
        }
        match op {
            Op::Fence => self.order.fences.push(step),
            Op::ReplacePair { words, .. } => {
                self.order.fences.push(step);
                self.order.pairs.push((step, words));
            }
            Op::Quiesce => self.order.quiesces.push(step),
            Op::StoreIf { .. } | Op::AddIf { .. } => self.order.conditional.push(step),
            _ => {}
        }
        self.push_step(thread, clock);
        for word in written {
            self.spread(word)?;
        }
        self.check_kernel()?;
        self.talk(thread, answer)
    }

    /// A fork leaves the thread behind, before this step. Of a step that waits there may be
    /// more outcomes once others have gone on: so it has read whatever the step would.
    fn leave_behind(&mut self, thread: usize, op: Op, is_fresh: bool) {
        self.describe(thread, op, GONE);
        if is_fresh && self.trail.is_reduced() && self.is_lasting(thread) {
            self.trail.want_all(self.trail.here());
        }
        for word in self.reads(thread, op) {
            self.readers[word].push(self.steps.len());
        }
        let before = self.threads[thread].clock;
        self.push_step(thread, before);
        // Who gives up does so beside one that waits as well: it is not behind this.
        self.threads[thread].clock = before;
    }

    fn push_step(&mut self, thread: usize, mut clock: Clock) {
        let epoch = clock.tick(thread);
        self.threads[thread].clock = clock;
        self.steps.push(Step {
            thread,
            epoch,
            clock,
            turn: self.trail.here(),
        });
    }

    /// The word that a conditional addition reads as well, if its test succeeds,
    /// and the step that wrote what it reads.
    fn augend(&self, thread: usize, op: Op) -> Option<(usize, Option<usize>)> {
        let Op::AddIf { word, .. } = op else {
            return None;
        };
        let last = self.memory.readable(thread, word).next()?;
        Some((word, self.memory.message(word, last).step))
    }

    /// The word that a step reads.
    fn read_by(&self, thread: usize, op: Op) -> Option<usize> {
        match op {
            Op::Load { word, .. } | Op::Update { word, .. } | Op::Await { word, .. } => Some(word),
            Op::StoreIf { guard, .. } | Op::AddIf { guard, .. } => Some(guard),
            Op::ReplacePair { words, .. } => Some(words[0]),
            Op::Park { .. } => Some(self.threads[thread].token),
            Op::Unpark { thread } => Some(self.threads[thread].token),
            Op::Call { kernel, call } => Some(call.read().unwrap_or(kernel)),
            Op::Store { .. } | Op::Fence | Op::Quiesce => None,
        }
    }

    /// The word that a step may write.
    fn written_by(&self, thread: usize, op: Op) -> Option<usize> {
        match op {
            Op::Store { word, .. }
            | Op::Update { word, .. }
            | Op::StoreIf { word, .. }
            | Op::AddIf { word, .. } => Some(word),
            Op::Park { .. } | Op::Unpark { .. } | Op::ReplacePair { .. } => {
                self.read_by(thread, op)
            }
            Op::Call { call, .. } => call.written(),
            Op::Load { .. } | Op::Await { .. } | Op::Fence | Op::Quiesce => None,
        }
    }

    /// The steps whose order matters although neither reads from the other.
    fn rivals(&self, thread: usize, op: Op) -> Few {
        let mut rivals = match op {
            Op::Fence | Op::ReplacePair { .. } => self.order.fences.as_slice().into(),
            Op::Quiesce => self.order.conditional.as_slice().into(),
            Op::StoreIf { .. } | Op::AddIf { .. } => self.order.quiesces.as_slice().into(),
            _ => Few::new(),
        };
        // A pair reads the newest alone: it is behind whatever was written before.
        if let Op::ReplacePair { words, .. } = op {
            rivals.extend(words.iter().flat_map(|&word| self.memory.writers(word)));
        } else if let Some(word) = self.written_by(thread, op) {
            let pairs = &self.order.pairs;
            let of_the_word = pairs.iter().filter(|(_, words)| words.contains(&word));
            rivals.extend(of_the_word.map(|&(step, _)| step));
        }
        rivals
    }

    /// The steps but for which a compare-exchange could have succeeded: they
    /// read what it expects, and only one can.
    fn takers(&self, thread: usize, op: Op) -> Few {
        let Op::Update { word, update, .. } = op else {
            return Few::new();
        };
        self.memory
            .readable(thread, word)
            .filter(|&message| {
                update
                    .apply(self.memory.message(word, message).value)
                    .is_some()
            })
            .filter_map(|message| self.memory.taker(word, message))
            .collect()
    }

    /// The words that a step reads, or would read if it came later.
    fn reads(&self, thread: usize, op: Op) -> Few {
        let mut words: Few = self.read_by(thread, op).into_iter().collect();
        match op {
            Op::Await { .. } => words.extend_from_slice(&self.threads[thread].wait.watched),
            Op::Call { kernel, call } if call.read().is_some() => words.push(kernel),
            Op::ReplacePair { words: both, .. } => words.push(both[1]),
            _ => {}
        }
        words
    }

    /// The step that is being taken, by `thread`, could also come before
    /// `earlier`: makes sure that this is tried. It comes after `before`,
    /// `rivals` and `sources`.
    fn race(
        &mut self,
        earlier: usize,
        thread: usize,
        rivals: &[usize],
        sources: &[usize],
        before: &Clock,
    ) {
        let Step {
            thread: other,
            epoch,
            turn,
            ..
        } = self.steps[earlier];
        let mut clock = *before;
        for &between in rivals.iter().chain(sources) {
            if between != earlier {
                clock.join(&self.steps[between].clock);
            }
        }
        // Something in between has to be turned round first.
        if other == thread || clock.covers(other, epoch) {
            return;
        }
        // The steps that do not depend on `earlier`, and this one after them:
        // whoever may go first among them will do.
        let mut firsts = [u32::MAX; THREADS];
        let mut initials = Set::default();
        let mut consider = |thread: usize, epoch: u32, clock: &Clock| {
            if firsts[thread] == u32::MAX {
                if !(0..THREADS).any(|t| firsts[t] != u32::MAX && clock.covers(t, firsts[t])) {
                    initials.insert(thread);
                }
                firsts[thread] = epoch;
            }
        };
        for step in &self.steps[earlier + 1..] {
            if !step.clock.covers(other, epoch) {
                consider(step.thread, step.epoch, &step.clock);
            }
        }
        consider(thread, 0, &clock);
        let first = if initials.contains(thread) {
            thread
        } else {
            initials
                .iter()
                .next()
                .expect("the first step depends on none")
        };
        self.trail.want_one(turn, initials, first);
    }

    /// Does what the step does; `option` is one of its options.
    pub(super) fn perform(&mut self, thread: usize, op: Op, option: u16) -> Flow<Answer> {
        self.describe(thread, op, option);
        let step = (thread != SETUP).then_some(self.steps.len());
        let storing = |value, order| Store { value, order, step };
        let memory = &mut self.memory;
        let result = match op {
            Op::Load { word, order } => memory.load(thread, word, option, order).map(Answer::Value),
            Op::Store { word, value, order } => memory
                .store(thread, word, option, storing(value, order))
                .map(|()| Answer::Done),
            Op::Update {
                word,
                update,
                order,
                err,
            } => match update.apply(memory.message(word, option).value) {
                Some(new) => memory
                    .exchange(thread, word, option, storing(new, order))
                    .map(Answer::Value),
                None => memory.load(thread, word, option, err).map(Answer::Failed),
            },
            Op::Fence => {
                memory.fence(thread, Ordering::SeqCst);
                Ok(Answer::Done)
            }
            Op::StoreIf {
                word,
                value,
                guard,
                expected,
            } => match memory.test(thread, guard, option, Ordering::Acquire) {
                Err(what) => Err(what),
                Ok(found) if found != expected => Ok(Answer::Bool(false)),
                Ok(_) => {
                    let places = self.places(thread, word);
                    let place = self.trail.pick(&places, &places);
                    self.memory
                        .store_tested(thread, word, place, storing(value, Ordering::Release))
                        .map(|()| Answer::Bool(true))
                }
            },
            Op::AddIf {
                word,
                delta,
                guard,
                expected,
            } => match memory.test(thread, guard, option, Ordering::Acquire) {
                Err(what) => Err(what),
                Ok(found) if found != expected => Ok(Answer::Bool(false)),
                Ok(_) => {
                    // Only additions change the word: there is one place.
                    let last = memory
                        .readable(thread, word)
                        .next()
                        .expect("a word has a value");
                    let sum = memory.message(word, last).value.wrapping_add(delta);
                    memory
                        .add_tested(thread, word, last, storing(sum, Ordering::Release))
                        .map(|()| Answer::Bool(true))
                }
            },
            Op::ReplacePair {
                words,
                before,
                after,
            } => {
                let stores = after.map(|value| storing(value, Ordering::AcqRel));
                let found = memory.replace_pair(thread, words, before, stores);
                found.map(Answer::Pair)
            }
            Op::Quiesce => {
                memory.quiesce(thread);
                Ok(Answer::Done)
            }
            Op::Await { word, .. } if option == STOP => {
                let looked = memory.touch(thread, word);
                let state = &mut self.threads[thread];
                if looked.is_ok() && state.wait.is_patient() {
                    state.whims = state.whims.saturating_sub(1);
                    return Continue(Answer::Done);
                }
                let certain = !state.wait.stops && !state.wait.stale;
                state.mode = Mode::Look(certain.then_some(state.wait.questions));
                state.looked = self.trail.here();
                looked.map(|()| Answer::Look)
            }
            Op::Await { word, order, .. } => {
                memory.load(thread, word, option, order).map(Answer::Value)
            }
            Op::Park { deadline } => {
                let state = &mut self.threads[thread];
                match option {
                    TIMEOUT => {
                        let deadline = deadline.expect("only who has a deadline times out");
                        state.now = state.now.max(deadline);
                        Ok(Answer::Bool(true))
                    }
                    SPURIOUS => {
                        state.spurious -= 1;
                        Ok(Answer::Bool(false))
                    }
                    token => memory
                        .exchange(thread, state.token, token, storing(0, Ordering::Acquire))
                        .map(|_| Answer::Bool(false)),
                }
            }
            Op::Unpark { thread: other } => {
                let token = self.threads[other].token;
                memory
                    .exchange(thread, token, option, storing(1, Ordering::Release))
                    .map(|_| Answer::Done)
            }
            Op::Call { kernel, call } => self.call(thread, kernel, call, option),
        };
        match result {
            Ok(answer) => Continue(answer),
            Err(what) => {
                let word = self.read_by(thread, op).or(self.written_by(thread, op));
                let name = word.map(|word| self.name(word)).unwrap_or_default();
                self.fail(format!("task {thread} uses {name}: {what}"))
            }
        }
    }
}
