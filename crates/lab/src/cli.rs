//! The command line: subcommands, signals and the exit status.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::{ExitCode, exit},
    time::{Duration, Instant},
};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::{
    calibrate, compare, explore, failure::Failure, futex_crowd, futex_hash, futex_pingpong,
    futex_requeue, futex_wake, inherited, locks, locktest, pi_stress, reproduce, run, screen,
    torture, usage, validate,
};

/// The lab for sleeping locks: lists them, loads them, compares them.
///
/// Results go to stdout, progress to stderr. Ctrl-C ends a measurement and
/// prints what was measured so far; again, it ends the command at once. Exit
/// status: 0 fine, after Ctrl-C too, 1 a check failed or results could not be
/// written, 2 bad usage, 130 after a second Ctrl-C.
#[derive(Parser)]
#[command(name = "lockyard", version, disable_help_subcommand = true)]
#[command(max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Locks(locks::Args),
    Locktest(locktest::Args),
    Compare(compare::Args),
    Explore(explore::Args),
    Torture(torture::Args),
    PiStress(pi_stress::Args),
    FutexHash(futex_hash::Args),
    FutexWake(futex_wake::Args),
    FutexRequeue(futex_requeue::Args),
    FutexPingpong(futex_pingpong::Args),
    FutexCrowd(futex_crowd::Args),
    Calibrate(calibrate::Args),
    Validate(validate::Args),
    Reproduce(reproduce::Args),
    Run(run::Args),
}

/// Parses `args`, does what they ask, and returns the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let done = Cli::try_parse_from(&args)
        .map_err(|error| refused(error, &args))
        .and_then(|cli| {
            if !matches!(cli.command, Command::Run(_)) {
                // What is run has a stdout and signals of its own.
                inherited::check_stdout()?;
                stop_on_signal();
            }
            match cli.command {
                Command::Locks(args) => locks::run(&args),
                Command::Locktest(args) => locktest::run(&args),
                Command::Compare(args) => compare::run(&args),
                Command::Explore(args) => explore::run(&args),
                Command::Torture(args) => torture::run(&args),
                Command::PiStress(args) => pi_stress::run(&args),
                Command::FutexHash(args) => futex_hash::run(&args),
                Command::FutexWake(args) => futex_wake::run(&args),
                Command::FutexRequeue(args) => futex_requeue::run(&args),
                Command::FutexPingpong(args) => futex_pingpong::run(&args),
                Command::FutexCrowd(args) => futex_crowd::run(&args),
                Command::Calibrate(args) => calibrate::run(&args),
                Command::Validate(args) => validate::run(&args),
                Command::Reproduce(args) => reproduce::run(&args),
                Command::Run(args) => run::run(&args),
            }
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(failure),
    }
}

/// The first signal ends the measurement, another one that comes later ends the
/// program, in case that a lock under test never lets its threads go.
fn stop_on_signal() {
    let mut first = None;
    let handler = move || match first {
        None => {
            screen::log("stopping; what was measured follows (again to quit at once)");
            lockyard_torture::interrupt();
            first = Some(Instant::now());
        }
        Some(first) if is_again(first, Instant::now()) => exit(130),
        Some(_) => {}
    };
    // Without the handler a signal ends the program at once, as it always did.
    let _ = ctrlc::set_handler(handler);
}

/// Whether a signal is another one: timeout(1) sends one both to the command and to
/// its group.
fn is_again(first: Instant, now: Instant) -> bool {
    now.duration_since(first) >= Duration::from_millis(200)
}

/// What the parser does not take: bad usage, or a wish for help or the version.
fn refused(error: clap::Error, args: &[OsString]) -> Failure {
    if !error.use_stderr() {
        let printed = inherited::check_stdout().and_then(|()| error.print());
        return match printed.and_then(|()| io::stdout().flush()) {
            Ok(()) => Failure::Help,
            Err(error) => Failure::Output(error),
        };
    }
    if error.kind() == ErrorKind::InvalidUtf8 {
        // It names no argument; the argument's own parser, given text, does.
        let text = |arg: &OsString| arg.to_string_lossy().into_owned().into();
        let args: Vec<OsString> = args.iter().map(text).collect();
        if let Err(error) = Cli::try_parse_from(&args) {
            return refused(error, &args);
        }
    }
    let mut command = Cli::command();
    command.build();
    let name = args.get(1).and_then(|name| name.to_str());
    let subcommand = name.and_then(|name| command.find_subcommand(name));
    Failure::Usage(usage::one_line(&error, subcommand.unwrap_or(&command)))
}

/// Says what ended the command, in one line on stderr.
fn report(failure: Failure) -> ExitCode {
    match failure {
        Failure::Help => ExitCode::SUCCESS,
        Failure::Usage(line) => {
            screen::log(&line);
            ExitCode::from(2)
        }
        Failure::NotStarted { line, status } => {
            screen::log(&line);
            ExitCode::from(status)
        }
        Failure::Check(line) => {
            screen::log(&line);
            ExitCode::FAILURE
        }
        // Whoever read stdout has seen enough.
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Failure::Output(error) => {
            screen::log(&format!("results could not be written: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_is_one() {
        let first = Instant::now();
        let is_again = |ms| is_again(first, first + Duration::from_millis(ms));
        assert!(!is_again(0) && !is_again(199));
        assert!(is_again(200));
    }
}
