//! The comparison in tables, each readable in 100 columns.

use comfy_table::{Cell, CellAlignment};

use super::summary::{LockAt, MARGIN, PointSummary};
use crate::{
    format, screen,
    values::{self, Work},
};

/// So many numbers of threads fit beside each other.
const COLUMNS: usize = 7;

/// All tables: our lock beside the best rival, then every lock.
pub fn text(points: &[PointSummary]) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let mut text = format!("\n{} beside the best rival of each point\n", first.lock);
    text += &versus(points);
    text += &notes();
    if points.iter().any(|p| p.locks.iter().any(LockAt::sparse)) {
        text += SPARSE;
    }
    let works: Vec<Work> = points.iter().map(|p| p.point.work).collect();
    for work in values::distinct(&works) {
        let here: Vec<_> = points.iter().filter(|p| p.point.work == work).collect();
        for some in here.chunks(COLUMNS) {
            text += &format!("\nkop/s at {work}, by number of threads\n");
            text += &every_lock(some, |at| format::number(at.rate_kops));
            text += &format!("\np99.9 wait at {work}, by number of threads\n");
            text += &every_lock(some, tail);
        }
    }
    text
}

const SPARSE: &str = "\
*: fewer than 1,000 waits were sampled in a round, so that its p99.9 is the longest of them.
";

fn notes() -> String {
    format!(
        "Medians over the rounds. The best rival is the one with the most kop/s; ratio is ours over its.\n\
         front: whether our lock is on the Pareto front, which it is when no rival dominates it: is\n\
         better in both kop/s and p99.9 wait, by more than {} % and by more than the clock takes, in the\n\
         medians and in two thirds of the rounds.\n",
        100.0 * MARGIN
    )
}

fn versus(points: &[PointSummary]) -> String {
    let mut table = screen::table();
    table.set_header([
        Cell::new("load/gap"),
        right("threads"),
        right("kop/s"),
        right("p99.9"),
        right("Jain"),
        Cell::new("best rival"),
        right("kop/s"),
        right("p99.9"),
        right("ratio"),
        Cell::new("front"),
    ]);
    for p in points {
        let (ours, best) = (p.ours(), p.best());
        let front = if p.on_pareto_front { "yes" } else { "no" };
        table.add_row([
            Cell::new(p.point.work),
            right(p.point.threads),
            right(format::number(ours.rate_kops)),
            right(tail(ours)),
            right(format!("{:.2}", ours.jain)),
            Cell::new(best.lock),
            right(format::number(best.rate_kops)),
            right(tail(best)),
            right(format!("{:.2}x", p.ratio)),
            Cell::new(front),
        ]);
    }
    screen::rendered(table)
}

/// One row for each lock, one column for each point.
fn every_lock(points: &[&PointSummary], show: impl Fn(&LockAt) -> String) -> String {
    let mut table = screen::table();
    let threads = points.iter().map(|p| right(p.point.threads));
    table.set_header([Cell::new("lock")].into_iter().chain(threads));
    for (row, lock) in points[0].locks.iter().enumerate() {
        let numbers = points.iter().map(|p| right(show(&p.locks[row])));
        table.add_row([Cell::new(lock.lock)].into_iter().chain(numbers));
    }
    screen::rendered(table)
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn tail(at: &LockAt) -> String {
    let mark = if at.sparse() { "*" } else { "" };
    format!("{}{mark}", format::time(at.wait_p999_ns))
}
