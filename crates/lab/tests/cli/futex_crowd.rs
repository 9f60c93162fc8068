//! `futex-crowd`.

use crate::{json, stdout};

/// Nothing here is measured by a clock: the counts are the same in every run.
#[test]
fn a_waiter_costs_no_more_where_there_are_more_than_buckets() {
    let counts = || {
        let out = stdout(&["futex-crowd", "--waiters", "20000,80000", "--json"]);
        let records: Vec<_> = out.lines().map(json).collect();
        let counts = records.iter().map(|of| {
            assert!(of["wait_ns"].as_f64().unwrap() > 0.0, "{of}");
            let count = |key: &str| of[key].as_f64().unwrap();
            ["buckets", "wait_accesses", "wake_accesses"].map(count)
        });
        counts.collect::<Vec<_>>()
    };
    let [few, many] = counts()[..] else {
        panic!("one object for each number");
    };
    assert!(
        few[0] == 16_384.0 && many[0] > 16_384.0,
        "{few:?}, {many:?}"
    );
    for which in [1, 2] {
        assert!(many[which] < 2.0 * few[which], "{few:?}, {many:?}");
    }
    assert_eq!(counts(), [few, many]);
}

#[test]
fn the_page_says_what_a_waiter_takes() {
    const PAGE: &str = include_str!("../../../../docs/futex.md");
    let out = stdout(&["futex-crowd", "--waiters", "1"]);
    let bytes = out.split("a thread's record has ").nth(1).unwrap();
    let bytes = bytes.split_once(' ').unwrap().0;
    let with_comma = format!(
        "{},{}",
        &bytes[..bytes.len() - 3],
        &bytes[bytes.len() - 3..]
    );
    assert!(
        PAGE.contains(&format!("a record of {with_comma} bytes")),
        "{out}"
    );
}
