//! Objects that were linked before glibc 2.3.2, on x86-64; elsewhere there were none.
//!
//! Their condition variables have another layout, and they call the functions by another
//! version. Ours have no versions, for rustc has none to give, and so the dynamic linker takes
//! them for both. What such an object calls is put back to the C library's functions of that
//! version. These know the C library's mutexes alone: all must be its own then.

use std::{
    ffi::{CStr, c_int, c_void},
    mem, ptr, slice,
};

use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, dl_phdr_info};

const VERSION: &CStr = c"GLIBC_2.2.5";
/// Of two versions.
pub const FUNCTIONS: [&CStr; 4] = [
    c"pthread_cond_wait",
    c"pthread_cond_timedwait",
    c"pthread_cond_signal",
    c"pthread_cond_broadcast",
];

/// Puts back what the objects call that are loaded by now; returns whether any does.
pub fn put_back() -> bool {
    let mut found = false;
    if cfg!(target_arch = "x86_64") {
        // SAFETY: the function is `put_back_in`, which is called before this returns, with a
        // pointer to a `bool`.
        unsafe { libc::dl_iterate_phdr(Some(put_back_in), (&raw mut found).cast()) };
    }
    found
}

/// # Safety
/// As `dl_iterate_phdr` has it; `found` points to a `bool`.
unsafe extern "C" fn put_back_in(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the caller's: `info` describes a loaded object, whose headers are that many. It
    // is not unloaded before this returns.
    let (object, found) = unsafe {
        let headers = slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into());
        let object = Object::new((*info).dlpi_addr as usize, headers);
        (object, &mut *found.cast::<bool>())
    };
    let Some(object) = object else { return 0 };
    let Some(version) = object.number_of(VERSION) else {
        return 0;
    };
    for relocation in object.relocations() {
        if let Some(name) = object.called(relocation, version) {
            object.bind(relocation, name);
            *found = true;
        }
    }
    0
}

/// A loaded object that needs versions of others' functions, and where its tables are.
struct Object<'a> {
    base: usize,
    headers: &'a [Elf64_Phdr],
    strings: usize,
    symbols: usize,
    /// The version of each symbol.
    versions: usize,
    needed: usize,
    /// Two tables of relocations, and their bytes.
    relocations: [usize; 2],
    bytes: [usize; 2],
}

#[repr(C)]
struct Entry {
    tag: usize,
    value: usize,
}

/// Versions that are needed of one other object.
#[repr(C)]
struct Needed {
    version: u16,
    count: u16,
    file: u32,
    first: u32,
    next: u32,
}

#[repr(C)]
struct Version {
    hash: u32,
    flags: u16,
    number: u16,
    name: u32,
    next: u32,
}

impl<'a> Object<'a> {
    /// `None` if it has no table of versions.
    ///
    /// # Safety
    /// An object with these headers is loaded there, and stays as long as this.
    unsafe fn new(base: usize, headers: &'a [Elf64_Phdr]) -> Option<Self> {
        let dynamic = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let mut object = Self {
            base,
            headers,
            strings: 0,
            symbols: 0,
            versions: 0,
            needed: 0,
            relocations: [0; 2],
            bytes: [0; 2],
        };
        let mut at: *const Entry = ptr::with_exposed_provenance(base + dynamic.p_vaddr as usize);
        loop {
            // SAFETY: the section is there, as the caller says, and ends with a zero tag.
            let Entry { tag, value } = unsafe { at.read() };
            at = at.wrapping_add(1);
            // The C library has added the base to addresses, but perhaps not to all.
            let address = if value < base { base + value } else { value };
            match tag {
                0 => break,
                2 => object.bytes[1] = value,
                5 => object.strings = address,
                6 => object.symbols = address,
                7 => object.relocations[0] = address,
                8 => object.bytes[0] = value,
                23 => object.relocations[1] = address,
                0x6fff_fff0 => object.versions = address,
                0x6fff_fffe => object.needed = address,
                _ => {}
            }
        }
        (object.versions != 0 && object.needed != 0).then_some(object)
    }

    /// What lies in one of its tables.
    fn at<T>(&self, address: usize) -> &'a T {
        // SAFETY: the tables lie where the object says, which stays loaded; they are not
        // written to after it was loaded.
        unsafe { &*ptr::with_exposed_provenance(address) }
    }

    fn string(&self, at: u32) -> &'a CStr {
        let at = self.at::<std::ffi::c_char>(self.strings + at as usize);
        // SAFETY: it is in the table of strings, each of which ends with a zero byte.
        unsafe { CStr::from_ptr(at) }
    }

    /// What symbols of this version are marked with.
    fn number_of(&self, name: &CStr) -> Option<u16> {
        let mut at = self.needed;
        loop {
            let needed: &Needed = self.at(at);
            let mut of = at + needed.first as usize;
            for _ in 0..needed.count {
                let version: &Version = self.at(of);
                if self.string(version.name) == name {
                    return Some(version.number);
                }
                of += version.next as usize;
            }
            if needed.next == 0 {
                return None;
            }
            at += needed.next as usize;
        }
    }

    fn relocations(&self) -> impl Iterator<Item = &'a Elf64_Rela> + use<'_, 'a> {
        [0, 1].into_iter().flat_map(move |table| {
            (0..self.bytes[table] / size_of::<Elf64_Rela>())
                .map(move |i| self.at(self.relocations[table] + i * size_of::<Elf64_Rela>()))
        })
    }

    /// The function of that version whose address goes there, if it is one of ours.
    fn called(&self, relocation: &Elf64_Rela, version: u16) -> Option<&'static CStr> {
        const ADDRESSES: [u32; 3] = [1, 6, 7]; // R_X86_64_64, GLOB_DAT, JUMP_SLOT
        let index = (relocation.r_info >> 32) as usize;
        let marked: &u16 = self.at(self.versions + index * size_of::<u16>());
        if !ADDRESSES.contains(&(relocation.r_info as u32)) || marked & 0x7fff != version {
            return None;
        }
        let symbol: &Elf64_Sym = self.at(self.symbols + index * size_of::<Elf64_Sym>());
        let name = self.string(symbol.st_name);
        FUNCTIONS.into_iter().find(|function| *function == name)
    }

    /// Has the C library's function there.
    fn bind(&self, relocation: &Elf64_Rela, name: &CStr) {
        let offset = relocation.r_offset;
        let fixed = self.headers.iter().any(|header| {
            let range = header.p_vaddr..header.p_vaddr + header.p_memsz;
            header.p_type == libc::PT_GNU_RELRO && range.contains(&offset)
        });
        let place: *mut *mut c_void = ptr::with_exposed_provenance_mut(self.base + offset as usize);
        // SAFETY: name and version are C strings, the handle is valid. The place is the
        // object's, for the address of that function: whoever reads it meanwhile reads one or
        // the other. What was made read-only once it was filled is made so again.
        unsafe {
            let function = libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), VERSION.as_ptr());
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let page = place.map_addr(|at| at & !(page - 1)).cast();
            if fixed {
                libc::mprotect(page, 1, libc::PROT_READ | libc::PROT_WRITE);
            }
            place.write_volatile(function);
            if fixed {
                libc::mprotect(page, 1, libc::PROT_READ);
            }
        }
    }
}

const _: () = assert!(mem::size_of::<Version>() == 16 && mem::size_of::<Needed>() == 16);
