//! The results for people: tables beside the paper's, and sentences.

use comfy_table::Cell;

use super::{
    super::{
        pairs::{Row, Side, Spread},
        text::{costs, count, effect, percent, right, share, signed, whole, wrapped},
    },
    Kind, LOAD, LOCKS, PAPER, PAPER_SECONDS, Plan, Published, explanation, paper_effect,
    verdict::Verdict,
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
        "Seed 001, \"locking/osq: Use optimized spinning loop for arm64\" (January 2020)\n\
         Simulated machine = {}\n{}\n\
         Work unit = {:.2} ns\n\
         Before = {before}: spinners poll in the mutex's queue\n\
         After = {after}: they wait for events\n\
         Published setting: locktest with {} threads, load = {LOAD}; the gap is not given, here 0\n\
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

/// All tables, and what follows from them.
pub fn results(plan: &Plan, rows: &[Row<Kind>]) -> String {
    let of = |kind: Kind| rows.iter().filter(move |row| row.kind == kind);
    let mut text = String::new();
    if let Some(row) = of(Kind::Experiment).next() {
        text += &experiment(row);
        text += &costs(row);
        let alone = of(Kind::Smt).find(|row| row.setting.threads_per_core == 1);
        for sentence in explanation::sentences(&plan.bench.machine, row, alone) {
            text += &wrapped(&sentence);
        }
    }
    let machine = &plan.bench.machine;
    for (kind, title) in [
        (
            Kind::Smt,
            format!(
                "Threads per core, on the same {} sockets of {} cores",
                machine.sockets,
                machine.cores() / machine.sockets
            ),
        ),
        (
            Kind::Threads,
            "Threads, on the whole machine: they fill its sockets and cores in turn".into(),
        ),
        (
            Kind::Gap,
            "Work units between an unlock and the next lock".into(),
        ),
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
             of a seed, then their mean. Share: that of the most favoured thread in all \
             operations.",
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
    let (before, after) = (&row.before, &row.after);
    let mut line = |name: &str, ours: [String; 3], paper: fn(&Published) -> f64, show: Show| {
        let [a, b] = PAPER.map(|published| show(paper(&published)));
        let effect = signed(paper_effect(paper));
        let cells = ours.into_iter().chain([a, b, effect]).map(right);
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    };
    let ops = |of: fn(&Side) -> Spread| [count(of(before)), count(of(after)), String::new()];
    line(
        "kop/s",
        [
            count(before.rate_kops),
            count(after.rate_kops),
            effect(row.effect),
        ],
        |paper| paper.rate_kops,
        whole,
    );
    line(
        "ops/thread: min",
        ops(|side| side.ops_min),
        |p| p.ops_min,
        whole,
    );
    line(
        "ops/thread: mean",
        ops(|side| side.ops_mean),
        |p| p.ops_mean,
        whole,
    );
    line(
        "ops/thread: max",
        ops(|side| side.ops_max),
        |p| p.ops_max,
        whole,
    );
    line(
        "share of the max",
        [share(before), share(after), effect(row.share_effect)],
        Published::max_share,
        percent,
    );
    let notes = wrapped(&format!(
        "The paper's runs last {PAPER_SECONDS} s and these {} s: counts of operations are not \
         scaled.",
        row.setting.seconds
    ));
    format!("\n{}{notes}", screen::rendered(table))
}

/// How a number of the paper is shown.
type Show = fn(f64) -> String;

/// A row for each setting.
fn varied(kind: Kind, rows: &[&Row<Kind>]) -> String {
    let mut table = screen::table();
    let first = match kind {
        Kind::Smt => "threads/core",
        Kind::Gap => "gap",
        Kind::Experiment | Kind::Threads => "threads",
    };
    let heads = [
        first,
        "kop/s before",
        "after",
        "effect",
        "share before",
        "after",
    ];
    table.set_header(heads.map(right));
    for row in rows {
        let setting = &row.setting;
        table.add_row([
            right(match kind {
                Kind::Smt => setting.threads_per_core,
                Kind::Gap => setting.gap as usize,
                Kind::Experiment | Kind::Threads => setting.threads,
            }),
            right(count(row.before.rate_kops)),
            right(count(row.after.rate_kops)),
            right(effect(row.effect)),
            right(share(&row.before)),
            right(share(&row.after)),
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
