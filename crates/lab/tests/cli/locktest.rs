//! `locks` and `locktest`.

use crate::{json, keys, run, stdout, text};

pub const FIELDS: [&str; 19] = [
    "world",
    "lock",
    "threads",
    "seconds",
    "load",
    "gap",
    "read_pct",
    "ops_min",
    "ops_mean",
    "ops_max",
    "rate_kops",
    "wait_p50_ns",
    "wait_p999_ns",
    "wait_max_ns",
    "jain",
    "run",
    "seed",
    "sample",
    "wait_samples",
];

#[test]
fn locks_lists_ours_rivals_and_toys() {
    let table = stdout(&["locks"]);
    let lines = stdout(&["locks", "--json"]);
    for line in lines.lines() {
        let fields = [
            "name",
            "kind",
            "worlds",
            "size_bytes",
            "about",
            "unavailable",
        ];
        assert_eq!(keys(line), fields);
        assert!(!json(line)["worlds"][0].is_null(), "{line}");
        let name = json(line)["name"].as_str().map(str::to_owned);
        assert!(
            table.contains(&name.expect("a name is a string")),
            "{table}"
        );
    }
    let kind = |kind| lines.lines().filter(|l| json(l)["kind"] == kind).count();
    assert_eq!(kind("ours"), 12);
    assert!(kind("rival") >= 3 && kind("toy") >= 1, "{lines}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
}

#[test]
fn json_has_all_fields_in_order_one_object_per_run() {
    let out = stdout(&[
        "locktest",
        "--lock",
        "mutex,std",
        "--threads",
        "1,2",
        "--seconds",
        "0.02",
        "--load",
        "3",
        "--gap",
        "7",
        "--runs",
        "2",
        "--seed",
        "5",
        "--json",
    ]);
    let runs: Vec<_> = out.lines().map(json).collect();
    assert_eq!(runs.len(), 8);
    assert!(out.lines().all(|line| keys(line) == FIELDS), "{out}");
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("threads"), [1, 2, 1, 2, 1, 2, 1, 2]);
    assert_eq!(of("run"), [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(of("seed"), [5, 5, 5, 5, 6, 6, 6, 6]);
    for run in &runs {
        let number = |key: &str| run[key].as_f64().expect("this field is a number");
        assert_eq!(
            (number("load"), number("gap"), number("read_pct")),
            (3.0, 7.0, 0.0)
        );
        let ops = number("ops_mean") * number("threads");
        let rate = ops / number("seconds") / 1e3;
        // It is printed with few digits.
        assert!(
            (rate - number("rate_kops")).abs() <= 1e-3 * rate + 0.01,
            "{run}"
        );
        assert!(number("ops_min") <= number("ops_mean") && number("ops_mean") <= number("ops_max"));
        assert!(number("wait_p50_ns") <= number("wait_p999_ns"));
        assert!(number("wait_p999_ns") <= number("wait_max_ns"));
        assert!(number("jain") > 0.0 && number("jain") <= 1.0);
    }
}

#[test]
fn text_has_the_shape_of_the_seed() {
    let out = stdout(&[
        "locktest",
        "--threads",
        "2",
        "--seconds",
        "0.02",
        "--load",
        "1",
    ]);
    let lines: Vec<&str> = out.lines().collect();
    let [unit, header, ops, rate, wait] = lines[..] else {
        panic!("five lines were expected: {out}");
    };
    assert!(
        unit.starts_with("Work unit = ") && unit.ends_with(" ns"),
        "{unit}"
    );
    assert_eq!(
        header,
        "Running locktest with mutex [runtime = 0.02s, load = 1]"
    );
    let counts = ops.strip_prefix("Threads = 2, Min/Mean/Max = ").expect(ops);
    assert!(
        counts
            .split('/')
            .all(|n| n.replace(',', "").parse::<u64>().is_ok()),
        "{ops}"
    );
    let rates = rate.strip_prefix("Threads = 2, Total Rate = ").expect(rate);
    assert!(
        rates.contains("op/s; Percpu Rate = ") && rates.ends_with("op/s"),
        "{rate}"
    );
    assert!(
        wait.starts_with("Threads = 2, Wait p50/p99.9/Max = "),
        "{wait}"
    );
}

/// The fields that follow `FIELDS` when some operations only read.
pub const APART: [&str; 10] = [
    "reads",
    "writes",
    "read_wait_p50_ns",
    "read_wait_p999_ns",
    "read_wait_max_ns",
    "read_wait_samples",
    "write_wait_p50_ns",
    "write_wait_p999_ns",
    "write_wait_max_ns",
    "write_wait_samples",
];

#[test]
fn reads_are_counted_and_their_waits_are_apart() {
    let args = [
        "locktest",
        "--lock",
        "rwsem,percpu,std-rw,mutex",
        "--threads",
        "2",
    ];
    let args = [&args[..], &["--seconds", "0.02", "--sample", "8"]].concat();
    for (read, share) in [("50", 0.4..0.6), ("100", 1.0..1.1)] {
        let out = stdout(&[&args[..], &["--read", read, "--json"]].concat());
        assert_eq!(out.lines().count(), 4);
        for line in out.lines() {
            assert_eq!(keys(line), [&FIELDS[..], &APART].concat());
            let run = json(line);
            let number = |key: &str| run[key].as_f64().expect("this field is a number");
            let all = number("ops_mean") * number("threads");
            assert!(
                (number("reads") + number("writes") - all).abs() < 1.0,
                "{run}"
            );
            // The first lock of a process may take as long as this run.
            let few = all < 1000.0;
            assert!(few || share.contains(&(number("reads") / all)), "{run}");
            let samples = number("read_wait_samples") + number("write_wait_samples");
            assert_eq!(samples, number("wait_samples"));
            assert!(run["read_wait_p50_ns"].as_f64() <= run["read_wait_max_ns"].as_f64());
            assert!(read != "100" || number("writes") == 0.0, "{run}");
            let none = number("write_wait_samples") == 0.0;
            assert_eq!(run["write_wait_max_ns"].is_null(), none);
        }
    }
}

#[test]
fn text_with_readers_has_the_shape_of_the_seed() {
    let args = ["locktest", "--lock", "rwsem", "--threads", "2"];
    let out = stdout(&[&args[..], &["--seconds", "0.02", "--read", "50"]].concat());
    let lines: Vec<&str> = out.lines().collect();
    let [_, header, _, _, _, reads, writes] = lines[..] else {
        panic!("seven lines were expected: {out}");
    };
    assert_eq!(
        header,
        "Running locktest with rwsem [runtime = 0.02s, r% = 50%, load = 1]"
    );
    for (line, whose) in [(reads, "Reads"), (writes, "Writes")] {
        assert!(
            line.starts_with(&format!("Threads = 2, {whose} = ")),
            "{line}"
        );
        assert!(line.contains("; Wait p50/p99.9/Max = "), "{line}");
    }
}

#[test]
fn events_are_counted_for_our_locks_alone() {
    let args = [
        "locktest",
        "--lock",
        "mutex,std",
        "--threads",
        "4",
        "--seconds",
        "0.02",
    ];
    let out = stdout(&[&args[..], &["--events", "--json"]].concat());
    let runs: Vec<_> = out.lines().map(json).collect();
    assert!(runs[0]["events"]["Parked"].is_u64(), "{out}");
    assert!(runs[1].get("events").is_none(), "{out}");
    let out = stdout(&[&args[..], &["--events"]].concat());
    assert_eq!(out.matches("Events: ").count(), 1, "{out}");
}

#[test]
fn a_repeated_value_is_taken_once() {
    let out = stdout(&[
        "locktest",
        "--lock",
        "std,std",
        "--threads",
        "1,1",
        "--seconds",
        "0.01",
        "--json",
    ]);
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let script = format!("{} locks --json | true", env!("CARGO_BIN_EXE_lockyard"));
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output();
    assert_eq!(text(&output.expect("sh runs").stderr), "");
    let full = run_into("/dev/full");
    assert_eq!(full.status.code(), Some(1));
    assert!(text(&full.stderr).contains("could not be written"));
    assert_eq!(text(&run(&["locks"]).stderr), "");
}

fn run_into(path: &str) -> std::process::Output {
    let file = std::fs::File::create(path).expect("the file opens");
    let mut command = crate::command(&["locks"]);
    command.stdout(file).output().expect("the command runs")
}
