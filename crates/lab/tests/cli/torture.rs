//! `torture`.

use std::{
    io::{BufRead, BufReader, Read},
    process::Command,
};

use crate::{
    json, keys, run,
    signals::{interrupt, start},
    stdout, text,
    usage::refused,
};

const SHORT: &str = "torture --delays none --stutter 0.002 --shuffle 0.003 --long-hold 10";
const SIMULATED: &str = "--world sim --machine x86-32c --seconds 0.01 --writers 3";

fn split(args: &[&str]) -> Vec<String> {
    let words = args.iter().flat_map(|part| part.split_whitespace());
    words.map(str::to_owned).collect()
}

fn torture(args: &[&str]) -> String {
    let args = split(&[&[SHORT], args].concat());
    stdout(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The number after `head` in a line.
fn number(line: &str, head: &str) -> u64 {
    let (_, rest) = line.split_once(head).expect(line);
    let digits = rest
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next();
    digits.unwrap_or_default().parse().expect(line)
}

#[test]
fn text_is_the_kernels() {
    let out = torture(&["--lock mutex,rwsem --seconds 0.02 --writers 2"]);
    let lines: Vec<&str> = out.lines().collect();
    let heads = [
        "Running",
        "Writes:  Total:",
        "Longest",
        "Running",
        "Writes:",
        "Reads :  Total:",
    ];
    for (line, head) in lines.iter().zip(heads) {
        assert!(line.starts_with(head), "{line}");
    }
    assert!(
        lines[0].contains("with mutex [runtime = 0.02s, writers = 2, readers = 0, delays = none]")
    );
    for line in [lines[1], lines[4], lines[5]] {
        let (max, min) = (number(line, "Max/Min:"), number(line, "/Min: "));
        assert_eq!(number(line, "Fail:"), 0);
        let other = number(line, &format!("{min}/"));
        assert_eq!(line.contains("???"), max / 2 > other, "{line}");
        assert!(
            number(line, "Total:") >= max && !line.contains("!!!"),
            "{line}"
        );
    }
}

#[test]
fn a_simulation_is_the_same_each_time_and_says_what_it_was() {
    let args = ["--lock percpu --boost --readers 2", SIMULATED];
    let out = torture(&args);
    assert!(out.contains("Tasks = 5, Simulated Time = "), "{out}");
    assert_eq!(out, torture(&args));
}

#[test]
fn json_has_the_fields_in_this_order() {
    let out = torture(&["--lock rwsem --runs 2 --readers 4 --json", SIMULATED]);
    assert_eq!(out.lines().count(), 2);
    for (line, run) in out.lines().zip(1..) {
        let all = keys(line);
        let fields = [
            "world",
            "lock",
            "writers",
            "readers",
            "seconds",
            "delays",
            "long_hold_ms",
            "stutter_s",
            "shuffle_s",
            "boost",
            "writes",
            "reads",
            "run",
            "seed",
            "machine",
        ];
        let at = |field: &str| all.iter().position(|key| key == field).expect(field);
        assert!(
            fields.windows(2).all(|two| at(two[0]) < at(two[1])),
            "{all:?}"
        );
        let object = json(line);
        assert_eq!(
            (&object["run"], &object["seed"]),
            (&run.into(), &run.into())
        );
        assert_eq!(
            (&object["writers"], &object["readers"]),
            (&3.into(), &4.into())
        );
        for side in ["writes", "reads"] {
            let side = &object[side];
            let [total, max, min] = ["total", "max", "min"].map(|key| side[key].as_u64());
            assert!(total >= max && max >= min && min.is_some(), "{side}");
            assert_eq!(side["fail"], 0);
            assert!(side["longest_wait_ns"].is_u64());
        }
    }
}

#[test]
fn several_runs_end_with_the_columns_of_ministat() {
    let out = torture(&["--lock mutex,percpu --runs 3 --readers 0", SIMULATED]);
    let (runs, tables) = out.split_once("mutex over its runs:\n").expect("a table");
    assert_eq!(runs.matches("Running").count(), 6);
    let lines: Vec<Vec<&str>> = tables
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["N", "Min", "Max", "Median", "Avg", "Stddev"]);
    assert_eq!((lines[1][0], lines[1][1]), ("W", "3"));
    assert_eq!(lines[2], ["percpu", "over", "its", "runs:"]);
    let with_readers = torture(&["--lock rwsem --runs 2 --readers 1", SIMULATED]);
    assert!(with_readers.contains("\nR    2 "), "{with_readers}");
}

#[test]
fn a_run_that_is_cut_short_is_printed() {
    let mut child = start(&[
        "torture",
        "--seconds",
        "86400",
        "--runs",
        "2",
        "--writers",
        "2",
    ]);
    let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut text = String::new();
    while !text.contains("Running locktorture") {
        out.read_line(&mut text).expect("a line is read");
    }
    interrupt(&child);
    out.read_to_string(&mut text).expect("the rest is read");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text.matches("Writes:").count(), 1, "{text}");
    let err = crate::text(&output.stderr);
    assert!(err.contains("interrupted: 1 of 2 runs"), "{err}");
}

#[test]
fn bad_usage_is_refused() {
    for (args, names) in [
        ("--lock mutex --readers 3", ["--readers '3'", "mutex"]),
        ("--lock rwsem,std --readers 3", ["--readers '3'", "std"]),
        (
            "--delays short",
            ["'short' is not a choice", "new, old, none"],
        ),
        ("--long-hold 0", ["--long-hold '0'", "from 1 to 5000"]),
        ("--stutter -1", ["--stutter '-1'", "or 0"]),
        ("--shuffle x", ["--shuffle 'x'", "or 0"]),
        ("--writers 0", ["--writers '0'", "from 1 to 8192"]),
        ("--readers 9000", ["--readers '9000'", "from 0 to 8192"]),
        (
            "--lock std --world sim --machine x86-32c",
            ["'std'", "--world sim"],
        ),
        ("--machine x86-32c", ["x86-32c", "--world sim"]),
    ] {
        let args = split(&["torture", args]);
        let line = refused(&args.iter().map(String::as_str).collect::<Vec<_>>());
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
}

#[test]
fn boost_is_refused_where_it_is_not_allowed() {
    // Somebody else's machine may allow it: then it is used.
    let output = run(&["torture", "--boost", "--seconds", "0.01", "--writers", "1"]);
    let err = text(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(2) => assert!(
            err.contains("--boost") && err.contains("CAP_SYS_NICE"),
            "{err}"
        ),
        other => panic!("{other:?}: {err}"),
    }
}

#[test]
fn a_lock_is_not_to_blame_for_threads_that_cannot_be_started() {
    let nobody = |limit: u32, args: &str| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--clear-groups", "prlimit"]);
        setpriv.arg(format!("--nproc={limit}"));
        setpriv.arg(env!("CARGO_BIN_EXE_lockyard"));
        setpriv.args(args.split(' ')).output()
    };
    match nobody(1, "--version") {
        Ok(output) if output.status.success() => {}
        other => return println!("left out: {other:?}"),
    }
    let args = "torture --lock rwsem --seconds 0.01 --writers 2 --readers 2";
    for limit in 1..12 {
        let output = nobody(limit, args).expect("it started before");
        let err = text(&output.stderr);
        let status = output.status.code();
        assert!(matches!(status, Some(0 | 2)), "{limit}: {err}");
        assert_eq!(err.contains("thread"), status == Some(2), "{err}");
    }
}
