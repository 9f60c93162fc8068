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
fn a_file_for_the_profile_without_its_equals_sign_is_told_so() {
    let place = Place::new(true);
    let hint = "; a file for the profile is --stats='profile.json'\n";
    for (args, hinted) in [
        (&["--stats", "profile.json", "--", "true"][..], true),
        (&["--stats", "profile.json"], false),
        (&["--", "profile.json", "true"], false),
    ] {
        let output = place.run(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(127), "{err}");
        assert_eq!(err.ends_with(hint), hinted, "{err}");
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

/// The least ELF file that ends with a status of 7, or none on other processors.
#[cfg(target_arch = "x86_64")]
fn static_program() -> Vec<u8> {
    const LOADED_AT: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    // mov edi, 7; mov eax, 60; syscall
    let code = [0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let size = HEADERS + code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let halves =
        |file: &mut Vec<u8>, all: &[u16]| all.iter().for_each(|x| file.extend(x.to_le_bytes()));
    let words =
        |file: &mut Vec<u8>, all: &[u32]| all.iter().for_each(|x| file.extend(x.to_le_bytes()));
    let longs =
        |file: &mut Vec<u8>, all: &[u64]| all.iter().for_each(|x| file.extend(x.to_le_bytes()));
    halves(&mut file, &[2, 62]); // an executable, x86-64
    words(&mut file, &[1]);
    longs(&mut file, &[LOADED_AT + HEADERS, 64, 0]); // entry, program headers, no sections
    words(&mut file, &[0]);
    halves(&mut file, &[64, 56, 1, 64, 0, 0]);
    words(&mut file, &[1, 5]); // loaded, to be read and executed
    longs(&mut file, &[0, LOADED_AT, LOADED_AT, size, size, 0x1000]);
    file.extend(code);
    file
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_static_program_runs_unwatched_and_is_named() {
    let place = Place::new(true);
    let [program, script, file, folded] =
        ["static", "script", "profile", "profile.folded"].map(|name| place.at(name));
    fs::write(&program, static_program()).unwrap();
    fs::write(&script, format!("#! {}\n", program.display())).unwrap();
    for path in [&program, &script] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let stats = format!("--stats={}", file.display());
    for name in ["static", "script"] {
        let run = |options: &[&str]| {
            let name = place.at(name).display().to_string();
            let output = place.run(&[options, &[&name]].concat());
            assert_eq!(output.status.code(), Some(7), "{output:?}");
            text(&output.stderr)
        };
        assert_eq!(run(&[]), "");
        for watch in ["--deadlock", "--stats", &stats] {
            fs::write(&file, "of before").unwrap();
            fs::write(&folded, "of before").unwrap();
            let err = run(&[watch]);
            assert!(
                err.contains(&format!("{name}' is linked statically")),
                "{err}"
            );
            assert_eq!(err.lines().count(), 1, "{err}");
            let left = if watch == stats { "" } else { "of before" };
            assert_eq!(fs::read_to_string(&file).unwrap(), left);
            assert_eq!(fs::read_to_string(&folded).unwrap(), left);
        }
    }
    let linker = fs::read_dir("/lib64")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("ld-linux"));
    for other in [
        "sh",
        linker
            .as_deref()
            .and_then(|path| path.to_str())
            .unwrap_or("sh"),
    ] {
        let output = place.run(&["--deadlock", other, "--version"]);
        assert!(!text(&output.stderr).contains("statically"), "{output:?}");
    }
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
    let line = refused(&["run", "--rwlock", "none", "true"]);
    assert!(
        line.contains("'none'") && line.contains("rwsem, percpu, libc"),
        "{line}"
    );
}
