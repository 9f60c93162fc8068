//! A thread that ends releases what it reads in the destructor of a late key of C's, when it has
//! given its number back and got another.

use std::{
    ffi::c_void,
    sync::{Barrier, LazyLock, OnceLock},
    thread,
};

use lockyard::{Mutex, RwLock, RwLockReadGuard};

static LOCK: RwLock<u32> = RwLock::new(0);
static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
static GIVEN_BACK: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
static TAKEN: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

type Guard = RwLockReadGuard<'static, u32>;

/// The number is another thread's by then.
extern "C" fn release(guard: *mut c_void) {
    GIVEN_BACK.wait();
    TAKEN.wait();
    // SAFETY: the value of the key is a box of that, which nobody else has.
    drop(unsafe { Box::from_raw(guard.cast::<Guard>()) });
}

/// More often than it takes for readers not to be counted any more.
fn read_often() {
    (0..1_000).for_each(|_| drop(LOCK.read()));
}

/// A thread reads the lock, and releases it as it ends while the caller is in, too, who came
/// after it. What that has is released last.
fn end_beside<T>(take: impl FnOnce() -> T) {
    let (there, gone) = (Barrier::new(2), Barrier::new(2));
    let taken = thread::scope(|scope| {
        scope.spawn(|| {
            GIVEN_BACK.wait();
            drop(Mutex::new(()).lock()); // it gets a number
            TAKEN.wait();
            gone.wait();
        });
        let reader = scope.spawn(|| {
            read_often();
            let guard: *mut Guard = Box::into_raw(Box::new(LOCK.read()));
            // SAFETY: the key exists and is never deleted.
            let error = unsafe { libc::pthread_setspecific(*KEY.get().unwrap(), guard.cast()) };
            assert_eq!(error, 0);
            there.wait();
            there.wait();
        });
        there.wait();
        let taken = take();
        there.wait();
        reader.join().unwrap(); // with all its destructors
        gone.wait();
        taken
    });
    drop(taken);
    *LOCK.try_write().expect("nobody reads any more") += 1;
}

#[test]
fn a_thread_that_ends_releases_what_is_its_own() {
    drop(LOCK.read()); // the locks make their own key, and so before this
    let mut key = 0;
    // SAFETY: `key` is writable, and the destructor is a function of this program.
    let error = unsafe { libc::pthread_key_create(&raw mut key, Some(release)) };
    assert_eq!(error, 0);
    KEY.set(key).unwrap();
    for _ in 0..50 {
        end_beside(|| {});
        end_beside(|| LOCK.upgradable_read());
        end_beside(|| (LOCK.read(), LOCK.read()));
    }
}
