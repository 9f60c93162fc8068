//! Memory that a test shares with a child, and the child.

use std::{
    ffi::{c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::atomic::{
        AtomicIsize, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
    time::Duration,
};

use lockyard::RobustPiMutex;

/// Mapped twice, and left mapped. Its bytes begin as zeros.
#[repr(C)]
pub struct Page {
    pub mutex: RobustPiMutex<u64>,
    pub second: RobustPiMutex<u64>,
    /// From here to the other mapping, in bytes.
    distance: AtomicIsize,
    held: AtomicU32,
}

impl Page {
    pub fn new() -> &'static Self {
        let [here, there] = map_twice();
        // SAFETY: it stays mapped, is long enough, and zeros are a valid one.
        let page: &Self = unsafe { &*here.cast() };
        let distance = there.addr().wrapping_sub(here.addr());
        page.distance.store(distance as isize, Relaxed); // before others have it
        ptr::from_ref(page).expose_provenance();
        there.expose_provenance();
        page
    }

    /// The same page at its other address.
    pub fn elsewhere(&self) -> &'static Self {
        let here = ptr::from_ref(self).addr();
        let there = here.wrapping_add_signed(self.distance.load(Relaxed));
        // SAFETY: the other mapping stays as well.
        unsafe { &*ptr::with_exposed_provenance(there) }
    }

    /// Sets the value, and holds the mutex until it is killed.
    pub fn hold(&self, value: u64) {
        self.mutex.lock(|old| {
            *old.unwrap() = value;
            self.stay();
        });
    }

    /// Says that what is to be held is held, and stays until it is killed.
    pub fn stay(&self) -> ! {
        self.held.store(1, Release); // pairs with `until_held`
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Waits until somebody stays.
    pub fn until_held(&self) {
        while self.held.load(Acquire) == 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Maps a page of zeros that children share, and leaves it mapped.
pub fn map() -> *mut c_void {
    map_twice()[0]
}

/// Maps such a page at two addresses.
pub fn map_twice() -> [*mut c_void; 2] {
    const SIZE: usize = 4096;
    // SAFETY: the name is a C string; the mappings are new ones, of a file that is as
    // long as they are.
    unsafe {
        let file = libc::memfd_create(c"robust".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::ftruncate(file, SIZE as i64), 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let map = || libc::mmap(ptr::null_mut(), SIZE, access, libc::MAP_SHARED, file, 0);
        let mapped = [map(), map()];
        assert!(!mapped.contains(&libc::MAP_FAILED));
        assert_eq!(libc::close(file), 0);
        mapped
    }
}

/// The kernel's word of a mutex.
pub fn word(mutex: &RobustPiMutex<u64>) -> &AtomicU32 {
    // SAFETY: the mutex begins with its word, in memory that may be changed.
    unsafe { &*ptr::from_ref(mutex).cast() }
}

/// Waits until a thread is about to sleep for the mutex.
pub fn until_waited_for(mutex: &RobustPiMutex<u64>) {
    while word(mutex).load(Relaxed) >> 31 == 0 {
        thread::sleep(Duration::from_micros(50));
    }
}

/// A forked process, killed when dropped.
pub struct Child {
    pub pid: c_int,
}

impl Child {
    /// Has a child run `f`.
    pub fn start(f: impl FnOnce()) -> Self {
        Self::fork().unwrap_or_else(|| leave(catch_unwind(AssertUnwindSafe(f)).is_ok()))
    }

    /// `None` in the child, which must [`leave`].
    pub fn fork() -> Option<Self> {
        // SAFETY: the child uses only what works in a fork's child of threads, and
        // ends without destructors of the test's.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "there is no forking");
        if pid > 0 {
            return Some(Self { pid });
        }
        // SAFETY: neither has conditions: the child ends with its parent, or by itself.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::alarm(100);
        }
        None
    }

    /// Waits until it has changed its state, and returns its status.
    pub fn wait(&self) -> c_int {
        let mut status = 0;
        // SAFETY: `status` is writable.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!(waited, self.pid);
        status
    }

    /// Waits for its success.
    pub fn join(self) {
        let status = self.wait();
        std::mem::forget(self); // it has ended
        assert_eq!(status, 0, "the child failed");
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(self) {}
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: it was not waited for to its end yet, so the number is its.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        while !libc::WIFSIGNALED(self.wait()) {}
    }
}

/// Ends a child.
pub fn leave(succeeds: bool) -> ! {
    // SAFETY: ending a process has no conditions.
    unsafe { libc::_exit(c_int::from(!succeeds)) }
}
