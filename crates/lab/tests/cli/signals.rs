//! Ctrl-C: what was measured so far is printed.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    thread::yield_now,
};

use crate::{command, json};

pub fn start(args: &[&str]) -> Child {
    let mut command = command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .spawn()
        .expect("the command was built with this test")
}

pub fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status();
    assert!(status.expect("sh runs").success());
}

#[test]
fn locktest_prints_the_run_that_was_cut_short() {
    let mut child = start(&[
        "locktest",
        "--threads",
        "2",
        "--seconds",
        "86400",
        "--runs",
        "2",
    ]);
    let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut text = String::new();
    // The header stands before the run.
    while !text.contains("Running locktest") {
        out.read_line(&mut text).expect("a line is read");
    }
    interrupt(&child);
    out.read_to_string(&mut text).expect("the rest is read");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text.matches("Total Rate").count(), 1, "{text}");
    let err = crate::text(&output.stderr);
    assert!(err.contains("interrupted: 1 of 2 runs"), "{err}");
}

#[test]
fn compare_summarises_the_rounds_that_are_complete() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path of characters");
    let child = start(&[
        "compare",
        "--lock",
        "mutex,std",
        "--threads",
        "1,2",
        "--points",
        "0/0",
        "--seconds",
        "0.01",
        "--rounds",
        "1000",
        "--out",
        path,
        "--json",
    ]);
    let raw = directory.path().join("raw.jsonl");
    let runs = || fs::read_to_string(&raw).unwrap_or_default().lines().count();
    while runs() < 5 {
        yield_now();
    }
    interrupt(&child);
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));

    let out = crate::text(&output.stdout);
    let verdict = json(out.lines().last().expect("a verdict"));
    let complete = verdict["rounds_complete"].as_u64().expect("a number");
    assert_eq!(verdict["rounds_planned"], 1000);
    assert_eq!(complete as usize, runs() / 4, "{verdict}");
    let rounds = |line| json(line)["rounds"].as_u64();
    assert!(
        out.lines()
            .take(2)
            .all(|line| rounds(line) >= Some(complete)),
        "{out}"
    );
}

#[test]
fn validate_shows_what_it_has_without_a_verdict() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path of characters");
    let child = start(&[
        "validate",
        "--machine",
        "x86-32c",
        "--lock",
        "mutex,tas",
        "--threads",
        "1,2",
        "--points",
        "0/0,5/5",
        "--seconds",
        "0.01",
        "--rounds",
        "1000",
        "--out",
        path,
        "--json",
    ]);
    let raw = directory.path().join("raw.jsonl");
    let runs = || fs::read_to_string(&raw).unwrap_or_default().lines().count();
    while runs() < 5 {
        yield_now();
    }
    interrupt(&child);
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));

    let out = crate::text(&output.stdout);
    let objects: Vec<_> = out.lines().map(json).collect();
    let (verdict, points) = objects.split_last().expect("a verdict");
    assert_eq!(points.len(), runs().min(8), "{out}");
    assert!(points.iter().all(|p| p["sim_kops"].is_null()), "{out}");
    assert_eq!(
        (&verdict["points"], &verdict["points_planned"]),
        (&0.into(), &8.into())
    );
    assert!(verdict["holds"].is_null(), "{verdict}");
}
