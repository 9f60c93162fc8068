//! `compare`.

use std::{fs, thread::available_parallelism};

use crate::{json, keys, run, stdout, text, without_room};

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
fn without_room_the_directory_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs").display().to_string();
    let output = without_room(&format!(
        "compare --lock mutex,std --threads 1 --points 0/0 --seconds 0.01 --rounds 3 --out {path}"
    ));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let named = format!("results could not be written: '{path}'");
    assert!(err.contains(&named), "{err}");
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
    // In later rounds are those that a rival was measured again beside.
    let planned = raw
        .lines()
        .filter(|line| json(line)["round"].as_u64() <= Some(3));
    assert_eq!(planned.count(), 2 * 6 * 3);
    for (line, number) in raw.lines().zip(1..) {
        let fields = keys(line);
        assert_eq!((fields[0].as_str(), fields[14].as_str()), ("world", "jain"));
        let last = fields.iter().map(String::as_str);
        let last: Vec<_> = last.skip_while(|field| *field != "round").collect();
        // With one CPU there is nobody to hand a line to.
        let alone = available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        assert!(
            last == ["round", "transfer_ns"] || alone && last == ["round"],
            "{last:?}"
        );
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

const TINY_RW: [&str; 9] = [
    "compare",
    "--rw",
    "--lock",
    "std-rw,percpu,rwsem",
    "--threads",
    "1,2",
    "--points",
    "0/0",
    "--seconds",
];

fn tiny_rw(more: &[&'static str]) -> Vec<&'static str> {
    TINY_RW
        .into_iter()
        .chain(["0.002"])
        .chain(more.iter().copied())
        .collect()
}

#[test]
fn rw_judges_each_of_ours_and_the_bounds() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("results");
    let path: &'static str = String::leak(path.to_str().expect("characters").into());
    let output = run(&tiny_rw(&["--json", "--out", path]));
    let out = text(&output.stdout);
    let objects: Vec<_> = out.lines().map(json).collect();
    let kinds = |kind| objects.iter().filter(move |object| object["type"] == kind);
    assert_eq!(
        kinds("point").count(),
        2 * 10,
        "ours at 5 shares and 2 numbers of threads"
    );
    let verdicts: Vec<_> = kinds("verdict").collect();
    for (verdict, lock) in verdicts.iter().zip(["percpu", "rwsem"]) {
        assert_eq!(verdict["lock"], lock);
        assert_eq!(verdict["rivals"], serde_json::json!(["std-rw"]));
        assert_eq!(
            (&verdict["points"], &verdict["rounds_complete"]),
            (&10.into(), &3.into())
        );
    }
    for share in [0, 50, 90, 99, 100] {
        assert_eq!(
            kinds("point")
                .filter(|point| point["read_pct"] == share)
                .count(),
            4
        );
    }

    let bounds = objects.last().expect("objects were printed");
    assert_eq!(bounds["type"], "bounds");
    let all = bounds["bounds"].as_array().expect("a list");
    let names = [
        "percpu-read-1",
        "percpu-read-2",
        "percpu-readers",
        "rwsem-front",
        "rwsem-mean",
        "rwsem-writer-wait",
        "percpu-writer",
    ];
    assert_eq!(
        all.iter().map(|b| b["bound"].clone()).collect::<Vec<_>>(),
        names
    );
    for bound in all {
        let (measured, holds) = (bound["measured"].as_f64(), bound["holds"].as_bool());
        let most = bound["at_most"].as_f64().unwrap_or(f64::INFINITY);
        let least = bound["at_least"].as_f64().unwrap_or(0.0);
        assert_eq!(holds, measured.map(|n| n >= least && n <= most), "{bound}");
    }
    let missed = all.iter().any(|bound| bound["holds"] == false);
    assert_eq!(bounds["holds"] == false, missed);
    assert_eq!(output.status.code(), Some(i32::from(missed)), "{out}");
    assert_eq!(text(&output.stderr).contains("bounds missed"), missed);

    let raw = fs::read_to_string(directory.path().join("results/raw.jsonl")).expect("it is there");
    let runs: Vec<_> = raw.lines().map(json).collect();
    let of = |lock| runs.iter().filter(move |run| run["lock"] == lock);
    assert_eq!((of("limit").count(), of("loop").count()), (24, 24));
    let timed: Vec<_> = of("rwsem").filter(|run| run["round"].is_null()).collect();
    assert_eq!(timed.len(), 2);
    assert!(
        timed
            .iter()
            .all(|run| run["sample"] == 1 && run["read_pct"] == 99)
    );
    // In later rounds are those that a rival was measured again beside.
    let planned = of("rwsem").filter(|run| run["round"].as_u64().is_some_and(|round| round <= 3));
    assert_eq!(planned.count(), 10 * 3);
    let summary = fs::read_to_string(directory.path().join("results/summary.jsonl"));
    assert_eq!(summary.expect("it is there"), out);
}

#[test]
fn rw_text_names_every_lock_of_ours_and_every_bound() {
    let output = run(&tiny_rw(&[]));
    let out = text(&output.stdout);
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    for lock in ["rwsem", "percpu"] {
        assert!(
            out.contains(&format!("\n{lock} beside the best rival")),
            "{out}"
        );
    }
    let (_, bounds) = out.split_once("\nBounds\n").expect("bounds");
    assert_eq!(
        bounds.matches(": holds\n").count()
            + bounds.matches(": MISSED\n").count()
            + bounds.matches(": NOT MEASURED\n").count(),
        7
    );
}

#[test]
fn rw_runs_in_the_simulated_world_without_bounds() {
    let sim = ["compare", "--rw", "--world", "sim", "--machine", "x86-32c"];
    let tiny = [
        "--threads",
        "2",
        "--points",
        "5/50",
        "--seconds",
        "0.001",
        "--json",
    ];
    let args = [&sim[..], &tiny].concat();
    let out = stdout(&args);
    assert_eq!(out, stdout(&args));
    let objects: Vec<_> = out.lines().map(json).collect();
    assert!(objects.iter().all(|object| object["type"] != "bounds"));
    let verdicts = objects.iter().filter(|object| object["type"] == "verdict");
    let locks: Vec<_> = verdicts
        .map(|v| (v["lock"].clone(), v["rivals"][0].clone()))
        .collect();
    assert_eq!(
        locks,
        [
            ("rwsem".into(), "percpu".into()),
            ("percpu".into(), "rwsem".into())
        ]
    );
}

#[test]
fn pi_judges_ours_and_the_bounds() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("results");
    let path = path.to_str().expect("characters");
    let tiny = "compare --pi --threads 1,4 --points 0/0 --seconds 0.001 --rounds 3 --json --out";
    let output = run(&tiny.split(' ').chain([path]).collect::<Vec<_>>());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let objects: Vec<_> = out.lines().map(json).collect();
    let kinds = |kind| objects.iter().filter(move |object| object["type"] == kind);
    for point in kinds("point") {
        let locks = point["locks"].as_array().expect("a list");
        let names: Vec<_> = locks.iter().map(|at| at["lock"].clone()).collect();
        let expected = ["pimutex", "pimutex:strict", "mutex", "pthread-pi"];
        assert_eq!(names, expected);
        assert_eq!(
            (&locks[2]["over_mutex"], &locks[3]["over_pthread_pi"]),
            (&1.0.into(), &1.0.into())
        );
    }
    assert_eq!((kinds("point").count(), kinds("verdict").count()), (2, 3));

    // Without the privilege a line says so, and nothing is said of such threads.
    let real_time = !err.contains("without real-time threads");
    let expected = if real_time { (6, 27) } else { (0, 0) };
    assert_eq!(
        (kinds("groups").count(), kinds("chain").count()),
        expected,
        "{err}"
    );
    let bounds = objects.last().expect("objects were printed");
    let all = bounds["bounds"].as_array().expect("a list");
    assert_eq!((all.len(), &bounds["type"]), (6, &"bounds".into()));
    for bound in all {
        let fifo = bound["bound"]
            .as_str()
            .is_some_and(|name| name.starts_with("fifo"));
        assert_eq!(bound["holds"].is_boolean(), real_time || !fifo, "{bound}");
    }
    let missed = all.iter().any(|bound| bound["holds"] == false);
    assert_eq!(output.status.code(), Some(i32::from(missed)), "{out}");
    assert_eq!(err.contains("bounds missed"), missed);

    let read = |name| fs::read_to_string(format!("{path}/{name}")).expect("it is there");
    let runs = 4 * 2 * 3 + if real_time { 3 * (2 * 30 + 9 * 3) } else { 0 };
    assert_eq!(read("raw.jsonl").lines().count(), runs);
    assert_eq!(read("summary.jsonl"), out);
}
