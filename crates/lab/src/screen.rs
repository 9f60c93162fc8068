//! stdout for results, stderr for progress and logs.

use std::{
    io::{self, Write},
    time::Duration,
};

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Prints results beside a progress bar, which shows only when stderr is a
/// terminal and the work is planned to last over a second.
pub struct Screen(ProgressBar);

impl Screen {
    /// A screen for so many runs, planned to last so long altogether.
    pub fn new(runs: u64, planned: Duration) -> Self {
        if planned <= Duration::from_secs(1) {
            return Self(ProgressBar::hidden());
        }
        let template = "{elapsed} of about {prefix} {bar:20} {pos}/{len} runs  {wide_msg}";
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let bar = ProgressBar::new(runs)
            .with_style(style)
            .with_prefix(format!("{:.0}s", planned.as_secs_f64()));
        // Drawn between runs; and once a second, so that it moves in long ones.
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    /// A run of this name starts.
    pub fn begins(&self, run: String) {
        self.0.set_message(run);
    }

    /// A run has ended.
    pub fn ended(&self) {
        self.0.inc(1);
    }

    /// The runs that have ended.
    pub fn count(&self) -> u64 {
        self.0.position()
    }

    /// Takes the bar away.
    pub fn close(&self) {
        self.0.finish_and_clear();
    }

    /// Prints results to stdout, beside the bar.
    ///
    /// # Errors
    /// What the operating system says, a broken pipe included.
    pub fn print(&self, text: &str) -> io::Result<()> {
        self.0.suspend(|| print(text))
    }
}

/// Prints results to stdout, at once.
///
/// # Errors
/// What the operating system says, a broken pipe included.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints one line to stderr, signed by the command. A stderr that nobody
/// reads is no reason to stop.
pub fn log(line: &str) {
    let _ = writeln!(io::stderr(), "lockyard: {line}");
}

/// A table as wide as its cells: numbers do not wrap.
pub fn table() -> Table {
    let rule = LineStyle::none().fill('-').junction('-');
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(rule))
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// A table whose text wraps at 100 columns, or at the terminal's edge when that
/// is nearer.
pub fn wrapping_table() -> Table {
    let terminal = console::Term::stdout().size_checked();
    let width = terminal.map_or(100, |(_, columns)| columns.min(100));
    let mut table = table();
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    table
}

/// The table's lines, without blanks at their ends.
pub fn rendered(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt() + "\n"
}

/// Objects as JSON, one on each line.
pub fn json_lines<T: Serialize>(objects: &[T]) -> String {
    let line = |object| serde_json::to_string(object).expect("plain data has a JSON form");
    objects.iter().map(|object| line(object) + "\n").collect()
}
