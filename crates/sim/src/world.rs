//! The simulated machine as a world for the locks.

use std::{
    cell::{Cell, RefCell},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use lockyard_core::{
    Deadline, Event, Look, Ordering, PerCpu, Platform, Running, TaskId, TaskRecord, Woken, Word,
    keeper::Keeper,
};
use lockyard_fiber as fiber;

use crate::{
    agenda::TaskIndex,
    engine::{Engine, Kind, Spending, State},
    machine::Picos,
    records,
    timeline::{Micros, Value},
};

const MICRO: Picos = 1_000_000;

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
    /// The task whose code runs, also while it is being abandoned.
    static ME: Cell<TaskIndex> = const { Cell::new(0) };
}

/// The world of the simulated machine. Its tasks are those of
/// [`Scenario::simulate`](crate::Scenario::simulate), numbered from 1 on.
pub struct Sim;

/// A word of the simulated machine's memory. It lies where it does in this
/// process, so that words share lines as they would in a real one. Outside a
/// simulation an access is free.
pub struct SimWord(AtomicU32);

/// Puts a machine into place for the fibers of this thread.
pub(crate) fn install(mut engine: Engine) {
    records::install(&mut engine);
    ENGINE.with_borrow_mut(|slot| {
        assert!(slot.is_none(), "a simulation inside a simulation");
        *slot = Some(engine);
    });
}

/// Takes the machine away; accesses are free from then on.
pub(crate) fn uninstall() -> Engine {
    ENGINE.take().expect("installed before")
}

/// The task whose code runs from now on.
pub(crate) fn set_me(task: TaskIndex) {
    ME.set(task);
}

/// Asks the machine, if there is one.
pub(crate) fn ask<R>(question: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    ENGINE.with_borrow_mut(|engine| engine.as_mut().map(question))
}

/// Lets the probe look at the machine.
pub(crate) fn peek<R>(probe: impl FnOnce() -> R) -> R {
    let peeks = |peeks| ask(|engine| engine.peeks = peeks);
    peeks(true);
    let found = probe();
    peeks(false);
    found
}

/// Names an object, and its words in the order of their addresses, in timelines
/// and failures. A word without a name gets a number.
pub fn name<T: ?Sized>(object: &T, name: &'static str, words: &'static [&'static str]) {
    ask(|engine| (engine.names).object(address(object), size_of_val(object), name, words));
}

/// Says in the timeline what the active task does.
pub fn note(text: &'static str) {
    line(|_| text.to_owned());
}

/// Writes a line of the timeline about the active task, if there is one.
fn line(text: impl FnOnce(&mut Engine) -> String) {
    ask(|engine| engine.note(engine.active, text));
}

pub(crate) fn address<T: ?Sized>(object: &T) -> usize {
    std::ptr::from_ref(object).addr()
}

/// Does what takes time: `act` says whether that time has passed already.
pub(crate) fn spend(act: impl FnOnce(&mut Engine) -> bool) {
    if ask(act) == Some(false) {
        fiber::pause();
    }
}

/// The active task works for so many work units.
pub fn work(units: u32) {
    spend(|engine| {
        let alone = u64::from(units) * engine.costs.work_unit;
        alone == 0 || engine.work(alone)
    });
}

/// The machine's clock, in nanoseconds: what it shows when it has been read.
pub fn now_ns() -> u64 {
    spend(|engine| engine.advance(engine.now + engine.costs.clock, Spending::Compute));
    ask(|engine| engine.now / 1_000).unwrap_or(0)
}

impl SimWord {
    fn address(&self) -> usize {
        address(self)
    }

    /// Says in the timeline that it has this value.
    fn note_value(&self, head: &str, value: u32) {
        line(|engine| format!("{head}{} is {}", engine.word(self.address()), Value(value)));
    }

    /// A load without a line in the timeline, or a look at it.
    fn read(&self) -> u32 {
        spend(|engine| engine.access(self.address(), Kind::Load));
        self.0.load(Relaxed)
    }

    /// A read-modify-write.
    fn update(&self, change: impl FnOnce(&AtomicU32) -> u32) -> u32 {
        spend(|engine| engine.access(self.address(), Kind::Update));
        let before = change(&self.0);
        ask(|engine| engine.updated(self.address()));
        line(|engine| {
            let word = engine.word(self.address());
            match self.0.load(Relaxed) {
                after if after == before => format!("{word} stays {}", Value(before)),
                after => format!("{word} {} -> {}", Value(before), Value(after)),
            }
        });
        before
    }
}

impl Word for SimWord {
    const ZERO: Self = Self(AtomicU32::new(0));

    fn load(&self, _: Ordering) -> u32 {
        let looking = ask(|engine| {
            if engine.looking && !engine.peeks {
                engine.depends_on(self.address());
            }
            engine.looking || engine.peeks
        });
        if looking == Some(false) {
            let value = self.read();
            self.note_value("", value);
        }
        self.0.load(Relaxed)
    }

    fn store(&self, value: u32, _: Ordering) {
        self.0.store(value, Relaxed);
        line(|engine| format!("{} := {}", engine.word(self.address()), Value(value)));
        spend(|engine| engine.access(self.address(), Kind::Store));
    }

    fn swap(&self, value: u32, _: Ordering) -> u32 {
        self.update(|word| word.swap(value, Relaxed))
    }

    fn compare_exchange(&self, old: u32, new: u32, _: Ordering, _: Ordering) -> Result<u32, u32> {
        let found = self.update(|word| {
            let result = word.compare_exchange(old, new, Relaxed, Relaxed);
            result.unwrap_or_else(|found| found)
        });
        if found == old { Ok(found) } else { Err(found) }
    }

    fn fetch_add(&self, value: u32, _: Ordering) -> u32 {
        self.update(|word| word.fetch_add(value, Relaxed))
    }

    fn fetch_or(&self, bits: u32, _: Ordering) -> u32 {
        self.update(|word| word.fetch_or(bits, Relaxed))
    }

    fn fetch_and(&self, mask: u32, _: Ordering) -> u32 {
        self.update(|word| word.fetch_and(mask, Relaxed))
    }
}

pub(crate) fn index(task: TaskId) -> TaskIndex {
    task.number() as usize - 1
}

/// What the task that runs remembers of the lock; no, where locks are not reserved.
fn asks_keeper(lock: usize, what: impl FnOnce(&Keeper, usize) -> bool) -> bool {
    let says = |engine: &mut Engine| {
        let kept = engine.keeper(lock);
        kept.is_some_and(|(keeper, lock)| what(keeper, lock))
    };
    ask(says).unwrap_or(false)
}

impl Platform for Sim {
    type U32 = SimWord;

    /// A wait for an event ends with the event stream's period.
    const EVENT_SEES_RUNNING: bool = true;

    fn me() -> TaskId {
        TaskId::new(ME.get() as u32 + 1).expect("counted from 1")
    }

    fn task(task: TaskId) -> &'static TaskRecord<Self> {
        records::of(index(task))
    }

    fn each_task(show: impl FnMut(&'static TaskRecord<Self>)) {
        let tasks = ask(|engine| engine.tasks.len()).unwrap_or(0);
        let tasks = (1..=tasks as u32).filter_map(TaskId::new);
        tasks.map(Self::task).for_each(show);
    }

    fn each_reader(show: impl FnMut(&'static TaskRecord<Self>)) {
        let Some(readers) = records::readers() else {
            return Self::each_task(show);
        };
        let tasks = ask(|engine| engine.tasks.len()).unwrap_or(0);
        let listed = readers.each(tasks as u32 + 1).filter_map(TaskId::new);
        listed.map(Self::task).for_each(show);
    }

    fn lists_reader() {
        if let Some(readers) = records::readers() {
            readers.list(Self::me().number());
        }
    }

    fn running(task: TaskId) -> Running {
        match ask(|engine| engine.is_off(index(task))).flatten() {
            Some(true) => Running::No,
            Some(false) => Running::Yes,
            None => Running::Unknown,
        }
    }

    fn exists(_: TaskId) -> bool {
        true
    }

    fn took(lock: Option<usize>) {
        ask(|engine| {
            let now = engine.now / 1_000;
            match lock.and_then(|lock| engine.keeper(lock)) {
                Some((keeper, lock)) => keeper.takes(Some(lock), || now),
                None => engine.tasks[engine.active].keeper.takes(None, || now),
            }
        });
    }

    fn took_unkept() -> bool {
        let seen = ask(|engine| {
            engine.tasks[engine.active].keeper.takes_one() && engine.costs.user_space.is_some()
        });
        seen.unwrap_or(false)
    }

    fn sees(lock: usize) -> bool {
        ask(|engine| {
            let now = engine.now / 1_000;
            let keeper = engine.keeper(lock);
            keeper.is_some_and(|(keeper, lock)| keeper.sees(lock, || now))
        })
        .unwrap_or(false)
    }

    fn waits(lock: usize) {
        ask(|engine| engine.keeper(lock).map(|(keeper, lock)| keeper.waits(lock)));
    }

    fn waited(lock: usize) -> bool {
        asks_keeper(lock, Keeper::waited)
    }

    fn gives_up(lock: usize) {
        ask(|engine| {
            engine
                .keeper(lock)
                .map(|(keeper, lock)| keeper.gives_up(lock))
        });
    }

    fn keeps(lock: usize) -> bool {
        asks_keeper(lock, Keeper::keeps)
    }

    fn retook() {
        ask(|engine| engine.tasks[engine.active].keeper.retakes());
    }

    fn may_bias(worth: impl FnOnce() -> bool) -> bool {
        let may = ask(|engine| {
            engine.costs.user_space.is_some() && engine.tasks[engine.active].keeper.is_sampled()
        });
        may.unwrap_or(false) && worth()
    }

    fn may_inspect() -> bool {
        ask(|engine| {
            engine.costs.user_space.is_some() && engine.tasks[engine.active].keeper.is_due()
        })
        .unwrap_or(false)
    }

    fn name_of(lock: usize) -> usize {
        ask(|engine| engine.keeper(lock).map_or(0, |(_, name)| name)).unwrap_or(0)
    }

    fn pace(half_transfers: u32) -> Look {
        ask(|engine| {
            let now = engine.now;
            let transfer = engine.far_transfer();
            let task = &mut engine.tasks[engine.active];
            let look = task
                .pace
                .look(now, task.keeper.took(), half_transfers, transfer);
            engine.costs.user_space.map_or(Look::Poll, |_| look)
        })
        .unwrap_or(Look::Poll)
    }

    fn looks_seldom(_half_transfers: u32) -> bool {
        ask(|engine| {
            engine.costs.user_space.is_some() && engine.tasks[engine.active].pace.is_seldom()
        })
        .unwrap_or(false)
    }

    fn gain() -> Option<u32> {
        ask(|engine| {
            let pace = &engine.tasks[engine.active].pace;
            let mine = pace.gain(engine.far_transfer(), engine.fleet.cpus.len());
            engine.gain = mine.or(engine.gain);
            engine.gain
        })?
    }

    fn spin_begin() {
        ask(Engine::spin_begin);
    }

    fn need_resched() -> bool {
        ask(Engine::need_resched).unwrap_or(true)
    }

    fn spin_until(
        word: &SimWord,
        _: Ordering,
        look: Look,
        looks: u32,
        mut done: impl FnMut(u32) -> bool,
        mut stop: impl FnMut() -> bool,
    ) -> Option<u32> {
        ask(|engine| engine.spin_until(word.address(), look, looks));
        // What it has seen again and again is one line of the timeline.
        let mut shown = None;
        loop {
            let value = word.read();
            if done(value) {
                word.note_value("", value);
                return Some(value);
            }
            ask(|engine| engine.look(value))?;
            let stops = stop();
            if ask(|engine| engine.stops_looking(stops))? {
                word.note_value("stops spinning: ", value);
                return None;
            }
            if shown.replace(value) != Some(value) {
                word.note_value("spins while ", value);
            }
            fiber::pause();
        }
    }

    fn park(deadline: Option<Deadline>) -> Woken {
        let deadline = deadline.map(|Deadline(nanos)| nanos.saturating_mul(1_000));
        let token = |engine: &mut Engine| {
            let active = engine.active;
            std::mem::take(&mut engine.tasks[active].token)
        };
        if ask(token).unwrap_or(true) {
            note("does not park: it has been unparked");
            return Woken::Unparked;
        }
        records::rest();
        spend(|engine| {
            let active = engine.active;
            engine.tasks[active].parking = true;
            engine.advance(engine.now + engine.costs.park, Spending::Compute)
        });
        let woken = ask(|engine| {
            let active = engine.active;
            engine.tasks[active].parking = false;
            let woken = token(engine);
            engine.note(active, |_| match (woken, deadline) {
                (true, _) => "does not park: it has been unparked".into(),
                (false, None) => "parks".into(),
                (false, Some(at)) => format!("parks until {} us", Micros(at)),
            });
            if !woken {
                engine.sleep(deadline);
            }
            woken
        });
        if woken == Some(false) {
            fiber::pause();
        }
        match ask(|engine| engine.tasks[engine.active].timed_out) {
            Some(true) if woken == Some(false) => Woken::TimedOut,
            _ => Woken::Unparked,
        }
    }

    fn unpark(task: TaskId) {
        line(|_| format!("unparks task {}", task.number()));
        let task = index(task);
        let parked = |engine: &Engine| engine.tasks[task].state == State::Parked;
        spend(|engine| {
            let costs = &engine.costs;
            let cost = if parked(engine) {
                costs.unpark
            } else if engine.tasks[task].parking {
                costs.yields // a system call that finds nobody asleep
            } else {
                costs.locked
            };
            engine.advance(engine.now + cost, Spending::Compute)
        });
        ask(|engine| {
            if parked(engine) {
                engine.wake(task);
            } else {
                engine.tasks[task].token = true;
            }
        });
    }

    fn yield_to(_: TaskId) {
        note("lets others run");
        spend(Engine::yield_now);
    }

    /// A [`Platform::quiesce`] between the test and the store starts it over.
    fn store_if(word: &SimWord, value: u32, guard: &SimWord, expected: u32) -> bool {
        let before = ask(|engine| engine.quiesced);
        if guard.load(Ordering::Relaxed) != expected {
            return false;
        }
        // An instruction later.
        spend(|engine| engine.advance(engine.now + 1, Spending::Compute));
        let passed = ask(|engine| engine.quiesced) == before;
        if passed {
            word.store(value, Ordering::Release);
        } else {
            note("has to test again: a task quiesced");
        }
        passed
    }

    fn quiesce() {
        spend(|engine| engine.advance(engine.now + engine.costs.quiesce, Spending::Compute));
        ask(|engine| engine.quiesced += 1);
        note("has quiesced");
    }

    fn fence() {
        spend(|engine| engine.advance(engine.now + engine.costs.locked, Spending::Compute));
        note("fences");
    }

    fn swap_fenced(word: &Self::U32, value: u32, order: Ordering) -> u32 {
        word.swap(value, order)
    }

    fn compare_exchange_fenced(word: &Self::U32, old: u32, new: u32) -> bool {
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    fn after(nanos: u64) -> Deadline {
        let now = ask(|engine| engine.now / 1_000).unwrap_or(0);
        Deadline(now.saturating_add(nanos))
    }

    fn stamp() -> u32 {
        ask(|engine| (engine.now / MICRO) as u32).unwrap_or(0)
    }

    fn elapsed(stamp: u32, micros: u32) -> bool {
        ask(|engine| {
            let now = engine.now / MICRO;
            let passed = (now as u32).wrapping_sub(stamp) as i32;
            let left = i64::from(micros) + 1 - i64::from(passed);
            if left > 0 {
                engine.flips_at((now + left as u64) * MICRO);
            }
            left <= 0
        })
        .unwrap_or(true)
    }

    fn passed(deadline: Deadline) -> bool {
        ask(|engine| {
            let then = deadline.0.saturating_mul(1_000);
            if engine.now < then {
                engine.flips_at(then);
            }
            engine.now >= then
        })
        .unwrap_or(true)
    }

    fn event(event: Event) {
        ask(|engine| {
            let (active, now) = (engine.active, engine.now);
            if event == Event::SpinAcquired {
                let task = &mut engine.tasks[active];
                task.pace.acquired(now, task.keeper.took());
            }
            engine.events[event as usize] += 1;
            engine.note(active, |_| format!("({event:?})"));
        });
    }
}

/// A counter of a lock on the simulated machine.
pub struct SimCounter(OnceLock<Box<[Part]>>);

/// The part of a CPU, on a line of its own: that CPU alone writes to it.
#[repr(align(128))]
struct Part(SimWord);

impl SimCounter {
    /// The parts of as many CPUs as the machine has when it is first used.
    fn parts(&self) -> &[Part] {
        self.0.get_or_init(|| {
            let cpus = ask(|engine| engine.topology.cpus()).unwrap_or(1);
            (0..cpus).map(|_| Part(SimWord::ZERO)).collect()
        })
    }
}

impl PerCpu for Sim {
    type Counter = SimCounter;

    const ZERO: SimCounter = SimCounter(OnceLock::new());

    /// A [`Platform::quiesce`] between the test and the addition starts it over, and
    /// so does another CPU.
    fn add_if(counter: &SimCounter, delta: i64, guard: &SimWord, expected: u32) -> bool {
        let place = || ask(|engine| (engine.quiesced, engine.tasks[engine.active].cpu));
        let before = place();
        if guard.load(Ordering::Acquire) != expected {
            return false;
        }
        let parts = counter.parts();
        let part = &parts[before.map_or(0, |(_, cpu)| cpu) % parts.len()].0;
        let value = part.read();
        let passed = place() == before;
        if passed {
            part.store(value.wrapping_add(delta as u32), Ordering::Release);
        } else {
            note("has to test again: a task quiesced, or it was moved");
        }
        passed
    }

    fn sum(counter: &SimCounter) -> u64 {
        let parts = counter.0.get().map_or(&[][..], |parts| parts);
        let values = parts.iter().map(|part| part.0.load(Ordering::Acquire));
        u64::from(values.fold(0, u32::wrapping_add))
    }
}
