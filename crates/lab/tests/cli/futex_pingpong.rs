//! `futex-pingpong`.

use crate::{json, keys, stdout};

const FIELDS: [&str; 12] = [
    "world",
    "lock",
    "shared",
    "waiter",
    "cpus",
    "after_ns",
    "rounds",
    "times",
    "ns_min",
    "ns_p50",
    "slept_p50",
    "faster",
];

#[test]
fn ours_stands_beside_the_kernels_with_all_fields_in_order() {
    const WAITERS: [&str; 3] = ["asleep", "asleep", "spinning"];
    for (flags, locks) in [
        ("--json", ["futex", "kernel-private"]),
        ("--json -S", ["futex-shared", "kernel-shared-file"]),
    ] {
        let args = ["futex-pingpong", "--rounds", "3", "--loop", "5"].into_iter();
        let out = stdout(&args.chain(flags.split(' ')).collect::<Vec<_>>());
        let lines: Vec<_> = out.lines().collect();
        for (pair, waiter) in lines.chunks(2).zip(WAITERS) {
            for (line, lock) in pair.iter().zip(locks) {
                assert_eq!(keys(line), FIELDS);
                let record = json(line);
                assert_eq!(record["lock"], lock);
                // A machine of one CPU has the second alone.
                assert!(lines.len() == 2 || record["waiter"] == waiter, "{record}");
                let ns = |key: &str| record[key].as_f64().unwrap();
                if lock.starts_with("kernel") {
                    assert!(record["faster"].is_null(), "{record}");
                } else {
                    let times = |key: &str| record["faster"][key].as_f64().unwrap();
                    let [low, p50, high] = ["low", "p50", "high"].map(times);
                    assert!(0.0 < low && low <= p50 && p50 <= high, "{record}");
                }
                assert!(
                    0.0 < ns("ns_min") && ns("ns_min") <= ns("ns_p50"),
                    "{record}"
                );
            }
        }
    }
}

#[test]
fn the_text_compares_each_pair() {
    let out = stdout(&["futex-pingpong", "-r", "3", "-l", "5"]);
    assert!(out.starts_with("waiter"), "{out}");
    let ours = out.lines().filter(|line| line.contains(" futex "));
    for line in ours {
        let words: Vec<_> = line.split_whitespace().collect();
        let [times, low, "to", high] = words[words.len() - 4..] else {
            panic!("{line}");
        };
        let numbers = [times, low.trim_matches('('), high.trim_matches(')')];
        let [times, low, high] = numbers.map(|number| number.parse::<f64>().unwrap());
        assert!(0.0 < low && low <= times && times <= high, "{line}");
    }
}
