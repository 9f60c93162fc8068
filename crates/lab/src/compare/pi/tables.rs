//! The comparison in tables, each readable in 100 columns, and what those of
//! real-time threads say.

use comfy_table::{Cell, CellAlignment};

use super::{
    super::tables::{SPARSE, tails},
    OURS, RIVAL, STRICT,
    chains::ChainAt,
    groups::GroupsAt,
    ordinary::PointAt,
    realtime::{self, PINNED},
    standing::Standing,
};
use crate::{format, screen, values};

/// Ordinary threads: a table for each work.
pub fn points(points: &[PointAt]) -> String {
    let settings: Vec<_> = points.iter().map(|p| p.point.setting).collect();
    let settings = values::distinct(&settings).into_iter();
    let mut all = points
        .iter()
        .flat_map(|p| &p.locks)
        .flat_map(|lock| lock.at.tails());
    let sparse = all.any(|tail| tail.sparse());
    let table = |setting| {
        let mut table = screen::table();
        let numbers = ["kop/s", "/pthread-pi", "/mutex", "p99.9", "longest", "Jain"];
        let head = [right("threads"), Cell::new("lock")];
        table.set_header(head.into_iter().chain(numbers.map(right)));
        for p in points.iter().filter(|p| p.point.setting == setting) {
            for (row, lock) in (0..).zip(&p.locks) {
                let threads = if row == 0 {
                    p.point.threads.to_string()
                } else {
                    String::new()
                };
                let at = &lock.at;
                let numbers = [
                    format::number(at.rate_kops),
                    format!("{}x", format::number(lock.over_pthread_pi)),
                    format!("{}x", format::number(lock.over_mutex)),
                    tails(at),
                    time(at.wait_max_ns),
                    format!("{:.2}", at.jain),
                ];
                let head = [right(threads), Cell::new(at.lock)];
                table.add_row(head.into_iter().chain(numbers.map(right)));
            }
        }
        format!(
            "\nOrdinary threads at {setting}, medians over the rounds\n{}",
            screen::rendered(table)
        )
    };
    settings.map(table).collect::<String>() + if sparse { SPARSE } else { "" }
}

/// Groups of real-time threads, and what became of ours beside the rival's.
pub fn groups(groups: &[GroupsAt]) -> String {
    let Some(first) = groups.first() else {
        return String::new();
    };
    let mut table = screen::table();
    let numbers = [
        "inversions/s",
        "wait p50",
        "wait max",
        "of all",
        "unbounded",
    ];
    let head = [Cell::new("groups"), Cell::new("lock")];
    table.set_header(head.into_iter().chain(numbers.map(right)));
    for at in groups {
        let name = format!("{} {}", at.groups, realtime::pinned(at.pinned));
        let numbers = [
            format::number(at.inversions_per_s),
            time(at.wait_p50_ns),
            time(at.wait_max_ns),
            time(at.longest_wait_ns),
            at.unbounded.to_string(),
        ];
        let head = [Cell::new(name), Cell::new(at.lock)];
        table.add_row(head.into_iter().chain(numbers.map(right)));
    }
    let runs = first.runs;
    let mut text = format!(
        "\nReal-time threads in groups, medians of {runs} runs; of all: the longest wait of all runs\n{}",
        screen::rendered(table)
    );
    for pinned in PINNED {
        for lock in [OURS, STRICT] {
            text += &beside(groups, pinned, lock).unwrap_or_default();
        }
    }
    text
}

/// One of ours beside the rival, in a sentence.
fn beside(groups: &[GroupsAt], pinned: bool, lock: &str) -> Option<String> {
    let of = |lock| {
        groups
            .iter()
            .find(|at| (at.pinned, at.lock) == (pinned, lock))
    };
    let (ours, rival) = (of(lock)?, of(RIVAL)?);
    let rate = ours.inversions_per_s / rival.inversions_per_s;
    let wait = ours.wait_max_ns? as f64 / rival.wait_max_ns? as f64;
    Some(format!(
        "{lock} {}: {} in inversions ({rate:.2}x {RIVAL}), {} in the longest wait ({wait:.2}x).\n",
        realtime::pinned(pinned),
        ours.in_inversions.name(),
        ours.in_longest_wait.name(),
    ))
}

/// Chains: how long until the owner ran and until high had its lock, and where ours
/// is sooner.
pub fn chains(chains: &[ChainAt]) -> String {
    let Some(first) = chains.first() else {
        return String::new();
    };
    let depths: Vec<_> = chains.iter().map(|at| at.depth).collect();
    let mut table = screen::table();
    let head = [
        "owner runs p50",
        "p99",
        "max",
        "high has it p50",
        "p99",
        "max",
    ];
    let names = [right("depth"), Cell::new("lock")];
    table.set_header(names.into_iter().chain(head.map(right)));
    for depth in values::distinct(&depths) {
        let here = chains.iter().filter(|at| at.depth == depth);
        for (row, at) in (0..).zip(here) {
            let depth = if row == 0 {
                self::depth(depth)
            } else {
                String::new()
            };
            let times = [&at.owner_runs, &at.high_has_it];
            let times = times
                .into_iter()
                .flat_map(|t| [t.p50_ns, t.p99_ns, t.max_ns]);
            let names = [right(depth), Cell::new(at.lock)];
            table.add_row(names.into_iter().chain(times.map(|ns| right(time(ns)))));
        }
    }
    format!(
        "\nReal-time threads in chains, medians of {} runs\n{}{}",
        first.runs,
        screen::rendered(table),
        [OURS, STRICT].map(|lock| sooner(chains, lock)).concat()
    )
}

/// At which depths the last owner of one of ours runs sooner than the rival's, and
/// where it does not.
fn sooner(chains: &[ChainAt], lock: &str) -> String {
    let ours: Vec<_> = chains.iter().filter(|at| at.lock == lock).collect();
    let those = |standing| ours.iter().filter(move |at| at.in_owner_runs == standing);
    let mut text = format!(
        "{lock} wins in the time until the owner runs, p50, at {} of {} depths, ties at {}, loses at {}.",
        those(Standing::Wins).count(),
        ours.len(),
        those(Standing::Ties).count(),
        those(Standing::Loses).count()
    );
    for at in those(Standing::Loses) {
        let rival = chains
            .iter()
            .find(|rival| (rival.depth, rival.lock) == (at.depth, RIVAL));
        let what = at
            .depth
            .map_or("trees".into(), |depth| format!("depth {depth}"));
        text += &format!(
            "\n  {what}: {} against {} of {RIVAL}",
            time(at.owner_runs.p50_ns),
            time(rival.and_then(|rival| rival.owner_runs.p50_ns))
        );
    }
    text + "\n"
}

fn depth(depth: Option<usize>) -> String {
    depth.map_or("trees".into(), |depth| depth.to_string())
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("-".into(), format::time)
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
