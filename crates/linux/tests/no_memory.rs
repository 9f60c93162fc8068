//! A process that may map nothing more. Alone in its process, for the limit is the process's.

use std::{fs, panic};

use lockyard_core::percpu_rwsem::{Bounded, RawPercpuRwLock};
use lockyard_linux::Linux;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// aarch64 is tested in an emulator.
const EMULATED: bool = cfg!(target_arch = "aarch64");

type Lock = RawPercpuRwLock<Linux, Bounded>;

fn mapped() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let mapped = lines.find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib = mapped.trim_end_matches("kB").trim();
    kib.parse::<u64>().unwrap() * 1024
}

/// Whether it panics, for want of room for the count.
fn panics(then: impl FnOnce()) -> bool {
    panic::catch_unwind(panic::AssertUnwindSafe(then)).is_err()
}

#[test]
fn who_finds_no_room_for_readers_leaves_the_lock_free() {
    let (lock, limit) = (Lock::new(), getrlimit(Resource::As));
    lock.write();
    // SAFETY: the caller is the writer.
    unsafe { lock.unlock_write() };
    panic::set_hook(Box::new(|_| {})); // a message takes memory
    let tight = Rlimit {
        current: Some(mapped()),
        ..limit
    };
    setrlimit(Resource::As, tight).unwrap();

    let reads = panics(|| lock.read());
    if EMULATED && !reads {
        return println!("skipped: the emulator does not limit what a process maps");
    }
    assert!(reads, "the limit is too wide");
    lock.write();
    // SAFETY: likewise.
    let downgrades = panics(|| unsafe { lock.downgrade() });
    let is_free = lock.try_write();
    // SAFETY: likewise; and nobody can wait for it.
    is_free.then(|| unsafe { lock.unlock_write_fair() });

    setrlimit(Resource::As, limit).unwrap();
    assert!(downgrades && is_free);
    lock.read();
    // SAFETY: the caller is a reader.
    unsafe { lock.unlock_read() };
}
