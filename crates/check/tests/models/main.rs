//! Models of the locks, one file for each. Each model says how many executions
//! it took, and that it reached the rare paths it is for.

mod condvar;
mod gate;
mod guarded;
mod mutex;
mod osq;
mod percpu;
mod rwsem;
mod states;
mod wait_queue;

use lockyard_check::{Explorer, Report};
use lockyard_core::{Deadline, Event};

/// Far behind every nap.
const DEADLINE: Deadline = Deadline(1 << 60);

/// Explores a model to the end, says what that took, and makes sure that it
/// reached the paths it is for.
pub fn explore(
    name: &str,
    explorer: &Explorer,
    events: &[Event],
    model: impl Fn() + 'static,
) -> Report {
    let report = explorer
        .check(model)
        .unwrap_or_else(|failure| panic!("{name}: {failure}"));
    println!("{name}: {report}");
    for &event in events {
        assert!(report.count(event) > 0, "{name} did not reach {event:?}");
    }
    report
}
