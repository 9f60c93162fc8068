//! The profile as a table, and under it who takes its first locks.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use super::{LockReport, Report, Site, Times};
use crate::{Frame, Mode};

/// So many locks are in the table. A file has all.
const ROWS: usize = 20;
/// Of so many it is said who takes them.
const EXPLAINED: usize = 5;
/// So many call sites of each.
const SITES: usize = 3;
/// So many frames of each.
const FRAMES: usize = 4;

const HEADER: [&str; 14] = [
    "lock", "", "taken", "waited", "slept", "off CPU", "wait", "p50", "p99", "max", "hold", "p50",
    "p99", "max",
];

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "lockyard: {} (process {}): {} {} in {}\n",
            self.program,
            self.pid,
            self.locks.len(),
            if self.locks.len() == 1 {
                "lock"
            } else {
                "locks"
            },
            time(Duration::from_secs_f64(self.seconds)),
        );
        if !self.locks.is_empty() {
            text += &table(&self.locks[..self.locks.len().min(ROWS)]);
        }
        if self.locks.len() > ROWS {
            let _ = writeln!(text, "and {} more", self.locks.len() - ROWS);
        }
        for (dropped, what) in [
            (self.dropped_acquisitions, "acquisitions"),
            (self.dropped_samples, "samples of call sites"),
        ] {
            if dropped > 0 {
                let _ = writeln!(text, "no room for {dropped} {what}");
            }
        }
        for lock in self.locks.iter().take(EXPLAINED) {
            text += &explained(lock);
        }
        text
    }
}

fn table(locks: &[LockReport]) -> String {
    let rule = LineStyle::none().fill('-').junction('-');
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(rule))
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(HEADER)
        .add_rows(locks.iter().map(row));
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if number > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

fn row(lock: &LockReport) -> Vec<String> {
    let of_waits = |n| share(n, lock.contended);
    let mut row = vec![
        lock.name.clone(),
        lock.mode.to_string(),
        lock.acquisitions.to_string(),
        share(lock.contended, lock.acquisitions),
        of_waits(lock.slept),
        of_waits(lock.owner_off),
    ];
    row.extend(times(lock.wait.as_ref()));
    row.extend(times(lock.hold.as_ref()));
    row
}

fn times(times: Option<&Times>) -> [String; 4] {
    let Some(times) = times else {
        return ["-"; 4].map(Into::into);
    };
    [times.sum_ns, times.p50_ns, times.p99_ns, times.max_ns]
        .map(|ns| time(Duration::from_nanos(ns)))
}

/// Who made a lock, and who takes it.
fn explained(lock: &LockReport) -> String {
    let mut text = format!("\n{} ({})", lock.name, lock.mode);
    match &lock.created[..] {
        [] => text += "\n",
        created => {
            let _ = writeln!(text, ", made by {}", callers(created));
        }
    }
    let [waits, acquisitions] = [|site: &Site| site.wait_ns, |site: &Site| site.acquisitions]
        .map(|of| lock.sites.iter().map(of).sum::<u64>());
    for site in lock.sites.iter().take(SITES) {
        let (share, of) = match waits {
            0 => (share(site.acquisitions, acquisitions), "taken"),
            _ => (share(site.wait_ns, waits), "wait"),
        };
        let _ = writeln!(text, "  {share:>7} of {of}  {}", callers(&site.stack));
    }
    text
}

/// The innermost frames.
fn callers(stack: &[Frame]) -> String {
    if stack.is_empty() {
        return "?".into();
    }
    let frames = stack.iter().take(FRAMES).map(Frame::text);
    frames.collect::<Vec<_>>().join(" < ")
}

fn share(part: u64, all: u64) -> String {
    match all {
        0 => "-".into(),
        _ => format!("{:.1} %", part as f64 * 100.0 / all as f64),
    }
}

/// `730ns`, `1.07µs`, `12.30ms`, `4.00s`.
fn time(time: Duration) -> String {
    match time.as_nanos() {
        0..1000 => format!("{time:?}"),
        _ => format!("{time:.2?}"),
    }
}
