//! `lockyard run`.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{self, Path, PathBuf},
    process::{self, Command},
};

use crate::{failure::Failure, inherited, program, screen};

/// What `crates/preload` builds.
const LIBRARY: &str = "liblockyard_preload.so";

/// Where the library writes the profile: a file, or standard error if it is empty; and the
/// process that the file is for. Others put their number behind its name.
const STATS: &str = "LOCKYARD_STATS";
const STATS_PID: &str = "LOCKYARD_STATS_PID";

/// Has the library watch in which order the program takes its locks.
const DEADLOCK: &str = "LOCKYARD_DEADLOCK";

/// What becomes of the program's locks, by the names that the library knows.
const MUTEX: &str = "LOCKYARD_MUTEX";
const RWLOCK: &str = "LOCKYARD_RWLOCK";

/// What the dynamic linker parts the libraries by.
const SEPARATORS: &[u8] = b": ";

/// What the program's mutexes become: those that are private, not robust, and have no
/// priority ceiling.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Mutex {
    /// The mutex that spins while its owner runs; as the program asks, with priority
    /// inheritance
    Adaptive,
    /// All with priority inheritance, as if the program asked for that
    Pi,
    /// Left to the C library, and so are condition variables
    Libc,
}

impl Mutex {
    const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Pi => "pi",
            Self::Libc => "libc",
        }
    }
}

/// What its reader-writer locks become: those that are private.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Rwlock {
    /// The one for all uses: readers share no line while hardly anybody writes
    Rwsem,
    /// The one for what is hardly ever written: readers count on their own CPU, and a writer
    /// waits for all CPUs
    Percpu,
    /// Left to the C library
    Libc,
}

impl Rwlock {
    const fn name(self) -> &'static str {
        match self {
            Self::Rwsem => "rwsem",
            Self::Percpu => "percpu",
            Self::Libc => "libc",
        }
    }
}

/// Run a program with its pthread locks replaced by ours
///
/// Its mutexes, condition variables and reader-writer locks become ours, and those of the
/// programs that it starts; docs/preload.md says which stay. It takes the place of this
/// command: the exit status and the signals are its own. Exit status 127 if there is no
/// such program, 126 if it cannot be run, 2 bad usage; docs/deadlock.md says what --deadlock
/// makes of a status of 0.
#[derive(clap::Args)]
pub struct Args {
    /// Profile its locks: how often each was taken, waited for and held, and where
    ///
    /// The profile comes when the program ends: a table on standard error, or a JSON object
    /// in FILE, and in FILE.folded the stacks that waited, with nanoseconds, for a flame
    /// graph. Another process that it starts writes to FILE.PID and FILE.PID.folded.
    #[arg(long, value_name = "FILE", require_equals = true)]
    stats: Option<Option<PathBuf>>,
    /// Report deadlocks that are possible; then exit with 66 where the program would with 0
    #[arg(long)]
    deadlock: bool,
    /// What its mutexes become [default: adaptive]
    #[arg(long, value_name = "POLICY")]
    mutex: Option<Mutex>,
    /// What its reader-writer locks become [default: rwsem]
    #[arg(long, value_name = "LOCK")]
    rwlock: Option<Rwlock>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl Args {
    /// The flag that has locks of ours watched.
    fn watches(&self) -> Option<&'static str> {
        match self.deadlock {
            true => Some("--deadlock"),
            false => self.stats.is_some().then_some("--stats"),
        }
    }
}

/// Becomes the program; returns only when it cannot.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::Usage(
            "no program: lockyard run -- PROGRAM ARGUMENTS".into(),
        ));
    };
    if let Some(flag) = args.watches()
        && args.mutex == Some(Mutex::Libc)
        && args.rwlock == Some(Rwlock::Libc)
    {
        return Err(Failure::Usage(format!(
            "{flag} with --mutex libc and --rwlock libc sees no lock: leave out one of them"
        )));
    }
    let library = library()?;
    let preload = preload(&library, env::var_os("LD_PRELOAD").as_deref())?;
    let mut command = Command::new(program);
    command.args(rest).env("LD_PRELOAD", preload);
    let stats = args.stats.as_ref().and_then(Option::as_deref);
    let stats = stats.map(Stats::new).transpose()?;
    if args.stats.is_some() {
        let file = stats.as_ref().map(|stats| stats.file.as_path());
        command.env(STATS, file.unwrap_or(Path::new("")));
        command.env(STATS_PID, process::id().to_string());
    }
    if args.deadlock {
        command.env(DEADLOCK, "1");
    }
    if let Some(mutex) = args.mutex {
        command.env(MUTEX, mutex.name());
    }
    if let Some(lock) = args.rwlock {
        command.env(RWLOCK, lock.name());
    }
    if args.watches().is_some()
        && let Some(file) = program::found(program)
        && program::is_static(&file)
    {
        let name = program.display();
        screen::log(&format!(
            "'{name}' is linked statically: no lock of its own is replaced or watched"
        ));
        if let Some(stats) = &stats {
            stats.clear();
        }
    }
    inherited::pass_on(&mut command);
    let error = command.exec();
    // `--stats FILE PROGRAM`: the flag takes a file only behind a `=`.
    let may_be_file = matches!(args.stats, Some(None)) && !rest.is_empty();
    Err(not_started(program, &error, may_be_file))
}

/// The library beside this command, or where an installation has it.
fn library() -> Result<PathBuf, Failure> {
    let command = env::current_exe()?;
    let beside = command.parent().unwrap_or(Path::new("/"));
    let places = [beside.join(LIBRARY), beside.join("../lib").join(LIBRARY)];
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Failure::Usage(format!(
            "{LIBRARY} is neither in {} nor in ../lib from there: \
             cargo build --release --package lockyard-preload makes it, cargo xtask install a faster one",
            beside.display()
        ))
    })
}

/// The library before those that are preloaded already.
fn preload(library: &Path, others: Option<&OsStr>) -> Result<OsString, Failure> {
    let mut preload = library.as_os_str().to_owned();
    if preload.as_bytes().iter().any(|b| SEPARATORS.contains(b)) {
        return Err(Failure::Usage(format!(
            "'{}' cannot be preloaded: use a path without spaces and colons",
            library.display()
        )));
    }
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Ok(preload)
}

/// The files of a profile, which can be written. What they hold stays until the library
/// writes the next; those that were not there before go again if the program cannot be run.
struct Stats {
    /// As the program will find it, whatever its directory.
    file: PathBuf,
    folded: PathBuf,
    new: Vec<PathBuf>,
}

impl Stats {
    fn new(file: &Path) -> Result<Self, Failure> {
        let file = path::absolute(file)?;
        if fs::metadata(&file).is_ok_and(|there| !there.is_file()) {
            return Err(Failure::Usage(format!(
                "--stats: '{}' is not a file: name one, or none for standard error",
                file.display()
            )));
        }
        let mut folded = file.clone().into_os_string();
        folded.push(".folded");
        let folded = PathBuf::from(folded);
        let mut stats = Self {
            file: file.clone(),
            folded: folded.clone(),
            new: Vec::new(),
        };
        for path in [file, folded] {
            match create(&path) {
                Ok(true) => stats.new.push(path),
                Ok(false) => {}
                Err(error) => {
                    return Err(Failure::Usage(format!(
                        "--stats: '{}' cannot be written: {error}",
                        path.display()
                    )));
                }
            }
        }
        Ok(stats)
    }

    /// What an earlier run has left is not taken for that of a program which the
    /// library does not get into; in others the library sees to it.
    fn clear(&self) {
        for path in [&self.file, &self.folded] {
            let _ = fs::write(path, ""); // it could be written before
        }
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        for path in &self.new {
            let _ = fs::remove_file(path); // an empty file does no harm
        }
    }
}

/// Makes sure that a file can be written; whether it is new.
fn create(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.append(true);
    match options.create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // It may be a link to a file that is not there yet.
            options.create_new(false).create(true).open(path)?;
            Ok(false)
        }
        opened => opened.map(|_| true),
    }
}

/// As a shell says it, and env(1). What is no program may be a file that was meant for the
/// profile.
fn not_started(program: &OsStr, error: &io::Error, may_be_file: bool) -> Failure {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let (why, status) = match missing {
        true if program::found(program).is_some() => ("its interpreter is missing".into(), 126),
        true if may_be_file => {
            let file = program.display();
            let why = format!("{error}; a file for the profile is --stats='{file}'");
            (why, 127)
        }
        true => (error.to_string(), 127),
        false => (error.to_string(), 126),
    };
    Failure::NotStarted {
        line: format!("'{}' cannot be run: {why}", program.display()),
        status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stay_preloaded() {
        let with = |others: Option<&str>| {
            let preload = preload(Path::new("/lib/a.so"), others.map(OsStr::new));
            preload.ok().map(|text| text.into_string().unwrap())
        };
        assert_eq!(with(None).as_deref(), Some("/lib/a.so"));
        assert_eq!(with(Some("")).as_deref(), Some("/lib/a.so"));
        assert_eq!(
            with(Some("b.so c.so")).as_deref(),
            Some("/lib/a.so:b.so c.so")
        );
    }

    #[test]
    fn a_path_that_the_linker_would_part_is_refused() {
        for path in ["/a b/c.so", "/a:b/c.so"] {
            let refused = preload(Path::new(path), None);
            assert!(matches!(refused, Err(Failure::Usage(line)) if line.contains(path)));
        }
    }
}
