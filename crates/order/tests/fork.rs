//! A thread forks while another is in the midst of being watched for the first time.

use std::{
    ffi::c_void,
    mem, ptr,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    thread,
};

use lockyard_order::{Kind, Lock, Mode::Exclusive, Tag, released, took};

/// Where the first thread is: about to lock, in `pthread_key_create`, and free to go on.
static AT: AtomicU32 = AtomicU32::new(0);
const LOCKS: u32 = 1;
const CREATES: u32 = 2;
const GOES_ON: u32 = 3;

fn wait_until(at: u32) {
    while AT.load(SeqCst) != at {
        thread::yield_now();
    }
}

type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// The C library's, but that the first thread stays in it.
///
/// # Safety
/// As the C library's.
// SAFETY: it stands for the C library's, which it calls.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_key_create(key: *mut libc::pthread_key_t, end: Destructor) -> i32 {
    type Create = unsafe extern "C" fn(*mut libc::pthread_key_t, Destructor) -> i32;
    let is_first = AT.compare_exchange(LOCKS, CREATES, SeqCst, SeqCst).is_ok();
    if is_first {
        wait_until(GOES_ON);
    }
    // SAFETY: the name is a C string; RTLD_NEXT is a valid handle.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_key_create".as_ptr()) };
    assert_ne!(next, ptr::null_mut());
    // SAFETY: it is the C library's function, of this type.
    let create = unsafe { mem::transmute::<*mut c_void, Create>(next) };
    // SAFETY: the caller's.
    unsafe { create(key, end) }
}

fn lock_and_unlock() {
    let tag = Tag::new();
    let lock = Lock {
        address: ptr::from_ref(&tag).addr(),
        kind: Kind::Mutex,
        tag: &tag,
    };
    took(lock, Exclusive);
    released(lock, None);
}

#[test]
fn a_forks_child_does_not_wait_for_who_is_not_there() {
    let first = thread::spawn(|| {
        AT.store(LOCKS, SeqCst);
        lock_and_unlock();
    });
    wait_until(CREATES);
    // SAFETY: the child does what may be done after a fork, and ends without destructors.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: it has no conditions: the signal ends the child if it hangs.
        unsafe { libc::alarm(10) };
        lock_and_unlock();
        // SAFETY: ending a process has no conditions.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable, and the child was not waited for yet.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    AT.store(GOES_ON, SeqCst);
    first.join().unwrap();
    assert_eq!((ended, status), (pid, 0));
}
