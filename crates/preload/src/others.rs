//! Others that have functions for condition variables: the program, or a library that is
//! preloaded as well.
//!
//! One in front of ours asks for the next by a version, which ours do not have, and so comes to
//! the C library's, with mutexes of ours. One behind is not called for mutexes of ours; it may be
//! there to change the clock, by which a wait ends. Both work with the C library's mutexes alone.

use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
};

use crate::versions::FUNCTIONS;

/// Whether any stands in front of ours, or behind.
pub fn are_there() -> bool {
    FUNCTIONS
        .iter()
        .any(|name| is_in_front(name) || is_behind(name))
}

fn is_in_front(name: &CStr) -> bool {
    let first = find(libc::RTLD_DEFAULT, name);
    let ours = find_object(are_there as *const c_void);
    // That of a program which only takes the address of the function is not defined there.
    first.is_some_and(|first| ours.is_some_and(|ours| first.base != ours.base) && first.is_defined)
}

fn is_behind(name: &CStr) -> bool {
    const C_LIBRARY: [&[u8]; 3] = [b"/libc.so", b"/libc-2", b"/libpthread"];
    let is_named = |object: &[u8], of: &[u8]| object.windows(of.len()).any(|part| part == of);
    let is_other = |next: Object| !C_LIBRARY.iter().any(|of| is_named(next.name, of));
    find(libc::RTLD_NEXT, name).is_some_and(is_other)
}

/// The loaded object in which an address lies.
struct Object {
    base: *mut c_void,
    name: &'static [u8],
    /// Whether the symbol at the address is.
    is_defined: bool,
}

/// Where the function is that a handle leads to.
fn find(handle: *mut c_void, name: &CStr) -> Option<Object> {
    // SAFETY: the name is a C string, the handle is one that is always valid.
    find_object(unsafe { libc::dlsym(handle, name.as_ptr()) })
}

fn find_object(address: *const c_void) -> Option<Object> {
    const RTLD_DL_SYMENT: c_int = 1;
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let mut symbol = ptr::null_mut::<c_void>();
    // SAFETY: both places are writable, and the second is of the type that the flag asks for.
    let found = unsafe { libc::dladdr1(address, &raw mut info, &raw mut symbol, RTLD_DL_SYMENT) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a C string. The object was there before the program began, or is found by the
    // global scope: it stays.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    // SAFETY: it is null or the object's symbol.
    let symbol = unsafe { symbol.cast::<libc::Elf64_Sym>().as_ref() };
    Some(Object {
        base: info.dli_fbase,
        name: name.to_bytes(),
        is_defined: symbol.is_some_and(|symbol| symbol.st_shndx != 0),
    })
}
