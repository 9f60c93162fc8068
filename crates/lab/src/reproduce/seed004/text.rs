//! The results for people: tables, and sentences.

use comfy_table::Cell;

use super::{
    super::text::{effect, right, tenths, whole, wrapped},
    LAYOUTS,
    hash::{Bench, Row, Side},
    verdict::{Verdict, said_of, titled},
};
use crate::{place, screen};

/// What is run.
pub fn header(bench: &Bench) -> String {
    let machine = &bench.machine;
    let first = bench.settings[0];
    format!(
        "Seed 004, \"futex: Reduce the scope of lock_page, aka lockless futex_get_key()\" (January \
         2016)\n\
         Simulated machine = {}\n{}\n\
         Before: the page lock is held while a key is found\n\
         After: it is not (later: the key refers to nothing, either)\n\
         Published setting: perf bench futex hash on shared futexes in anonymous memory, 60 cores\n\
         Not given: the numbers of threads, and how it was called; here {} futexes of each thread\n\
         {} runs: seeds 1 to {}; {} s each, private and later a part of that\n",
        place::titled(machine),
        machine.about,
        whole(first.futexes as f64),
        bench.runs(),
        bench.seeds,
        first.seconds,
    )
}

/// All tables.
pub fn results(rows: &[Row]) -> String {
    let mut text = String::new();
    for layout in LAYOUTS.map(Into::into) {
        let of = rows.iter().filter(|row| row.setting.layout == layout);
        let rows: Vec<_> = of.collect();
        if !rows.is_empty() {
            let (rates, costs) = (rates(&rows), costs(&rows));
            text += &format!("\n{}\n{rates}\n{costs}", titled(layout));
        }
    }
    if !rows.is_empty() {
        text += "\n";
        text += &wrapped(
            "Thousands of operations in a second, of all threads together: means over the seeds. \
             Effects are those of the two runs of a seed, then their mean (± standard deviation). \
             Costs are nanoseconds of its thread for an operation; page, space (its count), bucket \
             and others: waiting for the cache lines of these; slept: how often.",
        );
    }
    text
}

/// A row for each number of threads.
fn rates(rows: &[&Row]) -> String {
    let mut table = screen::table();
    let heads = [
        "threads", "private", "before", "after", "later", "effect", "paper",
    ];
    table.set_header(heads.map(right));
    for row in rows {
        let rate = |side: &Side| whole(side.rate_kops.mean);
        let cells = [
            row.setting.threads.to_string(),
            rate(&row.private),
            rate(&row.before),
            rate(&row.after),
            rate(&row.later),
            effect(row.effect),
            said_of(row.setting.threads).to_owned(),
        ];
        table.add_row(cells.map(right));
    }
    screen::rendered(table)
}

/// What an operation takes with most threads.
fn costs(rows: &[&Row]) -> String {
    let Some(row) = rows.last() else {
        return String::new();
    };
    let mut table = screen::table();
    let heads = [
        "compute", "page", "space", "bucket", "others", "spin", "sleep", "ready", "slept",
    ];
    let first = Cell::new(format!("{} threads, ns", row.setting.threads));
    table.set_header([first].into_iter().chain(heads.map(right)));
    for (name, side) in [
        ("private", &row.private),
        ("before", &row.before),
        ("after", &row.after),
        ("later", &row.later),
    ] {
        let Some(cost) = &side.cost_ns else { continue };
        let cells = [
            cost.compute,
            cost.page,
            cost.space,
            cost.bucket,
            cost.other_lines,
            cost.spin,
            cost.sleep,
            cost.ready,
        ];
        let slept = format!("{:.2}", side.sleeps);
        let cells = cells.map(tenths).into_iter().chain([slept]);
        table.add_row([Cell::new(name)].into_iter().chain(cells.map(right)));
    }
    screen::rendered(table)
}

/// The verdict in sentences.
pub fn verdict(verdict: &Verdict) -> String {
    let sentences = verdict.sentences();
    let lines: Vec<String> = sentences.iter().map(|said| wrapped(said)).collect();
    format!("\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{hash::Words, verdict::tests::row},
        *,
    };

    #[test]
    fn a_row_stands_beside_the_paper() {
        let rows = [
            row(4, [1_050.0; 2], "space"),
            row(256, [1_400.0; 2], "space"),
        ];
        let text = results(&rows);
        assert!(text.contains(titled(Words::Apart)), "{text}");
        for line in [
            "4    9,000   1,000  1,050  4,500   +5.0 ± 0.0 %  noise, or less than 10 %\n",
            "256    9,000   1,000  1,400  4,500  +40.0 ± 0.0 %                up to 45 %\n",
            "after                100   0.0    900    50.0    50.0   0.0    0.0    0.0   0.00\n",
        ] {
            assert!(text.contains(line), "no {line:?} in {text}");
        }
        let wide = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{text}");
    }
}
