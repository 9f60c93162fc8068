//! One execution: the threads of a model, run along a trail.

use std::ops::ControlFlow::{self, Break, Continue};

use crate::{
    fiber::{Fiber, Stop},
    memory::{Clock, Memory, Ordering, THREADS},
    op::{Answer, Op, Question, Request},
    timeline::Timeline,
    trail::{Set, Situation, Trail},
};

/// The thread that sets the model up, and looks at it afterwards.
const SETUP: usize = 0;

// Options of a step that are no message.
const STOP: u16 = u16::MAX;
const TIMEOUT: u16 = u16::MAX - 1;
const SPURIOUS: u16 = u16::MAX - 2;
const FIRST_SPECIAL: u16 = SPURIOUS;

/// What an execution may do.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Rare things that a thread may meet.
    pub(crate) whims: u32,
    /// Spurious returns from parking that a thread may meet.
    pub(crate) spurious: u32,
    /// Steps.
    pub(crate) steps: usize,
    /// Whether spinners poll.
    pub(crate) polls: bool,
    /// Whether all tasks are always running.
    pub(crate) runs: bool,
}

/// Why an execution ended early.
pub(crate) enum Halt {
    /// Something is wrong.
    Failed(String),
    /// Whatever follows is explored elsewhere.
    Redundant,
}

type Flow<T = ()> = ControlFlow<Halt, T>;

/// How a waiting thread looks at the world.
#[derive(Default)]
struct Wait {
    /// What the thread said of each value.
    judged: Vec<(u32, bool)>,
    /// The words that its stop condition reads.
    watched: Vec<usize>,
    /// Whether it holds, when nothing rare happens and all loads read what is
    /// newest.
    stops: bool,
    /// How many rare things could happen in it.
    questions: u32,
    /// Whether a load in it could read something older.
    stale: bool,
    /// Whether it holds after so many looks, and for no other reason.
    patient: bool,
}

impl Wait {
    fn accepts(&self, value: u32) -> bool {
        self.judged.contains(&(value, true))
    }

    /// Whether the wait may well end without its value.
    fn may_stop(&self, whims: u32) -> bool {
        self.stops || self.questions > 0 || self.patient && whims > 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Normal,
    /// The stop condition is tried out: nothing it does has an effect.
    Peek,
    /// The stop condition is evaluated, and should hold: so many more questions
    /// will come, of which one must be answered with the rare thing.
    Look(Option<u32>),
}

struct Thread {
    fiber: Fiber,
    pending: Option<Op>,
    wait: Wait,
    mode: Mode,
    /// The turn at which it evaluated its stop condition.
    looked: usize,
    token: usize,
    whims: u32,
    spurious: u32,
    /// What it knows of the time.
    now: u64,
    /// The steps that come before its next, by program order and reads-from.
    clock: Clock,
}

struct Step {
    thread: usize,
    epoch: u32,
    clock: Clock,
    turn: usize,
}

/// The steps whose order matters although they share no word.
#[derive(Default)]
struct Order {
    fences: Vec<usize>,
    quiesces: Vec<usize>,
    conditional: Vec<usize>,
}

/// An execution under way.
pub(crate) struct Execution<'a> {
    trail: &'a mut Trail,
    limits: Limits,
    memory: Memory,
    threads: Vec<Thread>,
    steps: Vec<Step>,
    /// For each word the steps that read it.
    readers: Vec<Vec<usize>>,
    order: Order,
    afterwards: Option<Box<dyn FnOnce()>>,
    marks: &'a mut [u64],
    timeline: Option<&'a mut Timeline>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(
        trail: &'a mut Trail,
        limits: Limits,
        marks: &'a mut [u64],
        timeline: Option<&'a mut Timeline>,
    ) -> Self {
        Self {
            trail,
            limits,
            memory: Memory::new(),
            threads: Vec::with_capacity(THREADS),
            steps: Vec::with_capacity(256),
            readers: Vec::with_capacity(64),
            order: Order::default(),
            afterwards: None,
            marks,
            timeline,
        }
    }

    /// Runs the model to its end; returns the number of steps.
    pub(crate) fn run(&mut self, setup: impl FnOnce() + 'static) -> Result<usize, Halt> {
        let flow = self.run_all(setup);
        match flow {
            Continue(()) => Ok(self.steps.len()),
            Break(halt) => Err(halt),
        }
    }

    fn run_all(&mut self, setup: impl FnOnce() + 'static) -> Flow {
        self.spawn(setup)?;
        self.talk(SETUP, Answer::Done)?;
        let count = self.threads.len();
        for thread in 1..count {
            self.talk(thread, Answer::Done)?;
        }
        while let Some(thread) = self.next_turn()? {
            self.step(thread)?;
        }
        if let Some(last) = self.afterwards.take() {
            for thread in 1..count {
                self.memory.join(SETUP, thread);
            }
            self.threads[SETUP].fiber = Fiber::new(last);
            self.talk(SETUP, Answer::Done)?;
        }
        Continue(())
    }

    fn fail<T>(&self, what: impl Into<String>) -> Flow<T> {
        Break(Halt::Failed(what.into()))
    }

    fn spawn(&mut self, body: impl FnOnce() + 'static) -> Flow {
        let thread = self.threads.len();
        if thread == THREADS {
            return self.fail(format!("a model has at most {} threads", THREADS - 1));
        }
        let token = self.new_word(Timeline::token(thread));
        self.memory.fork(SETUP, thread);
        self.threads.push(Thread {
            fiber: Fiber::new(body),
            pending: None,
            wait: Wait::default(),
            mode: Mode::Normal,
            looked: 0,
            token,
            whims: self.limits.whims,
            spurious: self.limits.spurious,
            now: 0,
            clock: Clock::default(),
        });
        Continue(())
    }

    fn new_word(&mut self, address: usize) -> usize {
        self.readers.push(Vec::new());
        self.memory.word(address)
    }

    fn note(&mut self, thread: usize, text: impl FnOnce(&Timeline, &Memory) -> String) {
        if let Some(timeline) = &mut self.timeline {
            let text = text(timeline, &self.memory);
            timeline.push(thread, text);
        }
    }

    /// What to call the word; its number when no timeline is drawn.
    fn name(&self, word: usize) -> String {
        self.timeline.as_ref().map_or_else(
            || format!("word {word}"),
            |timeline| timeline.word(&self.memory, word),
        )
    }

    fn describe(&mut self, thread: usize, op: Op, option: u16) {
        self.note(thread, |timeline, memory| match option {
            STOP => "looks whether to stop spinning".to_owned(),
            TIMEOUT => "park timed out".to_owned(),
            SPURIOUS => "park returned for no reason".to_owned(),
            message => timeline.step(memory, op, message),
        });
    }

    // ---- whose turn ----

    fn next_turn(&mut self) -> Flow<Option<usize>> {
        if self.trail.is_known() {
            return Continue(Some(self.trail.known_turn()));
        }
        let asleep = self.trail.asleep();
        let (mut waiting, mut enabled, mut open) = (false, Set::default(), Set::default());
        let mut harmless = None;
        for (thread, state) in self.threads.iter().enumerate() {
            let Some(op) = state.pending else { continue };
            waiting = true;
            if self.is_enabled(thread, op) {
                enabled.insert(thread);
            }
            if self.is_open(thread, op, asleep[thread]) {
                open.insert(thread);
                if matches!(op, Op::Store { .. }) {
                    harmless = harmless.or(Some(thread));
                }
            }
        }
        if !waiting {
            return Continue(None);
        }
        if enabled.is_empty() {
            // Those who only look so often give up now.
            for (thread, state) in self.threads.iter().enumerate() {
                if state.pending.is_some() && state.wait.patient {
                    enabled.insert(thread);
                }
            }
        }
        if enabled.is_empty() {
            return self.fail(self.stuck());
        }
        if self.steps.len() >= self.limits.steps {
            return self.fail(format!(
                "still running after {} steps: a livelock, or the limit is too low",
                self.steps.len()
            ));
        }
        let situation = Situation {
            serial: self.memory.serial(),
            enabled,
            open,
            last: self.steps.last().map(|step| step.thread),
            harmless,
        };
        match self.trail.turn(&situation) {
            Some(thread) => Continue(Some(thread)),
            None => Break(Halt::Redundant),
        }
    }

    fn stuck(&self) -> String {
        let mut text = "a lost wake-up or a deadlock:".to_owned();
        for (thread, state) in self.threads.iter().enumerate() {
            text += &match state.pending {
                Some(Op::Park { .. }) => format!(" task {thread} is parked;"),
                Some(Op::Await { .. }) => format!(" task {thread} spins;"),
                _ => continue,
            };
        }
        text += " nobody else is left";
        text
    }

    /// Whether the thread can go on.
    fn is_enabled(&self, thread: usize, op: Op) -> bool {
        let state = &self.threads[thread];
        match op {
            Op::Await { word, .. } => {
                state.wait.may_stop(state.whims) || self.accepted(thread, word).next().is_some()
            }
            Op::Park { .. } => self.options(thread, op).next().is_some(),
            _ => true,
        }
    }

    /// Whether it would find anything new, when messages are new from
    /// `asleep` on.
    fn is_open(&self, thread: usize, op: Op, asleep: u32) -> bool {
        self.options(thread, op)
            .any(|option| self.is_new(thread, op, option, asleep))
    }

    fn is_new(&self, thread: usize, op: Op, option: u16, asleep: u32) -> bool {
        if asleep == 0 {
            return true;
        }
        match op {
            Op::Store { .. } => false,
            Op::Fence => self.memory.last_fence() >= asleep,
            Op::Quiesce => self.memory.last_conditional() >= asleep,
            Op::StoreIf { .. } if self.memory.last_quiesce() >= asleep => true,
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

    /// What the thread's step may come to: messages to read, or to store
    /// behind, the usual one first.
    fn options(&self, thread: usize, op: Op) -> Box<dyn Iterator<Item = u16> + '_> {
        let memory = &self.memory;
        let state = &self.threads[thread];
        match op {
            Op::Load { word, .. } => Box::new(memory.readable(thread, word)),
            Op::Store { word, .. } => Box::new(
                memory
                    .readable(thread, word)
                    .filter(move |&m| memory.is_open(word, m)),
            ),
            Op::Update { word, update, .. } => {
                Box::new(memory.readable(thread, word).filter(move |&m| {
                    update.apply(memory.message(word, m).value).is_none() || memory.is_open(word, m)
                }))
            }
            Op::Unpark { thread: other } => {
                let token = self.threads[other].token;
                Box::new(
                    memory
                        .readable(thread, token)
                        .filter(move |&m| memory.is_open(token, m)),
                )
            }
            Op::StoreIf { guard, .. } => Box::new(memory.testable(thread, guard)),
            Op::Fence | Op::Quiesce => Box::new(std::iter::once(0)),
            Op::Await { word, .. } => {
                let stop = state.wait.may_stop(state.whims)
                    || state.wait.stale
                    || state.wait.patient && self.is_quiet();
                Box::new(self.accepted(thread, word).chain(stop.then_some(STOP)))
            }
            Op::Park { deadline } => {
                let token = state.token;
                let given = memory.readable(thread, token).filter(move |&m| {
                    memory.message(token, m).value != 0 && memory.is_open(token, m)
                });
                let spurious = (state.spurious > 0).then_some(SPURIOUS);
                Box::new(given.chain(deadline.map(|_| TIMEOUT)).chain(spurious))
            }
        }
    }

    /// The messages that end the thread's wait.
    fn accepted(&self, thread: usize, word: usize) -> impl Iterator<Item = u16> {
        let wait = &self.threads[thread].wait;
        self.memory
            .readable(thread, word)
            .filter(move |&message| wait.accepts(self.memory.message(word, message).value))
    }

    /// Whether nobody can go on.
    fn is_quiet(&self) -> bool {
        self.threads
            .iter()
            .enumerate()
            .filter_map(|(thread, state)| Some((thread, state.pending?)))
            .all(|(thread, op)| !self.is_enabled(thread, op))
    }

    // ---- a step ----

    fn step(&mut self, thread: usize) -> Flow {
        let state = &mut self.threads[thread];
        let op = state.pending.take().expect("a turn has a step");
        let asleep = self.trail.asleep_here(thread);
        let options: Vec<u16> = self.options(thread, op).collect();
        let fresh = options
            .iter()
            .copied()
            .filter(|&option| self.is_new(thread, op, option, asleep));
        let fresh: Vec<u16> = fresh.collect();
        let option = self.trail.pick(&options, &fresh);
        let is_fresh = !self.trail.is_known();
        let reads = self.reads(thread, op);
        let source = self
            .read_by(thread, op)
            .filter(|_| option < FIRST_SPECIAL)
            .and_then(|word| self.memory.message(word, option).step);
        // Steps whose order matters although neither reads from the other.
        let rivals = match op {
            Op::Fence => &self.order.fences,
            Op::Quiesce => &self.order.conditional,
            Op::StoreIf { .. } => &self.order.quiesces,
            _ => const { &Vec::new() },
        }
        .clone();
        let takers = self.takers(thread, op);
        let writes = self.written_by(thread, op);
        let serial = writes.map(|word| self.memory.stores(word));
        let answer = self.perform(thread, op, option)?;
        let written = writes.filter(|&word| Some(self.memory.stores(word)) != serial);

        let before = self.threads[thread].clock;
        let mut clock = before;
        for &earlier in rivals.iter().chain(&source) {
            clock.join(&self.steps[earlier].clock);
        }
        if is_fresh && self.trail.is_reduced() {
            let readers = written.map_or(Vec::new(), |word| self.readers[word].clone());
            for earlier in rivals.iter().copied().chain(readers) {
                self.race(earlier, thread, &rivals, source, &before);
            }
            if written.is_none() {
                for earlier in takers {
                    self.race(earlier, thread, &[], None, &before);
                }
            }
        }
        let step = self.steps.len();
        for word in reads {
            self.readers[word].push(step);
        }
        match op {
            Op::Fence => self.order.fences.push(step),
            Op::Quiesce => self.order.quiesces.push(step),
            Op::StoreIf { .. } => self.order.conditional.push(step),
            _ => {}
        }
        let epoch = clock.tick(thread);
        self.threads[thread].clock = clock;
        self.steps.push(Step {
            thread,
            epoch,
            clock,
            turn: self.trail.here(),
        });
        if let Some(word) = written {
            self.spread(word)?;
        }
        self.talk(thread, answer)
    }

    /// The word that a step reads.
    fn read_by(&self, thread: usize, op: Op) -> Option<usize> {
        match op {
            Op::Load { word, .. } | Op::Update { word, .. } | Op::Await { word, .. } => Some(word),
            Op::StoreIf { guard, .. } => Some(guard),
            Op::Park { .. } => Some(self.threads[thread].token),
            Op::Unpark { thread } => Some(self.threads[thread].token),
            Op::Store { .. } | Op::Fence | Op::Quiesce => None,
        }
    }

    /// The word that a step may write.
    fn written_by(&self, thread: usize, op: Op) -> Option<usize> {
        match op {
            Op::Store { word, .. } | Op::Update { word, .. } | Op::StoreIf { word, .. } => {
                Some(word)
            }
            Op::Park { .. } | Op::Unpark { .. } => self.read_by(thread, op),
            Op::Load { .. } | Op::Await { .. } | Op::Fence | Op::Quiesce => None,
        }
    }

    /// The steps but for which a compare-exchange could have succeeded: they
    /// read what it expects, and only one can.
    fn takers(&self, thread: usize, op: Op) -> Vec<usize> {
        let Op::Update { word, update, .. } = op else {
            return Vec::new();
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
    fn reads(&self, thread: usize, op: Op) -> Vec<usize> {
        let mut words: Vec<usize> = self.read_by(thread, op).into_iter().collect();
        if matches!(op, Op::Await { .. }) {
            words.extend(&self.threads[thread].wait.watched);
        }
        words
    }

    /// The step that is being taken, by `thread`, could also come before
    /// `earlier`: makes sure that this is tried. It comes after `before`,
    /// `rivals` and `source`.
    fn race(
        &mut self,
        earlier: usize,
        thread: usize,
        rivals: &[usize],
        source: Option<usize>,
        before: &Clock,
    ) {
        let Step {
            thread: other,
            epoch,
            turn,
            ..
        } = self.steps[earlier];
        let mut clock = *before;
        for &between in rivals.iter().chain(&source) {
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
    fn perform(&mut self, thread: usize, op: Op, option: u16) -> Flow<Answer> {
        self.describe(thread, op, option);
        let step = (thread != SETUP).then_some(self.steps.len());
        let memory = &mut self.memory;
        let result = match op {
            Op::Load { word, order } => memory.load(thread, word, option, order).map(Answer::Value),
            Op::Store { word, value, order } => memory
                .store(thread, word, option, value, order, step)
                .map(|()| Answer::Done),
            Op::Update {
                word,
                update,
                order,
                err,
            } => match update.apply(memory.message(word, option).value) {
                Some(new) => memory
                    .exchange(thread, word, option, new, order, step)
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
            } => match memory.test(thread, guard, option) {
                Err(what) => Err(what),
                Ok(found) if found != expected => Ok(Answer::Bool(false)),
                Ok(_) => {
                    let places: Vec<u16> = memory
                        .readable(thread, word)
                        .filter(|&message| memory.is_open(word, message))
                        .collect();
                    let place = self.trail.pick(&places, &places);
                    memory
                        .store_tested(thread, word, place, value, step)
                        .map(|()| Answer::Bool(true))
                }
            },
            Op::Quiesce => {
                memory.quiesce(thread);
                Ok(Answer::Done)
            }
            Op::Await { .. } if option == STOP => {
                let state = &mut self.threads[thread];
                if state.wait.patient {
                    state.whims = state.whims.saturating_sub(1);
                }
                let certain = !state.wait.stops && !state.wait.stale;
                state.mode = Mode::Look(certain.then_some(state.wait.questions));
                state.looked = self.trail.here();
                Ok(Answer::Look)
            }
            Op::Await { word, order } => {
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
                        .exchange(thread, state.token, token, 0, Ordering::Acquire, step)
                        .map(|_| Answer::Bool(false)),
                }
            }
            Op::Unpark { thread: other } => {
                let token = self.threads[other].token;
                memory
                    .exchange(thread, token, option, 1, Ordering::Release, step)
                    .map(|_| Answer::Done)
            }
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

    /// Tells the waiting threads that the word was written.
    fn spread(&mut self, written: usize) -> Flow {
        for thread in 1..self.threads.len() {
            if let Some(Op::Await { word, .. }) = self.threads[thread].pending {
                if word == written {
                    self.judge(thread, word)?;
                }
                if self.threads[thread].wait.watched.contains(&written) {
                    self.peek(thread)?;
                }
            }
        }
        Continue(())
    }

    /// Asks the waiting thread which of the values it would accept.
    fn judge(&mut self, thread: usize, word: usize) -> Flow {
        loop {
            let wait = &self.threads[thread].wait;
            let unknown = self
                .memory
                .readable(thread, word)
                .map(|message| self.memory.message(word, message).value)
                .find(|&value| !wait.judged.iter().any(|&(known, _)| known == value));
            let Some(value) = unknown else {
                return Continue(());
            };
            let verdict = self.consult(thread, Answer::Judge(value))?;
            self.threads[thread].wait.judged.push((value, verdict));
        }
    }

    /// Asks the waiting thread whether its stop condition holds.
    fn peek(&mut self, thread: usize) -> Flow {
        let wait = &mut self.threads[thread].wait;
        wait.watched.clear();
        wait.questions = 0;
        wait.stale = false;
        let stops = self.consult(thread, Answer::Peek)?;
        let wait = &mut self.threads[thread].wait;
        wait.stops = stops;
        if !stops && wait.questions == 0 && wait.watched.is_empty() {
            let patient = self.consult(thread, Answer::Patience)?;
            self.threads[thread].wait.patient = patient;
        }
        Continue(())
    }

    fn consult(&mut self, thread: usize, question: Answer) -> Flow<bool> {
        self.threads[thread].mode = Mode::Peek;
        let mut answer = question;
        loop {
            answer = match self.threads[thread].fiber.resume(answer) {
                Stop::Asked(Request::Verdict(verdict)) => {
                    self.threads[thread].mode = Mode::Normal;
                    return Continue(verdict);
                }
                Stop::Asked(Request::Op(Op::Load { word, .. })) => {
                    let mut readable = self.memory.readable(thread, word);
                    let newest = readable.next().expect("a word has a value");
                    let wait = &mut self.threads[thread].wait;
                    wait.stale |= readable.next().is_some();
                    wait.watched.push(word);
                    Answer::Value(self.memory.message(word, newest).value)
                }
                Stop::Asked(Request::Op(_)) => {
                    return self.fail("a condition to wait for must only read");
                }
                Stop::Asked(request) => self.reply(thread, request)?,
                Stop::Finished => unreachable!("a condition returns to its wait"),
                Stop::Panicked(what) => return self.fail(what),
            };
        }
    }

    // ---- what is no step ----

    /// Lets the thread run to its next step.
    fn talk(&mut self, thread: usize, mut answer: Answer) -> Flow {
        loop {
            answer = match self.threads[thread].fiber.resume(answer) {
                Stop::Finished => return Continue(()),
                Stop::Panicked(what) => return self.fail(what),
                Stop::Asked(Request::Op(op)) if thread == SETUP => self.at_once(op)?,
                Stop::Asked(Request::Op(op)) => {
                    self.threads[thread].pending = Some(op);
                    self.threads[thread].wait = Wait::default();
                    if let Op::Await { word, .. } = op {
                        self.judge(thread, word)?;
                        self.peek(thread)?;
                    }
                    return Continue(());
                }
                Stop::Asked(request) => self.reply(thread, request)?,
            };
        }
    }

    /// A step before or after all others.
    fn at_once(&mut self, op: Op) -> Flow<Answer> {
        if matches!(op, Op::Await { .. } | Op::Park { .. }) {
            return self.fail("a model must not wait before its threads run, nor afterwards");
        }
        let usual = self
            .options(SETUP, op)
            .next()
            .expect("a step has an outcome");
        self.perform(SETUP, op, usual)
    }

    fn reply(&mut self, thread: usize, request: Request) -> Flow<Answer> {
        Continue(match request {
            Request::Op(_) => unreachable!("a step is not answered at once"),
            Request::Verdict(true) => {
                self.threads[thread].mode = Mode::Normal;
                Answer::Done
            }
            Request::Verdict(false) => {
                self.trail.want_all(self.threads[thread].looked);
                return Break(Halt::Redundant);
            }
            Request::Question(question) => Answer::Bool(self.decide(thread, question)),
            Request::Fence(order) => {
                self.note(thread, |_, _| format!("fence {order:?}"));
                self.memory.fence(thread, order);
                Answer::Done
            }
            Request::Word(address) => Answer::Value(self.new_word(address) as u32),
            Request::Cell => Answer::Value(self.memory.cell() as u32),
            Request::Access { cell, write } => {
                let verb = if write { "writes" } else { "reads" };
                self.note(thread, |_, _| format!("{verb} cell {cell}"));
                if let Err(other) = self.memory.access(thread, cell, write) {
                    return self.fail(format!(
                        "a data race: task {thread} {verb} cell {cell}, and nothing orders that \
                         after what task {other} did to it"
                    ));
                }
                Answer::Done
            }
            Request::Free { start, end } => {
                self.note(thread, |_, _| "frees memory".to_owned());
                if let Err((word, other)) = self.memory.free(thread, start, end) {
                    let name = self.name(word);
                    return self.fail(format!(
                        "task {thread} frees {name}, and nothing orders that after what task \
                         {other} did to it"
                    ));
                }
                Answer::Done
            }
            Request::Name { start, end, name } => {
                if let Some(timeline) = &mut self.timeline {
                    timeline.name(start, end, name);
                }
                Answer::Done
            }
            Request::History { address, values } => {
                values.borrow_mut().extend(self.memory.history(address));
                Answer::Done
            }
            Request::Whims(most) => {
                let whims = &mut self.threads[thread].whims;
                *whims = most.min(*whims);
                Answer::Done
            }
            Request::Mark(mark) => {
                if self.threads[thread].mode != Mode::Peek {
                    self.marks[mark] += 1;
                }
                Answer::Done
            }
            Request::Me => Answer::Value(thread as u32),
            Request::IsOff => {
                let whim = Question::Whim("finds a task off its CPU");
                Answer::Bool(!self.limits.runs && self.decide(thread, whim))
            }
            Request::Pace => Answer::Bool(self.limits.polls),
            Request::Now => Answer::Time(self.threads[thread].now),
            Request::Spawn(body) => {
                if thread != SETUP || !self.steps.is_empty() {
                    return self.fail("threads are spawned by the model's setup");
                }
                self.spawn(body)?;
                Answer::Done
            }
            Request::Afterwards(body) => {
                self.afterwards = Some(body);
                Answer::Done
            }
        })
    }

    fn decide(&mut self, thread: usize, question: Question) -> bool {
        let state = &mut self.threads[thread];
        let possible = match question {
            Question::Whim(_) => state.whims > 0,
            Question::Passed(moment) if state.now >= moment => return true,
            Question::Passed(_) => true,
        };
        if !possible || thread == SETUP {
            return false;
        }
        let yes = match &mut state.mode {
            Mode::Peek => {
                state.wait.questions += 1;
                return false;
            }
            Mode::Look(Some(0 | 1)) => true,
            mode => {
                if let Mode::Look(Some(left)) = mode {
                    *left -= 1;
                }
                self.trail.pick(&[0, 1], &[0, 1]) == 1
            }
        };
        if yes {
            let state = &mut self.threads[thread];
            if matches!(state.mode, Mode::Look(_)) {
                state.mode = Mode::Look(None);
            }
            match question {
                Question::Whim(_) => state.whims -= 1,
                Question::Passed(moment) => state.now = moment,
            }
            self.note(thread, |_, _| match question {
                Question::Whim(what) => what.to_owned(),
                Question::Passed(_) => "the deadline has passed".to_owned(),
            });
        }
        yes
    }
}
