//! The results for people: tables beside the paper's, and sentences.

use comfy_table::Cell;

use super::{
    super::{
        pairs::Row,
        text::{costs, count, effect, percent, right, signed, whole, wrapped},
    },
    Kind, LOAD, LOCKS, PAPER_KOPS, PAPER_OPS, Plan,
    verdict::{Verdict, checked},
};
use crate::{
    place::{self, nanos},
    screen,
};

/// What is run.
pub fn header(plan: &Plan) -> String {
    let bench = &plan.bench;
    let machine = &bench.machine;
    let [published, varied] = [0, 1].map(|row| plan.rows[row].1);
    let [before, after] = LOCKS;
    format!(
        "Seed 003, \"locking/rwsem: Check wait_list without lock if spinner present\" (March 2017)\n\
         Simulated machine = {}\n{}\n\
         Work unit = {:.2} ns\n\
         Before = {before}: an unlock tries the queue's lock although a spinner will come\n\
         After = {after}: it leaves the queue to the spinner\n\
         Published setting: {} threads that only write; load and gap are not given, here {LOAD} and 0\n\
         {} runs: seeds 1 to {}; {} s each, {} s where something is varied\n",
        place::titled(machine),
        machine.about,
        nanos(machine.costs.work_unit),
        published.threads,
        bench.runs(&plan.settings()),
        bench.seeds,
        published.seconds,
        varied.seconds,
    )
}

/// All tables.
pub fn results(rows: &[Row<Kind>]) -> String {
    let of = |kind: Kind| rows.iter().filter(move |row| row.kind == kind);
    let mut text = String::new();
    if let Some(row) = of(Kind::Experiment).next() {
        text += &experiment(row);
        text += &costs(row);
    }
    for (kind, title) in [
        (
            Kind::Threads,
            "Threads, on the whole machine: they fill its sockets in turn",
        ),
        (Kind::Load, "Work units under the lock"),
        (Kind::Gap, "Work units between an unlock and the next lock"),
    ] {
        let rows: Vec<_> = of(kind).collect();
        if !rows.is_empty() {
            text += &format!("\n{title}\n{}", varied(kind, &rows));
        }
    }
    if !rows.is_empty() {
        text += "\n";
        text += &wrapped(
            "Means over the seeds and standard deviations (±). Effects are those of the two runs \
             of a seed, then their mean. Checks: the share of unlocks that found somebody asleep \
             in the queue; elsewhere the two locks are the same.",
        );
    }
    text
}

/// The experiment beside the paper.
fn experiment(row: &Row<Kind>) -> String {
    let mut table = screen::table();
    table.set_header([
        Cell::new(""),
        right("before"),
        right("after"),
        right("effect"),
        right("paper before"),
        right("after"),
        right("effect"),
    ]);
    let [before, after] = PAPER_KOPS;
    table.add_row([
        Cell::new("kop/s"),
        right(count(row.before.rate_kops)),
        right(count(row.after.rate_kops)),
        right(effect(row.effect)),
        right(whole(before)),
        right(whole(after)),
        right(signed(after / before - 1.0)),
    ]);
    let notes = wrapped(&format!(
        "The paper's threads make {} operations each, these {} on average, 1 in {}: as many as \
         {} s allow. Its unit is Mop/s, which cannot be: its operations would take 7 ms.",
        whole(PAPER_OPS),
        whole(row.before.ops_mean.mean),
        whole(PAPER_OPS / row.before.ops_mean.mean.max(1.0)),
        row.setting.seconds,
    ));
    format!("\n{}{notes}", screen::rendered(table))
}

/// A row for each setting.
fn varied(kind: Kind, rows: &[&Row<Kind>]) -> String {
    let mut table = screen::table();
    let first = match kind {
        Kind::Experiment | Kind::Threads => "threads",
        Kind::Load => "load",
        Kind::Gap => "gap",
    };
    let heads = [
        first,
        "kop/s before",
        "after",
        "effect",
        "checks before",
        "after",
    ];
    table.set_header(heads.map(right));
    for row in rows {
        let setting = &row.setting;
        let checks = |side| {
            let share = checked(side, setting.threads).map(percent);
            right(share.unwrap_or_else(|| "-".into()))
        };
        table.add_row([
            right(match kind {
                Kind::Experiment | Kind::Threads => setting.threads,
                Kind::Load => setting.load as usize,
                Kind::Gap => setting.gap as usize,
            }),
            right(count(row.before.rate_kops)),
            right(count(row.after.rate_kops)),
            right(effect(row.effect)),
            checks(&row.before),
            checks(&row.after),
        ]);
    }
    screen::rendered(table)
}

/// The verdict in sentences.
pub fn verdict(verdict: &Verdict) -> String {
    let sentences = verdict.sentences();
    let lines: String = sentences.iter().map(|said| wrapped(said)).collect();
    format!("\n{lines}")
}
