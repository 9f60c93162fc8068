//! `lockyard run` with the library itself, and both where an installation has them. The
//! programs are those of crates/preload, whose tests say what becomes of their locks.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{text, tools::has};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../preload/tests");

/// The command and the library, and what is compiled for a test.
struct Installed {
    prefix: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let target = scratch.parent().expect("it is in the target's");
        // As the tests of crates/preload do it: who comes second finds it built.
        let build = ["build", "--quiet", "--package", "lockyard-preload"];
        let built = Command::new(env!("CARGO"))
            .args(build)
            .arg("--target-dir")
            .arg(target)
            .current_dir(SOURCES)
            .status();
        assert!(built.is_ok_and(|status| status.success()));

        let prefix = tempfile::tempdir_in(scratch).unwrap();
        for (from, directory) in [
            (Path::new(env!("CARGO_BIN_EXE_lockyard")), "bin"),
            (&target.join("debug/liblockyard_preload.so"), "lib"),
        ] {
            let to = prefix.path().join(directory);
            fs::create_dir(&to).unwrap();
            fs::hard_link(from, to.join(from.file_name().unwrap())).unwrap();
        }
        Self { prefix }
    }

    /// Compiles a program. `None` if there is no compiler.
    fn compiled(&self, compiler: &str, source: &str) -> Option<PathBuf> {
        has(compiler).then(|| {
            let program = self.prefix.path().join(source).with_extension("");
            let compiled = Command::new(compiler)
                .args(["-O1", "-g", "-pthread", "-o"])
                .arg(&program)
                .arg(Path::new(SOURCES).join(source))
                .output()
                .expect("it starts");
            assert!(compiled.status.success(), "{compiled:?}");
            program
        })
    }

    /// Runs the command `lockyard run OPTION -- PROGRAM ARGUMENT`.
    fn run(&self, options: &[&str], program: &Path, arguments: &[&OsStr]) -> Output {
        Command::new(self.prefix.path().join("bin/lockyard"))
            .arg("run")
            .args(options)
            .arg("--")
            .arg(program)
            .args(arguments)
            .env_remove("LD_PRELOAD")
            .output()
            .expect("it starts")
    }

    /// What a program prints, which is the same without the command.
    fn same(&self, program: &Path, arguments: &[&OsStr]) -> String {
        let alone = Command::new(program).args(arguments).output().unwrap();
        let ours = self.run(&[], program, arguments);
        assert!(ours.status.success(), "{ours:?}");
        assert_eq!(ours, alone);
        text(&ours.stdout)
    }
}

/// The line of a program's source that has a text.
fn line_of(source: &str, said: &str) -> usize {
    let source = fs::read_to_string(Path::new(SOURCES).join(source)).unwrap();
    let line = source.lines().position(|line| line.contains(said));
    line.expect("it is there") + 1
}

#[test]
fn programs_in_c_cpp_and_python_run() {
    let installed = Installed::new();
    if let Some(program) = installed.compiled("cc", "one.c") {
        let ours = installed.run(&[], &program, &[]);
        assert_eq!(text(&ours.stdout), "mutexes are ours, rwlocks ours\n");
        assert_eq!((ours.status.code(), &ours.stderr[..]), (Some(0), &b""[..]));
    }
    if let Some(program) = installed.compiled("c++", "types.cpp") {
        let said = installed.same(&program, &[]);
        assert!(said.starts_with("scoped_lock 8000\n"), "{said}");
    }
    if has("python3") {
        let script = Path::new(SOURCES).join("threads.py");
        let said = installed.same(Path::new("python3"), &[script.as_os_str()]);
        assert!(said.starts_with("queue 499500\n"), "{said}");
    }
}

#[test]
fn a_profile_names_the_line_that_takes_the_hot_lock() {
    let installed = Installed::new();
    let Some(program) = installed.compiled("cc", "profiled.c") else {
        return;
    };
    let output = installed.run(&["--stats"], &program, &[]);
    let table = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{table}");
    let line = line_of("profiled.c", "this line is hot");
    let site = format!("take_hot (profiled.c:{line}) < worker");
    assert!(table.contains(&site), "{table}");
}

#[test]
fn an_inversion_that_did_not_deadlock_is_reported_with_both_stacks() {
    let installed = Installed::new();
    let Some(program) = installed.compiled("cc", "deadlock.c") else {
        return;
    };
    let case = |options: &[&str], name: &str| {
        let output = installed.run(options, &program, &[OsStr::new(name)]);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(case(&[], "both_orders"), (Some(0), String::new()));
    // The program's own status stays, unless that is 0.
    for (name, status) in [("both_orders", 66), ("fail", 3)] {
        let (code, said) = case(&["--deadlock"], name);
        assert_eq!(code, Some(status), "{said}");
        assert!(said.starts_with("lockyard: lock order inversion: 2 locks"));
        for function in ["take_a_then_b (", "take_b_then_a ("] {
            assert_eq!(said.matches(function).count(), 2, "{said}");
        }
        assert!(said.contains("deadlock.c:"), "{said}");
    }
}
