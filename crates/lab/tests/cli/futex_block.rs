//! `futex-wake` and `futex-requeue`.

use crate::{json, keys, stdout};

const FIELDS: [&str; 11] = [
    "world",
    "operation",
    "lock",
    "threads",
    "at_a_time",
    "shared",
    "runs",
    "ms_min",
    "ms_mean",
    "ms_max",
    "spread_pct",
];

fn lab(args: &str) -> String {
    stdout(&args.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn json_has_one_object_per_kind_with_all_fields_in_order() {
    const PRIVATE: [&str; 2] = ["futex", "kernel-private"];
    const SHARED: [&str; 2] = ["futex-shared", "kernel-shared-file"];
    for (args, operation, at_a_time, kinds) in [
        ("futex-wake -w 2", "wake", 2, PRIVATE),
        ("futex-wake --distinct", "wake-each", 1, PRIVATE),
        ("futex-wake -S", "wake", 1, SHARED),
        ("futex-wake -S --distinct", "wake-each", 1, SHARED),
        ("futex-requeue -q 3", "requeue", 3, PRIVATE),
    ] {
        let out = lab(&format!("{args} -t 5 --runs 2 --json"));
        let records: Vec<_> = out.lines().map(json).collect();
        let locks: Vec<_> = records.iter().map(|r| &r["lock"]).collect();
        assert_eq!(locks, kinds);
        for (line, record) in out.lines().zip(&records) {
            assert_eq!(keys(line), FIELDS);
            assert_eq!(record["operation"], operation);
            assert_eq!(
                (&record["threads"], &record["runs"]),
                (&5.into(), &2.into())
            );
            assert_eq!(record["at_a_time"], at_a_time);
            let ms = |key: &str| record[key].as_f64().unwrap();
            assert!(0.0 < ms("ms_min"), "{record}");
            let mean = ms("ms_mean");
            assert!(ms("ms_min") <= mean && mean <= ms("ms_max"), "{record}");
        }
    }
}

#[test]
fn the_text_is_that_of_perf() {
    let out = lab("futex-wake --threads 3 --runs 2");
    assert!(
        out.contains("]: blocking on 3 threads (at [private] futex 0x"),
        "{out}"
    );
    assert!(
        out.contains("), waking up 1 at a time.\n\n[Run 1]: Wokeup 3 of 3"),
        "{out}"
    );
    let out = lab("futex-requeue -t 3 -q 2 --runs 1 --shared");
    assert!(
        out.contains("]: Requeuing 3 threads (from [shared] 0x"),
        "{out}"
    );
    assert!(
        out.contains(", 2 at a time.\n\n[Run 1]: Requeued 3 of 3 threads in "),
        "{out}"
    );
    assert!(out.contains(" ms\nRequeued 3 of 3 threads in "), "{out}");
    assert!(out.contains(" x kernel-shared-anonymous\n"), "{out}");
}
