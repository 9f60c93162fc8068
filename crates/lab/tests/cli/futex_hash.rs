//! `futex-hash`.

use std::io::{BufRead, BufReader, Read};

use crate::{
    json, keys,
    signals::{interrupt, start},
    stdout,
};

const KINDS: [&str; 5] = [
    "futex",
    "kernel-private",
    "futex-shared",
    "kernel-shared-anonymous",
    "kernel-shared-file",
];

const SHARED: [&str; 5] = [
    "futex-shared",
    "kernel-shared-anonymous",
    "kernel-shared-file",
    "futex-shared-wake",
    "kernel-shared-file-wake",
];

const FIELDS: [&str; 12] = [
    "world",
    "lock",
    "threads",
    "futexes",
    "shared",
    "seconds",
    "ops_min",
    "ops_mean",
    "ops_max",
    "ops_per_sec",
    "spread_pct",
    "rate_kops",
];

fn futex_hash(args: &str) -> String {
    let words = args.split_whitespace();
    let all: Vec<_> = ["futex-hash"].into_iter().chain(words).collect();
    stdout(&all)
}

#[test]
fn json_has_one_object_per_kind_with_all_fields_in_order() {
    for (flag, kinds) in [("", KINDS), ("-S", SHARED)] {
        let out = futex_hash(&format!("-t 3 -f 7 --seconds 0.05 --json {flag}"));
        let records: Vec<_> = out.lines().map(json).collect();
        let locks: Vec<_> = records
            .iter()
            .map(|r| r["lock"].as_str().unwrap())
            .collect();
        assert_eq!(locks, kinds);
        for (line, record) in out.lines().zip(&records) {
            assert_eq!(keys(line), FIELDS);
            assert_eq!(
                (&record["threads"], &record["futexes"]),
                (&3.into(), &7.into())
            );
            let shared = record["lock"].as_str().unwrap().contains("shared");
            assert_eq!(record["shared"], shared, "{record}");
            let seconds = record["seconds"].as_f64().unwrap();
            let total = record["ops_mean"].as_f64().unwrap() * 3.0;
            let rate = record["rate_kops"].as_f64().unwrap() * 1e3;
            assert!(
                (rate * seconds - total).abs() <= 1.0 + total * 1e-3,
                "{record}"
            );
        }
    }
}

#[test]
fn the_text_is_that_of_perf() {
    let out = futex_hash("--threads 2 --futexes 1 --runtime 0.02");
    for kind in KINDS {
        assert!(
            out.contains(&format!("\n# {kind}\nRun summary [PID ")),
            "{out}"
        );
    }
    let threads = "]: 2 threads, each operating on 1 [shared] futexes for 0.0";
    assert_eq!(out.matches(threads).count(), 3, "{out}");
    assert_eq!(out.matches("\n[thread  1] futex: 0x").count(), 5, "{out}");
    assert_eq!(out.matches("\nAveraged ").count(), 5, "{out}");
    assert!(out.contains(" operations/sec (+- "), "{out}");
    assert!(out.contains("%), total secs = 0.0"), "{out}");
    assert!(out.contains("\nfutex = "), "{out}");
    assert!(out.contains("\nfutex-shared = "), "{out}");
}

#[test]
fn what_was_measured_before_ctrl_c_is_printed() {
    let mut child = start(&["futex-hash", "--seconds", "86400"]);
    let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut text = String::new();
    while !text.contains("Running futex-hash") {
        out.read_line(&mut text).expect("a line is read");
    }
    interrupt(&child);
    out.read_to_string(&mut text).expect("the rest is read");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("\nAveraged "), "{text}");
    let err = crate::text(&output.stderr);
    assert!(
        err.contains("interrupted: ") && err.contains(" slices"),
        "{err}"
    );
}
