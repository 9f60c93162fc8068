//! `lockyard run`, with a stand-in for the library; `programs` has the library itself.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::PathBuf,
    process::{Command, Output},
};

use crate::{text, usage::refused};

/// The command in a directory of its own, with the library beside it or not.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new(library: bool) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { directory };
        fs::hard_link(env!("CARGO_BIN_EXE_lockyard"), place.at("lockyard")).unwrap();
        if library {
            fs::write(place.at("liblockyard_preload.so"), "no library").unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.at("lockyard"));
        command.arg("run").args(args).env("LD_PRELOAD", "");
        command.output().expect("it starts")
    }
}

#[test]
fn the_program_ends_as_itself() {
    let place = Place::new(true);
    let library = place.at("liblockyard_preload.so");
    let shown = place.run(&[
        "--",
        "sh",
        "-c",
        "echo $LD_PRELOAD \"$@\"",
        "sh",
        "-x",
        "--",
    ]);
    let expected = format!("{} -x --\n", library.display());
    assert_eq!(text(&shown.stdout), expected);
    assert_eq!(shown.status.code(), Some(0));
    let ended = place.run(&["sh", "-c", "exit 7"]);
    assert_eq!(ended.status.code(), Some(7));
    let killed = place.run(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
}

#[test]
fn the_program_inherits_what_the_command_does() {
    let place = Place::new(true);
    let command = place.at("lockyard");
    let command = [command.to_str().unwrap(), "run", "--"];
    let show = "grep SigIgn /proc/self/status; \
                for file in 0 1 2; do [ -e /proc/self/fd/$file ] && echo $file; done";
    let program = ["sh", "-c", show];
    for with in [
        "exec \"$@\"",
        "trap '' PIPE; exec \"$@\"",
        "exec \"$@\" <&- 2>&-",
    ] {
        let shown = |run: &[&str]| {
            let mut shell = Command::new("sh");
            shell.args(["-c", with, "sh"]).args(run).args(program);
            let output = shell.env("LD_PRELOAD", "").output().expect("it starts");
            text(&output.stdout).to_owned()
        };
        let ours = shown(&command);
        assert!(ours.starts_with("SigIgn"), "{ours}");
        assert_eq!(ours, shown(&[]), "{with}");
    }
}

#[test]
fn the_library_is_told_to_report_deadlocks() {
    let place = Place::new(true);
    let program = ["sh", "-c", "echo $LOCKYARD_DEADLOCK"];
    let shown = place.run(&[&["--deadlock"][..], &program].concat());
    assert_eq!(text(&shown.stdout), "1\n");
    let shown = place.run(&program);
    assert_eq!(text(&shown.stdout), "\n");
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    let place = Place::new(true);
    for (program, status) in [("/nonexistent", 127), ("/etc/passwd", 126)] {
        let output = place.run(&["--", program]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{err}");
        assert!(err.contains(&format!("lockyard: '{program}' cannot be run")));
    }
}

#[test]
fn a_missing_interpreter_is_not_a_missing_program() {
    let place = Place::new(true);
    let script = place.at("script");
    fs::write(&script, "#!/nonexistent/sh\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let output = place.run(&[script.to_str().unwrap()]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{err}");
    assert!(
        err.contains("script' cannot be run: its interpreter is missing"),
        "{err}"
    );
}

#[test]
fn a_missing_library_gets_one_line_that_says_how_to_build_it() {
    let output = Place::new(false).run(&["true"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("cargo build --release --package lockyard-preload"));
}

#[test]
fn a_profile_is_asked_for_in_the_environment() {
    let place = Place::new(true);
    let show = |stats: &str| {
        let show = "cd /; echo \"$LOCKYARD_STATS\" $((LOCKYARD_STATS_PID == $$))";
        let shown = place.run(&[stats, "--", "sh", "-c", show]);
        assert_eq!(shown.status.code(), Some(0));
        text(&shown.stdout).to_owned()
    };
    assert_eq!(show("--stats"), " 1\n");
    let file = place.at("profile");
    let stats = format!("--stats={}", file.display());
    assert_eq!(show(&stats), format!("{} 1\n", file.display()));
}

#[test]
fn a_program_that_cannot_be_run_leaves_the_files_as_they_were() {
    let place = Place::new(true);
    let [file, folded] = ["profile", "profile.folded"].map(|name| place.at(name));
    let stats = format!("--stats={}", file.display());
    let fail = || {
        assert_eq!(
            place.run(&[&stats, "/nonexistent"]).status.code(),
            Some(127)
        )
    };
    fail();
    assert!(!file.exists() && !folded.exists());
    fs::write(&file, "of before").unwrap();
    fail();
    assert_eq!(fs::read(&file).unwrap(), b"of before");
    assert!(!folded.exists());
    fs::create_dir(&folded).unwrap();
    assert_eq!(place.run(&[&stats, "true"]).status.code(), Some(2));
    assert_eq!(fs::read(&file).unwrap(), b"of before");
}

#[test]
fn policies_are_passed_on_in_the_environment() {
    let place = Place::new(true);
    let show = "echo $LOCKYARD_MUTEX $LOCKYARD_RWLOCK";
    let shown = place.run(&["--mutex=pi", "--rwlock=libc", "--", "sh", "-c", show]);
    assert_eq!(text(&shown.stdout), "pi libc\n");
}

#[test]
fn a_profile_that_cannot_be_written_stops_the_program() {
    let output = Place::new(true).run(&["--stats=/nonexistent/profile", "echo", "it runs"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("'/nonexistent/profile' cannot be written"),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn nothing_to_watch_is_refused() {
    for flag in ["--deadlock", "--stats", "--stats=/nonexistent/profile"] {
        let line = refused(&["run", flag, "--mutex=libc", "--rwlock=libc", "true"]);
        let flag = flag.split('=').next().unwrap();
        let said = format!("{flag} with --mutex libc and --rwlock libc");
        assert!(line.contains(&said), "{line}");
    }
    let place = Place::new(true);
    for lock in ["--mutex=libc", "--rwlock=libc"] {
        let output = place.run(&["--deadlock", lock, "true"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let output = place.run(&["--mutex=libc", "--rwlock=libc", "true"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn bad_usage_is_refused() {
    assert!(refused(&["run"]).contains("no program"));
    assert!(refused(&["run", "--stat", "true"]).contains("'--stat'"));
    let line = refused(&["run", "--mutex", "mcs", "true"]);
    assert!(
        line.contains("'mcs'") && line.contains("adaptive, pi, libc"),
        "{line}"
    );
    for lock in ["percpu", "none"] {
        let line = refused(&["run", "--rwlock", lock, "true"]);
        assert!(
            line.contains(lock) && line.contains("use rwsem or libc"),
            "{line}"
        );
        assert!(!line.contains(": is not"), "{line}");
    }
}
