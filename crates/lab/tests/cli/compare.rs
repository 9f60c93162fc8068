//! `compare`.

use std::fs;

use crate::{json, keys, run, stdout, text};

const TINY: [&str; 9] = [
    "compare",
    "--lock",
    "std,mutex",
    "--threads",
    "1,2,4",
    "--points",
    "0/0,5/9",
    "--seconds",
    "0.01",
];

fn tiny(more: &[&str]) -> Vec<&'static str> {
    let more = more.iter().map(|arg| &*String::leak((*arg).into()));
    TINY.into_iter().chain(more).collect()
}

#[test]
fn json_has_a_point_for_each_cell_of_the_grid_and_a_verdict() {
    let out = stdout(&tiny(&["--json"]));
    let objects: Vec<_> = out.lines().map(json).collect();
    let (verdict, points) = objects.split_last().expect("objects were printed");
    assert_eq!(points.len(), 6);
    for point in points {
        assert_eq!(point["type"], "point");
        assert_eq!(point["rounds"], 3);
        assert_eq!(
            point["lock"], "mutex",
            "ours comes first whatever the order"
        );
        assert_eq!(point["best_rival"], "std");
        let rate = |lock: usize| {
            point["locks"][lock]["rate_kops"]
                .as_f64()
                .expect("a number")
        };
        let ratio = point["ratio"].as_f64().expect("a number");
        assert!((rate(0) / rate(1) - ratio).abs() < 1e-3 * ratio, "{point}");
    }
    assert_eq!(verdict["type"], "verdict");
    assert_eq!(verdict["rounds_complete"], 3);
    let number = |key: &str| verdict[key].as_array().expect("a list").len();
    assert_eq!(number("wins") + number("ties") + number("losses"), 6);
    assert_eq!(number("collapse"), 2);
    assert_eq!(number("longest_waits"), 6);
    assert!(verdict["geomean_ratio_multi"].is_f64() && verdict["ratio_uncontended"].is_f64());
}

#[test]
fn text_names_every_point_and_fits_into_100_columns() {
    let out = stdout(&tiny(&[]));
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let (_, summary) = out
        .split_once("\nSummary of 3 of 3 rounds")
        .expect("a summary");
    for work in ["0/0", "5/9"] {
        for threads in ["1 thread:", "2 threads:", "4 threads:"] {
            let point = format!("  {work} with {threads} ");
            assert!(summary.contains(&point), "no {point} in\n{out}");
        }
    }
}

#[test]
fn out_holds_every_run_the_summary_and_the_machine() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("new/results");
    let path = out.to_str().expect("a path of characters");
    let printed = stdout(&tiny(&["--json", "--out", path]));
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("the file is there");

    let raw = read("raw.jsonl");
    assert_eq!(raw.lines().count(), 2 * 6 * 3);
    for (line, number) in raw.lines().zip(1..) {
        let fields = keys(line);
        assert_eq!((fields[0].as_str(), fields[14].as_str()), ("world", "jain"));
        assert_eq!(fields.last().map(String::as_str), Some("round"));
        assert_eq!(json(line)["run"], number);
    }
    assert_eq!(read("summary.jsonl"), printed);
    let machine = json(&read("machine.json"));
    for field in [
        "date_utc",
        "lockyard",
        "kernel",
        "cpus_usable",
        "work_unit_ns",
        "clock_ns",
    ] {
        assert!(!machine[field].is_null(), "{machine}");
    }

    // A second comparison must not overwrite the first.
    let again = run(&tiny(&["--json", "--out", path]));
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("holds a raw.jsonl already"));
    assert_eq!(read("raw.jsonl"), raw);
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_before_anything_runs() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = format!("{}/inside", file.path().display());
    // A day for each run: this returns because none is started.
    let output = run(&["compare", "--seconds", "86400", "--out", &path]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert_eq!(
        (text(&output.stdout).as_str(), err.lines().count()),
        ("", 1)
    );
    assert!(err.contains(&path) && err.contains("writable"), "{err}");
}
