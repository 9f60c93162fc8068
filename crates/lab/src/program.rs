//! The file of a program that is to be run, and whether the library gets into it.

use std::{
    env,
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use object::{
    Endianness,
    elf::{DT_SONAME, FileHeader64, PT_INTERP},
    read::{
        ReadCache,
        elf::{Dyn, FileHeader, ProgramHeader},
    },
};
use rustix::fs::{Access, access};

/// Where exec finds a program that can be run; `None` if it finds none.
pub fn found(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    let can_run = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.as_bytes().contains(&b'/') {
        return Some(path.to_owned()).filter(can_run);
    }
    let directories = env::var_os("PATH").unwrap_or("/bin:/usr/bin".into());
    env::split_paths(&directories)
        .map(|directory| directory.join(path))
        .find(can_run)
}

/// Whether nothing is preloaded into a program, or a script's interpreter, because it
/// is linked statically.
pub fn is_static(program: &Path) -> bool {
    let interpreter = interpreter(program);
    let file = interpreter.as_deref().unwrap_or(program);
    file.is_file() && File::open(file).is_ok_and(|file| has_no_linker(file).unwrap_or(false))
}

/// What a script names in its first line, of which the kernel reads so much.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    let file = File::open(script).ok()?;
    file.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&c| c == b'\n').next()?;
    let mut words = line.split(|c| b" \t".contains(c));
    let name = words.find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(name).into())
}

/// Whether an ELF file names no dynamic linker, nor itself: the linker is a library.
fn has_no_linker(file: File) -> object::Result<bool> {
    let data = &ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    for part in header.program_headers(endian, data)? {
        if part.p_type(endian) == PT_INTERP {
            return Ok(false);
        }
        let entries = part.dynamic(endian, data)?.unwrap_or_default();
        if entries.iter().any(|entry| entry.tag(endian) == DT_SONAME) {
            return Ok(false);
        }
    }
    Ok(true)
}
