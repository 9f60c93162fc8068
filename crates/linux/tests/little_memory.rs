//! A process that may not map much more than it has. Alone in its process, for the limit is
//! the process's.

use std::{
    fs,
    sync::atomic::AtomicU32,
    time::{Duration, Instant},
};

use lockyard_linux::futex::{self, Waited};
use rustix::process::{Resource, Rlimit, setrlimit};

/// The table of those that wait has 1 MiB at first, and likes to have the addresses for 32.
const ROOM: u64 = 8 << 20;

#[test]
fn who_waits_needs_little() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mapped = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib: u64 = mapped
        .unwrap()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .unwrap();
    let most = Some(kib * 1024 + ROOM);
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::As, limit).unwrap();
    let word = AtomicU32::new(0);
    for _ in 0..3 {
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(futex::wait(&word, 0, Some(soon)), Waited::TimedOut);
        assert_eq!(futex::wake(&word, 1), 0);
    }
}
