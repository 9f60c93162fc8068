//! The compilers, interpreters and other tools of the tests' programs.

use std::{
    env,
    io::{self, Write},
    process::{Command, Stdio},
    thread,
};

/// Where this is `required`, a test that lacks a tool fails: `cargo xtask ci` sets it.
const TOOLS: &str = "LOCKYARD_TEST_TOOLS";

/// Whether there is such a program. If not, the test that asks says that it is left out.
pub fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        let required = env::var_os(TOOLS).is_some_and(|tools| tools == "required");
        assert!(
            !required,
            "there is no {program}, and {TOOLS} is 'required'"
        );
        let thread = thread::current();
        let test = thread.name().unwrap_or("a test");
        // By no macro: the harness keeps what those print from who sees the test pass.
        let line = format!("left out, all or in part: {test}: there is no {program}\n");
        io::stderr().write_all(line.as_bytes()).expect("it is open");
    }
    has
}
