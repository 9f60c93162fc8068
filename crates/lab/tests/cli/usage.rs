//! Help, and one line for each way to misuse the command.

use std::{ffi::OsStr, fs::File, os::unix::ffi::OsStrExt, process::Command};

use crate::{command, run, stdout, text};

/// The one line on stderr; stdout must be empty and the exit status 2.
pub fn refused(args: &[&str]) -> String {
    let output = run(args);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    assert!(err.starts_with("lockyard: "), "{args:?}: {err}");
    err
}

#[test]
fn bad_input_gets_one_line_that_names_it_and_what_is_valid() {
    for (args, names) in [
        ("", ["subcommand", "calibrate, validate, reproduce"]),
        (
            "futex-hash --threads 0",
            ["--threads '0'", "from 1 to 8192"],
        ),
        (
            "futex-hash -f 65537",
            ["--futexes '65537'", "from 1 to 65536"],
        ),
        (
            "futex-hash --runtime x",
            ["--seconds 'x'", "from 0.001 to 86400"],
        ),
        (
            "futex-hash --share",
            ["'--share'", "did you mean '--shared'?"],
        ),
        ("futex-wake --nwakes 0", ["--nwakes '0'", "from 1 to 8192"]),
        (
            "futex-wake --distinct -w 2",
            ["'--distinct' cannot be used", "--nwakes"],
        ),
        (
            "futex-requeue -q 9999",
            ["--nrequeue '9999'", "from 1 to 8192"],
        ),
        ("futex-pingpong --loop 0", ["--loop '0'", "from 1 to 1000"]),
        (
            "futex-crowd --waiters 5,4000001",
            ["--waiters '4000001'", "from 1 to 4000000"],
        ),
        ("compar", ["'compar'", "did you mean 'compare'?"]),
        ("cmpare", ["'cmpare'", "did you mean 'compare'?"]),
        ("validat", ["'validat'", "did you mean 'validate'?"]),
        ("locktset", ["'locktset'", "did you mean 'locktest'?"]),
        ("--frob", ["'--frob'", "--help"]),
        (
            "locks --bytes",
            ["'--bytes' is not a flag of locks", "--json"],
        ),
        (
            "locks extra",
            ["'extra' is one argument too many", "locks takes --json"],
        ),
        ("locktest extra", ["'extra'", "--threads"]),
        (
            "reproduce 001 002",
            ["'002' is one argument too many", "takes one experiment"],
        ),
        (
            "locktest --thread 2",
            ["'--thread'", "did you mean '--threads'?"],
        ),
        (
            "locktest --lock mutx",
            [
                "'mutx' is not a lock: use one of mutex, mutex:poll, rwsem",
                "did you mean 'mutex'?",
            ],
        ),
        ("locktest --lock mutex,,std", ["--lock", "needs a value"]),
        (
            "locktest --world sum",
            ["'sum' is not a world", "one of native, sim"],
        ),
        ("locktest --threads 0", ["--threads '0'", "from 1 to 8192"]),
        (
            "locktest --threads 1,x",
            ["--threads 'x'", "from 1 to 8192"],
        ),
        (
            "locktest --threads -1",
            ["--threads '-1'", "from 1 to 8192"],
        ),
        (
            "locktest --threads -1,2",
            ["--threads '-1'", "from 1 to 8192"],
        ),
        ("explore --threads 2,-x", ["--threads '-x'", "from 2 to 16"]),
        ("compare --points -1/0", ["--points '-1/0'", "LOAD/GAP"]),
        ("validate --points -1/0", ["--points '-1/0'", "LOAD/GAP"]),
        (
            "futex-crowd -w -1,5",
            ["--waiters '-1'", "from 1 to 4000000"],
        ),
        (
            "locktest --threads 1000000",
            ["--threads '1000000'", "from 1 to 8192"],
        ),
        ("locktest --threads", ["--threads", "needs a value"]),
        (
            "run --stats= -- true",
            ["--stats= needs", "leave out the ="],
        ),
        (
            "run --stats=/dev/full -- true",
            ["'/dev/full'", "is not a file"],
        ),
        ("reproduce 005", ["experiment '005'", "001"]),
        (
            "compare --out /dev/full",
            ["'/dev/full'", "is not a directory"],
        ),
        (
            "locktest --seconds 0",
            ["--seconds '0'", "from 0.001 to 86400"],
        ),
        (
            "locktest --seconds -2",
            ["--seconds '-2'", "from 0.001 to 86400"],
        ),
        (
            "locktest --seconds nan",
            ["--seconds 'nan'", "from 0.001 to 86400"],
        ),
        (
            "locktest --seconds inf",
            ["--seconds 'inf'", "from 0.001 to 86400"],
        ),
        (
            "locktest --seconds 1s",
            ["--seconds '1s'", "from 0.001 to 86400"],
        ),
        (
            "locktest --seconds 1 --seconds 2",
            ["--seconds", "multiple"],
        ),
        ("locktest --load -1", ["--load '-1'", "from 0 to 10000000"]),
        ("locktest --gap 1e9", ["--gap '1e9'", "from 0 to 10000000"]),
        ("locktest --runs 0", ["--runs '0'", "from 1 to 1000"]),
        ("locktest --sample 0", ["--sample '0'", "from 1 to 1000000"]),
        (
            "locktest --seed -1",
            ["--seed '-1'", "from 0 to 18446744073709551615"],
        ),
        ("compare --points 50", ["--points '50'", "LOAD/GAP"]),
        ("compare --points 0/0,1/x", ["--points '1/x'", "LOAD/GAP"]),
        ("compare --rounds 2", ["--rounds '2'", "from 3 to 1000"]),
        ("compare --lock mutex", ["'mutex'", "name another lock"]),
        ("locktest --read 101", ["--read '101'", "from 0 to 100"]),
        ("locktest --read -1", ["--read '-1'", "from 0 to 100"]),
        (
            "compare --rw --lock rwsem,mutex",
            [
                "'mutex' is not for readers and writers",
                "rwsem, rwsem:trylock",
            ],
        ),
        (
            "compare --rw --lock rwsem",
            ["'rwsem'", "name another lock"],
        ),
        ("compare --pi --rw", ["'--pi'", "'--rw'"]),
        ("compare --pi --lock mutex", ["'--pi'", "'--lock"]),
        (
            "compare --pi --world sim --machine x86-32c",
            ["--pi", "without --world sim"],
        ),
        (
            "compare --lock std,nosuch",
            ["'nosuch' is not a lock", "mutex"],
        ),
    ] {
        let line = refused(&args.split_whitespace().collect::<Vec<_>>());
        for name in names {
            assert!(line.contains(name), "no {name:?} in {line}");
        }
    }
    let line = refused(&["locktest", "--lock", "two\nlines"]);
    assert!(line.contains("'two lines' is not a lock"), "{line}");
}

#[test]
fn bytes_that_are_no_text_are_refused_like_other_values() {
    for (args, names) in [
        (&["locktest", "--threads"][..], "--threads '\u{fffd}': use"),
        (&["explore", "--lock"], "'\u{fffd}' is not a lock"),
        (&["locktest"], "'\u{fffd}'"),
        (&[], "'\u{fffd}' is not a subcommand"),
        (
            &["compare", "--machine"],
            "'\u{fffd}' is a simulated machine",
        ),
    ] {
        let bytes = OsStr::from_bytes(b"\xff");
        let output = command(args).arg(bytes).output().expect("it starts");
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.contains(names), "no {names:?} in {err}");
    }
}

#[test]
fn an_address_space_without_room_for_the_threads_gets_one_line() {
    for (kib, args) in [
        (150_000, "locktest --threads 1000 --seconds 0.01"),
        (400_000, "locktest --threads 3000 --seconds 0.01"),
        (400_000, "futex-wake --threads 3000"),
        (400_000, "futex-crowd --waiters 1000000"),
    ] {
        let exe = env!("CARGO_BIN_EXE_lockyard");
        let script = format!("ulimit -v {kib} && exec {exe} {args}");
        let mut sh = Command::new("sh");
        sh.args(["-c", &script]).env_remove("RUST_BACKTRACE");
        let output = sh.output().expect("sh runs");
        let err = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args}: {err}");
        assert_eq!(err.lines().count(), 1, "{args}: {err}");
        assert!(
            err.contains("too many") || err.contains("no memory"),
            "{err}"
        );
    }
}

#[test]
fn a_stdout_that_is_closed_or_only_read_is_a_failure() {
    for stdout in [">&-", "1</dev/null"] {
        for args in ["locks", "locktest --lock mutex --seconds 0.01", "--help"] {
            let exe = env!("CARGO_BIN_EXE_lockyard");
            let mut sh = Command::new("sh");
            sh.args(["-c", &format!("exec {exe} {args} {stdout}")]);
            let output = sh.output().expect("sh runs");
            let err = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{args} {stdout}: {err}");
            assert!(err.contains("results could not be written"), "{err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["locktest", "--help"]] {
        let full = File::options().write(true).open("/dev/full");
        let mut help = command(args);
        let output = help.stdout(full.expect("it is there")).output();
        let output = output.expect("it starts");
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("results could not be written"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    assert!(stdout(&["--help"]).contains("locktest"));
    assert!(stdout(&["--version"]).starts_with("lockyard "));
    for subcommand in [
        "locks",
        "locktest",
        "compare",
        "torture",
        "pi-stress",
        "calibrate",
        "reproduce",
    ] {
        assert!(stdout(&[subcommand, "--help"]).contains("--json"));
    }
}
