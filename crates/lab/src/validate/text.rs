//! The comparison for people: a table, and the verdict in sentences.

use comfy_table::{Cell, CellAlignment};
use lockyard_sim::Machine as Simulated;

use super::{
    grid::Grid,
    verdict::{Compared, Verdict},
};
use crate::{
    format,
    machine::Machine,
    place::{self, nanos},
    screen,
};

/// What is held against what.
pub fn header(grid: &Grid, machine: &Simulated) -> String {
    let here = Machine::here();
    // A calibration says of the machine what was just said of the host.
    let about = match &machine.about {
        about if *about == here.to_string() => String::new(),
        about => format!("\n{about}"),
    };
    let (locks, points, size) = (grid.locks.len(), grid.points.len(), grid.size());
    format!(
        "{here}\n\
         held against simulated {}{about}\n\
         {locks} locks at {points} points: {} rounds of {size} runs of {:.3} s, \
         about {} s; then {size} simulations\n\
         load/gap are work units of {:.2} ns inside and outside the critical section, \
         {:.2} ns simulated\n",
        place::titled(machine),
        grid.rounds,
        grid.seconds.as_secs_f64(),
        grid.planned().as_secs_f64().ceil(),
        here.work_unit_ns,
        nanos(machine.costs.work_unit),
    )
}

/// A row for each point.
pub fn table(points: &[Compared]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let mut table = screen::table();
    table.set_header([
        Cell::new("lock"),
        Cell::new("load/gap"),
        right("threads"),
        right("native kop/s"),
        right("spread"),
        right("simulated kop/s"),
        right("error"),
    ]);
    let shown = |known: Option<String>| right(known.unwrap_or_else(|| "-".into()));
    for p in points {
        table.add_row([
            Cell::new(p.lock),
            Cell::new(p.at.setting.work),
            right(p.at.threads),
            right(format::number(p.native_kops)),
            right(format!("{:.0} %", 100.0 * p.spread())),
            shown(p.sim_kops.map(format::number)),
            shown(p.error.map(|error| format!("{:+.1} %", 100.0 * error))),
        ]);
    }
    let notes = "Native: the median of the rounds. Spread: how far they lie apart, over it.\n";
    format!("\n{}{notes}", screen::rendered(table))
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The verdict in sentences. Every number in them stands in it.
pub fn summary(v: &Verdict) -> String {
    let mut lines = vec![String::new()];
    if let Some(error) = v.median_abs_error {
        errors(&mut lines, v, error);
        order(&mut lines, v);
    }
    lines.push(sentence(v));
    lines.push(String::new());
    lines.join("\n")
}

fn errors(lines: &mut Vec<String>, v: &Verdict, error: f64) {
    lines.push(format!(
        "Median absolute error at {} points: {} (bound: at most {:.0} %)",
        v.points,
        percent(error),
        100.0 * v.error_bound
    ));
    let threads = v.error_by_threads.iter().map(|(&threads, &error)| {
        let s = if threads == 1 { "" } else { "s" };
        format!("  with {threads} thread{s}: {}", percent(error))
    });
    lines.extend(threads);
    let locks = v.error_by_lock.iter();
    lines.extend(locks.map(|(lock, &error)| format!("  {lock}: {}", percent(error))));
    lines.push(format!(
        "The rounds of this host differ by {} of their median.",
        percent(v.native_spread)
    ));
}

fn order(lines: &mut Vec<String>, v: &Verdict) {
    let margin = 100.0 * v.margin;
    let Some(share) = v.share else {
        lines.push(format!(
            "Nowhere is one lock faster than another by more than {margin:.0} %: there is no \
             order to get right."
        ));
        return;
    };
    lines.push(format!(
        "Pairs of locks at a point of which one is faster by more than {margin:.0} %: {}",
        v.pairs
    ));
    lines.push(format!(
        "In the same order simulated: {}, which is {} (bound: at least {:.0} %)",
        v.ordered_right,
        percent(share),
        100.0 * v.share_bound
    ));
    if !v.wrong_pairs.is_empty() {
        lines.push("In the wrong order:".into());
    }
    let wrong = v.wrong_pairs.iter().map(|pair| {
        format!(
            "  {}: {} has {}x the rate of {}, but {}x simulated",
            pair.at,
            pair.faster,
            format::number(pair.native_ratio),
            pair.slower,
            format::number(pair.sim_ratio),
        )
    });
    lines.extend(wrong);
}

fn sentence(v: &Verdict) -> String {
    if v.holds.is_none() {
        let (points, planned) = (v.points, v.points_planned);
        return format!("No verdict: {points} of {planned} points were measured and simulated.");
    }
    let kept = match &misses(v)[..] {
        [] => return "The simulator holds on this host: both bounds are kept.".into(),
        [(what, _)] => format!("the bound of the {what} is missed."),
        _ => "both bounds are missed.".into(),
    };
    format!("The simulator does not hold on this host: {kept}")
}

/// The bounds that are missed, in a line.
pub fn missed(v: &Verdict) -> String {
    let misses = misses(v);
    let s = if misses.len() == 1 {
        "a bound"
    } else {
        "its bounds"
    };
    let all: Vec<_> = misses.into_iter().map(|(_, numbers)| numbers).collect();
    format!("the simulator misses {s}: {}", all.join(", "))
}

/// Each missed bound: what it is of, and its numbers.
fn misses(v: &Verdict) -> Vec<(&'static str, String)> {
    let error = v.median_abs_error.filter(|&error| error > v.error_bound);
    let share = v.share.filter(|&share| share < v.share_bound);
    let error = error.map(|error| {
        let (is, bound) = (percent(error), 100.0 * v.error_bound);
        let numbers = format!("median absolute error {is} (at most {bound:.0} %)");
        ("error", numbers)
    });
    let share = share.map(|share| {
        let (is, bound) = (percent(share), 100.0 * v.share_bound);
        let numbers = format!("pairs ordered right {is} (at least {bound:.0} %)");
        ("order", numbers)
    });
    error.into_iter().chain(share).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
