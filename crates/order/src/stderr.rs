//! Where reports go: the standard error that the process began with.
//!
//! Many a program closes it before it has ended, and may open another file in its place.

use std::{
    io,
    os::fd::RawFd,
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::{BorrowedFd, IntoRawFd},
    fs, io as fd_io,
    io::Errno,
};

const STDERR: RawFd = 2;
/// How long it may be full, where writes do not wait for that.
const FULL: Duration = Duration::from_secs(5);
/// No copy was made; or it was closed in a fork's child.
const NONE: RawFd = -1;
const CLOSED: RawFd = -2;

/// What was standard error when the process began.
struct Kept {
    /// Its device and inode, if there was one: it is written to only where that is open still.
    file: Option<(u64, u64)>,
    /// Open there as well.
    copy: AtomicI32,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// Keeps what is standard error now, for what is still said when the program has closed it.
/// A program that is executed has none of it, nor has a fork's child: that may go on for long,
/// and who reads a pipe waits for its end.
pub fn keep_stderr() {
    const NUMBERS: [RawFd; 2] = [1000, 10]; // from there on: not where programs count from
    let copy = |from| fd_io::fcntl_dupfd_cloexec(open(STDERR), from).ok();
    KEPT.get_or_init(|| {
        let file = file(STDERR);
        let copy = file.and_then(|_| NUMBERS.into_iter().find_map(copy));
        if copy.is_some() {
            // SAFETY: the handler is a function of this crate, which stays loaded.
            unsafe { libc::pthread_atfork(None, None, Some(close_copy)) };
        }
        let copy = copy.map_or(NONE, IntoRawFd::into_raw_fd).into();
        Kept { file, copy }
    });
}

extern "C" fn close_copy() {
    if let Some(kept) = KEPT.get() {
        let copy = kept.copy.swap(CLOSED, Relaxed); // the child has one thread
        if kept.is_at(copy) {
            // SAFETY: it was opened above, and nobody here uses it any more.
            unsafe { fd_io::close(copy) };
        }
    }
}

impl Kept {
    fn is_at(&self, number: RawFd) -> bool {
        self.file.is_some() && number >= 0 && file(number) == self.file
    }

    fn number(&self) -> Option<RawFd> {
        let copy = self.copy.load(Relaxed); // set before there was another thread
        let found = [STDERR, copy].into_iter().find(|at| self.is_at(*at));
        // A daemon's may be another on purpose.
        found.or((copy == CLOSED).then_some(STDERR))
    }
}

/// Writes it all to standard error, by system calls that are no cancellation points.
///
/// # Errors
/// That of the system; `EBADF` if the program has closed all there was, `EPIPE` if nobody
/// reads it, for which no signal is sent, `EAGAIN` if it stays full.
pub fn write_stderr(text: &[u8]) -> io::Result<()> {
    let number = KEPT.get().map_or(Some(STDERR), Kept::number);
    write_all(open(number.ok_or(Errno::BADF)?), text, FULL)
}

/// It may be full for so long.
fn write_all(file: BorrowedFd, mut text: &[u8], full: Duration) -> io::Result<()> {
    while !text.is_empty() {
        if is_broken(file) {
            return Err(Errno::PIPE.into());
        }
        match fd_io::write(file, text) {
            Ok(written) => text = &text[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if waits_for_room(file, full) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether it comes to take more.
fn waits_for_room(file: BorrowedFd, full: Duration) -> bool {
    let until = Instant::now() + full;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("it is short");
        let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
        match poll(&mut polled, Some(&left)) {
            Err(Errno::INTR) => {}
            polled => return polled == Ok(1),
        }
    }
}

/// Whether it is a pipe or a socket that nobody reads.
fn is_broken(file: BorrowedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
    let now = poll(&mut polled, Some(&Timespec::default()));
    now.is_ok() && polled[0].revents().contains(PollFlags::ERR)
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

#[cfg(test)]
mod tests {
    use std::{io::Read, os::fd::AsFd, thread};

    use super::*;

    #[test]
    fn what_is_full_is_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        fs::fcntl_setfl(&writer, fs::OFlags::NONBLOCK).unwrap();
        let text = vec![b'x'; 1 << 20]; // more than it takes
        let write = |full| write_all(writer.as_fd(), &text, full);
        let error = write(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let reads = thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        write(Duration::from_secs(3600)).unwrap();
        drop(writer);
        assert!(reads.join().unwrap().unwrap() > text.len());
    }
}
