//! Models of the locks, one file for each. Each model says how many executions
//! it took, and that it reached the rare paths it is for.

mod announced;
mod condvar;
mod fork;
mod futex;
mod gate;
mod guarded;
mod mixed;
mod mutex;
mod osq;
mod percpu;
mod pimutex;
mod programs;
mod roster;
mod rtmutex;
mod rwsem;
mod states;
mod wait_queue;

use lockyard_check::{Explorer, Report};
use lockyard_core::{Deadline, Event};

/// The executions of a model that is not to be explored to its end: the faults that
/// are known show in half of them.
const QUICK: u64 = 20_000;

/// Those of a model that reaches what it is for late.
const LATE: u64 = 40_000;

/// Far behind every nap.
const DEADLINE: Deadline = Deadline(1 << 60);

/// Explores a model, to the end if the environment has `MODELS_IN_FULL`, for as many executions as
/// `MODELS_AT_MOST` says if it has that, says what that took, and makes sure that it reached the paths it is for.
pub fn explore(
    name: &str,
    explorer: &Explorer,
    events: &[Event],
    model: impl Fn() + 'static,
) -> Report {
    explore_to(QUICK, name, explorer, events, model)
}

/// [`explore`], with so many executions at most.
pub fn explore_to(
    quick: u64,
    name: &str,
    explorer: &Explorer,
    events: &[Event],
    model: impl Fn() + 'static,
) -> Report {
    let limit = std::env::var("MODELS_AT_MOST").map(|limit| limit.parse().expect("a number"));
    let most = match std::env::var_os("MODELS_IN_FULL") {
        Some(_) => u64::MAX,
        None => quick.min(limit.unwrap_or(quick)),
    };
    let report = explorer
        .at_most(most)
        .check(model)
        .unwrap_or_else(|failure| panic!("{name}: {failure}"));
    println!("{name}: {report}");
    for &event in events {
        assert!(report.count(event) > 0, "{name} did not reach {event:?}");
    }
    report
}
