//! Installs the C libraries: headers, the shared and the static one, what pkg-config and
//! CMake find them by, the library for preloading, and the command that preloads it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde::Deserialize;

const CRATE: &str = "crates/capi";
/// What `lockyard run` preloads.
const PRELOAD: &str = "liblockyard_preload.so";
/// It looks for that in `../lib`.
const COMMAND: &str = "lockyard";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a program must link that links the static library: what
/// `rustc --print native-static-libs` says, but for the C library itself, and for what
/// unwinds: the C compiler knows which libgcc a program needs, also a static one.
const STATIC_LIBS: &str = "-lutil -lrt -lpthread -lm -ldl";

/// A shared library's accesses to thread-locals are most of what its locks cost: by
/// default each calls the dynamic linker. The initial-exec model reads them directly, from
/// the space that glibc keeps for libraries that are opened at run time (of 1.6 KB, these
/// take 0.8). The compiler has no stable option for that, so it is told to take an unstable
/// one.
///
/// Many of Intel's processors decode a branch anew each time that touches a boundary of 32
/// bytes, which costs up to a fifth of an uncontended lock: the assembler keeps them apart.
/// `.cargo/config.toml` says so, too, but cargo ignores that where `RUSTFLAGS` is set.
///
/// Each function has cache lines of its own: where functions begin wherever they happen to, a
/// change elsewhere makes a lock and unlock of a few instructions slower or faster.
///
/// A profile's flags come beside those of the environment and of cargo's configuration.
const OPTIMISED: [(&str, &str); 3] = [
    ("RUSTC_BOOTSTRAP", "1"),
    ("CARGO_UNSTABLE_PROFILE_RUSTFLAGS", "true"),
    (
        "CARGO_PROFILE_RELEASE_RUSTFLAGS",
        if cfg!(target_arch = "x86_64") {
            "-Ztls-model=initial-exec -Cllvm-args=-align-all-functions=6 \
             -Cllvm-args=-x86-branches-within-32B-boundaries"
        } else {
            "-Ztls-model=initial-exec -Cllvm-args=-align-all-functions=6"
        },
    ),
];

/// With link-time optimisation the functions of all crates share their accesses.
const SHARED: [(&str, &str); 1] = [("CARGO_PROFILE_RELEASE_LTO", "fat")];

/// That would melt the standard library into the static one, and no program could link it
/// beside another static library of Rust's, which has those functions, too. So it goes without,
/// and a crate's functions still share theirs where they are compiled together: what the C
/// functions do without waiting is inlined into them, and takes as long.
const STATIC: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
];

/// Builds the libraries and the command, and installs them below `prefix`. Without
/// optimisation, only the libraries: the command has tests of its own.
///
/// # Errors
/// They cannot be built, or `prefix` cannot be written to.
pub fn run(root: &Path, prefix: &Path, debug: bool) -> anyhow::Result<bool> {
    let library = |arguments: &str, kind: &[(&str, &str)]| {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments.split_whitespace());
        if !debug {
            cargo.arg("--release").envs(OPTIMISED);
            cargo.envs(kind.iter().copied());
        }
        build(root, &mut cargo)
    };
    let mut built = library("rustc --package lockyard-capi --crate-type cdylib", &SHARED)?;
    let archive = library(
        "rustc --package lockyard-capi --crate-type staticlib",
        &STATIC,
    )?;
    built.extend(archive);
    built.extend(library("build --package lockyard-preload", &SHARED)?);
    if !debug {
        let mut command = Command::new("cargo");
        command.args(["build", "--release", "--package", "lockyard-lab"]);
        built.extend(build(root, &mut command)?);
    }
    fs::create_dir_all(prefix).with_context(|| format!("cannot make {}", prefix.display()))?;
    let prefix = prefix.canonicalize()?; // what is said of it holds elsewhere, too
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    for name in ["lockyard.h", "lockyard.hpp"] {
        copy(
            &root.join(CRATE).join("include").join(name),
            &include.join(name),
        )?;
    }
    for name in ["liblockyard.a", PRELOAD] {
        copy(named(&built, name)?, &lib.join(name))?;
    }
    let shared = format!("liblockyard.so.{VERSION}");
    copy(named(&built, "liblockyard.so")?, &lib.join(&shared))?;
    link(&shared, &lib.join("liblockyard.so.0"))?; // its soname: crates/capi/build.rs
    link("liblockyard.so.0", &lib.join("liblockyard.so"))?;
    for (name, directory) in [
        ("lockyard.pc", "pkgconfig"),
        ("lockyardConfig.cmake", "cmake/lockyard"),
        ("lockyardConfigVersion.cmake", "cmake/lockyard"),
    ] {
        let template = root.join(CRATE).join("package").join(format!("{name}.in"));
        let text = fs::read_to_string(&template)
            .with_context(|| format!("cannot read {}", template.display()))?
            .replace("@VERSION@", VERSION)
            .replace("@STATIC_LIBS@", STATIC_LIBS);
        let to = lib.join(directory);
        fs::create_dir_all(&to)?;
        fs::write(to.join(name), text)?;
    }
    if !debug {
        let to = prefix.join("bin").join(COMMAND);
        copy(named(&built, COMMAND)?, &to)?;
    }
    println!("lockyard {VERSION} is in {}", prefix.display());
    let lib = lib.display();
    println!("found with PKG_CONFIG_PATH={lib}/pkgconfig and LD_LIBRARY_PATH={lib}");
    Ok(true)
}

/// What cargo says of a crate that it has built.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The files that cargo makes. Where they lie is for cargo to say: that depends on the
/// environment and on its configuration.
fn build(root: &Path, cargo: &mut Command) -> anyhow::Result<Vec<PathBuf>> {
    let output = cargo
        .args(["--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "it cannot be built: {cargo:?}");
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    let mut files = Vec::new();
    for message in messages {
        let Message { filenames } = message.context("cargo says what is not understood")?;
        files.extend(filenames);
    }
    Ok(files)
}

fn named<'a>(built: &'a [PathBuf], name: &str) -> anyhow::Result<&'a Path> {
    let file = built.iter().find(|file| file.ends_with(name));
    file.map(PathBuf::as_path)
        .with_context(|| format!("cargo names no {name} that it has built"))
}

/// Replaces, and does not overwrite, what is there: programs may be running with it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to.parent().expect("it is in a directory"))?;
    remove(to)?;
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn link(target: &str, at: &Path) -> anyhow::Result<()> {
    remove(at)?;
    symlink(target, at).with_context(|| format!("cannot make {}", at.display()))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library without dependencies.
    struct Crate(PathBuf);

    impl Crate {
        fn new(name: &str, source: &str) -> Self {
            let root = format!("lockyard-install-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(root);
            fs::create_dir_all(&root).unwrap();
            let manifest = "[package]\nname = \"small\"\n[workspace]\n\
                            [lib]\npath = \"lib.rs\"\n";
            fs::write(root.join("Cargo.toml"), manifest).unwrap();
            fs::write(root.join("lib.rs"), source).unwrap();
            Self(root)
        }

        fn cargo(&self, command: &str) -> Command {
            let mut cargo = Command::new("cargo");
            cargo.args([command, "--offline"]);
            cargo.env("CARGO_TARGET_DIR", self.0.join("target"));
            cargo
        }
    }

    impl Drop for Crate {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_built_is_found_wherever_it_lies() {
        let small = Crate::new("target", "");
        let version = Command::new("rustc").arg("-vV").output().unwrap().stdout;
        let version = String::from_utf8(version).unwrap();
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        for target in [None, host] {
            let mut cargo = small.cargo("build");
            cargo.env_remove("CARGO_BUILD_TARGET");
            cargo.envs(target.map(|target| ("CARGO_BUILD_TARGET", target)));
            let built = build(&small.0, &mut cargo).unwrap();
            let library = named(&built, "libsmall.rlib").unwrap();
            let directory = small.0.join("target").join(target.unwrap_or(""));
            assert_eq!(library, directory.join("debug/libsmall.rlib"));
            assert!(library.exists() && named(&built, "small").is_err());
        }
    }

    #[test]
    fn flags_of_the_environment_are_not_lost() {
        let source = "#[cfg(not(debug_assertions))] compile_error!(\"lost\");";
        let small = Crate::new("flags", source);
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_RUSTFLAGS",
        ] {
            let mut cargo = small.cargo("build");
            cargo.env_remove("RUSTFLAGS");
            cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
            cargo
                .arg("--release")
                .env(name, "-Cdebug-assertions")
                .envs(OPTIMISED);
            build(&small.0, &mut cargo).unwrap();
        }
    }

    #[test]
    fn two_static_libraries_link() {
        let two = ["one", "two"].map(|name| {
            let source = format!(
                "#[unsafe(no_mangle)] pub extern \"C\" fn {name}() {{ drop(std::env::args()); }}"
            );
            let small = Crate::new(name, &source);
            let mut cargo = small.cargo("rustc");
            cargo.args(["--release", "--crate-type", "staticlib"]);
            let built = build(&small.0, cargo.envs(OPTIMISED).envs(STATIC)).unwrap();
            (named(&built, "libsmall.a").unwrap().to_owned(), small)
        });
        let [(one, place), (other, _)] = &two;
        let program = "void one(void), two(void); int main(void) { one(); two(); }";
        fs::write(place.0.join("main.c"), program).unwrap();
        let mut cc = Command::new("cc");
        cc.arg("main.c").args([one, other]);
        cc.args(STATIC_LIBS.split_whitespace());
        assert!(cc.current_dir(&place.0).status().unwrap().success());
    }
}
