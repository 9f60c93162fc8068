//! What the argument parser says about bad usage, in one line that names the
//! value and what would be valid.

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// The line, for the arguments of `command`, which is a subcommand when they
/// name one.
pub fn one_line(error: &Error, command: &Command) -> String {
    let text = |kind| strings(error, kind).into_iter().next().unwrap_or_default();
    let line = match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => bad_value(error),
        ErrorKind::UnknownArgument if !text(ContextKind::InvalidArg).starts_with('-') => format!(
            "'{}' is one argument too many: {} takes {}{}",
            text(ContextKind::InvalidArg),
            command.get_name(),
            positionals(command),
            flags(command)
        ),
        ErrorKind::UnknownArgument => format!(
            "'{}' is not a flag of {}: use one of {}{}",
            text(ContextKind::InvalidArg),
            command.get_name(),
            flags(command),
            did_you_mean(error, ContextKind::SuggestedArg)
        ),
        ErrorKind::InvalidSubcommand => format!(
            "'{}' is not a subcommand: use one of {}{}",
            text(ContextKind::InvalidSubcommand),
            subcommands(command),
            did_you_mean(error, ContextKind::SuggestedSubcommand)
        ),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!(
                "no subcommand: use one of {} (or --help)",
                subcommands(command)
            )
        }
        _ => first_line(&error.to_string()),
    };
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// `--threads '0': ...` with the reason of the value's own parser, or
/// `--lock 'mutx' is not a lock: use one of ...`.
fn bad_value(error: &Error) -> String {
    let text = |kind| strings(error, kind).into_iter().next().unwrap_or_default();
    let arg = text(ContextKind::InvalidArg);
    let value = text(ContextKind::InvalidValue);
    if let (Some((flag, _)), true) = (arg.split_once("[="), value.is_empty()) {
        return format!("{flag}= needs a value: name one, or leave out the =");
    }
    let (flag, name) = match arg.strip_prefix('[') {
        Some(positional) => (positional.trim_end_matches(']').to_lowercase(), ""),
        None => {
            let (flag, name) = arg.split_once(' ').unwrap_or((&arg, ""));
            (flag.into(), name)
        }
    };
    if value.is_empty() {
        return format!("{flag} needs a value");
    }
    let valid = strings(error, ContextKind::ValidValue);
    if valid.is_empty() {
        let reason = std::error::Error::source(error).map(ToString::to_string);
        return format!("{flag} '{value}': {}", reason.unwrap_or_default());
    }
    let what = name.trim_matches(|c: char| !c.is_alphabetic());
    format!(
        "{flag} '{value}' is not a {}: use {}{}{}",
        what.to_lowercase(),
        if valid.len() > 1 { "one of " } else { "" },
        valid.join(", "),
        did_you_mean(error, ContextKind::SuggestedValue)
    )
}

fn flags(command: &Command) -> String {
    let long = command.get_arguments().filter_map(|arg| arg.get_long());
    let all: Vec<_> = long.map(|name| format!("--{name}")).collect();
    all.join(", ")
}

/// `one experiment and `, of a command that takes one.
fn positionals(command: &Command) -> String {
    let all = command.get_positionals();
    let names = all.map(|arg| arg.get_id().as_str());
    names.map(|name| format!("one {name} and ")).collect()
}

fn subcommands(command: &Command) -> String {
    let all: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
    all.join(", ")
}

/// The most similar, which is the last.
fn did_you_mean(error: &Error, kind: ContextKind) -> String {
    match strings(error, kind).last() {
        Some(close) => format!(" (did you mean '{close}'?)"),
        None => String::new(),
    }
}

fn strings(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").into()
}
