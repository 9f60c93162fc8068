//! The libraries as C and C++ have them: installed, found, linked and run. Where there is
//! no compiler for these, a test says so and passes.

mod tools;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use tools::has;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

const C: &[&str] = &["cc", "-std=c99", "-Wall", "-Wextra", "-Werror"];
const C11: &[&str] = &["cc", "-std=c11", "-Wall", "-Wextra", "-Werror"];
/// A warning that only gcc knows is no error elsewhere.
const CPP: &[&str] = &[
    "c++",
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wuseless-cast",
    "-Wno-unknown-warning-option",
    "-Werror",
];

fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it starts");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Where the libraries are installed, once for all tests.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| install("prefix"))
}

fn install(name: &str) -> PathBuf {
    let prefix = Path::new(SCRATCH).join(name);
    let install = ["run", "--quiet", "--package", "xtask", "--", "install"];
    run(Command::new(env!("CARGO"))
        .args(install)
        .args(["--debug", "--prefix"])
        .arg(&prefix)
        .current_dir(HERE));
    prefix
}

/// What the compiler is to be told to find and link the library.
fn flags(arguments: &[&str]) -> Vec<String> {
    let lib = prefix().join("lib");
    let rpath = format!("-Wl,-rpath,{}", lib.display());
    let mut flags = vec!["-pthread".to_owned(), rpath];
    if has("pkg-config") {
        let found = run(Command::new("pkg-config")
            .args(arguments)
            .args(["--cflags", "--libs", "lockyard"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
        flags.extend(found.split_whitespace().map(str::to_owned));
    } else {
        let include = prefix().join("include");
        flags.push(format!("-I{}", include.display()));
        flags.extend([format!("-L{}", lib.display()), "-llockyard".to_owned()]);
    }
    flags
}

/// Compiles a file. `None` if there is no compiler.
fn compiled(compiler: &[&str], source: &str, flags: &[String]) -> Option<Command> {
    let program = Path::new(SCRATCH).join(source.replace('/', "-"));
    has(compiler[0]).then(|| {
        run(Command::new(compiler[0])
            .args(&compiler[1..])
            .arg(Path::new(HERE).join(source))
            .args(flags)
            .arg("-o")
            .arg(&program));
        Command::new(program)
    })
}

/// Compiles a file, runs it and compares what it prints.
fn prints(compiler: &[&str], source: &str, expected: &str) {
    if let Some(mut program) = compiled(compiler, source, &flags(&[])) {
        assert_eq!(run(&mut program), expected, "{source}");
    }
}

const QUEUE: &str = "4000 items, the sum is 4002000\n";

#[test]
fn examples_in_c_run() {
    prints(C, "examples/queue.c", QUEUE);
    let readers = "400 and 400 writes, 0 torn reads\n";
    prints(C, "examples/readers.c", readers);
    prints(C, "examples/timed.c", "it is busy\nit is ours\n");
    let futex = "4 threads have added 2000 each: 8000\n";
    prints(C11, "examples/futex.c", futex);
}

#[test]
fn examples_in_cpp_run() {
    prints(CPP, "examples/queue.cpp", QUEUE);
    let locks = "accounts: 0 and 1000\nnumber: 555\n\
                 beside a reader: read 1, write 0\ntold: 0, ours: 1\n";
    prints(CPP, "examples/locks.cpp", locks);
}

#[test]
fn every_code_is_returned() {
    prints(C, "tests/codes.c", "0 failures\n");
    prints(CPP, "tests/codes.cpp", "0 failures\n");
}

/// Compiles a file with the static library, runs it and compares what it prints.
fn prints_static(compiler: &[&str], source: &str, expected: &str) {
    if !has("pkg-config") {
        return;
    }
    let mut flags = flags(&["--static"]);
    for flag in &mut flags {
        if flag == "-llockyard" {
            *flag = "-l:liblockyard.a".to_owned();
        }
    }
    // A name of its own for the program: the other test's may be running.
    let source = format!("tests/../{source}");
    if let Some(mut program) = compiled(compiler, &source, &flags) {
        assert_eq!(run(&mut program), expected, "{source}");
    }
}

#[test]
fn the_static_library_links() {
    prints_static(C, "examples/queue.c", QUEUE);
    let all_static = [C, &["-static"]].concat();
    prints_static(&all_static, "src/../examples/queue.c", QUEUE);
}

#[test]
fn the_process_is_registered_before_it_starts() {
    prints(C, "tests/start.c", "registered\n");
    prints_static(C, "tests/start.c", "registered\n");
}

#[test]
fn the_header_is_strict() {
    if !has(CPP[0]) {
        return;
    }
    let header = prefix().join("include/lockyard.h");
    for (language, standard) in [("c", "c99"), ("c++", "c++11"), ("c", "c17")] {
        run(Command::new(CPP[0])
            .args(["-x", language])
            .arg(format!("-std={standard}"))
            .args(["-Wall", "-Wextra", "-pedantic-errors", "-Werror"])
            .arg("-fsyntax-only")
            .arg(&header));
    }
}

#[test]
fn a_closed_library_may_still_be_called_back() {
    let library = prefix().join("lib/liblockyard.so");
    if let Some(mut program) = compiled(C, "tests/unloaded.c", &["-pthread".into(), "-ldl".into()])
    {
        assert_eq!(run(program.arg(library)), "closed: 0\nended\n");
    }
}

#[test]
fn the_library_exports_its_functions_and_uses_no_others_locks() {
    if !has("nm") {
        return;
    }
    let library = prefix().join("lib/liblockyard.so");
    let symbols = |which| {
        let lines = run(Command::new("nm").args(["-D", which]).arg(&library));
        let names = lines.lines().filter_map(|line| line.split(' ').next_back());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let header = std::fs::read_to_string(prefix().join("include/lockyard.h")).unwrap();
    let exported = symbols("--defined-only");
    let declared = header.matches("\nint lockyard_").count();
    assert_eq!(exported.len(), declared, "{exported:?}");
    for name in exported {
        assert!(header.contains(&format!("int {name}(")), "{name}");
    }
    for name in symbols("--undefined-only") {
        let foreign = [
            "pthread_mutex",
            "pthread_rwlock",
            "pthread_cond",
            "pthread_spin",
        ];
        assert!(!foreign.iter().any(|lock| name.starts_with(lock)), "{name}");
    }
}

#[test]
fn an_installation_may_be_moved() {
    if !has(C[0]) || !has("pkg-config") {
        return;
    }
    let moved = Path::new(SCRATCH).join("moved to here");
    let _ = std::fs::remove_dir_all(&moved);
    std::fs::rename(install("to be moved"), &moved).unwrap();
    // The shell undoes pkg-config's quotes.
    let line =
        "eval cc examples/queue.c $(pkg-config --cflags --libs lockyard) -pthread -o '$PROGRAM'";
    let (program, lib) = (Path::new(SCRATCH).join("moved"), moved.join("lib"));
    run(Command::new("sh")
        .args(["-c", line])
        .env("PROGRAM", &program)
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .current_dir(HERE));
    let said = run(Command::new(program).env("LD_LIBRARY_PATH", lib));
    assert_eq!(said, QUEUE);
}

#[test]
fn cmake_finds_the_package() {
    if !has("cmake") || !has(CPP[0]) {
        return;
    }
    let build = Path::new(SCRATCH).join("cmake");
    run(Command::new("cmake")
        .args(["-S", "examples", "-B"])
        .arg(&build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display()))
        .current_dir(HERE));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["queue_c", "queue_static", "queue_cpp"] {
        assert_eq!(run(&mut Command::new(build.join(program))), QUEUE);
    }
}

#[test]
fn cmake_is_given_what_it_asks_for() {
    if !has("cmake") {
        return;
    }
    let project = Path::new(SCRATCH).join("asks");
    std::fs::create_dir_all(&project).unwrap();
    let mut lines = vec!["cmake_minimum_required(VERSION 3.19)\nproject(asks NONE)".to_owned()];
    for (arguments, found) in [
        ("", true),
        ("0.1", true),
        ("0.1.0 EXACT", true),
        ("0.0", false),
        ("0.1.1", false),
        ("0.2", false),
        ("0.0...0.9", true),
        ("0.0...0.1.0", true),
        ("0.0...<0.1.0", false),
        ("0.1...1", true),
        ("0.1.1...1", false),
        ("COMPONENTS none", false),
        ("OPTIONAL_COMPONENTS none", true),
    ] {
        // A package that was found is not looked for anew.
        lines.push(format!(
            "unset(lockyard_DIR CACHE)\nfind_package(lockyard {arguments} QUIET)\n\
             if(NOT ${{lockyard_FOUND}} STREQUAL {})\n\
             message(SEND_ERROR \"'{arguments}': ${{lockyard_FOUND}}\")\nendif()",
            u8::from(found)
        ));
    }
    std::fs::write(project.join("CMakeLists.txt"), lines.join("\n")).unwrap();
    run(Command::new("cmake")
        .args(["-S", ".", "-B", "build"])
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display()))
        .current_dir(project));
}
