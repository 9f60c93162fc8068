//! stdout for results, stderr for progress and logs.

use std::{
    io::{self, Write},
    thread,
    time::Duration,
};

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

const SECOND: Duration = Duration::from_secs(1);

/// Prints results beside a progress bar, which shows only when stderr is a
/// terminal and the work is planned to last over a second, or has.
pub struct Screen(ProgressBar);

impl Screen {
    /// A screen for so many runs, planned to last so long altogether; how long
    /// simulations will take is not known.
    pub fn new(runs: u64, planned: impl Into<Option<Duration>>) -> Self {
        let planned = planned.into();
        if planned.is_some_and(|planned| planned <= SECOND) {
            return Self(ProgressBar::hidden());
        }
        let about = planned.map(|planned| format!(" of about {:.0}s", planned.as_secs_f64()));
        let template = "{elapsed}{prefix} {bar:20} {pos}/{len} runs  {wide_msg}";
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::hidden())
            .with_style(style)
            .with_prefix(about.unwrap_or_default());
        let show = |bar: &ProgressBar| {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            // Drawn between runs; and once a second, so that it moves in long ones.
            bar.enable_steady_tick(SECOND);
        };
        if planned.is_some() {
            show(&bar);
        } else {
            let later = bar.clone();
            thread::spawn(move || {
                thread::sleep(SECOND);
                if !later.is_finished() {
                    show(&later);
                }
            });
        }
        Self(bar)
    }

    /// So many runs more are to come.
    pub fn expect(&self, runs: u64) {
        self.0.inc_length(runs);
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

/// Prints one line to stderr, signed by the command; on a terminal in place of a
/// bar, which comes again below. A stderr that nobody reads is no reason to stop.
pub fn log(line: &str) {
    const CLEAR: &str = "\r\x1b[2K";
    let clear = if Term::stderr().is_term() { CLEAR } else { "" };
    let _ = io::stderr().write_all(format!("{clear}lockyard: {line}\n").as_bytes());
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
    let terminal = Term::stdout().size_checked();
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

/// Runs all in turns, so many times: a disturbance of the machine that lasts meets all. An
/// interruption ends it, and says how many of the `what` there were.
pub fn take_turns<T>(
    all: &mut [T],
    times: u32,
    what: &str,
    name: impl Fn(&T) -> &'static str,
    run: impl Fn(&mut T),
) {
    let total = u64::from(times) * all.len() as u64;
    let screen = Screen::new(total, None);
    for _ in 0..times {
        for one in &mut *all {
            screen.begins(name(one).into());
            run(one);
            screen.ended();
            if lockyard_torture::interrupted() {
                let ended = screen.count();
                screen.close();
                return log(&format!("interrupted: {ended} of {total} {what}"));
            }
        }
    }
    screen.close();
}
