//! Random programs: a few tasks that each do some of what there is to do with a lock, explored
//! in some random way. They find what nobody thought of a model for; what they do find gets a
//! model of its own.

pub mod last;

use std::{ops::Range, rc::Rc};

use fastrand::Rng;
use lockyard_check::{Explorer, Wakes, afterwards, limit_whims, spawn};
use lockyard_core::Event;

/// Executions of each program.
const EXECUTIONS: u64 = 150;

/// The most tasks of a program.
pub const TASKS: u32 = 4;

/// What a task does once with what a program shares.
pub type Deed<S> = Rc<dyn Fn(&S)>;

/// Nothing.
fn no_deed<S>(_: &mut Rng, _: u32) -> Deed<S> {
    Rc::new(|_| ())
}

/// How the executions of a program are chosen, and what may happen in them.
fn any_explorer(random: &mut Rng) -> Explorer {
    let mut explorer = Explorer::new().whims(random.u32(..=4));
    let ways: [fn(Explorer) -> Explorer; 7] = [
        Explorer::biasing,
        Explorer::keeping,
        Explorer::polling,
        Explorer::seldom,
        Explorer::pairing,
        Explorer::always_running,
        |explorer| explorer.wakes(Wakes::Permissive(1)),
    ];
    for way in ways {
        if random.bool() {
            explorer = way(explorer);
        }
    }
    match random.u32(..6) {
        0 => explorer.random(random.u64(..), EXECUTIONS),
        changes => explorer.pct(random.u64(..), changes, EXECUTIONS),
    }
}

/// Explores the programs of these numbers: two to four tasks, of one to four deeds, which
/// `any_deed` chooses, told the task's number from 0 on. `at_end` looks at what they leave
/// behind.
///
/// # Panics
/// When one fails: with its number. When all together do not reach these paths.
pub fn explore<S: 'static>(
    name: &str,
    numbers: Range<u64>,
    events: &[Event],
    any_deed: impl Fn(&mut Rng, u32) -> Deed<S>,
    new: fn() -> Rc<S>,
    at_end: fn(&S),
) {
    let deeds = (any_deed, no_deed);
    explore_to_the_last(name, numbers, events, deeds, move |_| new(), at_end);
}

/// [`explore`], where each task does something as its last deed, which the second function
/// chooses. What they share is made for so many tasks.
pub fn explore_to_the_last<S: 'static>(
    name: &str,
    numbers: Range<u64>,
    events: &[Event],
    (any_deed, last_deed): (
        impl Fn(&mut Rng, u32) -> Deed<S>,
        impl Fn(&mut Rng, u32) -> Deed<S>,
    ),
    new: impl Fn(u32) -> Rc<S> + Copy + 'static,
    at_end: fn(&S),
) {
    let (programs, mut executions) = (numbers.clone().count(), 0);
    let mut unreached = events.to_vec();
    for number in numbers {
        let mut random = Rng::with_seed(number);
        let explorer = any_explorer(&mut random);
        let tasks: Vec<(u32, Vec<Deed<S>>)> = (0..random.u32(2..=TASKS))
            .map(|task| {
                let deeds = 0..random.u32(1..=4);
                let mut deeds: Vec<_> = deeds.map(|_| any_deed(&mut random, task)).collect();
                deeds.push(last_deed(&mut random, task));
                (random.u32(..=4), deeds)
            })
            .collect();
        let model = move || {
            let shared = new(tasks.len() as u32);
            for (most, deeds) in tasks.clone() {
                let shared = Rc::clone(&shared);
                spawn(move || {
                    limit_whims(most);
                    deeds.iter().for_each(|deed| deed(&shared));
                });
            }
            afterwards(move || at_end(&shared));
        };
        let report = explorer
            .check(model)
            .unwrap_or_else(|failure| panic!("{name}, program {number}: {failure}"));
        executions += report.executions;
        unreached.retain(|&event| report.count(event) == 0);
    }
    assert!(unreached.is_empty(), "{name} did not reach {unreached:?}");
    println!("{name}: {programs} programs, {executions} executions");
}
