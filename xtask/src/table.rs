//! The README's table of results, made from a run's committed data.

use std::{fmt::Write, fs, path::Path};

use anyhow::Context;
use serde::Deserialize;

/// The run that the README shows.
const RUN: &str = "benches/runs/mutex-2cpu-zen5";
const BEGIN: &str = "<!-- made by cargo xtask table -->\n";
const END: &str = "<!-- end -->\n";

#[derive(Deserialize)]
struct At {
    lock: String,
    rate_kops: f64,
    wait_p999_ns: u64,
}

#[derive(Deserialize)]
struct Point {
    load: u32,
    gap: u32,
    threads: u32,
    best_rival: String,
    ratio: f64,
    locks: Vec<At>,
}

/// Writes the table into the README; or only says whether it stands there.
pub fn run(root: &Path, write: bool) -> anyhow::Result<bool> {
    let summary = root.join(RUN).join("summary.jsonl");
    let text = fs::read_to_string(&summary)
        .with_context(|| format!("cannot read {}", summary.display()))?;
    let table = table(&text)?;
    let path = root.join("README.md");
    let readme = fs::read_to_string(&path).context("cannot read README.md")?;
    let fresh = replaced(&readme, &table).context("README.md has no place for the table")?;
    let same = fresh == readme;
    if write {
        fs::write(&path, fresh).context("cannot write README.md")?;
    } else if !same {
        println!("README.md: its table is not that of {RUN}: run cargo xtask table");
    }
    Ok(same || write)
}

/// One row for each point; the verdict, which is no point, is passed over.
fn table(summary: &str) -> anyhow::Result<String> {
    let mut table = String::from(
        "| load/gap | threads | mutex, kop/s | p99.9 wait | best rival | kop/s | p99.9 wait | ratio |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for line in summary
        .lines()
        .filter(|line| line.contains("\"type\":\"point\""))
    {
        let p: Point = serde_json::from_str(line).context("a line of the summary")?;
        let find = |name: &str| p.locks.iter().find(|at| at.lock == name);
        let (ours, best) = find("mutex")
            .zip(find(&p.best_rival))
            .context("a point without our lock or its rival")?;
        writeln!(
            table,
            "| {}/{} | {} | {} | {} | {} | {} | {} | {:.2} |",
            p.load,
            p.gap,
            p.threads,
            thousands(ours.rate_kops),
            time(ours.wait_p999_ns),
            p.best_rival,
            thousands(best.rate_kops),
            time(best.wait_p999_ns),
            p.ratio,
        )?;
    }
    Ok(table)
}

fn replaced(readme: &str, table: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

fn thousands(kops: f64) -> String {
    let digits = format!("{kops:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} µs", ns as f64 / 1e3),
        _ => format!("{:.3} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_a_row_and_the_verdict_is_none() {
        let summary = concat!(
            r#"{"type":"point","load":0,"gap":0,"threads":2,"best_rival":"std","ratio":2.5,"#,
            r#""locks":[{"lock":"mutex","rate_kops":250000.4,"wait_p999_ns":41},"#,
            r#"{"lock":"std","rate_kops":100000.0,"wait_p999_ns":6500}]}"#,
            "\n",
            r#"{"type":"verdict"}"#,
        );
        let rows = table(summary).unwrap();
        assert!(
            rows.ends_with("| 0/0 | 2 | 250,000 | 41 ns | std | 100,000 | 6.500 µs | 2.50 |\n")
        );
        assert_eq!(rows.lines().count(), 3);
    }

    #[test]
    fn the_readme_shows_the_committed_run() {
        let root = &crate::root().unwrap();
        assert!(run(root, false).unwrap());
    }

    #[test]
    fn the_table_goes_between_its_marks() {
        let readme = format!("a\n{BEGIN}old\n{END}b\n");
        let expected = format!("a\n{BEGIN}new\n{END}b\n");
        assert_eq!(replaced(&readme, "new\n"), Some(expected));
        assert_eq!(replaced("a", "new"), None);
    }
}
