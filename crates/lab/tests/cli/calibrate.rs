//! `calibrate`. What it measures is nobody's business here.

use std::{
    fs,
    process::Child,
    thread::{available_parallelism, yield_now},
};

use crate::{
    json, keys,
    signals::{interrupt, start},
    stdout, text,
    usage::refused,
    without_room,
};

const PRESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/machines/x86-32c.toml");

/// What every machine file has.
const SCHEMA: [(&str, &[&str]); 5] = [
    ("user_space", &["ask", "off_cpu_seen", "spin_budget"]),
    (
        "topology",
        &[
            "sockets",
            "clusters_per_socket",
            "cores_per_cluster",
            "threads_per_core",
        ],
    ),
    (
        "cpu",
        &[
            "work_unit",
            "locked",
            "poll",
            "poll_share",
            "clock",
            "smt_speed",
        ],
    ),
    (
        "memory",
        &[
            "hit",
            "cluster",
            "socket",
            "remote",
            "memory",
            "upgrade",
            "occupancy",
        ],
    ),
    (
        "scheduler",
        &[
            "tick",
            "slice",
            "switch",
            "park",
            "unpark",
            "wake",
            "deep_after",
            "deep_wake",
            "yields",
            "quiesce",
        ],
    ),
];

/// With one CPU it refuses to measure.
fn has_two_cpus() -> bool {
    available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

/// The text is a machine file with every key, a positive value and a source
/// for each. Only the share that an upgrade costs is nothing where two threads have one core.
fn assert_machine(text: &str) {
    let file: toml::Table = text.parse().expect("the file is TOML");
    assert_eq!(file["name"].as_str(), Some("host"));
    assert!(file["about"].is_str());
    for (table, keys) in SCHEMA {
        for key in keys {
            let parameter = &file[table][key];
            let source = parameter["source"].as_str().unwrap_or_default();
            assert!(!source.is_empty(), "{table}.{key} has no source");
            let values = match &parameter["value"] {
                toml::Value::Array(all) => all.clone(),
                one => vec![one.clone()],
            };
            for value in &values {
                let number = value.as_float();
                let number = number.or_else(|| value.as_integer().map(|n| n as f64));
                let free = *key == "upgrade" && number == Some(0.0);
                assert!(free || number > Some(0.0), "{table}.{key} is {value}");
            }
            assert!(!values.is_empty(), "{table}.{key} has no values");
        }
    }
}

#[test]
fn without_a_file_the_machine_goes_to_stdout() {
    if has_two_cpus() {
        assert_machine(&stdout(&["calibrate", "--rounds", "3"]));
    }
}

#[test]
fn a_machine_file_is_replaced_and_a_table_printed() {
    if !has_two_cpus() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("host.toml");
    let name = path.to_str().expect("a path of characters");
    let args = ["calibrate", "--rounds", "3", "--out", name];

    let table = stdout(&args);
    assert_machine(&fs::read_to_string(&path).expect("the file is there"));
    for (group, keys) in SCHEMA {
        for key in keys {
            assert!(table.contains(&format!("{group}.{key}")), "{table}");
        }
    }
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");

    let lines = stdout(&[&args[..], &["--json"]].concat());
    assert_machine(&fs::read_to_string(&path).expect("the file is there"));
    for line in lines.lines() {
        let fields = ["key", "value", "unit", "source", "p10", "p90"];
        assert_eq!(keys(line), fields);
    }
    let listed = |name: &str| lines.lines().any(|line| json(line)["key"] == name);
    for (group, keys) in SCHEMA {
        assert!(keys.iter().all(|key| listed(&format!("{group}.{key}"))));
    }
}

#[test]
fn without_room_the_old_file_stays_and_the_machine_goes_to_stdout() {
    if !has_two_cpus() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("host.toml");
    fs::copy(PRESET, &path).expect("it can be copied");
    for more in ["", "--json"] {
        let output = without_room(&format!(
            "calibrate --rounds 3 --out {} {more}",
            path.display()
        ));
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("results could not be written: '"), "{err}");
        assert!(err.contains("host.toml'"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        match more {
            "" => assert_machine(&out),
            _ => assert!(json(out.lines().next().unwrap())["value"].is_number()),
        }
        assert_eq!(fs::read(&path).unwrap(), fs::read(PRESET).unwrap());
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }
}

#[test]
fn interrupted_it_prints_the_machine_and_leaves_a_file_alone() {
    if !has_two_cpus() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("host.toml");
    let name = path.to_str().expect("a path of characters");
    for before in ["", &fs::read_to_string(PRESET).unwrap()] {
        fs::write(&path, before).expect("it can be written");
        let child = start(&["calibrate", "--rounds", "1000", "--out", name]);
        while !catches_interrupts(&child) {
            yield_now();
        }
        interrupt(&child);
        let output = child.wait_with_output().expect("the command ends");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert!(err.contains("of 1000 rounds"), "{err}");
        let after = fs::read_to_string(&path).expect("it is there");
        match before {
            "" => assert_machine(&after),
            _ => {
                assert_machine(&out);
                assert!(err.contains("host.toml' stays as it was"), "{err}");
                assert_eq!(after, before);
            }
        }
    }
}

/// Whether an interrupt would not end the process.
fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    u64::from_str_radix(caught.unwrap().trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn bad_usage_is_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| {
        let path = directory.path().join(name);
        path.to_str().expect("a path of characters").to_owned()
    };
    if has_two_cpus() {
        let line = refused(&["calibrate", "--out", &path("none/host.toml")]);
        assert!(line.contains("cannot be written"), "{line}");
        assert!(line.contains("none/host.toml"), "{line}");
        let line = refused(&["calibrate", "--out", &path("")]);
        assert!(line.contains("is not a machine file"), "{line}");
        let other = path("letter.txt");
        fs::write(&other, "Dear reader").expect("the file can be written");
        let line = refused(&["calibrate", "--out", &other]);
        assert!(line.contains("is not a machine file"), "{line}");
        assert_eq!(fs::read(&other).expect("it is there"), b"Dear reader");
    }
    let line = refused(&["calibrate", "--rounds", "0"]);
    assert!(line.contains("from 3 to 1000"), "{line}");
    let line = refused(&["calibrate", "--threads", "2"]);
    assert!(
        line.contains("'--threads' is not a flag of calibrate"),
        "{line}"
    );
}
