//! The simulated world: the same command gives the same bytes.

use std::{
    ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path, process::Command,
    thread::available_parallelism,
};

use serde_json::Value;

use crate::{command, json, keys, locktest::FIELDS, stdout, text, usage::refused};

/// The fields that follow those of a native run.
const MORE: [&str; 5] = [
    "machine",
    "sim_seconds",
    "sim_events",
    "sim_accesses",
    "cost_ns",
];

const COSTS: [&str; 5] = ["compute", "cache", "spin", "sleep", "ready"];

/// `locktest` on a simulated machine, for a millisecond a run.
fn simulated<'a>(machine: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let head = ["locktest", "--world", "sim", "--machine", machine];
    let args = head.iter().chain(&["--seconds", "0.001"]).chain(more);
    args.copied().collect()
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().expect("this field is a number")
}

/// As `refused`, in that directory.
fn refused_in(directory: &Path, args: &[&str]) -> String {
    let output = command(args).current_dir(directory).output();
    let output = output.expect("the command was built with this test");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    err
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    let locks = ["--lock", "mutex,mutex:poll,tas,ticket,mcs,drepper"];
    let size = ["--threads", "3,40", "--runs", "2", "--events"];
    for form in [&[][..], &["--json"]] {
        let more = [&locks[..], &size, form].concat();
        let args = simulated("x86-32c", &more);
        assert_eq!(stdout(&args), stdout(&args));
    }
}

#[test]
fn a_run_does_not_depend_on_those_before_it() {
    let json = ["--threads", "8", "--json", "--lock"];
    let of = |locks| stdout(&simulated("x86-72c", &[&json[..], &[locks]].concat()));
    assert_eq!(
        of("mcs,drepper,mutex"),
        of("mcs") + &of("drepper") + &of("mutex")
    );
}

#[test]
fn waits_that_nobody_sampled_are_not_known() {
    let seldom = [
        ["--threads", "1"],
        ["--sample", "1000000"],
        ["--load", "100000"],
        ["--seed", "9999999999999999999"],
    ];
    let seldom = seldom.concat();
    let text = stdout(&simulated("x86-32c", &seldom));
    let waits = "Wait p50/p99.9/Max = not sampled/not sampled/not sampled; Jain";
    assert!(text.contains(waits), "{text}");
    let out = stdout(&simulated("x86-32c", &[&seldom[..], &["--json"]].concat()));
    let run = json(out.trim());
    for key in ["wait_p50_ns", "wait_p999_ns", "wait_max_ns"] {
        assert!(run[key].is_null(), "{run}");
    }
    assert_eq!(run["wait_samples"], 0);
}

#[test]
fn another_seed_gives_another_run() {
    let args = ["--threads", "4", "--runs", "2", "--json", "--seed"];
    let of = |seed| stdout(&simulated("x86-32c", &[&args[..], &[seed]].concat()));
    let (five, six) = (of("5"), of("6"));
    let lines: Vec<Value> = five.lines().map(json).collect();
    assert_eq!(
        (&lines[0]["seed"], &lines[1]["seed"]),
        (&5.into(), &6.into())
    );
    assert_ne!(lines[0]["sim_accesses"], lines[1]["sim_accesses"]);
    // The second run of one is the first of the other, but for its number.
    let renumbered = five
        .lines()
        .nth(1)
        .map(|l| l.replace("\"run\":2", "\"run\":1"));
    assert_eq!(renumbered.as_deref(), six.lines().next());
}

#[test]
fn json_has_the_fields_of_a_native_run_and_those_of_the_simulation() {
    let out = stdout(&simulated(
        "x86-2s36c",
        &["--lock", "mutex,tas", "--threads", "1,4", "--json"],
    ));
    assert_eq!(out.lines().count(), 4);
    for line in out.lines() {
        let run = json(line);
        assert_eq!(keys(line), [&FIELDS[..], &MORE].concat());
        assert_eq!(
            (&run["world"], &run["machine"]),
            (&"sim".into(), &"x86-2s36c".into())
        );
        assert_eq!(number(&run, "seconds"), 0.001);
        assert!(number(&run, "sim_seconds") >= 0.001);
        assert!(number(&run, "sim_events") >= 1.0);
        let (ops, threads) = (number(&run, "ops_mean"), number(&run, "threads"));
        assert!(number(&run, "sim_accesses") >= ops * threads);
        assert!(number(&run, "ops_min") >= 1.0);
        let jain = number(&run, "jain");
        assert!(jain > 0.0 && jain <= 1.0);

        let costs = &run["cost_ns"];
        assert_eq!(
            costs.as_object().map(serde_json::Map::len),
            Some(COSTS.len())
        );
        assert!(COSTS.iter().all(|cost| number(costs, cost) >= 0.0), "{run}");
        // Together they are all the time of all threads.
        let each: f64 = COSTS.iter().map(|cost| number(costs, cost)).sum();
        let all = each * ops * threads / 1e9;
        let (least, most) = (0.001 * threads, number(&run, "sim_seconds") * threads);
        assert!(all > 0.99 * least && all < 1.01 * most, "{all} in {run}");
    }
    let alone = json(out.lines().next().expect("four lines"));
    let costs = &alone["cost_ns"];
    let waits = number(costs, "spin") + number(costs, "sleep");
    assert!(waits < 0.01 * number(costs, "compute"), "{alone}");
}

#[test]
fn text_names_the_machine_and_splits_the_cost() {
    let out = stdout(&simulated("x86-32c", &["--threads", "2"]));
    let lines: Vec<&str> = out.lines().collect();
    let [machine, unit, header, _, _, _, time, cost] = lines[..] else {
        panic!("eight lines were expected: {out}");
    };
    assert!(
        machine.starts_with("Simulated machine = x86-32c, 32 CPUs: "),
        "{machine}"
    );
    assert_eq!(unit, "Work unit = 2.17 ns");
    assert_eq!(
        header,
        "Running locktest with mutex [runtime = 0.001s, load = 1]"
    );
    assert!(
        time.starts_with("Threads = 2, Simulated Time = 1.00 ms; Happened = "),
        "{time}"
    );
    let costs = cost
        .strip_prefix("Threads = 2, Cost per operation = ")
        .expect(cost);
    for (part, name) in costs.split(", ").zip(COSTS) {
        let ns = part.strip_suffix(&format!(" ns {name}")).expect(part);
        assert!(ns.replace(',', "").parse::<u64>().is_ok(), "{cost}");
    }
}

#[test]
fn a_machine_of_224_cpus_runs_224_threads() {
    let out = stdout(&simulated("arm64-2s56c224t", &["--json", "--events"]));
    let run = json(&out);
    assert_eq!(run["threads"], 224, "one for each CPU");
    assert!(number(&run, "ops_mean") >= 1.0, "{run}");
    assert!(run["events"]["Parked"].is_u64(), "{run}");
}

#[test]
fn threads_are_not_limited_by_this_machine() {
    let out = stdout(&simulated("x86-32c", &["--threads", "3000", "--json"]));
    assert_eq!(json(&out)["threads"], 3000);
}

#[test]
fn a_machine_and_a_lock_must_go_with_the_world() {
    let machines = "arm64-2s56c224t, x86-32c, x86-2s36c, x86-72c, x86-60c, x86-2s256c, host";
    for (args, names) in [
        ("locktest --world sim", ["needs a --machine", machines]),
        ("compare --world sim", ["needs a --machine", machines]),
        ("locktest --machine x86-32c", ["'x86-32c'", "--world sim"]),
        ("compare --world native --machine x", ["'x'", "--world sim"]),
        (
            "locktest --world sim --machine x86",
            ["'x86': no such", machines],
        ),
        (
            "locktest --world sim --machine x86-32c --lock mutex,std",
            [
                "'std'",
                "percpu:handoff, rtmutex, rtmutex:block, tas, ticket, mcs, drepper",
            ],
        ),
        (
            "compare --world sim --machine x86-32c --lock nsync",
            [
                "'nsync'",
                "percpu:handoff, rtmutex, rtmutex:block, tas, ticket, mcs, drepper",
            ],
        ),
        (
            "locktest --world sim --machine x86-32c --threads 9000",
            ["'9000'", "from 1 to 8192"],
        ),
    ] {
        let line = refused(&args.split_whitespace().collect::<Vec<_>>());
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
}

#[test]
fn what_is_no_plain_file_or_a_large_one_is_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let made = Command::new("mkfifo").arg(path("fifo")).status();
    assert!(made.expect("mkfifo runs").success());
    fs::write(path("large"), vec![b'\n'; (1 << 20) + 1]).expect("there is room");
    for (name, why) in [
        (path("fifo"), "not a plain file"),
        ("/dev/zero".into(), "not a plain file"),
        (directory.path().display().to_string(), "not a plain file"),
        (path("large"), "over 1 MiB"),
    ] {
        let err = refused(&simulated(&name, &[]));
        assert!(err.contains(&name) && err.contains(why), "{err}");
        let err = refused(&["validate", "--machine", &name]);
        assert!(err.contains(&name) && err.contains(why), "{err}");
        if available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
            let err = refused(&["calibrate", "--out", &name]);
            assert!(err.contains("is not a machine file"), "{err}");
        }
    }
}

#[test]
fn a_machine_file_is_read_and_a_malformed_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let preset = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/machines/x86-32c.toml");
    let good = fs::read_to_string(preset).expect("the preset is there");
    fs::write(path("good.toml"), &good).expect("it can be written");
    let file = path("good.toml");
    let args = simulated(file.to_str().expect("characters"), &["--threads", "2"]);
    assert_eq!(
        stdout(&args),
        stdout(&simulated("x86-32c", &["--threads", "2"])),
        "the same machine"
    );

    let line = 1 + good
        .lines()
        .position(|line| line.starts_with("hit ="))
        .expect("a line");
    let bad = good.replacen("\nhit = { value = ", "\nhit = { value = -", 1);
    fs::write(path("bad.toml"), bad).expect("it can be written");
    let err = refused_in(directory.path(), &simulated("bad.toml", &[]));
    assert!(err.contains(&format!("bad.toml:{line}: hit: ")), "{err}");

    let name = OsStr::from_bytes(b"\xff.toml");
    fs::copy(path("good.toml"), directory.path().join(name)).expect("it can be copied");
    let mut locktest = command(&["locktest", "--world", "sim", "--threads", "1", "--machine"]);
    locktest.arg(name).current_dir(directory.path());
    assert!(locktest.output().expect("it starts").status.success());

    let err = refused_in(directory.path(), &simulated("host", &[]));
    assert!(err.contains("no host.toml") && err.contains("lockyard calibrate --out host.toml"));
    fs::copy(path("good.toml"), path("host.toml")).expect("it can be copied");
    let host = simulated("host", &["--threads", "2"]);
    let output = command(&host).current_dir(directory.path()).output();
    let output = output.expect("the command was built with this test");
    assert_eq!(
        text(&output.stdout),
        stdout(&args),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn compare_measures_our_mutex_beside_the_toys() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = |name: &str| directory.path().join(name);
    let compared = |name: &str, form: &[&str]| {
        let path = out(name);
        let sim = ["compare", "--world", "sim", "--machine", "x86-2s36c"];
        let tiny = ["--points", "5/50", "--seconds", "0.001"];
        let path = ["--out", path.to_str().expect("characters")];
        stdout(&[&sim[..], &tiny, &path, form].concat())
    };
    let json_out = compared("a", &["--json"]);
    assert_eq!(json_out, compared("b", &["--json"]));
    let objects: Vec<_> = json_out.lines().map(json).collect();
    let (verdict, points) = objects.split_last().expect("objects were printed");
    let threads: Vec<_> = points.iter().map(|p| p["threads"].clone()).collect();
    assert_eq!(threads, [1, 2, 36, 72]);
    assert_eq!(verdict["lock"], "mutex");
    assert_eq!(
        verdict["rivals"],
        serde_json::json!(["tas", "ticket", "mcs", "drepper"])
    );
    assert_eq!(verdict["clock_ns"], 25);
    for name in ["raw.jsonl", "summary.jsonl", "machine.json"] {
        let read = |run: &str| fs::read(out(run).join(name)).expect("it was written");
        assert_eq!(read("a"), read("b"), "{name}");
    }
    let machine = fs::read_to_string(out("a").join("machine.json")).expect("it was written");
    let machine = &json(&machine)["machine"];
    assert_eq!(
        (&machine["sockets"], &machine["costs"]["clock"]),
        (&2.into(), &25_000.into())
    );

    let text_out = compared("c", &[]);
    assert!(
        text_out.starts_with("simulated x86-2s36c, 36 CPUs\n"),
        "{text_out}"
    );
    assert!(
        text_out.lines().all(|line| line.chars().count() <= 100),
        "{text_out}"
    );
    for claim in ["about ", "this machine", "cannot run here"] {
        assert!(!text_out.contains(claim), "{claim:?} in {text_out}");
    }
}
