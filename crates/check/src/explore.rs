//! The explorer: runs a model again and again, each time another way.

use std::{
    fmt,
    rc::Rc,
    time::{Duration, Instant},
};

use lockyard_core::{Event, Look};

use crate::{
    execution::{Execution, Halt, Limits},
    timeline::Timeline,
    trail::{Strategy, Trail},
    word::begin_execution,
};

/// Which wake-ups a parked thread can count on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wakes {
    /// Exactly those that it is given: a lost one is found as a deadlock.
    Exact,
    /// Those, and this many for no reason, for each thread.
    Permissive(u32),
}

/// Explores the executions of a model.
///
/// A model is a closure that builds what the threads share and [`spawn`]s the
/// threads. It is called once for each execution, so it must do the same each
/// time, apart from what it asks of the checker. Threads are coroutines of one
/// thread of the operating system: what they share needs no synchronisation of
/// its own, and what they do outside words and cells costs no execution.
///
/// Destructors must not use words, cells or the platform: executions that lead
/// to nothing new are abandoned, and then they run.
///
/// [`spawn`]: crate::spawn
#[derive(Clone, Copy)]
pub struct Explorer {
    strategy: Strategy,
    seed: u64,
    executions: u64,
    limits: Limits,
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new()
    }
}

impl Explorer {
    /// An explorer of all executions, with exact wake-ups and no rare things.
    pub const fn new() -> Self {
        Self {
            strategy: Strategy::Reduced,
            seed: 0,
            executions: u64::MAX,
            limits: Limits {
                whims: 0,
                spurious: 0,
                steps: 10_000,
                look: Look::Event,
                runs: false,
                keeps: false,
                fickle: false,
                biases: false,
                rests: false,
                inspects: false,
                pairs: false,
            },
        }
    }

    /// Explores only executions in which a thread that could go on is stopped
    /// for another at most so many times; `None` explores all. Within a bound
    /// nothing is reduced: executions are the same up to reordering.
    #[must_use]
    pub const fn preemptions(mut self, most: Option<u32>) -> Self {
        self.strategy = match most {
            Some(most) => Strategy::Bounded(most),
            None => Strategy::Reduced,
        };
        self
    }

    /// Chooses at random.
    #[must_use]
    pub const fn random(mut self, seed: u64, executions: u64) -> Self {
        self.strategy = Strategy::Random;
        self.seed = seed;
        self.executions(executions)
    }

    /// Runs the thread of the highest priority; the priorities are random, and
    /// change at `changes` random moments of each execution. One that sleeps in vain
    /// again and again goes behind all others.
    #[must_use]
    pub const fn pct(mut self, seed: u64, changes: u32, executions: u64) -> Self {
        self.strategy = Strategy::Priorities(changes);
        self.seed = seed;
        self.executions(executions)
    }

    /// Stops after so many executions, abandoned ones included.
    #[must_use]
    pub const fn executions(mut self, most: u64) -> Self {
        self.executions = most;
        self
    }

    /// Stops after so many, if it would not sooner.
    #[must_use]
    pub const fn at_most(self, most: u64) -> Self {
        if most < self.executions {
            self.executions(most)
        } else {
            self
        }
    }

    /// What wakes a parked thread.
    #[must_use]
    pub const fn wakes(mut self, wakes: Wakes) -> Self {
        self.limits.spurious = match wakes {
            Wakes::Exact => 0,
            Wakes::Permissive(most) => most,
        };
        self
    }

    /// How many rare things each thread may meet in an execution: an owner
    /// that is off its CPU, a spinner that should stop, a time that has
    /// elapsed. A deadline may pass without being counted.
    #[must_use]
    pub const fn whims(mut self, most: u32) -> Self {
        self.limits.whims = most;
        self
    }

    /// Takes an execution with more steps for a livelock.
    #[must_use]
    pub const fn steps(mut self, most: usize) -> Self {
        self.limits.steps = most;
        self
    }

    /// No task is ever off its CPU: for models in which a spinner that should
    /// stop for that reason does what one does that is to be rescheduled.
    #[must_use]
    pub const fn always_running(mut self) -> Self {
        self.limits.runs = true;
        self
    }

    /// Tells spinners that they had best poll, and not wait for an event.
    #[must_use]
    pub const fn polling(mut self) -> Self {
        self.limits.look = Look::Poll;
        self
    }

    /// Tells spinners that they had best look seldom.
    #[must_use]
    pub const fn seldom(mut self) -> Self {
        self.limits.look = Look::Every(1_000);
        self
    }

    /// Has every unlock that may do so keep its lock.
    #[must_use]
    pub const fn keeping(mut self) -> Self {
        self.limits.keeps = true;
        self
    }

    /// Has every reader that leaves a lock find that it is read again and again.
    #[must_use]
    pub const fn biasing(mut self) -> Self {
        self.limits.biases = true;
        self
    }

    /// Lets a task think otherwise of a lock that it were to keep, to bias or to expect something of:
    /// that is a whim.
    #[must_use]
    pub const fn fickle(mut self) -> Self {
        self.limits.fickle = true;
        self
    }

    /// Has every task that parks leave the list of readers, unless it reads by a slot; and who
    /// looks for readers look at that list. In other models that shows all tasks.
    #[must_use]
    pub const fn resting(mut self) -> Self {
        self.limits.rests = true;
        self
    }

    /// Has every owner of a mutex look whether the first waiter gets to run.
    #[must_use]
    pub const fn inspecting(mut self) -> Self {
        self.limits.inspects = true;
        self
    }

    /// Lets tasks replace two words at once, and has them take a lock by what they expect there,
    /// as one that has waited for it lately.
    #[must_use]
    pub const fn pairing(mut self) -> Self {
        self.limits.pairs = true;
        self
    }

    /// Explores the model.
    ///
    /// # Errors
    /// The first execution that fails.
    pub fn check(&self, model: impl Fn() + 'static) -> Result<Report, Failure> {
        self.walk(Trail::new(self.strategy, self.seed), model)
    }

    /// Runs the one execution that a [`Failure`] was printed with, of the same
    /// model and with the same limits.
    ///
    /// # Errors
    /// What that execution fails with.
    ///
    /// # Panics
    /// When `choices` is no such string, or not one of this model.
    pub fn replay(&self, choices: &str, model: impl Fn() + 'static) -> Result<Report, Failure> {
        let trail = Trail::from_text(choices)
            .unwrap_or_else(|at| panic!("{choices:?} is no replay string: see byte {at}"));
        self.walk(trail, model)
    }

    fn walk(&self, mut trail: Trail, model: impl Fn() + 'static) -> Result<Report, Failure> {
        let start = Instant::now();
        let model = Rc::new(model);
        let mut report = Report {
            executions: 0,
            redundant: 0,
            truncated: false,
            longest: 0,
            elapsed: Duration::ZERO,
            events: [0; Event::ALL.len()],
        };
        loop {
            if report.executions + report.redundant == self.executions {
                report.truncated = true;
                break;
            }
            trail.shuffle();
            match self.run(&mut trail, &model, &mut report.events, None) {
                Ok(steps) => {
                    report.executions += 1;
                    report.longest = report.longest.max(steps);
                }
                Err(Halt::Redundant) => report.redundant += 1,
                Err(Halt::Failed(_)) => {
                    let executions = report.executions + report.redundant + 1;
                    return Err(self.explain(&mut trail, &model, executions));
                }
            }
            if !trail.advance() {
                break;
            }
        }
        report.elapsed = start.elapsed();
        Ok(report)
    }

    fn run(
        &self,
        trail: &mut Trail,
        model: &Rc<impl Fn() + 'static>,
        marks: &mut [u64],
        timeline: Option<&mut Timeline>,
    ) -> Result<usize, Halt> {
        begin_execution();
        let model = Rc::clone(model);
        Execution::new(trail, self.limits, marks, timeline).run(move || model())
    }

    /// Runs the failing execution again and notes what happens.
    fn explain(
        &self,
        trail: &mut Trail,
        model: &Rc<impl Fn() + 'static>,
        executions: u64,
    ) -> Failure {
        trail.rewind();
        let mut timeline = Timeline::default();
        let mut marks = [0; Event::ALL.len()];
        let what = match self.run(trail, model, &mut marks, Some(&mut timeline)) {
            Err(Halt::Failed(what)) => what,
            _ => "a failure that does not repeat: the model is not deterministic".to_owned(),
        };
        Failure {
            what,
            timeline: timeline.to_string(),
            replay: trail.to_text(),
            executions,
        }
    }
}

/// What was explored.
#[derive(Clone, Debug)]
pub struct Report {
    /// The executions, each different from the others.
    pub executions: u64,
    /// Executions that were abandoned because they led to nothing new.
    pub redundant: u64,
    /// Whether the limit on executions ended the exploration.
    pub truncated: bool,
    /// The most steps of an execution.
    pub longest: usize,
    /// The time it took.
    pub elapsed: Duration,
    events: [u64; Event::ALL.len()],
}

impl Report {
    /// How often the locks took a rare path, over all executions.
    pub fn count(&self, event: Event) -> u64 {
        self.events[event as usize]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} executions{}, {} abandoned, at most {} steps, {:.1} s",
            self.executions,
            if self.truncated { " (cut off)" } else { "" },
            self.redundant,
            self.longest,
            self.elapsed.as_secs_f64()
        )?;
        for event in Event::ALL {
            let count = self.count(event);
            if count > 0 {
                write!(f, ", {event:?} {count}")?;
            }
        }
        Ok(())
    }
}

/// An execution that failed.
#[derive(Clone)]
pub struct Failure {
    /// What is wrong.
    pub what: String,
    /// What happened, one line for each step, indented by task.
    pub timeline: String,
    /// The choices that lead there, for [`Explorer::replay`].
    pub replay: String,
    /// How many executions were explored, this one included.
    pub executions: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nin execution {}:\n{}replay: {}",
            self.what, self.executions, self.timeline, self.replay
        )
    }
}

// So that `unwrap` shows the timeline as it is.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
