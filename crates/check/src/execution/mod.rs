//! One execution: the threads of a model, run along a trail.

mod kernel;
mod sleepers;
mod step;
mod wait;

use std::{
    mem,
    ops::ControlFlow::{self, Break, Continue},
};

use lockyard_core::Look;

use crate::{
    fiber::{Fiber, Stop},
    memory::{Clock, Memory, THREADS},
    op::{Answer, Op, Question, Request},
    timeline::Timeline,
    trail::{Set, Situation, Trail},
};
use kernel::Kernel;
use step::{GONE, SPURIOUS, STOP, TIMEOUT};
use wait::Wait;

/// The thread that sets the model up, and looks at it afterwards.
const SETUP: usize = 0;

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
    pub(crate) look: Look,
    /// Whether all tasks are always running.
    pub(crate) runs: bool,
    /// Locks are kept by who releases them.
    pub(crate) keeps: bool,
    pub(crate) biases: bool,
    /// Neither need be so.
    pub(crate) fickle: bool,
    pub(crate) rests: bool,
    pub(crate) inspects: bool,
    pub(crate) pairs: bool,
}

/// Why an execution ended early.
pub(crate) enum Halt {
    /// Something is wrong.
    Failed(String),
    /// Whatever follows is explored elsewhere.
    Redundant,
}

type Flow<T = ()> = ControlFlow<Halt, T>;

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
    /// The level that it lends in the kernel.
    level: u32,
    /// The words of the kernel that it has.
    held: u32,
    /// Whether it is one of a fork's child.
    in_child: bool,
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
    /// With the two words.
    pairs: Vec<(usize, [usize; 2])>,
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
    kernel: Kernel,
    /// Whether the process has forked, and this is its child.
    forked: bool,
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
            kernel: Kernel::default(),
            forked: false,
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
            Break(halt) => {
                if matches!(halt, Halt::Failed(_)) {
                    self.leave_threads();
                }
                Err(halt)
            }
        }
    }

    /// Lets the threads be where they are: one that unwinds may come to a destructor that
    /// waits, which ends the process, and with it what there is to say of the failure.
    fn leave_threads(&mut self) {
        self.threads
            .drain(..)
            .for_each(|thread| mem::forget(thread.fiber));
    }

    fn run_all(&mut self, setup: impl FnOnce() + 'static) -> Flow {
        self.spawn(setup, false)?;
        self.talk(SETUP, Answer::Done)?;
        let count = self.threads.len();
        for thread in 1..count {
            if !self.threads[thread].in_child {
                self.talk(thread, Answer::Done)?;
            }
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

    fn spawn(&mut self, body: impl FnOnce() + 'static, in_child: bool) -> Flow {
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
            level: 0,
            held: 0,
            in_child,
            clock: Clock::default(),
        });
        Continue(())
    }

    /// Whether the process is still to fork, without this thread.
    fn is_left_behind(&self, thread: usize) -> bool {
        let forks = !self.forked && self.threads.iter().any(|state| state.in_child);
        forks && !self.threads[thread].in_child
    }

    /// If the process is to fork, starts the threads of its child, which have a copy of the
    /// memory as the others have left it.
    fn fork(&mut self) -> Flow {
        let count = self.threads.len();
        let (child, parent): (Vec<_>, Vec<_>) =
            (SETUP..count).partition(|&thread| self.threads[thread].in_child);
        if self.forked || child.is_empty() {
            return Continue(());
        }
        self.forked = true;
        for &thread in &child {
            for &other in &parent {
                self.memory.join(thread, other);
            }
            for step in &self.steps {
                self.threads[thread].clock.join(&step.clock);
            }
        }
        for thread in child {
            self.talk(thread, Answer::Done)?;
        }
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
            TIMEOUT => "timed out".to_owned(),
            GONE => "is left behind by a fork".to_owned(),
            SPURIOUS => "park returned for no reason".to_owned(),
            message => timeline.step(memory, op, message),
        });
    }

    /// Whether any thread has a step to take.
    fn is_waiting(&self) -> bool {
        self.threads.iter().any(|state| state.pending.is_some())
    }

    fn next_turn(&mut self) -> Flow<Option<usize>> {
        if !self.is_waiting() {
            self.fork()?;
        }
        if !self.is_waiting() {
            return Continue(None);
        }
        if self.trail.is_known() {
            return Continue(Some(self.trail.known_turn()));
        }
        let asleep = self.trail.asleep();
        let (mut enabled, mut open) = (Set::default(), Set::default());
        let mut harmless = None;
        for (thread, state) in self.threads.iter().enumerate() {
            let Some(op) = state.pending else { continue };
            if self.is_enabled(thread, op) || self.is_left_behind(thread) {
                enabled.insert(thread);
            }
            if self.is_open(thread, op, asleep[thread]) {
                open.insert(thread);
                if matches!(op, Op::Store { .. }) {
                    harmless = harmless.or(Some(thread));
                }
            }
        }
        // Those who only look so often may give up now.
        for (thread, state) in self.threads.iter().enumerate() {
            if state.pending.is_some() && self.may_give_up(thread) {
                enabled.insert(thread);
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
                Some(Op::Call { .. }) => format!(" task {thread} waits in the kernel;"),
                _ => continue,
            };
        }
        text += " nobody else is left";
        text
    }

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
                    if let Op::Await { word, limited, .. } = op {
                        self.threads[thread].wait.limited = limited;
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
        if matches!(op, Op::Await { .. } | Op::Park { .. } | Op::Call { .. }) {
            return self.fail("a model must not wait before its threads run, nor afterwards");
        }
        let options = self.options(SETUP, op);
        let usual = options.first().expect("a step has an outcome");
        self.perform(SETUP, op, *usual)
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
            Request::WordAt(address) => match self.memory.word_at(address) {
                Some(word) => Answer::Value(word as u32),
                None => Answer::Done,
            },
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
            Request::Level(level) => {
                self.threads[thread].level = level;
                Answer::Done
            }
            Request::Holds(more) => {
                let held = &mut self.threads[thread].held;
                *held = if more { *held + 1 } else { *held - 1 };
                Answer::Done
            }
            Request::Urgent { or_owns } => {
                let state = &self.threads[thread];
                Answer::Bool(state.level > 0 || or_owns && state.held > 0)
            }
            Request::IsOff => {
                let whim = Question::Whim("finds a task off its CPU");
                Answer::Bool(!self.limits.runs && self.decide(thread, whim))
            }
            Request::Pace => Answer::Pace(self.limits.look),
            Request::Keeps => Answer::Bool(self.limits.keeps && self.is_constant(thread)),
            Request::Biases => Answer::Bool(self.limits.biases && self.is_constant(thread)),
            Request::Rests => Answer::Bool(self.limits.rests),
            Request::Inspects => Answer::Bool(self.limits.inspects),
            Request::Pairs => Answer::Bool(self.limits.pairs),
            Request::Waited => Answer::Bool(self.limits.pairs && self.is_constant(thread)),
            Request::Tasks => Answer::Value(self.threads.len() as u32 - 1),
            Request::Now => Answer::Time(self.threads[thread].now),
            Request::IsFork => Answer::Bool(self.forked),
            Request::Exists(other) => Answer::Bool(!self.forked || self.threads[other].in_child),
            Request::Spawn { body, in_child } => {
                if thread != SETUP || !self.steps.is_empty() {
                    return self.fail("threads are spawned by the model's setup");
                }
                self.spawn(body, in_child)?;
                Answer::Done
            }
            Request::Afterwards(body) => {
                self.afterwards = Some(body);
                Answer::Done
            }
        })
    }

    /// Whether the thread thinks of a lock as the model says.
    fn is_constant(&mut self, thread: usize) -> bool {
        let whim = Question::Whim("thinks otherwise of a lock");
        !(self.limits.fickle && self.decide(thread, whim))
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
