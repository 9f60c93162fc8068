//! Programs as they are, with the C library's locks and then with ours: they must print the
//! same. Where there is no compiler or interpreter for one, its test says so and passes.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// Whether there is such a program; says so if not.
fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let has = found.is_ok_and(|status| status.success());
    if !has {
        eprintln!("left out: there is no {program}");
    }
    has
}

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
    }
}

#[test]
fn the_types_of_cpp_are_ours() {
    let compiler = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"];
    if let Some(program) = compiled(&compiler, &["types.cpp"]) {
        let said = same(&program, &[]);
        assert!(said.starts_with("scoped_lock 8000\n"), "{said}");
    }
}

#[test]
fn an_unknown_glibc_keeps_its_locks() {
    let library_of = ["cc", "-shared", "-fPIC"];
    let (Some(unknown), Some(program)) = (
        compiled(&library_of, &["unknown.c"]),
        compiled(&["cc"], &["one.c"]),
    ) else {
        return;
    };
    let preload = format!("{}:{}", library().display(), unknown.display());
    let printed = outputs(Command::new(&program).env("LD_PRELOAD", preload));
    let why = "lockyard: glibc 2.99 keeps its locks: its version is not one of 2.31 to 2.42\n";
    assert_eq!(printed, ["they are glibc's\n", why]);
    assert_eq!(output(&mut Command::new(&program)), "they are glibc's\n");
    let ours = output(Command::new(&program).env("LD_PRELOAD", library()));
    assert_eq!(ours, "they are ours\n");
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
