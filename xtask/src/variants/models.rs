//! The models, compiled with a variant, each run by a process of its own.

use std::{
    io::Read,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use super::Tree;

/// The longest that a model may take, many times what it takes.
const LIMIT: Duration = Duration::from_secs(180);

/// What a variant is judged by.
#[derive(Clone, Copy)]
pub enum Suite {
    /// The models of crates/check.
    Models,
    /// The simulated schedules of crates/torture.
    Explorations,
}

/// The models of one variant.
pub struct Models {
    binary: PathBuf,
    directory: PathBuf,
    names: Vec<String>,
}

/// A model that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catch {
    /// Its name.
    pub model: String,
    /// In which execution.
    pub execution: u64,
    /// What was wrong with that.
    pub what: String,
}

/// What some models say.
#[derive(PartialEq, Eq, Debug)]
pub enum Verdict {
    /// One found an execution that fails.
    Caught(Catch),
    /// All passed.
    Passed,
    /// None failed, but these took too long.
    TimedOut(Vec<String>),
}

enum Ended {
    Passed,
    Failed { execution: u64, what: String },
    TimedOut,
    Stopped,
}

impl Models {
    /// Compiles the models, or the explorations, with the tree as it is.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn build(tree: &Tree, suite: Suite) -> anyhow::Result<Self> {
        let (package, test) = match suite {
            Suite::Models => ("check", "models"),
            Suite::Explorations => ("torture", "explore"),
        };
        let args = format!("test --release --no-run --test {test} --package lockyard-{package}");
        let mut models = Self {
            binary: compile(tree, &args, test)?,
            directory: tree.root().join("crates").join(package),
            names: Vec::new(),
        };
        let long = models.list(&["--ignored"])?;
        models.names = models.list(&[])?;
        models.names.retain(|name| !long.contains(name));
        Ok(models)
    }

    /// All but the long ones.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .current_dir(&self.directory)
            .env("RUST_BACKTRACE", "0");
        command
    }

    fn list(&self, args: &[&str]) -> anyhow::Result<Vec<String>> {
        let list = ["--list", "--format", "terse"];
        let output = self.command().args(list).args(args).output()?;
        let text = String::from_utf8(output.stdout)?;
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    /// Runs these models, several at a time, until one fails; each for so many executions at most,
    /// if that is given.
    ///
    /// # Errors
    /// A model that fails otherwise than by an execution.
    pub fn run(&self, names: &[&str], most: Option<u64>) -> anyhow::Result<Verdict> {
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let verdicts = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        let at = next.fetch_add(1, Relaxed);
                        let Some(name) = names.get(at) else { return };
                        let ended = self.run_one(name, most, &stop);
                        if matches!(ended, Ok(Ended::Failed { .. }) | Err(_)) {
                            stop.store(true, Relaxed);
                        }
                        verdicts.lock().expect("no thread panics").push((at, ended));
                    }
                });
            }
        });
        let mut verdicts = verdicts.into_inner().expect("no thread panicked");
        verdicts.sort_by_key(|(at, _)| *at);
        let mut late = Vec::new();
        for (at, ended) in verdicts {
            let model = names[at].to_owned();
            match ended? {
                Ended::Failed { execution, what } => {
                    return Ok(Verdict::Caught(Catch {
                        model,
                        execution,
                        what,
                    }));
                }
                Ended::TimedOut => late.push(model),
                Ended::Passed | Ended::Stopped => {}
            }
        }
        Ok(match late.is_empty() {
            true => Verdict::Passed,
            false => Verdict::TimedOut(late),
        })
    }

    fn run_one(&self, name: &str, most: Option<u64>, stop: &AtomicBool) -> anyhow::Result<Ended> {
        let mut child = self
            .command()
            .envs(most.map(|most| ("MODELS_AT_MOST", most.to_string())))
            .args(["--include-ignored", "--nocapture", "--exact", name])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stderr = child.stderr.take().expect("piped above");
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            stderr.read_to_end(&mut said).map(|_| said)
        });
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let late = start.elapsed() > LIMIT;
            if late || stop.load(Relaxed) {
                child.kill()?;
                child.wait()?;
                return Ok(if late {
                    Ended::TimedOut
                } else {
                    Ended::Stopped
                });
            }
            thread::sleep(Duration::from_millis(10));
        };
        if status.success() {
            return Ok(Ended::Passed);
        }
        let said = said.join().expect("the reader does not panic")?;
        let said = String::from_utf8_lossy(&said);
        if misses_events(&said) {
            return Ok(Ended::Passed);
        }
        let (execution, what) = failure(&said).with_context(|| {
            format!("{name} fails ({status}), but not in an execution:\n{said}")
        })?;
        Ok(Ended::Failed { execution, what })
    }
}

/// Compiles with the tree as it is, by these arguments of cargo's, and returns
/// the executable that is named so.
///
/// # Errors
/// What the compiler says.
pub fn compile(tree: &Tree, args: &str, name: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("cargo")
        .args(args.split_whitespace())
        .args(["--message-format=json", "--target-dir"])
        .arg(tree.target())
        // A variant differs from the one before it in a function or two: what the others
        // were compiled to is good for both, unless a crate's parts are optimised together.
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .current_dir(tree.root())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let messages = String::from_utf8(output.stdout)?;
    let binary = messages.lines().find_map(|line| executable(line, name));
    binary.context("cargo names no executable")
}

/// The path in a message of cargo's that names the executable of that name.
fn executable(message: &str, name: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    (message["target"]["name"] == name).then_some(())?;
    message["executable"].as_str().map(PathBuf::from)
}

/// Whether no execution failed, and all of them together missed what the model is for: a
/// variant may do that to one that explores at random, and is not found out by it.
fn misses_events(said: &str) -> bool {
    failure(said).is_none() && said.contains(" did not reach ")
}

/// Which execution failed, and how, as a failure of the checker is printed: the
/// last panic is the one of the test.
fn failure(said: &str) -> Option<(u64, String)> {
    let (before, after) = said.split_once("\nin execution ")?;
    let (number, _) = after.split_once(':')?;
    let (_, panic) = before.rsplit_once(" panicked at ")?;
    let what = panic.lines().nth(1)?;
    Some((number.parse().ok()?, what.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read() {
        let said = "\nthread 'a::b' (7) panicked at main.rs:9:3:\na model: deadlock\nin execution 12:\n1 lock\nreplay: 3\n";
        assert_eq!(failure(said), Some((12, "a model: deadlock".to_owned())));
        let said = "thread 'a' panicked at a.rs:1:1:\nx\nthread 'a' panicked at main.rs:9:3:\na model: unequal\n left: 1\nright: 2\nin execution 3:\n";
        assert_eq!(failure(said), Some((3, "a model: unequal".to_owned())));
        assert!(!misses_events(said));
        let said = "thread 'a' panicked at main.rs:9:3:\na model did not reach Parked\n";
        assert_eq!(failure(said), None);
        assert!(misses_events(said));
    }

    #[test]
    fn the_executable_is_found() {
        let one =
            r#"{"reason":"compiler-artifact","target":{"name":"models"},"executable":"/a/b"}"#;
        assert_eq!(executable(one, "models"), Some(PathBuf::from("/a/b")));
        let other = r#"{"target":{"name":"lockyard-check"},"executable":null}"#;
        assert_eq!(executable(other, "models"), None);
    }
}
