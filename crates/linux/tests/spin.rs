//! Spinning, and knowing whether another runs.

#[path = "support/alone.rs"]
mod alone;

use std::{
    ffi::c_void,
    hint, ptr,
    sync::{
        atomic::{
            AtomicBool, AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
        mpsc,
    },
    thread,
};

use alone::Alone;
use lockyard_core::{FOREVER, Look, Platform, Running, TaskId};
use lockyard_linux::Linux;
use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

#[test]
fn a_spin_ends_after_so_many_looks() {
    const LOOKS: u32 = 7;
    let word = AtomicU32::new(0);
    for look in [Look::Poll, Look::Event, Look::Every(1_000)] {
        let mut looks = 0;
        let done = |_| {
            looks += 1;
            false
        };
        let seen = Linux::spin_until(&word, Relaxed, look, LOOKS, done, || false);
        assert_eq!((seen, looks), (None, LOOKS));
    }
}

#[test]
fn a_spin_ends_when_it_is_told_to_stop() {
    let word = AtomicU32::new(0);
    for looks in [7, FOREVER] {
        let never = |value| value != 0;
        let seen = Linux::spin_until(&word, Relaxed, Look::Poll, looks, never, || true);
        assert_eq!(seen, None);
    }
}

#[test]
fn a_spin_returns_what_it_saw() {
    let word = AtomicU32::new(5);
    for looks in [1, FOREVER] {
        let seen = Linux::spin_until(&word, Relaxed, Look::Poll, looks, |_| true, || true);
        assert_eq!(seen, Some(5));
    }
}

/// Whether this thread has restartable sequences.
fn restarts() -> bool {
    let word = AtomicU32::new(0);
    Linux::me();
    (0..1_000).any(|_| Linux::try_store_if(&word, 0, &word, 0))
}

/// The first look of a spin.
fn first_look(task: TaskId) -> Running {
    Linux::spin_begin();
    Linux::running(task)
}

#[test]
fn who_was_last_on_the_callers_cpu_does_not_run() {
    let _alone = Alone::begin();
    let cpus = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).unwrap());
    sched_setaffinity(None, &one).unwrap();
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        tell.send(Linux::me()).unwrap(); // it has this thread's CPU
        ended.recv().unwrap();
    });
    let task = told.recv().unwrap();
    let known = restarts();
    let seen = first_look(task);
    if known {
        assert_eq!(seen, Running::No);
    } else {
        eprintln!("no restartable sequences: {seen:?}");
    }
    end.send(()).unwrap();
    other.join().unwrap();
    assert_eq!(first_look(task), Running::No, "it has ended");
    sched_setaffinity(None, &cpus).unwrap();
}

/// Threads end, and their stacks are unmapped, while another looks where they are.
#[test]
fn who_looks_where_a_thread_is_finds_its_area() {
    const ROUNDS: u32 = 100;
    const STACK: usize = 256 << 10;
    struct Looked {
        task: AtomicU32,
        times: AtomicU32,
        done: AtomicBool,
    }
    static LOOKED: Looked = Looked {
        task: AtomicU32::new(0),
        times: AtomicU32::new(0),
        done: AtomicBool::new(false),
    };

    /// Has a number, and ends when it has been looked at, or after half a millisecond.
    extern "C" fn live(_: *mut c_void) -> *mut c_void {
        LOOKED.task.store(Linux::me().number(), Release); // what its record says
        let looks = LOOKED.times.load(Relaxed);
        let looked = || LOOKED.times.load(Relaxed).wrapping_sub(looks) >= 2;
        (0..20_000).find(|_| {
            hint::spin_loop();
            looked()
        });
        ptr::null_mut()
    }

    let _alone = Alone::begin();
    let looker = thread::spawn(|| {
        Linux::me();
        while LOOKED.times.load(Relaxed) == 0 || !LOOKED.done.load(Relaxed) {
            if let Some(task) = TaskId::new(LOOKED.task.load(Acquire)) {
                first_look(task);
                LOOKED.times.fetch_add(1, Relaxed);
            }
        }
    });
    for _ in 0..ROUNDS {
        // SAFETY: new memory, which goes when the thread that has it as its stack, and
        // nothing else, has been joined. `live` keeps no pointer.
        unsafe {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let stack = mmap_anonymous(ptr::null_mut(), STACK, access, flags).unwrap();
            let mut attributes = std::mem::zeroed();
            assert_eq!(libc::pthread_attr_init(&raw mut attributes), 0);
            assert_eq!(
                libc::pthread_attr_setstack(&raw mut attributes, stack, STACK),
                0
            );
            let mut id = 0;
            let error =
                libc::pthread_create(&raw mut id, &raw const attributes, live, ptr::null_mut());
            assert_eq!(error, 0);
            libc::pthread_attr_destroy(&raw mut attributes);
            assert_eq!(libc::pthread_join(id, ptr::null_mut()), 0);
            munmap(stack, STACK).unwrap();
        }
    }
    LOOKED.done.store(true, Relaxed);
    looker.join().unwrap();
}
