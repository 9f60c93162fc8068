//! `validate`. How well the simulator does is nobody's business here.

use std::{fs, thread::available_parallelism};

use serde_json::Value;

use crate::{json, keys, run, stdout, text, usage::refused};

/// On a machine that is not this one, so that the bounds may be missed.
const TINY: [&str; 11] = [
    "validate",
    "--machine",
    "x86-32c",
    "--lock",
    "mutex,tas",
    "--threads",
    "1,2",
    "--points",
    "50/50",
    "--seconds",
    "0.01",
];

const POINT: [&str; 10] = [
    "type",
    "lock",
    "load",
    "gap",
    "threads",
    "native_kops",
    "native_min",
    "native_max",
    "sim_kops",
    "error",
];

/// Runs and returns stdout. The exit status is that of the verdict, which a
/// line on stderr repeats when a bound is missed.
fn judged(args: &[&str], holds: impl Fn(&str) -> bool) -> String {
    let output = run(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let holds = holds(&out);
    assert_eq!(output.status.code(), Some(i32::from(!holds)), "{out}{err}");
    assert_eq!(err.lines().count(), usize::from(!holds), "{err}");
    assert_eq!(err.contains("the simulator misses"), !holds, "{err}");
    out
}

fn verdict(out: &str) -> Value {
    json(out.lines().last().expect("a verdict"))
}

fn holds(out: &str) -> bool {
    verdict(out)["holds"].as_bool().expect("all was measured")
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().expect("this field is a number")
}

#[test]
fn json_has_each_lock_at_each_point_and_a_verdict() {
    let out = judged(&[&TINY[..], &["--json"]].concat(), holds);
    let lines: Vec<&str> = out.lines().collect();
    let (last, points) = lines.split_last().expect("objects were printed");
    let mut cells = Vec::new();
    for line in points {
        assert_eq!(keys(line), POINT);
        let point = json(line);
        let [native, least, most, sim, error] = [
            "native_kops",
            "native_min",
            "native_max",
            "sim_kops",
            "error",
        ]
        .map(|key| number(&point, key));
        assert!(least <= native && native <= most, "{point}");
        assert!(((sim - native) / native - error).abs() < 1e-3, "{point}");
        cells.push(format!("{} {}", point["lock"], point["threads"]));
    }
    assert_eq!(
        cells,
        ["\"mutex\" 1", "\"tas\" 1", "\"mutex\" 2", "\"tas\" 2"]
    );

    let verdict = json(last);
    assert_eq!(verdict["type"], "verdict");
    assert_eq!(verdict["machine"], "x86-32c");
    assert_eq!(
        (&verdict["rounds"], &verdict["points"]),
        (&3.into(), &4.into())
    );
    let [pairs, right] = ["pairs", "ordered_right"].map(|key| number(&verdict, key));
    let wrong = verdict["wrong_pairs"].as_array().expect("a list").len();
    assert!(pairs <= 2.0 && pairs - right == wrong as f64, "{verdict}");
    let error = number(&verdict, "median_abs_error");
    let share = verdict["share"].as_f64().unwrap_or(1.0);
    let kept = error <= number(&verdict, "error_bound") && share >= number(&verdict, "share_bound");
    assert_eq!(verdict["holds"], kept);
}

#[test]
fn text_ends_with_a_verdict_and_fits_into_100_columns() {
    let last = |out: &str| out.lines().last().unwrap_or_default().to_owned();
    let holds = |out: &str| last(out).starts_with("The simulator holds on this host");
    let out = judged(&TINY, holds);
    assert!(last(&out).starts_with("The simulator "), "{out}");
    assert!(
        out.contains("\nheld against simulated x86-32c, 32 CPUs\n"),
        "{out}"
    );
    for line in [
        "Median absolute error at 4 points: ",
        "  with 2 threads: ",
        "  tas: ",
    ] {
        assert!(
            out.lines().any(|l| l.starts_with(line)),
            "no {line} in {out}"
        );
    }
    let (_, results) = out.split_once("\nlock").expect("a table");
    assert!(results.lines().all(|l| l.chars().count() <= 100), "{out}");
}

#[test]
fn out_holds_every_run_the_summary_and_a_machine_that_can_be_used_again() {
    if available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return; // it refuses to calibrate
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| {
        let path = directory.path().join(name);
        path.to_str().expect("a path of characters").to_owned()
    };
    let read = |name: &str| fs::read_to_string(path(name)).expect("the file is there");
    let with = |more: &[&str]| {
        let [tiny, out] = [&[TINY[0]], &TINY[3..]];
        judged(&[tiny, out, more].concat(), holds)
    };
    let new = path("new");
    let printed = with(&["--calibration", "3", "--out", &new, "--json"]);
    assert_eq!(verdict(&printed)["machine"], "host");
    assert_eq!(read("new/summary.jsonl"), printed);
    let raw = read("new/raw.jsonl");
    let worlds: Vec<Value> = raw
        .lines()
        .map(|line| json(line)["world"].clone())
        .collect();
    let count = |world: &str| worlds.iter().filter(|w| *w == world).count();
    assert_eq!((count("native"), count("sim")), (4 * 3, 4));

    let machine = path("new/machine.toml");
    let again = path("again");
    with(&["--machine", &machine, "--out", &again, "--json"]);
    assert_eq!(read("again/machine.toml"), read("new/machine.toml"));
    let simulated = |raw: &str| {
        let rates = raw.lines().map(json).filter(|run| run["world"] == "sim");
        rates
            .map(|run| run["rate_kops"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(simulated(&read("again/raw.jsonl")), simulated(&raw));

    let line = refused(&["validate", "--machine", "x86-32c", "--out", &new]);
    assert!(line.contains("holds a raw.jsonl already"), "{line}");
}

#[test]
fn bad_input_gets_one_line_before_anything_is_measured() {
    for (args, names) in [
        ("--lock mutx", ["'mutx' is not a lock", "mutex"]),
        ("--lock std", ["'std'", "percpu:handoff, rtmutex"]),
        ("--lock rtmutex", ["'rtmutex'", "--world native"]),
        ("--threads 0", ["--threads '0'", "from 1 to 8192"]),
        ("--points 50", ["--points '50'", "LOAD/GAP"]),
        ("--rounds 2", ["--rounds '2'", "from 3 to 1000"]),
        ("--seconds 0", ["--seconds '0'", "from 0.001 to 86400"]),
        ("--calibration 1", ["--calibration '1'", "from 3 to 1000"]),
        ("--machine x86", ["'x86': no such", "x86-32c"]),
        (
            "--machine x86-32c --calibration 5",
            ["--calibration", "--machine"],
        ),
        ("--world sim", ["'--world' is not a flag", "--machine"]),
    ] {
        let machine = ["--machine", "x86-32c"];
        let own = args.contains("--machine") || args.contains("--calibration");
        let machine = machine.into_iter().filter(|_| !own);
        let all = ["validate"].into_iter().chain(machine);
        let line = refused(&all.chain(args.split_whitespace()).collect::<Vec<_>>());
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
    let help = stdout(&["validate", "--help"]);
    assert!(help.contains("primitives only") && help.contains("--json"));
}
