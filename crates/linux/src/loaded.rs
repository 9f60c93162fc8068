//! The code stays where it is. The kernel looks for the descriptions of restartable sequences
//! whenever it preempts a thread that has ever run one, and the C library calls what was
//! arranged for the end of a thread, and for a fork: neither asks whether the library that
//! they are in was unloaded.

use std::mem::MaybeUninit;

/// Keeps the shared library loaded that this is linked into, if it is one, whoever closes it.
#[cfg(not(target_feature = "crt-static"))]
pub fn stay() {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    let here = stay as *const libc::c_void;
    // SAFETY: `found` is writable.
    let is_found = unsafe { libc::dladdr(here, found.as_mut_ptr()) } != 0;
    // SAFETY: zeros are valid, and so is what it was set to.
    let found = unsafe { found.assume_init() };
    if is_found && !is_program(found.dli_fbase) && !found.dli_fname.is_null() {
        let how = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the name is a C string. The library is loaded, and so nothing of it is run; the
        // handle is never closed.
        unsafe { libc::dlopen(found.dli_fname, how) };
    }
}

/// There are no shared libraries.
#[cfg(target_feature = "crt-static")]
pub fn stay() {}

/// Whether what is loaded there is the program.
#[cfg(not(target_feature = "crt-static"))]
fn is_program(base: *mut libc::c_void) -> bool {
    const HEADERS_WITHIN: usize = 4096;
    // SAFETY: it has no clause.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    (base.addr()..base.addr() + HEADERS_WITHIN).contains(&headers)
}
