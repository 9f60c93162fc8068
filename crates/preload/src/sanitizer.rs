//! ThreadSanitizer, if the program is linked to it as a shared library: then ours stands before
//! it, and if the locks were ours, it would see none.

use std::ffi::{CStr, c_int, c_void};

/// Whether it is there.
pub fn is_there() -> bool {
    let mut found = false;
    // SAFETY: the function is `find`, which is called before this returns, with a pointer to a
    // `bool`.
    unsafe { libc::dl_iterate_phdr(Some(find), (&raw mut found).cast()) };
    found
}

/// # Safety
/// As `dl_iterate_phdr` has it; `found` points to a `bool`.
unsafe extern "C" fn find(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    const NAMES: [&[u8]; 2] = [b"/libtsan.so", b"/libclang_rt.tsan"]; // gcc's, clang's
    // SAFETY: the caller's: `info` describes a loaded object, whose name is a C string, or null.
    let (name, found) = unsafe {
        let name = (*info).dlpi_name;
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes());
        (name.unwrap_or_default(), &mut *found.cast::<bool>())
    };
    let is_named = |of: &&[u8]| name.windows(of.len()).any(|part| part == *of);
    *found |= NAMES.iter().any(is_named);
    c_int::from(*found)
}
