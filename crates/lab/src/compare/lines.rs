//! How long a cache line takes from one CPU to another at the moment of a run.
//!
//! The host of a virtual machine moves its CPUs: on one, a line takes 27 ns for some seconds, and
//! 170 for others (`sure.jsonl` in benches/runs/mutex-2cpu-zen4). Rates of contended locks go by
//! that, so each run has it beside it.

use super::{Raw, summary::median};
use crate::{
    calibrate::threads::{self, Baton, each, pair},
    format,
    place::Place,
};

/// To and fro so often in a batch, and batches, of which the median counts.
const TIMES: u32 = 200;
const BATCHES: usize = 9;

/// Runs of which one is left out at either end, where it is said how they differ.
const PART: usize = 10;

/// By how much they do where the CPUs have moved.
const MOVED: f64 = 2.0;

/// The nanoseconds, one way, between the first two CPUs that this process may use. None in the
/// simulated world, and where there is but one.
pub fn transfer_ns(place: &Place) -> Option<f64> {
    let Place::Here = place else { return None };
    let cpus = threads::usable().ok()?;
    let &[here, there, ..] = &cpus[..] else {
        return None;
    };
    const HERE: u32 = 1;
    const THERE: u32 = 2;
    let baton = Baton::default();
    baton.hand(HERE);
    let batch = |_| {
        let both = each(TIMES, || {
            baton.wait(HERE);
            baton.hand(THERE);
        });
        both / 2.0
    };
    let asks = || (0..BATCHES).map(batch).collect();
    let answers = || {
        (0..BATCHES as u32 * TIMES).for_each(|_| {
            baton.wait(THERE);
            baton.hand(HERE);
        });
    };
    let (batches, ()) = pair((here, there), asks, answers);
    Some(median(batches))
}

/// In a sentence, what that was in these runs; nothing, where it was not measured.
pub fn text(raws: &[Raw]) -> String {
    let mut all: Vec<f64> = raws.iter().filter_map(|raw| raw.transfer_ns).collect();
    all.sort_by(f64::total_cmp);
    let Some(last) = all.len().checked_sub(1) else {
        return String::new();
    };
    let cut = all.len() / PART;
    let [least, most] = [cut, last - cut].map(|at| all[at]);
    let [low, middle, high] = [least, median(all), most].map(|ns| format::time(ns.round() as u64));
    let mut text = format!(
        "\nA cache line took {middle} from CPU to CPU, {low} to {high} without the extremes.\n"
    );
    if most > MOVED * least {
        text += "The CPUs moved meanwhile, and runs differ by that: raw.jsonl of --out has it for each.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::raw;

    #[test]
    fn a_line_takes_its_time_between_two_cpus() {
        let several = threads::usable().unwrap().len() > 1;
        let transfer = transfer_ns(&Place::Here);
        assert_eq!(transfer.is_some(), several);
        assert!(transfer.is_none_or(|ns| ns > 0.0));
    }

    #[test]
    fn it_is_said_that_the_cpus_moved() {
        let text = |all: &[f64]| {
            let of = |&ns| Raw {
                transfer_ns: Some(ns),
                ..raw(1, 0, 2, "std", 1.0, 1)
            };
            super::text(&all.iter().map(of).collect::<Vec<_>>())
        };
        let [quiet, moved] = [text(&[30.0; 3]), text(&[27.2, 30.0, 171.0])];
        assert!(
            quiet.contains("took 30 ns") && !quiet.contains("moved"),
            "{quiet}"
        );
        assert!(
            moved.contains("27 ns to 171 ns") && moved.contains("moved"),
            "{moved}"
        );
        let once = [[30.0; 10].as_slice(), &[400.0]].concat();
        assert!(!text(&once).contains("moved"), "one run does not count");
        assert_eq!(text(&[]), "");
    }
}
