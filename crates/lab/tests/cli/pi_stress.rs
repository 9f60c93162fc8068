//! `pi-stress`.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Output},
};

use crate::{
    command, json, keys,
    signals::{interrupt, start},
    text,
    usage::refused,
};

const SIMULATED: &str = "--world sim --machine x86-32c --limit 5 --lock";

fn words(args: &str) -> Vec<&str> {
    let words = args.split_whitespace();
    ["pi-stress"].into_iter().chain(words).collect()
}

fn pi_stress(args: &str) -> Output {
    // With it a simulation that fails says more than a line.
    let mut command = command(&words(args));
    let output = command.env_remove("RUST_BACKTRACE").output();
    output.expect("the command was built with this test")
}

/// Runs with real-time threads; none if this user may not have them.
fn real_time(args: &str) -> Option<Output> {
    let output = pi_stress(args);
    let refused = output.status.code() == Some(2);
    if refused {
        println!("left out: {}", text(&output.stderr));
    }
    (!refused).then_some(output)
}

/// Stdout of a run whose lock inherits nothing, and the line that says so.
fn unbounded(output: &Output) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    (out, err)
}

#[test]
fn the_simulated_world_has_a_usual_lock_of_its_own() {
    let output = pi_stress("--world sim --machine x86-32c --groups 1 --seconds 0.001");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.starts_with("Running pi-stress with rtmutex "), "{out}");
}

#[test]
fn a_lock_that_inherits_resolves_all_inversions() {
    for pinned in ["--pinned", "--unpinned --rr"] {
        let args = format!("--lock pthread-pi --seconds 0.2 {pinned}");
        let Some(output) = real_time(&args) else {
            return;
        };
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        let total = out.split_once("Total inversion performed: ").expect(&out).1;
        let total = total.lines().next().expect(&out);
        assert!(total.parse::<u64>().expect(&out) > 0);
        for line in ["Test Duration: 0 days, 0 hours, ", "Wait of high p50"] {
            assert!(out.contains(line), "no {line} in {out}");
        }
    }
}

#[test]
fn a_number_of_inversions_ends_the_run() {
    let args = "--lock pthread-pi --inversions 20 --groups 3 --json";
    let Some(output) = real_time(args) else {
        return;
    };
    let record = json(&text(&output.stdout));
    assert_eq!(record["inversions"], 60, "{record}");
    assert!(record["unbounded_group"].is_null() && record["wait_p50_ns"].is_u64());
    // On its one CPU no medium thread runs before high has the lock, unless a
    // page fault puts low to sleep.
    assert!(record["inverted"].as_u64() < Some(10), "{record}");
}

#[test]
fn a_lock_that_does_not_inherit_is_found_at_once() {
    let locks = ["mutex", "std", "pthread"];
    for args in ["--pinned", "--unpinned"] {
        // The seconds are a day: the threads come out of it all the same.
        let args = format!(
            "--lock {} --seconds 86400 --limit 40 {args}",
            locks.join(",")
        );
        let Some(output) = real_time(&args) else {
            return;
        };
        let (_, err) = unbounded(&output);
        for lock in locks {
            let said = format!(
                "{lock}: the high thread of group 0 waited for more than 40 ms while the medium \
                 one ran: this lock does not inherit priority"
            );
            assert!(err.contains(&said), "{err}");
        }
    }
}

#[test]
fn chains_and_trees_are_measured() {
    let Some(output) = real_time("--chains --seconds 0.02 --json") else {
        return;
    };
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    let rows: Vec<_> = out.lines().map(json).collect();
    let depths: Vec<_> = rows.iter().map(|row| row["depth"].as_u64()).collect();
    let all: Vec<_> = (1..=8).map(Some).chain([None]).collect();
    assert_eq!(depths, all);
    for row in rows {
        let p50 = |times: &str| row[times]["p50_ns"].as_u64().expect("it was measured");
        assert!(row["rounds"].as_u64() > Some(0), "{row}");
        assert!(0 < p50("owner_runs") && p50("owner_runs") < p50("high_has_it"));
    }
}

#[test]
fn a_run_that_is_cut_short_is_printed() {
    let args = words("--lock pthread-pi --seconds 86400");
    let mut child = start(&args);
    let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut all = String::new();
    while !all.contains("Running pi-stress") {
        if out.read_line(&mut all).expect("a line is read") == 0 {
            println!("left out: no real-time threads");
            let status = child.wait().expect("the command ends");
            assert_eq!(status.code(), Some(2));
            return;
        }
    }
    interrupt(&child);
    out.read_to_string(&mut all).expect("the rest is read");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(all.contains("Total inversion performed: "), "{all}");
    let err = text(&output.stderr);
    assert!(err.contains("interrupted: 1 of 1 runs"), "{err}");
}

#[test]
fn what_to_grant_is_said_where_it_is_missing() {
    let without = "--rtprio=0 setpriv --bounding-set -sys_nice --inh-caps -sys_nice";
    let without = without.split(' ').chain([env!("CARGO_BIN_EXE_lockyard")]);
    let dropped = Command::new("prlimit")
        .args(without)
        .args(["pi-stress", "--seconds", "0.01"])
        .output();
    // Whoever may not drop a privilege has none.
    let here = pi_stress("--seconds 0.01");
    let output = match dropped {
        _ if here.status.code() == Some(2) => here,
        Ok(output) => output,
        Err(why) => return println!("left out: prlimit: {why}"),
    };
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert_eq!((err.lines().count(), output.stdout.len()), (1, 0), "{err}");
    for part in ["SCHED_FIFO", "CAP_SYS_NICE", "rtprio limit of 4"] {
        assert!(err.contains(part), "no {part} in {err}");
    }
}

#[test]
fn a_simulation_finds_the_same_each_time() {
    for args in ["mutex,drepper", "mutex --unpinned", "rwsem --groups 2 --rr"] {
        let args = format!("{SIMULATED} {args}");
        let (out, err) = unbounded(&pi_stress(&args));
        assert!(out.contains("Total inversion performed: 0\n"), "{out}");
        assert!(err.contains("group 0 waited for more than 5 ms"), "{err}");
        assert_eq!((out, err), unbounded(&pi_stress(&args)));
    }
}

#[test]
fn chains_find_it_in_a_simulation_too() {
    let args = &format!("{SIMULATED} mutex --chains");
    let (out, err) = unbounded(&pi_stress(args));
    assert!(out.contains("owner runs p50"), "{out}");
    assert!(err.contains("mutex: the high thread at the end of a chain of 1"));
    assert_eq!((out, err), unbounded(&pi_stress(args)));
}

#[test]
fn our_lock_that_inherits_resolves_all_inversions_in_a_simulation() {
    for args in ["--groups 3", "--groups 3 --rr", "--unpinned", "--chains"] {
        let args = format!("{SIMULATED} rtmutex,rtmutex:block --seconds 0.002 {args}");
        let output = pi_stress(&args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), &err[..]), (Some(0), ""), "{out}");
        assert!(!out.contains("performed: 0\n"), "{out}");
        assert_eq!(out, text(&pi_stress(&args).stdout));
    }
}

#[test]
fn a_lock_that_spins_is_stuck() {
    let (_, err) = unbounded(&pi_stress(&format!("{SIMULATED} tas --groups 2")));
    assert!(err.contains("tas failed with 2 groups on x86-32c"), "{err}");
    assert!(err.contains("(fifo 3) spins on CPU"), "{err}");
}

#[test]
fn json_has_the_fields_in_this_order() {
    let (out, _) = unbounded(&pi_stress(&format!("{SIMULATED} mutex --json")));
    let fields = [
        "world",
        "lock",
        "groups",
        "pinned",
        "policy",
        "limit_ms",
        "seconds",
        "inversions",
        "inversions_per_s",
        "wait_p50_ns",
        "wait_p99_ns",
        "wait_p999_ns",
        "wait_max_ns",
        "inverted",
        "longest_inversion_ns",
        "unbounded_group",
        "seed",
        "rt_runtime_us",
        "rt_period_us",
        "machine",
    ];
    let all = keys(&out);
    assert_eq!(all[..fields.len()], fields);
    let record = json(&out);
    assert_eq!(record["unbounded_group"], 0);
    assert!(record["longest_inversion_ns"].as_u64() > Some(5_000_000));
}

#[test]
fn bad_usage_is_refused() {
    for (args, names) in [
        ("--groups 0", ["--groups '0'", "from 1 to 1000"]),
        ("--limit 0", ["--limit '0'", "from 1 to 10000"]),
        ("--inversions -1", ["--inversions '-1'", "from 1 to"]),
        ("--seconds 0", ["--seconds '0'", "from 0.001"]),
        (
            "--lock std --world sim --machine x86-32c",
            ["'std'", "--world sim"],
        ),
        ("--lock rtmutex", ["'rtmutex'", "--world native"]),
        ("--pinned --unpinned", ["--pinned", "--unpinned"]),
        ("--chains --groups 2", ["--chains", "--groups"]),
        ("--priority 3", ["'--priority'", "--limit"]),
        (
            "--lock mutex --world sim --machine x86-2s256c --unpinned --groups 16",
            ["--groups '16' are 8224 threads", "at most 15"],
        ),
    ] {
        let line = refused(&words(args));
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
}
