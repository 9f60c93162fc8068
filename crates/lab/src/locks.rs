//! `lockyard locks`.

use comfy_table::{Cell, CellAlignment};
use serde::Serialize;

use crate::{
    failure::Failure,
    registry::{self, Entry, Kind},
    screen,
    values::World,
};

/// List our locks, their rivals and the toys
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object per lock
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    kind: Kind,
    worlds: Vec<World>,
    size_bytes: usize,
    about: &'static str,
    /// Why the lock cannot run here; null when it can.
    unavailable: Option<String>,
}

impl From<Entry> for Row {
    fn from(entry: Entry) -> Self {
        Self {
            name: entry.name,
            kind: entry.kind,
            worlds: entry.worlds(),
            size_bytes: entry.size,
            about: entry.about,
            unavailable: entry.unavailable(),
        }
    }
}

/// Lists every lock.
pub fn run(args: &Args) -> Result<(), Failure> {
    let rows: Vec<Row> = registry::all().into_iter().map(Row::from).collect();
    let text = if args.json {
        screen::json_lines(&rows)
    } else {
        table(&rows)
    };
    Ok(screen::print(&text)?)
}

fn table(rows: &[Row]) -> String {
    let mut table = screen::wrapping_table();
    let right = |cell: Cell| cell.set_alignment(CellAlignment::Right);
    table.set_header([
        "lock".into(),
        "kind".into(),
        "worlds".into(),
        right("bytes".into()),
        "what it is".into(),
    ]);
    for row in rows {
        let about = match &row.unavailable {
            Some(why) => format!("{}; not available: {why}", row.about),
            None => row.about.into(),
        };
        let worlds: Vec<_> = row.worlds.iter().map(|world| world.name()).collect();
        table.add_row([
            row.name.into(),
            row.kind.name().into(),
            worlds.join(", ").into(),
            right(row.size_bytes.into()),
            about.into(),
        ]);
    }
    screen::rendered(table)
}
