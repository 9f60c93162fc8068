//! The comparison in tables, each readable in 100 columns.

use comfy_table::{Cell, CellAlignment};

use super::{
    again::{FAR, ROUNDS},
    plan::Setting,
    summary::{LockAt, MARGIN, PointSummary, SELDOM, Tail},
};
use crate::{format, screen, values};

/// So many numbers of threads fit beside each other.
const COLUMNS: usize = 7;
/// And so many pairs of waits.
const PAIRS: usize = 4;

/// All tables: each of our locks beside the best rival, then `every` lock.
pub fn text(ours: &[&[PointSummary]], every: &[PointSummary]) -> String {
    let mut text = String::new();
    for points in ours {
        let Some(first) = points.first() else {
            continue;
        };
        text += &format!("\n{} beside the best rival of each point\n", first.lock);
        text += &versus(points);
    }
    if every.is_empty() {
        return text;
    }
    text += &notes(every);
    let settings: Vec<Setting> = every.iter().map(|p| p.point.setting).collect();
    for setting in values::distinct(&settings) {
        let here: Vec<_> = every
            .iter()
            .filter(|p| p.point.setting == setting)
            .collect();
        let columns = if apart(every) { PAIRS } else { COLUMNS };
        for some in here.chunks(columns) {
            text += &format!("\nkop/s at {setting}, by number of threads\n");
            text += &every_lock(some, |at| format::number(at.rate_kops));
            text += &format!("\np99.9 wait at {setting}, by number of threads\n");
            text += &every_lock(some, tails);
        }
    }
    text
}

/// Whether readers and writers are apart.
fn apart(points: &[PointSummary]) -> bool {
    points.iter().any(|p| p.point.setting.read_pct.is_some())
}

/// What the mark of [`tails`] means.
pub const SPARSE: &str = "\
*: fewer than 1,000 waits were sampled in a round, so that its p99.9 is the longest of them.
";

fn notes(points: &[PointSummary]) -> String {
    let mut text = format!(
        "Medians over the rounds. The best rival is the one with the most kop/s; ratio is ours over its.\n\
         front: whether our lock is on the Pareto front, which it is when no rival dominates it: is\n\
         better in both kop/s and p99.9 wait, by more than {} % and by more than the clock takes, in the\n\
         medians and in more rounds than an equal would be by chance one time in {:.0} (-: too few rounds);\n\
         unless its slowest round is {FAR} times as fast as our fastest, in {ROUNDS} more rounds, too.\n",
        100.0 * MARGIN,
        1.0 / SELDOM,
    );
    if apart(points) {
        text += APART;
    }
    let mut tails = points.iter().flat_map(|p| &p.locks).flat_map(LockAt::tails);
    if tails.any(|tail| tail.sparse()) {
        text += SPARSE;
    }
    text
}

const APART: &str = "\
p99.9 is that of readers/writers; better in it is who is better in one and not worse in the other.
";

fn versus(points: &[PointSummary]) -> String {
    let mut table = screen::table();
    let apart = apart(points);
    // Two waits in a cell leave no room for these.
    let if_room = |text: String| (!apart).then(|| right(text));
    let header = [
        Some(Cell::new(if apart { "load/gap r%" } else { "load/gap" })),
        Some(right("threads")),
        Some(right("kop/s")),
        Some(right("p99.9")),
        if_room("Jain".into()),
        Some(Cell::new("best rival")),
        if_room("kop/s".into()),
        Some(right("p99.9")),
        Some(right("ratio")),
        Some(Cell::new("front")),
    ];
    table.set_header(header.into_iter().flatten());
    for p in points {
        let (ours, best) = (p.ours(), p.best());
        let front = match p.on_pareto_front {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        let row = [
            Some(Cell::new(setting(p.point.setting))),
            Some(right(p.point.threads)),
            Some(right(format::number(ours.rate_kops))),
            Some(right(tails(ours))),
            if_room(format!("{:.2}", ours.jain)),
            Some(Cell::new(best.lock)),
            if_room(format::number(best.rate_kops)),
            Some(right(tails(best))),
            Some(right(format!("{:.2}x", p.ratio))),
            Some(Cell::new(front)),
        ];
        table.add_row(row.into_iter().flatten());
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

fn setting(setting: Setting) -> String {
    match setting.read_pct {
        None => setting.work.to_string(),
        Some(percentage) => format!("{} {percentage}%", setting.work),
    }
}

/// The p99.9 waits of a lock, with a mark where they are those of few samples.
pub fn tails(at: &LockAt) -> String {
    let all = at.tails();
    let time = |tail: &Tail| tail.ns.map_or("-".into(), format::time);
    let times: Vec<String> = all.iter().map(time).collect();
    let mark = if all.iter().any(Tail::sparse) {
        "*"
    } else {
        ""
    };
    times.join("/") + mark
}
