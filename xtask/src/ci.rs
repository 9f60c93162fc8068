//! Everything that must pass before a commit. A failing step does not stop
//! the others: one run shows all that is wrong.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;

use crate::tidy;

/// The exit status of a script that lacks the tools for its work, and says so.
const NEEDS_TOOLS: i32 = 3;

enum Ended {
    Passed,
    Failed,
    LeftOut,
}

/// A command, and the component of the tool chain that it cannot do without.
struct Step {
    /// A variable for it, unless there is one of this name.
    env: Option<(&'static str, &'static str)>,
    program: &'static str,
    args: &'static str,
    component: Option<&'static str>,
}

impl Step {
    const fn cargo(args: &'static str) -> Self {
        Self {
            env: None,
            program: "cargo",
            args,
            component: None,
        }
    }

    /// The command as one would type it.
    fn line(&self) -> String {
        let env = self
            .env
            .map(|(key, value)| format!("{key}=\"{value}\" "))
            .unwrap_or_default();
        format!("{env}{} {}", self.program, self.args)
            .trim_end()
            .to_owned()
    }

    fn run(&self, root: &Path) -> anyhow::Result<Ended> {
        println!("\n$ {}", self.line());
        let status = Command::new(self.program)
            .args(self.args.split_whitespace())
            .envs(self.env.filter(|(key, _)| env::var_os(key).is_none()))
            .current_dir(root)
            .status()
            .with_context(|| format!("cannot start {}", self.program))?;
        Ok(match status.code() {
            Some(0) => Ended::Passed,
            Some(NEEDS_TOOLS) => Ended::LeftOut,
            _ => Ended::Failed,
        })
    }

    /// The component that is missing on this machine.
    fn missing(&self) -> Option<&'static str> {
        self.component.filter(|_| {
            let subcommand = self.args.split_whitespace().next();
            !Command::new(self.program)
                .args(subcommand)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    }
}

const BEFORE_TIDY: [Step; 2] = [
    Step {
        component: Some("rustfmt"),
        ..Step::cargo("fmt --check")
    },
    Step {
        component: Some("clippy"),
        ..Step::cargo("clippy --quiet --workspace --all-targets -- -D warnings")
    },
];

const AFTER_TIDY: [Step; 3] = [
    Step {
        // .ci/run sets it where it cannot get the tools.
        env: Some(("LOCKYARD_TEST_TOOLS", "required")),
        ..Step::cargo("test --workspace --no-fail-fast")
    },
    Step::cargo("test --package lockyard --features deadlock"),
    Step {
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
        ..Step::cargo("doc --quiet --workspace --no-deps")
    },
];

/// What takes two minutes, and after how many a machine is too slow for it as well: all is to be
/// over in twenty.
const IF_EARLY: [(Step, u64); 2] = [
    (
        Step {
            env: None,
            program: "scripts/aarch64-test",
            args: "",
            component: None,
        },
        15,
    ),
    (Step::cargo("xtask busted --sample"), 15),
];

/// Runs every step, and says at the end which of them failed or were left out.
pub fn run(root: &Path) -> anyhow::Result<bool> {
    let began = Instant::now();
    let mut outcome = Outcome::default();
    outcome.run(root, &BEFORE_TIDY)?;
    println!("\n$ cargo xtask tidy");
    if !tidy::run(root, false)? {
        outcome.failed.push("cargo xtask tidy".to_owned());
    }
    outcome.run(root, &AFTER_TIDY)?;
    for (step, minutes) in IF_EARLY {
        if began.elapsed() < Duration::from_secs(minutes * 60) {
            outcome.run(root, &[step])?;
        } else {
            let line = step.line();
            outcome
                .left_out
                .push(format!("{line}: all before it took {minutes} minutes"));
        }
    }
    println!();
    for line in &outcome.left_out {
        println!("ci: left out: {line}");
    }
    for line in &outcome.failed {
        println!("ci: FAILED: {line}");
    }
    if outcome.failed.is_empty() {
        println!("ci: passed");
    }
    Ok(outcome.failed.is_empty())
}

#[derive(Default)]
struct Outcome {
    failed: Vec<String>,
    left_out: Vec<String>,
}

impl Outcome {
    fn run(&mut self, root: &Path, steps: &[Step]) -> anyhow::Result<()> {
        for step in steps {
            if let Some(component) = step.missing() {
                let line = step.line();
                self.left_out
                    .push(format!("{line}: rustup component add {component}"));
                continue;
            }
            match step.run(root)? {
                Ended::Passed => {}
                Ended::Failed => self.failed.push(step.line()),
                Ended::LeftOut => self.left_out.push(step.line()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_kept_and_does_not_stop_the_rest() {
        let step = |program, args, component| Step {
            env: None,
            program,
            args,
            component,
        };
        let mut outcome = Outcome::default();
        let steps = [
            step("false", "", None),
            step("false", "", Some("nothing")),
            step("true", "", None),
        ];
        outcome.run(Path::new("."), &steps).unwrap();
        assert_eq!(outcome.failed, ["false"]);
        assert_eq!(outcome.left_out, ["false: rustup component add nothing"]);
    }

    #[test]
    fn a_step_is_shown_as_one_would_type_it() {
        assert_eq!(IF_EARLY[0].0.line(), "scripts/aarch64-test");
        assert_eq!(
            AFTER_TIDY[2].line(),
            "RUSTDOCFLAGS=\"-D warnings\" cargo doc --quiet --workspace --no-deps"
        );
    }
}
