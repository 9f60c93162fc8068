//! How the results of an experiment are shown to people.

use comfy_table::{Cell, CellAlignment};

use super::pairs::{Effect, Row, Side, Spread};
use crate::{format, screen};

/// Text is no wider.
const WIDTH: usize = 100;

/// Where the time of an operation goes.
pub fn costs<K>(row: &Row<K>) -> String {
    let mut table = screen::table();
    let names = ["compute", "cache", "spin", "sleep", "ready"];
    let names = names.map(|name| right(format!("{name} ns")));
    table.set_header([Cell::new("cost per operation")].into_iter().chain(names));
    for (name, side) in [("before", &row.before), ("after", &row.after)] {
        let Some(cost) = &side.cost_ns else { continue };
        let cells = cost.all().map(|ns| right(tenths(ns)));
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    }
    format!("\n{}", screen::rendered(table))
}

/// A cell that is aligned to the right.
pub fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A number without decimals.
pub fn whole(n: f64) -> String {
    format::count(n.round() as u64)
}

/// A number with a decimal while that says something.
pub fn tenths(n: f64) -> String {
    if n < 99.95 {
        format!("{n:.1}")
    } else {
        whole(n)
    }
}

/// A mean and its deviation.
pub fn count(spread: Spread) -> String {
    match spread.sd {
        Some(sd) => format!("{} ± {}", whole(spread.mean), tenths(sd)),
        None => whole(spread.mean),
    }
}

/// The share of the most favoured thread.
pub fn share(side: &Side) -> String {
    let mean = side.max_share.map(|share| percent(share.mean));
    mean.unwrap_or_else(|| "-".into())
}

/// An effect and its deviation.
pub fn effect(effect: Effect) -> String {
    match (effect.effect, effect.effect_sd) {
        (Some(mean), Some(sd)) => format!("{:+.1} ± {:.1} %", 100.0 * mean, 100.0 * sd),
        (Some(mean), None) => signed(mean),
        _ => "-".into(),
    }
}

/// A paragraph as lines.
pub fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut line = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if line > 0 && line + 1 + width > WIDTH {
            lines.push('\n');
            line = 0;
        } else if line > 0 {
            lines.push(' ');
            line += 1;
        }
        lines += word;
        line += width;
    }
    lines + "\n"
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A change in percent.
pub fn signed(change: f64) -> String {
    format!("{:+.1} %", 100.0 * change)
}
