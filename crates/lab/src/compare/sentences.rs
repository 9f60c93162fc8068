//! The verdict in sentences.

use super::{
    again::ROUNDS,
    plan::Point,
    summary::{CutShort, MARGIN},
    verdict::{Outcome, Verdict},
};
use crate::{format, values};

/// The summary. Every number in it stands in the verdict.
pub fn text(v: &Verdict) -> String {
    let mut lines = vec![String::new(), measured(v)];
    if let Some(CutShort { point, rate_kops }) = &v.cut_short {
        let head = format!(
            "Not every lock was measured at {point}; kop/s of those that were, of one round:"
        );
        let rates: Vec<_> = rate_kops.iter().collect();
        section(&mut lines, &head, &rates, |(lock, kops)| {
            format!("{lock}: {}", format::number(**kops))
        });
    }
    if v.points > 0 {
        means(&mut lines, v);
        section(&mut lines, &wins(v), &v.wins, outcome);
        section(&mut lines, &losses(v), &v.losses, outcome);
        if !v.ties.is_empty() {
            let head = format!(
                "{} is level with {} at {}:",
                v.lock,
                rival(v),
                of(v.ties.len(), v)
            );
            section(&mut lines, &head, &v.ties, outcome);
        }
        section(&mut lines, &front(v), &v.pareto_misses, |miss| {
            format!("{}: {}", miss.point, listed(&miss.rivals))
        });
        if !v.unconfirmed.is_empty() {
            section(&mut lines, &unconfirmed(v), &v.unconfirmed, |miss| {
                format!("{}: {}", miss.point, listed(&miss.rivals))
            });
        }
        section(&mut lines, &tails(v), &v.longer_tails, |tail| {
            let (ours, theirs) = (tail.wait_p999_ns, tail.rival_wait_p999_ns);
            let whose = tail
                .whose
                .map(|whose| format!("{whose} "))
                .unwrap_or_default();
            format!(
                "{}: {whose}{} against {} of {}",
                tail.point,
                format::time(ours),
                format::time(theirs),
                tail.rival
            )
        });
        if !v.collapse.is_empty() {
            collapse(&mut lines, v);
        }
        lines.push(spread(v));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A heading, and what it announces.
fn section<T>(lines: &mut Vec<String>, head: &str, items: &[T], show: impl Fn(&T) -> String) {
    lines.push(head.into());
    lines.extend(items.iter().map(|item| format!("  {}", show(item))));
}

fn measured(v: &Verdict) -> String {
    let (complete, planned) = (v.rounds_complete, v.rounds_planned);
    let mut text = format!("Summary of {complete} of {planned} rounds");
    if v.points < v.points_planned {
        text += &format!(
            "; every lock was measured at {} of {} points, and only these count",
            v.points, v.points_planned
        );
    } else if v.points_ahead > 0 {
        text += &format!("; {} have one round more", of(v.points_ahead, v));
    }
    text
}

fn means(lines: &mut Vec<String>, v: &Verdict) {
    let mean = |mean: Option<f64>| match mean {
        Some(ratio) => format!("{ratio:.2}x"),
        None => "not measured".into(),
    };
    lines.push(format!("Geometric mean of the ratio to {}:", rival(v)));
    lines.push(format!(
        "  with 2 or more threads: {}",
        mean(v.geomean_ratio_multi)
    ));
    lines.push(format!("  with 1 thread: {}", mean(v.ratio_uncontended)));
}

fn wins(v: &Verdict) -> String {
    let margin = 100.0 * MARGIN;
    match v.wins.len() {
        0 => format!("{} wins nowhere by more than {margin} %.", v.lock),
        n => format!("{} wins by more than {margin} % at {}:", v.lock, of(n, v)),
    }
}

fn losses(v: &Verdict) -> String {
    let margin = 100.0 * MARGIN;
    match v.losses.len() {
        0 => format!("{} loses nowhere by more than {margin} %.", v.lock),
        n => format!("{} loses by more than {margin} % at {}:", v.lock, of(n, v)),
    }
}

fn outcome(o: &Outcome) -> String {
    format!("{}: {:.2}x {}", o.point, o.ratio, o.rival)
}

fn front(v: &Verdict) -> String {
    let unknown = v.pareto_unknown;
    match v.pareto_misses.len() {
        0 if unknown == 0 => format!("{} is on the Pareto front at every point.", v.lock),
        0 => format!(
            "At {} the rounds are too few to say whether {} is on the Pareto front.",
            of(unknown, v),
            v.lock
        ),
        n => format!(
            "{} is not on the Pareto front at {}; dominated by:",
            v.lock,
            of(n, v)
        ),
    }
}

fn unconfirmed(v: &Verdict) -> String {
    format!(
        "Rivals that seemed to dominate it did not in {ROUNDS} more rounds at {}:",
        of(v.unconfirmed.len(), v)
    )
}

/// The first four names, and how many more there are.
fn listed(names: &[&str]) -> String {
    match names.split_at_checked(4) {
        Some((first, more)) if !more.is_empty() => {
            format!("{} and {} more", first.join(", "), more.len())
        }
        _ => names.join(", "),
    }
}

fn tails(v: &Verdict) -> String {
    let points: Vec<Point> = v.longer_tails.iter().map(|tail| tail.point).collect();
    match values::distinct(&points).len() {
        0 => format!(
            "Its p99.9 wait is nowhere longer than that of {}.",
            rival(v)
        ),
        n => format!(
            "Its p99.9 wait is longer than that of {} at {}:",
            rival(v),
            of(n, v)
        ),
    }
}

fn collapse(lines: &mut Vec<String>, v: &Verdict) {
    section(
        lines,
        "Collapse check, throughput over that with 2 threads:",
        &v.collapse,
        |c| {
            let kept = |lock: &str| c.kept.get(lock).copied().unwrap_or(f64::NAN);
            let rivals = v.rivals.iter().map(|&rival| (rival, kept(rival)));
            let least = rivals.min_by(|a, b| a.1.total_cmp(&b.1));
            let (rival, least) = least.unwrap_or(("none", f64::NAN));
            let rounds = match c.measured_again {
                true => format!(" in {ROUNDS} more rounds"),
                false => String::new(),
            };
            format!(
                "{} with {} threads: {}x{rounds}; the least of the rivals: {}x {rival}",
                c.setting,
                c.threads,
                format::number(kept(v.lock)),
                format::number(least),
            )
        },
    );
}

fn spread(v: &Verdict) -> String {
    let Some((spread, worst)) = v.spread.zip(v.worst_spread) else {
        return "How far rounds differ in throughput was not measured: no point has two.".into();
    };
    format!(
        "Rounds differ in throughput by {:.0} % of their median, those of {} by {:.0} % at worst.",
        100.0 * spread,
        v.lock,
        100.0 * worst,
    )
}

/// Whom our lock is held against.
fn rival(v: &Verdict) -> &'static str {
    match v.rivals[..] {
        [rival] => rival,
        _ => "the best rival",
    }
}

fn of(n: usize, v: &Verdict) -> String {
    format!("{n} of {} points", v.points)
}
