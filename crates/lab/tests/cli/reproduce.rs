//! `lockyard reproduce`: a seed's experiment beside its paper.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::{
    json, keys,
    signals::{interrupt, start},
    stdout,
    usage::refused,
};

/// A millisecond a run: what comes out means nothing, but comes out.
const TINY: [&str; 6] = ["reproduce", "001", "--seconds", "0.001", "--seeds", "2"];

const ROW: [&str; 13] = [
    "type",
    "experiment",
    "threads_per_core",
    "threads",
    "load",
    "gap",
    "seconds",
    "seeds",
    "before",
    "after",
    "effect",
    "effect_sd",
    "share_effect",
];

const SIDE: [&str; 8] = [
    "lock",
    "rate_kops",
    "ops_min",
    "ops_mean",
    "ops_max",
    "max_share",
    "cost_ns",
    "events",
];

fn number(object: &Value, key: &str) -> f64 {
    let number = object[key].as_f64();
    number.unwrap_or_else(|| panic!("{key} is no number in {object}"))
}

#[test]
fn json_has_every_row_and_a_verdict_and_is_the_same_each_time() {
    let args = [&TINY[..], &["--json"]].concat();
    let out = stdout(&args);
    assert_eq!(out, stdout(&args), "the same command, the same bytes");
    let lines: Vec<&str> = out.lines().collect();
    let (last, rows) = lines.split_last().expect("objects were printed");
    let mut kinds = Vec::new();
    for line in rows {
        let row = json(line);
        assert_eq!(fields(&row), sorted(&ROW), "{line}");
        for (side, lock) in [("before", "mutex:poll"), ("after", "mutex")] {
            let side = &row[side];
            assert_eq!(fields(side), sorted(&SIDE), "{line}");
            assert_eq!(side["lock"], lock);
            let (rate, ops) = (&side["rate_kops"], &side["ops_mean"]);
            let all = number(ops, "mean") * number(&row, "threads");
            let kops = all / number(&row, "seconds") / 1e3;
            let close = (kops - number(rate, "mean")).abs() <= 1e-3 * kops;
            assert!(close && number(rate, "sd") >= 0.0, "{line}");
            assert!(number(&side["ops_min"], "mean") <= number(&side["ops_max"], "mean"));
            assert!(number(&side["cost_ns"], "spin") > 0.0, "{line}");
        }
        assert_eq!((&row["seeds"], &row["load"]), (&2.into(), &1.into()));
        assert!(number(&row, "effect") > -1.0 && number(&row, "effect_sd") >= 0.0);
        let of = ["type", "threads_per_core", "threads", "gap"].map(|key| row[key].to_string());
        kinds.push(of.join(" "));
    }
    let expected = [
        "\"experiment\" 4 224 0",
        "\"smt\" 1 56 0",
        "\"smt\" 2 112 0",
        "\"smt\" 4 224 0",
        "\"threads\" 4 14 0",
        "\"threads\" 4 28 0",
        "\"threads\" 4 56 0",
        "\"threads\" 4 112 0",
        "\"threads\" 4 224 0",
        "\"gap\" 4 224 0",
        "\"gap\" 4 224 10",
        "\"gap\" 4 224 50",
        "\"gap\" 4 224 200",
    ];
    assert_eq!(kinds, expected);

    let verdict = json(last);
    assert_eq!(keys(last)[..3], ["type", "experiment", "machine"]);
    assert_eq!(
        (
            &verdict["type"],
            &verdict["experiment"],
            &verdict["machine"]
        ),
        (&"verdict".into(), &"001".into(), &"arm64-2s56c224t".into())
    );
    assert_eq!(
        (&verdict["runs"], &verdict["runs_planned"]),
        (&44.into(), &44.into())
    );
    let paper = &verdict["paper"];
    assert_eq!(
        (
            number(paper, "effect"),
            number(&paper["before"], "rate_kops")
        ),
        (0.2009, 2757.0)
    );
    let first = json(rows[0]);
    let published = &verdict["published"];
    assert_eq!(published["effect"], first["effect"]);
    let (effect, sd) = (number(&first, "effect"), number(&first, "effect_sd"));
    let direction = match effect {
        effect if effect > sd => "rise",
        effect if effect < -sd => "fall",
        _ => "neither",
    };
    assert_eq!(published["direction"], direction);
    assert_eq!(
        published["size"].is_string(),
        direction == "rise",
        "{published}"
    );
    let gaps = verdict["gaps"].as_array().expect("a list");
    let gaps: Vec<f64> = gaps.iter().map(|gap| number(gap, "gap")).collect();
    assert_eq!(gaps, [0.0, 10.0, 50.0, 200.0]);
}

fn fields(object: &Value) -> Vec<String> {
    let object = object.as_object().expect("an object");
    let mut names: Vec<String> = object.keys().cloned().collect();
    names.sort();
    names
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.sort();
    names
}

#[test]
fn text_stands_beside_the_paper_and_fits_into_100_columns() {
    let out = stdout(&TINY);
    assert!(out.starts_with("Seed 001, "), "{out}");
    for part in [
        "\n44 runs: seeds 1 to 2; 0.001 s each, 0.0004 s where something is varied\n",
        "2,757      3,311  +20.1 %\n",
        "123,143    147,836",
        "-38.5 %\n",
        "The paper's runs last 10 s and these 0.001 s: counts of operations are not scaled.",
        "An operation ends every ",
        "\nthreads/core ",
        "\nthreads ",
        "\ngap ",
        "\nAt the published setting ",
        "\nOf 4 gaps the paper's effect appears ",
    ] {
        assert!(out.contains(part), "no {part:?} in {out}");
    }
    let wide = out.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "{out}");
}

#[test]
fn the_wake_check_of_rwsem_is_varied_beside_its_paper() {
    let tiny = ["reproduce", "003", "--seconds", "0.001", "--seeds", "2"];
    let out = stdout(&[&tiny[..], &["--json"]].concat());
    let lines: Vec<&str> = out.lines().collect();
    let (last, rows) = lines.split_last().expect("objects were printed");
    let mut kinds = Vec::new();
    for line in rows {
        let row = json(line);
        assert_eq!(fields(&row), sorted(&ROW), "{line}");
        assert_eq!(row["before"]["lock"], "rwsem:trylock");
        assert_eq!(row["after"]["lock"], "rwsem");
        assert!(number(&row["after"]["rate_kops"], "mean") > 0.0);
        let of = ["type", "threads", "load", "gap"].map(|key| row[key].to_string());
        kinds.push(of.join(" ").replace('"', ""));
    }
    let expected = [
        "experiment 36 1 0",
        "threads 9 1 0",
        "threads 18 1 0",
        "threads 36 1 0",
        "threads 72 1 0",
        "threads 144 1 0",
        "load 36 1 0",
        "load 36 50 0",
        "load 36 500 0",
        "gap 36 1 0",
        "gap 36 1 50",
        "gap 36 1 500",
    ];
    assert_eq!(kinds, expected);
    let verdict = json(last);
    assert_eq!(verdict["paper_kops"], serde_json::json!([4923.0, 5136.0]));
    assert_eq!(verdict["published"]["effect"], json(rows[0])["effect"]);
    let varied = verdict["varied"].as_array().expect("a list");
    assert_eq!(varied.len(), 11);

    let text = stdout(&tiny);
    assert!(text.starts_with("Seed 003, ") && text.contains("4,923  5,136  +4.3 %\n"));
    let wide = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "{text}");
}

#[test]
fn the_grants_of_percpu_are_tortured_and_their_story_told() {
    let tiny = ["reproduce", "002", "--seconds", "0.5", "--seeds", "2"];
    let out = stdout(&[&tiny[..], &["--json"]].concat());
    let lines: Vec<Value> = out.lines().map(json).collect();
    let of = |kind: &'static str| lines.iter().filter(move |line| line["type"] == kind);
    let settings: Vec<String> = of("torture")
        .map(|row| {
            assert_eq!(row["before"]["lock"], "percpu:handoff");
            assert!(
                number(&row["after"]["writes"]["total"], "mean") > 0.0,
                "{row}"
            );
            let of = ["delays", "of", "gap_us"].map(|key| row[key].to_string());
            of.join(" ").replace('"', "")
        })
        .collect();
    let each = [
        "experiment 0",
        "stutter 0",
        "idle 0",
        "gap 3",
        "gap 10",
        "gap 50",
        "gap 200",
    ];
    let expected = ["new", "old"].map(|delays| each.map(|each| format!("{delays} {each}")));
    assert_eq!(settings, expected.concat());
    let quotas: Vec<_> = of("story")
        .map(|told| told["quota_cpus"].as_f64())
        .collect();
    assert_eq!(quotas, [None, Some(36.0), Some(18.0)].repeat(2));
    let verdict = of("verdict").next().expect("there is one");
    assert_eq!(verdict["variants"][0]["writes"]["paper_effect"], 0.6595);
    assert_eq!(verdict["story"].as_array().map(Vec::len), Some(6));

    let text = stdout(&tiny);
    for part in [
        "33,801  56,094  +66.0 %",
        "11,952  27,845  +133.0 %",
        "wait p50",
        "that compute, for 0.008 s\n",
        "The paper's runs last 600 s and these 0.5 s: counts of operations are not scaled.",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let wide = text.lines().find(|line| line.chars().count() > 110);
    assert_eq!(wide, None, "{text}");
}

#[test]
fn pi_stress_is_run_pinned_and_unpinned_beside_its_paper() {
    let tiny = ["reproduce", "000", "--seconds", "0.001", "--seeds", "2"];
    let out = stdout(&[&tiny[..], &["--json"]].concat());
    let lines: Vec<Value> = out.lines().map(json).collect();
    let (verdict, rows) = lines.split_last().expect("objects were printed");
    let settings: Vec<_> = rows
        .iter()
        .map(|row| {
            assert_eq!(row["before"]["lock"], "rtmutex:block");
            assert_eq!(row["before"]["waits"]["spun"], 0, "{row}");
            assert_eq!(row["after"]["lock"], "rtmutex");
            assert!(number(&row["after"], "hmean") > 0.0, "{row}");
            (row["pinned"].as_bool(), row["groups"].as_u64())
        })
        .collect();
    let groups = [1, 4, 7, 12, 21, 30, 48, 64];
    let expected = [true, false].map(|pinned| groups.map(|n| (Some(pinned), Some(n))));
    assert_eq!(settings, expected.concat());
    assert_eq!(verdict["parts"][0]["waits"]["spun"], 0, "{verdict}");
    assert!(verdict["parts"][1]["waits"]["spun"].as_u64() > Some(0));
}

#[test]
fn keys_are_looked_up_in_every_layout() {
    let out = stdout(&[
        "reproduce",
        "004",
        "--seconds",
        "0.001",
        "--seeds",
        "2",
        "--json",
    ]);
    let lines: Vec<Value> = out.lines().map(json).collect();
    let (verdict, rows) = lines.split_last().expect("objects were printed");
    let settings: Vec<_> = rows
        .iter()
        .map(|row| {
            for keys in ["private", "before", "after", "later"] {
                assert!(number(&row[keys]["rate_kops"], "mean") > 0.0, "{row}");
            }
            // Only a key that refers to the space waits for it.
            for (keys, refers) in [("private", false), ("after", true), ("later", false)] {
                let space = number(&row[keys]["cost_ns"], "space");
                assert!(space == 0.0 || refers, "{row}");
            }
            (row["layout"].as_str(), row["threads"].as_u64())
        })
        .collect();
    let threads = [1, 16, 32, 64, 128, 256];
    let layouts = ["neighbours", "apart", "huge"];
    let expected = layouts.map(|layout| threads.map(|n| (Some(layout), Some(n))));
    assert_eq!(settings, expected.concat());
    let bands = verdict["layouts"][0]["bands"].as_array().expect("a list");
    let papers: Vec<_> = bands
        .iter()
        .map(|band| number(band, "paper_effect"))
        .collect();
    assert_eq!(papers, [0.1, 0.3, 0.45]);
}

#[test]
fn an_interrupt_ends_it_with_what_was_measured() {
    let mut child = start(&["reproduce", "001", "--seconds", "86400"]);
    let mut out = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut text = String::new();
    // The last line of the header stands before the runs.
    while !text.contains("66 runs: ") {
        out.read_line(&mut text).expect("a line is read");
    }
    interrupt(&child);
    out.read_to_string(&mut text).expect("the rest is read");
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(0));
    let none = "No verdict on the published setting: 0 of 66 runs were made.\n\
                No verdict over the gaps: 0 of 4 were measured.\n";
    assert!(text.ends_with(none), "{text}");
}

#[test]
fn bad_input_gets_one_line() {
    for (args, names) in [
        ("", ["no experiment", "use one of 000, 001, 002, 003, 004"]),
        (
            "999",
            [
                "'999': no such experiment",
                "use one of 000, 001, 002, 003, 004",
            ],
        ),
        ("001 --native", ["--native", "only 002"]),
        ("001 --seeds 1", ["--seeds '1'", "from 2 to 1000"]),
        ("001 --seconds 0", ["--seconds '0'", "from 0.001 to 86400"]),
        ("001 --machine x", ["'--machine' is not a flag", "--seeds"]),
    ] {
        let all = ["reproduce"].into_iter().chain(args.split_whitespace());
        let line = refused(&all.collect::<Vec<_>>());
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
}
