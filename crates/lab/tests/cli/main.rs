//! The command as its users meet it: arguments, output, exit status, signals.
//! Nothing here depends on how long anything takes.

mod calibrate;
mod compare;
mod explore;
mod futex_block;
mod futex_crowd;
mod futex_hash;
mod futex_pingpong;
mod locktest;
mod pi_stress;
mod programs;
mod reproduce;
mod run;
mod signals;
mod sim;
#[path = "../../../capi/tests/tools/mod.rs"]
mod tools;
mod torture;
mod usage;
mod validate;

use std::process::{Command, Output};

/// The command with these arguments.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockyard"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    let output = command(args).output();
    output.expect("the command was built with this test")
}

/// Runs where no file may grow, as on a full disk.
fn without_room(args: &str) -> Output {
    let exe = env!("CARGO_BIN_EXE_lockyard");
    let script = format!("trap '' XFSZ; ulimit -f 0; exec {exe} {args}");
    let mut sh = Command::new("sh");
    sh.args(["-c", &script]).output().expect("sh runs")
}

/// Runs and returns stdout; the exit status must be 0.
fn stdout(args: &[&str]) -> String {
    let output = run(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {out}{err}");
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the command prints UTF-8")
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|why| panic!("{why} in {line}"))
}

/// The keys of an object, in the order of the text.
fn keys(line: &str) -> Vec<String> {
    let object = json(line);
    let object = object.as_object().expect("each line is an object");
    let mut keys: Vec<String> = object.keys().cloned().collect();
    keys.sort_by_key(|key| line.find(&format!("\"{key}\":")));
    keys
}
