//! Tells the command what it was built from: `compare --out` writes it down.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    tell("LOCKYARD_RUSTC", &rustc, &["--version"]);
    let describe = [
        "--no-optional-locks",
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
    ];
    tell("LOCKYARD_COMMIT", "git", &describe);
    // Sources decide on "-dirty", the logs on the commit.
    for path in ["..", "../../Cargo.toml", "../../.git/logs/HEAD"] {
        if std::path::Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn tell(variable: &str, program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output();
    let Some(output) = output.ok().filter(|o| o.status.success()) else {
        return;
    };
    if let Some(line) = String::from_utf8_lossy(&output.stdout).lines().next() {
        println!("cargo::rustc-env={variable}={line}");
    }
}
