//! A library with our locks in it, which is opened and closed (`examples/plugin.rs`).

// There, tests are linked statically, and are not built with their examples.
#![cfg(not(target_arch = "aarch64"))]

use std::{
    env,
    ffi::{CString, c_void},
    mem,
    os::unix::ffi::OsStrExt,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Opens the library, and returns it, and its function.
fn open() -> (*mut c_void, extern "C" fn() -> u32) {
    let mut path = env::current_exe().unwrap();
    path.pop(); // deps/plugin-...
    path.pop();
    path.push("examples/libplugin.so");
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a C string, and that of a library without constructors but ours.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(
        !library.is_null(),
        "{path:?}: cargo test builds it, and cargo build --example plugin"
    );
    // SAFETY: the library is open, the name a C string.
    let function = unsafe { libc::dlsym(library, c"use_plugin".as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: it is of that type.
    (library, unsafe {
        mem::transmute::<*mut c_void, extern "C" fn() -> u32>(function)
    })
}

/// The kernel restarts what a thread was in when it preempts it, as long as the thread lives;
/// and the end of a thread gives its number back.
#[test]
fn threads_outlive_a_library_that_is_closed() {
    let (library, use_plugin) = open();
    let (closed, is_closed) = mpsc::channel::<()>();
    let (used, is_used) = mpsc::channel();
    let other = thread::spawn(move || {
        used.send(use_plugin()).unwrap();
        is_closed.recv().unwrap();
    });
    is_used.recv().unwrap();
    assert!((0..1000).any(|_| use_plugin() > 1000));
    // SAFETY: nothing of it is used any more.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
    closed.send(()).unwrap();
    other.join().unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(200) {} // is preempted, for others run as well
    thread::sleep(Duration::from_millis(1));
}
