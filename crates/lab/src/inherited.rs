//! What the command was given, although the standard library changes it: before `main` it opens
//! those standard files that are closed, and when it executes a program it no longer ignores
//! `SIGPIPE`.

use std::{
    io,
    os::unix::process::CommandExt,
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    io::Errno,
};

const FILES: std::ops::Range<i32> = 0..3;
/// Beside a bit for each of these that is closed: `SIGPIPE` is ignored.
const IGNORED: u32 = 1 << FILES.end;

static FOUND: AtomicU32 = AtomicU32::new(0);

/// Before the standard library begins.
extern "C" fn note() {
    let mut found = 0;
    // SAFETY: a file's flags are asked for. Ignoring the signal, which the standard library
    // does next, needs no handler.
    unsafe {
        for file in FILES.filter(|&file| libc::fcntl(file, libc::F_GETFD) < 0) {
            found |= 1 << file;
        }
        if libc::signal(libc::SIGPIPE, libc::SIG_IGN) == libc::SIG_IGN {
            found |= IGNORED;
        }
    }
    FOUND.store(found, Relaxed); // there is one thread
}

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Makes sure that stdout takes results. One that is closed, or only read, seems to: what is
/// written to it is lost without an error.
///
/// # Errors
/// It takes none.
pub fn check_stdout() -> io::Result<()> {
    let closed = FOUND.load(Relaxed) & 1 << libc::STDOUT_FILENO != 0; // stored before `main`
    let access = fcntl_getfl(io::stdout())? & OFlags::ACCMODE;
    if closed || access == OFlags::RDONLY {
        return Err(Errno::BADF.into());
    }
    Ok(())
}

/// Has the program inherit what this command did.
pub fn pass_on(command: &mut Command) {
    let found = FOUND.load(Relaxed); // stored before `main`
    // SAFETY: what is done before the execution, in this process or a fork's child, is
    // async-signal-safe: to ignore a signal, and to have files closed, which nobody opened but
    // the standard library.
    unsafe {
        command.pre_exec(move || {
            for file in FILES.filter(|file| found & 1 << file != 0) {
                libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            if found & IGNORED != 0 {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            Ok(())
        });
    }
}
