//! The results for people: tables beside the paper's, and sentences.

use comfy_table::Cell;
use lockyard_sim::Machine;

use super::{
    super::text::{count, effect, right, signed, whole, wrapped},
    LOCKS, SECONDS, is_published,
    story::{Story, Told},
    torture::{Bench, Row, Side},
    verdict::{PAPER, Verdict, change, named},
};
use crate::{
    format,
    place::{self, nanos},
    screen,
};

/// What is run.
pub fn header(machine: &Machine, bench: &Bench, story: &Story) -> String {
    let [published, varied] = [0, 1].map(|row| bench.settings[row]);
    let cpus = machine.cpus();
    let [before, after, bounded] = LOCKS;
    format!(
        "Seed 002, \"locking/percpu-rwsem: do not do lock handoff in percpu_up_write\" (January \
         2024)\n\
         Simulated machine = {}\n{}\n\
         Before = {before}: a writer takes the lock for those that it wakes\n\
         After = {after}: it only wakes them, and who comes first has it\n\
         Bounded = {bounded}: the same, until the first waiter has waited for 3 s\n\
         Published setting: locktorture with {cpus} writers and {cpus} readers for {} s, its pauses \
         of 5 s\n\
         {} runs: seeds 1 to {}; {} s each, {} s where something is varied\n\
         The story: {}\n",
        place::titled(machine),
        machine.about,
        SECONDS.as_secs(),
        bench.runs() + story.runs(),
        bench.seeds,
        published.seconds,
        varied.seconds,
        story.title(),
    )
}

/// All tables.
pub fn results(rows: &[Row], told: &[Told]) -> String {
    let mut text = String::new();
    for paper in PAPER {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.setting.delays == paper.delays)
            .collect();
        let published = rows.iter().find(|row| is_published(&row.setting));
        if let Some(row) = published {
            text += &format!("\nLocktorture with the {} delays\n", paper.delays);
            text += &experiment(row, paper.writes, paper.reads);
        }
        if rows.len() > 1 {
            text += &format!(
                "\nVaried, with the {} delays\n{}",
                paper.delays,
                varied(&rows)
            );
        }
    }
    if !rows.is_empty() {
        text += "\n";
        text += &wrapped(
            "Means over the seeds and standard deviations (±). Effects are those of the two runs \
             of a seed, then their mean. A gap is the time between an unlock and the next lock; in \
             light idle no CPU sleeps deeply; all else is as published.",
        );
    }
    let paper = SECONDS.as_secs_f64();
    let differs = |row: &&Row| is_published(&row.setting) && row.setting.seconds != paper;
    if let Some(row) = rows.iter().find(differs) {
        text += &wrapped(&format!(
            "The paper's runs last {paper} s and these {} s: counts of operations are not scaled.",
            row.setting.seconds
        ));
    }
    if !told.is_empty() {
        text += "\nThe story: waits of who moves processes while antagonists fork\n";
        text += &story(told);
    }
    text
}

/// The experiment beside the paper.
fn experiment(row: &Row, writes: [f64; 2], reads: [f64; 2]) -> String {
    let mut table = screen::table();
    let heads = [
        "before",
        "after",
        "effect",
        "bounded",
        "paper before",
        "after",
        "effect",
    ];
    table.set_header([Cell::new("")].into_iter().chain(heads.map(right)));
    let sides = [&row.before, &row.after, &row.bounded];
    let totals = |of: fn(&Side) -> f64| sides.map(|side| whole(of(side)));
    for (name, [before, after, bounded], ours, paper) in [
        (
            "writes",
            totals(|side| side.writes.total.mean),
            row.writes,
            writes,
        ),
        (
            "reads",
            totals(|side| side.reads.total.mean),
            row.reads,
            reads,
        ),
    ] {
        let [paper_before, paper_after] = paper.map(whole);
        let cells = [
            before,
            after,
            effect(ours),
            bounded,
            paper_before,
            paper_after,
            signed(change(paper)),
        ];
        table.add_row([Cell::new(name)].into_iter().chain(cells.map(right)));
    }
    let mut line = |name: &str, of: fn(&Side) -> String| {
        let [before, after, bounded] = sides.map(of);
        let cells = [before, after, String::new(), bounded];
        table.add_row([Cell::new(name)].into_iter().chain(cells.map(right)));
    };
    line("writes max/min", |side| {
        format!(
            "{}/{}",
            whole(side.writes.max.mean),
            whole(side.writes.min.mean)
        )
    });
    line("reads max/min", |side| {
        format!(
            "{}/{}",
            whole(side.reads.max.mean),
            whole(side.reads.min.mean)
        )
    });
    line("longest wait to write", |side| {
        format::time((side.writes.longest_wait_ms.mean * 1e6) as u64)
    });
    line("longest wait to read", |side| {
        format::time((side.reads.longest_wait_ms.mean * 1e6) as u64)
    });
    screen::rendered(table)
}

/// A row for each setting.
fn varied(rows: &[&Row]) -> String {
    let mut table = screen::table();
    let heads = [
        "writes before",
        "after",
        "effect",
        "reads before",
        "after",
        "effect",
    ];
    table.set_header([Cell::new("")].into_iter().chain(heads.map(right)));
    for row in rows.iter().filter(|row| !is_published(&row.setting)) {
        let cells = [
            count(row.before.writes.total),
            count(row.after.writes.total),
            effect(row.writes),
            count(row.before.reads.total),
            count(row.after.reads.total),
            effect(row.reads),
        ];
        table.add_row([Cell::new(named(row))].into_iter().chain(cells.map(right)));
    }
    screen::rendered(table)
}

/// A row for each quota and lock.
pub fn story(told: &[Told]) -> String {
    let mut table = screen::table();
    let heads = ["moves", "wait p50", "p99", "longest", "forks/s"];
    let names = ["preempted inside", "CPUs", "lock"].map(Cell::new);
    table.set_header(names.into_iter().chain(heads.map(right)));
    for told in told {
        for teller in &told.locks {
            let quota = told
                .quota_cpus
                .map_or("all".into(), |cpus| cpus.to_string());
            let time = |ms: f64| format::time((ms * 1e6) as u64);
            let cells = [
                whole(teller.moves as f64),
                time(teller.wait_p50_ms),
                time(teller.wait_p99_ms),
                time(teller.wait_max_ms),
                whole(teller.forks_per_second),
            ];
            let inside = if told.preempted_inside { "yes" } else { "no" };
            let names = [inside.to_owned(), quota, teller.lock.to_owned()].map(Cell::new);
            table.add_row(names.into_iter().chain(cells.map(right)));
        }
    }
    screen::rendered(table)
}

/// The verdict in sentences, and what the machine has to do with it.
pub fn verdict(machine: &Machine, verdict: &Verdict) -> String {
    let costs = &machine.costs;
    let [wake, deep, unpark] =
        [costs.wake, costs.deep_wake, costs.unpark].map(|ps| format::time(nanos(ps) as u64));
    let mut said = verdict.sentences();
    said.push(format!(
        "Who is woken needs {wake} to come, {deep} from deep idle; waking takes {unpark} for each. \
         Whoever comes back to the lock sooner than that overtakes it, again and again: so the \
         gap, which the seed's tool does not state, and the depth of idle decide how much of the \
         lock those get who are awake."
    ));
    let lines: String = said.iter().map(|said| wrapped(said)).collect();
    format!("\n{lines}")
}
