//! The file of a program that is to be run.

use std::{
    env,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
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
