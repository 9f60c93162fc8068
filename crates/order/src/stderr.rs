//! Where reports go: the standard error that the process began with.
//!
//! Many a program closes it before it has ended, and may open another file in its place.

use std::{io, os::fd::RawFd, sync::OnceLock};

use rustix::{
    fd::{BorrowedFd, IntoRawFd},
    fs, io as fd_io,
    io::Errno,
};

const STDERR: RawFd = 2;

/// What was standard error when the process began.
struct Kept {
    /// Its device and inode: it is written to only where that file is open still.
    file: (u64, u64),
    /// Open there as well.
    copy: RawFd,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Keeps what is standard error now, for what is still said when the program has closed it.
/// A program that is executed has none of it.
pub fn keep_stderr() {
    const NUMBERS: [RawFd; 2] = [1000, 10]; // from there on: not where programs count from
    let copy = |from| fd_io::fcntl_dupfd_cloexec(open(STDERR), from).ok();
    if let Some(file) = file(STDERR)
        && let Some(copy) = NUMBERS.into_iter().find_map(copy)
    {
        let copy = copy.into_raw_fd();
        KEPT.get_or_init(|| Kept { file, copy });
    }
}

/// Writes it all to standard error, by system calls that are no cancellation points.
///
/// # Errors
/// That of the system; `EBADF` if the program has closed all there was.
pub fn write_stderr(mut text: &[u8]) -> io::Result<()> {
    let number = match KEPT.get() {
        None => STDERR,
        Some(kept) => [STDERR, kept.copy]
            .into_iter()
            .find(|number| file(*number) == Some(kept.file))
            .ok_or(Errno::BADF)?,
    };
    while !text.is_empty() {
        match fd_io::write(open(number), text) {
            Ok(written) => text = &text[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The file that is open there.
fn file(number: RawFd) -> Option<(u64, u64)> {
    let file = fs::fstat(open(number)).ok()?;
    Some((file.st_dev, file.st_ino))
}

fn open(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: it is no -1. Where it is closed the system says so, and where another file was
    // opened since it is told by its inode.
    unsafe { BorrowedFd::borrow_raw(number) }
}
