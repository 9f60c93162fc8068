//! Why a subcommand ends without success.

use std::{io, path::Path};

/// A failure; each kind has its exit status.
pub enum Failure {
    /// None: help or the version was asked for, and printed.
    Help,
    /// Bad usage: one line that names the value and what would be valid.
    Usage(String),
    /// A lock misbehaved: one line that names it.
    Check(String),
    /// A program could not be run: one line that names it, and the exit status for that.
    NotStarted { line: String, status: u8 },
    /// Results could not be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The error, with the name of the file that it is about.
pub fn named(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("'{}': {why}", path.display()))
}
