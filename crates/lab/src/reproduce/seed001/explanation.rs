//! Where the time of an operation goes, in sentences that follow from the
//! numbers.

use lockyard_sim::Machine;

use super::{
    super::{
        pairs::{Cost, Row, Side},
        text::percent,
    },
    Kind,
};
use crate::{format, place::nanos};

/// Changes of computing time that differ by no more are the same.
const MARGIN: f64 = 0.01;

/// What the costs of the experiment say, and those of `alone`: the same with one
/// thread per core.
pub fn sentences(machine: &Machine, row: &Row<Kind>, alone: Option<&Row<Kind>>) -> Vec<String> {
    let (Some(before), Some(after)) = (&row.before.cost_ns, &row.after.cost_ns) else {
        return vec!["A run made no operation: nothing is known of what one costs.".into()];
    };
    let mut said = vec![siblings(before, after, alone), cache(before, after)];
    said.push(hand_over(machine, row));
    said.extend(kept(row));
    said
}

fn siblings(before: &Cost, after: &Cost, alone: Option<&Row<Kind>>) -> String {
    let change = relative(before.compute, after.compute);
    let all = changes(before.compute, after.compute);
    let one = alone.and_then(|row| {
        let (before, after) = (&row.before.cost_ns, &row.after.cost_ns);
        Some((row.setting.threads, before.as_ref()?, after.as_ref()?))
    });
    let Some((threads, before, after)) = one else {
        return format!("Computing time per operation {all}.");
    };
    let without = relative(before.compute, after.compute);
    let one = changes(before.compute, after.compute);
    let compared = format!(
        "computing time per operation {all}; with one thread per core, {threads} in all, it \
         {one}."
    );
    if change < without - MARGIN {
        format!("Spinners that wait for events leave the core to their siblings: {compared}")
    } else {
        format!(
            "That spinners leave the core to their siblings does not show in the computing time: \
             {compared}"
        )
    }
}

fn cache(before: &Cost, after: &Cost) -> String {
    format!(
        "Waiting for cache lines, per operation and over all threads, {}.",
        changes(before.cache, after.cache)
    )
}

/// What is left between two operations when the work is taken away.
fn hand_over(machine: &Machine, row: &Row<Kind>) -> String {
    let period = |side: &Side| 1e6 / side.rate_kops.mean.max(f64::MIN_POSITIVE);
    let (before, after) = (period(&row.before), period(&row.after));
    let work = nanos(machine.costs.work_unit) * f64::from(row.setting.load);
    let slowest = machine.costs.smt_speed.last().copied().unwrap_or(1.0);
    let longest = work / slowest;
    let rest = |period: f64| percent((1.0 - longest / period).max(0.0));
    format!(
        "An operation ends every {} before and every {} after. Work under the lock takes {} of \
         that, {} when all threads of the core compute: at least {} of the time before and {} \
         after is left for taking, releasing and handing over the lock and the line that it \
         protects.",
        time(before),
        time(after),
        time(work),
        time(longest),
        rest(before),
        rest(after),
    )
}

/// How few hand-overs there can be when one thread makes most operations: every
/// hand-over has an operation of another thread at one of its ends, and each of
/// these is at the end of two at most.
fn kept(row: &Row<Kind>) -> Option<String> {
    let most = |side: &Side| Some(2.0 * (1.0 - side.max_share?.mean)).filter(|&most| most < 1.0);
    let said = |side: &Side, when: &str| {
        let most = percent(most(side)?);
        Some(format!("at most {most} of the operations {when}"))
    };
    let all = [said(&row.before, "before"), said(&row.after, "after")];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| {
        format!(
            "One thread keeps the lock for itself: {} took it over from another thread.",
            all.join(" and ")
        )
    })
}

/// `falls by 37.0 % (from 32.2 ns to 20.3 ns)`.
fn changes(before: f64, after: f64) -> String {
    let (from, to) = (time(before), time(after));
    let change = relative(before, after);
    let by = percent(change.abs());
    match change {
        _ if from == to => format!("stays at {from}"),
        change if change > 0.0 => format!("rises by {by} (from {from} to {to})"),
        _ => format!("falls by {by} (from {from} to {to})"),
    }
}

/// Twice nothing is equal.
fn relative(before: f64, after: f64) -> f64 {
    if before == after {
        0.0
    } else {
        after / before - 1.0
    }
}

/// Nanoseconds.
fn time(ns: f64) -> String {
    format!("{} ns", format::number(ns))
}
