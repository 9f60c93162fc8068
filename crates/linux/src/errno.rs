//! The C library's `errno`, which stays as it is: a lock may be interposed, and those of
//! the C library leave it alone. Calls of `rustix` do not touch it.

/// While it lives, `errno` may change.
pub struct Kept(i32);

impl Kept {
    /// From now on.
    pub fn now() -> Self {
        // SAFETY: it returns the address of the thread's own, which is there as long as the
        // thread runs, and an `int` that this thread alone uses.
        Self(unsafe { libc::__errno_location().read() })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::__errno_location().write(self.0) }
    }
}

/// Makes a call of the C library's that may fail.
pub fn kept<R>(call: impl FnOnce() -> R) -> R {
    let _errno = Kept::now();
    call()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_call_that_fails_leaves_it() {
        let errno = || io::Error::last_os_error().raw_os_error();
        // SAFETY: it has no clause; there is no such file descriptor.
        let fails = || unsafe { libc::close(-1) };
        assert_eq!(fails(), -1);
        assert_eq!(errno(), Some(libc::EBADF));
        // SAFETY: there is no such clock: it writes nothing.
        let fails_otherwise = || unsafe { libc::clock_gettime(1 << 20, std::ptr::null_mut()) };
        assert_eq!(kept(fails_otherwise), -1);
        assert_eq!(errno(), Some(libc::EBADF));
    }
}
