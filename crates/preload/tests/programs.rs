//! Programs as they are, with the C library's locks and then with ours: they must print the
//! same. Where there is no compiler or interpreter for one, its test says so and passes.

#[path = "../../capi/tests/tools/mod.rs"]
mod tools;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use serde_json::Value;
use tools::has;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// What it prints: on standard output, and on standard error.
fn outputs(command: &mut Command) -> [String; 2] {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it starts");
    let printed = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{printed:?}");
    printed
}

/// What it prints, on standard output alone.
fn output(command: &mut Command) -> String {
    let [stdout, stderr] = outputs(command);
    assert_eq!(stderr, "", "{command:?}");
    stdout
}

/// The library, built once for all tests.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(SCRATCH).parent().expect("it is in the target's");
        let build = ["build", "--quiet", "--package", "lockyard-preload"];
        let built = Command::new(env!("CARGO"))
            .args(build)
            .arg("--target-dir")
            .arg(target)
            .current_dir(HERE)
            .status();
        assert!(built.is_ok_and(|status| status.success()));
        target.join("debug/liblockyard_preload.so")
    })
}

/// What a program prints, first with the C library's locks and then with ours: the same.
fn same(program: &Path, arguments: &[&str]) -> String {
    let theirs = output(Command::new(program).args(arguments));
    let ours = output(
        Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", library()),
    );
    assert_eq!(ours, theirs, "{program:?}");
    ours
}

/// A program that is run with our locks, and with the order validator.
fn watched(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("LOCKYARD_DEADLOCK", "1");
    command
}

/// The exit status of a case of `deadlock.c`, and what it prints on standard error.
fn reported(program: &Path, case: &str) -> (Option<i32>, String) {
    let output = watched(program, &[case]).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), stderr)
}

/// Compiles files of this directory. `None` if there is no compiler.
fn compiled(compiler: &[&str], sources: &[&str]) -> Option<PathBuf> {
    has(compiler[0]).then(|| {
        let program = Path::new(SCRATCH).join(sources[0].replace('/', "-"));
        let sources = sources
            .iter()
            .map(|source| Path::new(HERE).join("tests").join(source));
        output(
            Command::new(compiler[0])
                .args(&compiler[1..])
                .args(["-O1", "-g", "-pthread", "-o"])
                .arg(&program)
                .args(sources),
        );
        program
    })
}

#[test]
fn every_function_does_what_posix_says() {
    let sources = [
        "main", "mutex", "cond", "cancel", "rwlock", "c11", "fork", "early",
    ]
    .map(|name| format!("conformance/{name}.c"));
    let sources = sources.each_ref().map(String::as_str);
    let compiler = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror"];
    if let Some(program) = compiled(&compiler, &sources) {
        let said = same(&program, &[]);
        assert!(said.lines().all(|line| line.starts_with("ok ")), "{said}");
        assert!(said.contains("ok no_signal_is_lost"), "{said}");
        // It misuses locks, of which there are reports.
        let watched = watched(&program, &[]).output().expect("it starts");
        assert_eq!(watched.status.code(), Some(66));
        assert_eq!(String::from_utf8_lossy(&watched.stdout), said);
        for (mutex, rwlock, left_out) in [
            ("pi", "libc", &NOT_INHERITING[..]),
            ("libc", "rwsem", &[]),
            ("libc", "percpu", &[]),
        ] {
            let said = output(
                Command::new(&program)
                    .args(left_out)
                    .env("LD_PRELOAD", library())
                    .env("LOCKYARD_MUTEX", mutex)
                    .env("LOCKYARD_RWLOCK", rwlock),
            );
            assert!(said.lines().all(|line| line.starts_with("ok ")), "{said}");
            assert!(said.contains("ok no_signal_is_lost"), "{said}");
        }
    }
}

/// Cases of normal mutexes that do not hold for those with priority inheritance, of whichever
/// library: another thread unlocks them, or a fork's child.
const NOT_INHERITING: [&str; 4] = [
    "unlocked_by_another",
    "mutex_as_semaphore",
    "locked_across_fork",
    "owner_waits_across_fork",
];

/// A program that says whose its locks are.
fn one() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| compiled(&["cc"], &["one.c"]))
        .as_deref()
}

#[test]
fn a_policy_says_whose_locks_are() {
    let Some(program) = one() else {
        return;
    };
    for (mutex, rwlock, said) in [
        ("adaptive", "libc", "mutexes are ours, rwlocks glibc's\n"),
        ("libc", "rwsem", "mutexes are glibc's, rwlocks ours\n"),
        (
            "adaptive",
            "percpu",
            "mutexes are ours, rwlocks ours for each CPU\n",
        ),
        (
            "pi",
            "rwsem",
            "mutexes are ours and inherit, rwlocks ours\n",
        ),
    ] {
        let mut command = Command::new(program);
        let environment = [("LOCKYARD_MUTEX", mutex), ("LOCKYARD_RWLOCK", rwlock)];
        command.env("LD_PRELOAD", library()).envs(environment);
        assert_eq!(output(&mut command), said);
    }
    let mut command = Command::new(program);
    let [stdout, stderr] = outputs(
        command
            .env("LD_PRELOAD", library())
            .env("LOCKYARD_MUTEX", "mcs"),
    );
    assert_eq!(stdout, "mutexes are ours, rwlocks ours\n");
    let line = "lockyard: LOCKYARD_MUTEX 'mcs' is unknown: it is taken for adaptive\n";
    assert_eq!(stderr, line);
}

/// On x86-64 alone, and in the C library's condition variable: that is 8 bytes.
#[test]
fn old_condition_variables_are_the_c_librarys() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for binding in ["-Wl,-z,now,-z,relro", "-Wl,-z,lazy"] {
        let Some(program) = compiled(&["cc", binding], &["old.c"]) else {
            return;
        };
        let theirs = output(&mut Command::new(&program));
        let [ours, said] = outputs(Command::new(&program).env("LD_PRELOAD", library()));
        assert_eq!(theirs, "woken 2, nothing overwritten\n", "{binding}");
        assert_eq!(ours, theirs, "{binding}");
        let line = "lockyard: mutexes stay the C library's: some object here was linked before \
                    glibc 2.3.2\n";
        assert_eq!(said, line, "{binding}");
    }
}

#[test]
fn one_lock_too_many_is_told() {
    let Some(program) = compiled(&["cc"], &["full.c"]) else {
        return;
    };
    for kind in ["recursive", "writers-first"] {
        let mut command = Command::new(&program);
        let said = output(command.arg(kind).env("LD_PRELOAD", library()));
        assert_eq!(said, "ok\n", "{kind}");
    }
}

#[test]
fn more_locks_than_have_counters_are_locks() {
    if let Some(program) = compiled(&["cc"], &["percpu.c"]) {
        for watched in [false, true] {
            let mut command = Command::new(&program);
            command
                .env("LD_PRELOAD", library())
                .env("LOCKYARD_RWLOCK", "percpu");
            if watched {
                command.env("LOCKYARD_DEADLOCK", "1");
            }
            assert_eq!(output(&mut command), "ok\n");
        }
    }
}

#[test]
fn deadlocks_are_reported_before_they_happen() {
    let compiler = [
        "cc",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-rdynamic",
    ];
    let Some(program) = compiled(&compiler, &["deadlock.c"]) else {
        return;
    };
    let true_to_order = [
        "try",
        "readers",
        "recursive",
        "reuse",
        "waits_to_fork",
        "forks_in_forks",
    ];
    for case in true_to_order {
        assert_eq!(reported(&program, case), (Some(0), String::new()), "{case}");
    }
    let line = "lockyard: no memory for the order of locks: orders are not seen\n";
    assert_eq!(reported(&program, "no_memory"), (Some(0), line.into()));
    for (case, status) in [
        ("both_orders", 66),
        ("full_table", 66),
        ("short_lives", 66),
        ("after_another", 66),
        ("many_ends", 66),
        ("closed", 66),
        ("quick", 0),
        ("fail", 3),
    ] {
        let (code, said) = reported(&program, case);
        assert_eq!(code, Some(status), "{said}");
        let full = "lockyard: the table of lock orders is full: it begins anew, now and \
                    whenever it is\n";
        let (said, is_full) = match said.strip_prefix(full) {
            Some(rest) => (rest, true),
            None => (&said[..], false),
        };
        assert_eq!(is_full, case == "full_table", "{said}");
        assert!(
            said.starts_with("lockyard: lock order inversion: 2 locks"),
            "{said}"
        );
        for function in ["take_a_then_b (", "take_b_then_a ("] {
            assert_eq!(said.matches(function).count(), 2, "{said}");
        }
        assert!(said.contains("deadlock.c:"), "{said}");
        assert!(said.contains("\nlockyard: 1 reported"), "{said}");
    }
    for (case, what, taker) in [
        ("stranger", "unlocks what thread", "lock_and_wait ("),
        ("destroy", "destroys what thread", "destroy ("),
        ("destroy_c11", "destroys what thread", "destroy_c11 ("),
        ("leave", "ends without unlocking", "lock_and_leave ("),
    ] {
        let (code, said) = reported(&program, case);
        assert_eq!(code, Some(66), "{said}");
        assert!(said.lines().next().is_some_and(|l| l.contains(what)));
        assert!(said.contains(taker), "{said}");
    }
    let (code, said) = reported(&program, "forks");
    assert_eq!(code, Some(66), "{said}");
    assert!(said.contains("destroys what thread"), "{said}");
    for (case, what) in [
        ("lock_twice", "waits for itself"),
        ("write_what_it_reads", "waits for itself"),
        ("wait_with_both", "lock order inversion: 2 locks"),
    ] {
        let mut child = watched(&program, &[case])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let first = stderr.lines().next();
        child.kill().expect("it waits for itself");
        child.wait().expect("it was killed");
        let first = first.expect("it says something").expect("in a pipe");
        assert!(first.contains(what), "{first}");
    }
}

#[test]
fn the_types_of_cpp_are_ours() {
    let compiler = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"];
    if let Some(program) = compiled(&compiler, &["types.cpp"]) {
        let said = same(&program, &[]);
        assert!(said.starts_with("scoped_lock 8000\n"), "{said}");
        output(&mut watched(&program, &[]));
    }
}

#[test]
fn an_unknown_glibc_keeps_its_locks() {
    let library_of = ["cc", "-shared", "-fPIC"];
    let (Some(unknown), Some(program)) = (compiled(&library_of, &["unknown.c"]), one()) else {
        return;
    };
    let preload = format!("{}:{}", library().display(), unknown.display());
    let printed = outputs(Command::new(program).env("LD_PRELOAD", preload));
    let why = "lockyard: glibc 2.99 keeps its locks: its version is not one of 2.31 to 2.43\n";
    let theirs = "mutexes are glibc's, rwlocks glibc's\n";
    assert_eq!(printed, [theirs, why]);
    assert_eq!(output(&mut Command::new(program)), theirs);
    let ours = output(Command::new(program).env("LD_PRELOAD", library()));
    assert_eq!(ours, "mutexes are ours, rwlocks ours\n");
}

#[test]
fn who_has_condition_variables_of_its_own_keeps_the_c_librarys_mutexes() {
    let compilers: [&[&str]; 2] = [&["cc"], &["cc", "-shared", "-fPIC"]];
    let (Some(program), Some(other), Some(one)) = (
        compiled(compilers[0], &["turns.c", "other.c"]),
        compiled(compilers[1], &["other.c"]),
        one(),
    ) else {
        return;
    };
    let why = "lockyard: mutexes stay the C library's: there are other functions for condition \
               variables\n";
    let printed = outputs(Command::new(program).env("LD_PRELOAD", library()));
    assert_eq!(printed, ["done\n", why]);
    let (ours, other) = (library().display(), other.display());
    for preload in [format!("{ours}:{other}"), format!("{other}:{ours}")] {
        let printed = outputs(Command::new(one).env("LD_PRELOAD", preload));
        assert_eq!(printed, ["mutexes are glibc's, rwlocks ours\n", why]);
    }
}

/// Valgrind gives its program another auxiliary vector than the kernel did.
#[test]
fn a_program_under_valgrind_runs() {
    if has("valgrind") {
        same(Path::new("valgrind"), &["--tool=none", "-q", "/bin/true"]);
    }
}

#[test]
fn python_and_its_children_run() {
    if has("python3") {
        let script = Path::new(HERE).join("tests/threads.py");
        let script = script.to_str().expect("it is the path of a program's text");
        let said = same(Path::new("python3"), &[script]);
        assert!(said.starts_with("queue 499500\n"), "{said}");
    }
}

/// A program whose locks are known.
fn known() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| compiled(&["cc", "-rdynamic"], &["profiled.c"]))
        .as_deref()
}

/// A program's profile in files, and where they are.
fn profiled(program: &Path, arguments: &[&str], name: &str) -> (PathBuf, [String; 2]) {
    let directory = Path::new(SCRATCH).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("it is in the target's");
    let file = directory.join("profile");
    let command = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("LOCKYARD_STATS", &file)
        .spawn();
    let mut command = command.expect("it starts");
    let pid = command.id();
    assert!(command.wait().is_ok_and(|status| status.success()));
    let read = |end: &str| fs::read_to_string(directory.join(format!("profile.{pid}{end}")));
    let written = ["", ".folded"].map(|end| read(end).expect("it is written"));
    (directory, written)
}

/// The line of a source file of this directory that has a text.
fn line_of(source: &str, text: &str) -> usize {
    let source = fs::read_to_string(Path::new(HERE).join("tests").join(source));
    let source = source.expect("it is there");
    let line = source.lines().position(|line| line.contains(text));
    line.expect("the text is in it") + 1
}

/// How often a lock was taken, how often after a wait, and whatever else.
fn lock<'a>(profile: &'a Value, name: &str, mode: &str) -> (u64, u64, &'a Value) {
    let locks = profile["locks"].as_array().expect("they are a list");
    let lock = locks
        .iter()
        .find(|lock| {
            lock["name"].as_str().is_some_and(|n| n.contains(name)) && lock["mode"] == mode
        })
        .unwrap_or_else(|| panic!("no {name} {mode} in {profile:#}"));
    let count = |what: &str| lock[what].as_u64().expect("it is a count");
    assert_eq!(
        count("contended"),
        count("slept") + count("spun"),
        "{lock:#}"
    );
    (count("acquisitions"), count("contended"), lock)
}

/// Whether a frame of a stack is in a function and a line of the source.
fn is_at(frame: &Value, function: &str, line: usize) -> bool {
    frame["function"] == function && frame["line"] == line
}

#[test]
fn a_profile_counts_exactly_and_names_the_lines() {
    let Some(program) = known() else {
        return;
    };
    let (_, [json, folded]) = profiled(program, &[], "profiled");
    let profile: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(profile["dropped_acquisitions"], 0);

    let (taken, _, hot) = lock(&profile, "hot", "mutex");
    assert_eq!(taken, 4 * 5000);
    let site = &hot["sites"][0]["stack"];
    let line = line_of("profiled.c", "this line is hot");
    assert!(is_at(&site[0], "take_hot", line), "{hot:#}");
    assert_eq!(site[1]["function"], "worker");
    assert!(hot["hold"]["sum_ns"].as_u64() > Some(0));

    assert_eq!(lock(&profile, "table", "read").0, 300);
    assert_eq!(lock(&profile, "table", "write").0, 200);
    // The condition variable's waiter takes it anew.
    assert_eq!(lock(&profile, "gate", "mutex").0, 3);

    // Its owner sleeps until another waits for it.
    let (taken, waited, made) = lock(&profile, "make", "mutex");
    assert_eq!((taken, waited), (2, 1));
    let line = line_of("profiled.c", "this line makes");
    assert!(is_at(&made["created"][0], "make", line), "{made:#}");
    let wait = |what: &str| made["wait"][what].as_u64().expect("it is a time");
    assert!(
        wait("sum_ns") > 0 && wait("sum_ns") == wait("max_ns"),
        "{made:#}"
    );
    assert_eq!(made["sites"][0]["stack"][0]["function"], "waiter");

    for line in folded.lines() {
        let (stack, ns) = line.rsplit_once(' ').expect("a number is last");
        assert!(ns.parse::<u64>().is_ok_and(|ns| ns > 0), "{line}");
        assert!(stack.ends_with(']'), "{line}");
    }
    let waited =
        |line: &str| line.contains(";waiter (profiled.c:") && line.contains(";[mutex of make");
    assert!(folded.lines().any(waited), "{folded}");
}

/// How long they hold a lock is known to be that at least.
#[test]
fn holds_within_others_are_timed() {
    let Some(program) = compiled(&["cc", "-rdynamic"], &["holds.c"]) else {
        return;
    };
    let (_, [json, _]) = profiled(&program, &[], "holds");
    let profile: Value = serde_json::from_str(&json).expect("it is JSON");
    let (taken, _, nested) = lock(&profile, "nested", "read");
    assert_eq!(taken, 64 + 2 * 300);
    // An estimate of 300 times 0.1 ms and more.
    let hold = nested["hold"]["sum_ns"].as_u64();
    assert!(hold > Some(15_000_000), "{nested:#}");
    // More than are timed at once are within one another.
    let (_, _, outermost) = lock(&profile, "outermost", "mutex");
    let hold = outermost["hold"]["sum_ns"].as_u64();
    assert!(hold > Some(15_000_000), "{outermost:#}");
    let (_, _, innermost) = lock(&profile, "innermost", "mutex");
    assert_eq!(innermost["hold"], Value::Null);
    let [_, table] = outputs(
        Command::new(program)
            .env("LD_PRELOAD", library())
            .env("LOCKYARD_STATS", ""),
    );
    let row = table.lines().find(|line| line.starts_with("innermost"));
    let untimed = row.map(|row| row.matches(" -").count());
    assert_eq!(untimed, Some(2 + 4 + 4), "{table}");
}

#[test]
fn a_program_is_profiled_however_it_ends() {
    let Some(program) = known() else {
        return;
    };
    for end in [
        "_exit",
        "_Exit",
        "quick_exit",
        "vfork",
        "handler",
        "another",
        "small",
    ] {
        let (directory, [json, _]) = profiled(program, &[end], &format!("profiled-{end}"));
        let profile: Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!(lock(&profile, "hot", "mutex").0, 4 * 5000, "{end}");
        let files = fs::read_dir(directory).expect("it is there");
        assert_eq!(files.count(), 2, "{end}: none but its own");
    }
}

#[test]
fn a_child_has_a_profile_of_its_own() {
    let Some(program) = known() else {
        return;
    };
    let (directory, [parents, _]) = profiled(program, &["fork"], "profiled-fork");
    let files = fs::read_dir(directory).expect("it is there");
    let profiles = files
        .map(|file| file.expect("it is there").path())
        .filter(|path| path.extension().is_some_and(|end| end != "folded"));
    let texts: Vec<String> = profiles
        .map(|path| fs::read_to_string(path).expect("it is there"))
        .collect();
    assert_eq!(texts.len(), 2);
    let childs = texts.iter().find(|text| **text != parents);
    let childs: Value = serde_json::from_str(childs.expect("they differ")).expect("it is JSON");
    assert_eq!(lock(&childs, "hot", "mutex").0, 7);
    assert_eq!(childs["locks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_profile_that_is_too_large_leaves_the_exit_status() {
    let Some(program) = known() else {
        return;
    };
    let [_, said] = outputs(
        Command::new("sh")
            .args(["-c", "ulimit -f 0; exec \"$0\""])
            .arg(program)
            .env("LD_PRELOAD", library())
            .env("LOCKYARD_STATS", Path::new(SCRATCH).join("too-large")),
    );
    let why = "lockyard: the profile cannot be written: File too large";
    assert!(said.starts_with(why), "{said}");
}

#[test]
fn a_profile_is_a_table_on_standard_error() {
    let Some(program) = known() else {
        return;
    };
    let [_, table] = outputs(
        Command::new(program)
            .env("LD_PRELOAD", library())
            .env("LOCKYARD_STATS", ""),
    );
    let line = line_of("profiled.c", "this line is hot");
    assert!(table.contains("5 locks in "), "{table}");
    assert!(
        table.contains(&format!("take_hot (profiled.c:{line}) < worker")),
        "{table}"
    );
}
