//! `explore`: our locks survive, toys do not, and a failure can be replayed.

use std::io::{BufRead, BufReader, Read};

use crate::{
    json, keys, run,
    signals::{interrupt, start},
    stdout, text,
    usage::refused,
};

/// What it prints of a lock that fails.
fn caught(args: &[&str]) -> String {
    let output = run(&[&["explore"], args].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{args:?}: {out}{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    out
}

#[test]
fn our_locks_survive() {
    let locks = ["--lock", "mutex,mutex:poll,condvar"];
    let few = ["--threads", "2,4", "--schedules", "300"];
    let args = [&["explore"], &locks[..], &few].concat();
    let out = stdout(&args);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0], "mutex with 2 threads: 300 schedules, none fails");
    assert_eq!(
        lines[5],
        "condvar with 4 threads: 300 schedules, none fails"
    );
}

#[test]
fn a_lock_that_fails_is_replayed_by_the_command_that_is_printed() {
    let args = ["--lock", "tas", "--threads", "4"];
    let line = caught(&args);
    assert_eq!((line.lines().count(), &line), (1, &caught(&args)));
    let (what, command) = (line.split_once("; replay it with `")).expect(&line);
    let (head, what) = what.split_once(" fails: ").expect(&line);
    assert!(head.starts_with("tas with 4 threads: schedule "), "{line}");
    assert!(what.starts_with("stuck: task "), "{line}");
    assert!(what.contains("spins on CPU 0 while lock is 1"), "{line}");

    let words = command.trim_end().trim_end_matches('`');
    let words: Vec<&str> = words.split(' ').collect();
    let [name, explore, replay @ ..] = &words[..] else {
        panic!("a command was expected: {line}");
    };
    assert_eq!((*name, *explore), ("lockyard", "explore"));
    let replayed = caught(replay);
    assert_eq!(replayed, caught(replay));
    let (timeline, end) = replayed.trim_end().rsplit_once('\n').expect("lines");
    assert_eq!(end, format!("{head} fails: {what}"));
    assert!(timeline.contains(" on CPU 0\n"), "{timeline}");
    assert!(timeline.contains("enters the section"), "{timeline}");
}

#[test]
fn a_schedule_that_does_not_fail_is_replayed_too() {
    let args = ["explore", "--threads", "3", "--replay", "2"];
    let out = stdout(&args);
    assert_eq!(out, stdout(&args));
    let end = "mutex with 3 threads: schedule 2 does not fail\n";
    assert!(out.ends_with(end), "{out}");
    assert_eq!(out.matches(": has finished").count(), 3, "{out}");
}

#[test]
fn json_has_an_object_for_each_exploration() {
    let args = ["--lock", "mutex,tas", "--threads", "4", "--json"];
    let out = caught(&[&args[..], &["--schedules", "200"]].concat());
    let objects: Vec<_> = out.lines().map(json).collect();
    let [mutex, tas] = &objects[..] else {
        panic!("two objects were expected: {out}");
    };
    for line in out.lines() {
        let fields = ["lock", "threads", "seed", "schedules", "failure"];
        assert_eq!(keys(line)[..5], fields);
    }
    assert_eq!(mutex["schedules"], 200);
    assert!(mutex["failure"].is_null(), "{mutex}");
    let failure = &tas["failure"];
    let schedule = failure["schedule"].as_u64().expect("a number");
    assert_eq!(tas["schedules"], schedule + 1);
    let command = format!("lockyard explore --lock tas --threads 4 --replay {schedule}");
    assert_eq!(failure["replay"], command.as_str());

    let number = schedule.to_string();
    let args = ["--lock", "tas", "--threads", "4", "--json", "--replay"];
    let replayed = json(&caught(&[&args[..], &[&number]].concat()));
    assert_eq!(replayed["what"], failure["what"]);
    assert!(replayed["timeline"][0].is_string(), "{replayed}");
}

#[test]
fn a_seed_is_the_number_of_the_first_schedule() {
    let line = caught(&["--lock", "tas", "--threads", "4", "--json"]);
    let schedule = json(&line)["failure"]["schedule"].to_string();
    let args = ["--lock", "tas", "--threads", "4", "--seed", &schedule];
    let one = caught(&[&args[..], &["--schedules", "1", "--json"]].concat());
    assert_eq!(json(&one)["failure"], json(&line)["failure"]);
    let last = u64::MAX.to_string();
    let out = stdout(&["explore", "--seed", &last, "--schedules", "2"]);
    assert_eq!(out, "mutex with 3 threads: 2 schedules, none fails\n");
}

#[test]
fn ctrl_c_says_how_many_schedules_were_run() {
    let args = ["explore", "--lock", "tas,mutex", "--threads", "2"];
    let mut child = start(&[&args[..], &["--schedules", "1000000000"]].concat());
    let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut first = String::new();
    out.read_line(&mut first).expect("a line is read");
    assert!(
        first.starts_with("tas with 2 threads: schedule "),
        "{first}"
    );
    interrupt(&child);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the rest is read");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(1));
    // It may end before the mutex begins.
    if !rest.is_empty() {
        assert!(rest.starts_with("mutex with 2 threads: "), "{rest}");
        assert!(rest.ends_with(", none fails\n"), "{rest}");
    }
    let err = text(&output.stderr);
    assert!(err.contains("interrupted: "), "{err}");
    assert!(err.contains(" of 2,000,000,000 schedules"), "{err}");
}

#[test]
fn bad_input_gets_one_line() {
    for (args, names) in [
        (
            "--lock mutx",
            [
                "'mutx' is not a lock",
                "mutex, mutex:poll, condvar, rwsem, rwsem:trylock, percpu, percpu:barging, percpu:handoff, rtmutex, rtmutex:block, tas",
            ],
        ),
        ("--lock std", ["'std' is not a lock", "drepper"]),
        ("--threads 1", ["--threads '1'", "from 2 to 16"]),
        ("--threads 2,17", ["--threads '17'", "from 2 to 16"]),
        ("--schedules 0", ["--schedules '0'", "from 1 to 1000000000"]),
        ("--replay -1", ["--replay '-1'", "from 0 to"]),
        ("--replay 3 --seed 1", ["--replay", "--seed"]),
        ("--replay 3 --threads 2,3", ["--replay '3'", "one --lock"]),
        ("--replay 3 --lock tas,mcs", ["--replay '3'", "one --lock"]),
    ] {
        let all = ["explore"].into_iter().chain(args.split(' '));
        let line = refused(&all.collect::<Vec<_>>());
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
}
