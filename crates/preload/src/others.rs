//! Others that have functions for condition variables: the program, or a library that is
//! preloaded as well.
//!
//! One in front of ours asks for the next by a version, which ours do not have, and so comes to
//! the C library's, with mutexes of ours. One behind is not called for mutexes of ours; it may be
//! there to change the clock, by which a wait ends. Both work with the C library's mutexes alone.

use std::{
    ffi::{CStr, c_int, c_void},
    ptr, slice,
};

use crate::versions::FUNCTIONS;

/// Whether any stands in front of ours, or behind.
pub fn are_there() -> bool {
    let ours = Object::with(are_there as *const c_void);
    let is_ours = |object: &Object| ours.as_ref().is_some_and(|ours| ours.base == object.base);
    FUNCTIONS.iter().any(|name| {
        let [first, next] = [libc::RTLD_DEFAULT, libc::RTLD_NEXT].map(|handle| {
            // SAFETY: the name is a C string, the handle is one that is always valid.
            unsafe { libc::dlsym(handle, name.as_ptr()) }
        });
        let is_in_front = Object::with(first).is_some_and(|object| !is_ours(&object));
        is_in_front && is_defined_at(first)
            || Object::with(next).is_some_and(|object| !object.is_c_library())
    })
}

/// Whether there is a function: if a program takes the address of one that is elsewhere, there
/// is none.
fn is_defined_at(address: *const c_void) -> bool {
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
    // SAFETY: it is null or a symbol of the object, which is found by the global scope: it stays.
    let symbol = unsafe { symbol.cast::<libc::Elf64_Sym>().as_ref() };
    found != 0 && symbol.is_some_and(|symbol| symbol.st_shndx != 0)
}

/// A loaded object.
struct Object {
    base: usize,
    name: &'static [u8],
}

impl Object {
    /// That in which an address lies. (`dladdr` would look at all its symbols.)
    fn with(address: *const c_void) -> Option<Self> {
        let mut sought = (address.addr(), None);
        // SAFETY: the function is `find`, which is called before this returns, with a pointer to
        // what it wants.
        unsafe { libc::dl_iterate_phdr(Some(find), (&raw mut sought).cast()) };
        sought.1
    }

    fn is_c_library(&self) -> bool {
        const NAMES: [&[u8]; 3] = [b"/libc.so", b"/libc-2", b"/libpthread"];
        let is_named = |of: &[u8]| self.name.windows(of.len()).any(|part| part == of);
        NAMES.iter().any(|name| is_named(name))
    }
}

/// # Safety
/// As `dl_iterate_phdr` has it; `sought` points to an address and to where its object goes.
unsafe extern "C" fn find(info: *mut libc::dl_phdr_info, _: usize, sought: *mut c_void) -> c_int {
    // SAFETY: the caller's: `info` describes a loaded object, whose headers are that many and
    // whose name is a C string, or null; those that are sought stay loaded.
    let (base, headers, name, (address, object)) = unsafe {
        let headers = slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into());
        let name = (*info).dlpi_name;
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes());
        let sought = &mut *sought.cast::<(usize, Option<Object>)>();
        (
            (*info).dlpi_addr as usize,
            headers,
            name.unwrap_or_default(),
            sought,
        )
    };
    let is_there = headers.iter().any(|header| {
        let from = base.wrapping_add(header.p_vaddr as usize);
        header.p_type == libc::PT_LOAD && address.wrapping_sub(from) < header.p_memsz as usize
    });
    if is_there {
        *object = Some(Object { base, name });
    }
    c_int::from(is_there)
}
