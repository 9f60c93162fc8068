//! The functions that this library stands in front of: those of the C library, or of
//! another that is preloaded as well.
//!
//! Each is found by its name once, for the dynamic linker takes a lock and may allocate.
//! Two threads that look at once find the same.

use std::{
    ffi::{CStr, c_int, c_void},
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

use libc::{clockid_t, pthread_mutexattr_t, pthread_rwlockattr_t, pthread_t, timespec};

use crate::{Cond, Mutex, Rwlock, versions};

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            mod $name {
                /// In a module by the name of the function.
                pub static NEXT: super::Next = super::Next::new(concat!(stringify!($name), "\0"));
            }

            /// # Safety
            /// As for the function of that name.
            pub unsafe fn $name($($argument: $type),*) -> c_int {
                let function = $name::NEXT.get();
                if function.is_null() {
                    return libc::ENOSYS;
                }
                // SAFETY: the C library declares the function of this name so, and it is
                // not null. It may unwind: some are cancellation points.
                let function = unsafe {
                    mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($type),*) -> c_int>(
                        function,
                    )
                };
                // SAFETY: the caller's.
                unsafe { function($($argument),*) }
            }
        )*

        /// Finds them all now, so that no lock need do so later.
        pub fn find_all() {
            $($name::NEXT.get();)*
        }
    };
}

functions! {
    pthread_mutex_init(mutex: *mut Mutex, attributes: *const pthread_mutexattr_t);
    pthread_mutex_destroy(mutex: *mut Mutex);
    pthread_mutex_lock(mutex: *mut Mutex);
    pthread_mutex_trylock(mutex: *mut Mutex);
    pthread_mutex_timedlock(mutex: *mut Mutex, at: *const timespec);
    pthread_mutex_clocklock(mutex: *mut Mutex, clock: clockid_t, at: *const timespec);
    pthread_mutex_unlock(mutex: *mut Mutex);
    pthread_mutex_consistent(mutex: *mut Mutex);
    pthread_mutex_getprioceiling(mutex: *const Mutex, ceiling: *mut c_int);
    pthread_mutex_setprioceiling(mutex: *mut Mutex, ceiling: c_int, old: *mut c_int);
    pthread_cond_wait(cond: *mut Cond, mutex: *mut Mutex);
    pthread_cond_timedwait(cond: *mut Cond, mutex: *mut Mutex, at: *const timespec);
    pthread_cond_clockwait(
        cond: *mut Cond,
        mutex: *mut Mutex,
        clock: clockid_t,
        at: *const timespec
    );
    pthread_cond_signal(cond: *mut Cond);
    pthread_cond_broadcast(cond: *mut Cond);
    pthread_cancel(thread: pthread_t);
    pthread_rwlock_init(rwlock: *mut Rwlock, attributes: *const pthread_rwlockattr_t);
    pthread_rwlock_destroy(rwlock: *mut Rwlock);
    pthread_rwlock_rdlock(rwlock: *mut Rwlock);
    pthread_rwlock_tryrdlock(rwlock: *mut Rwlock);
    pthread_rwlock_timedrdlock(rwlock: *mut Rwlock, at: *const timespec);
    pthread_rwlock_clockrdlock(rwlock: *mut Rwlock, clock: clockid_t, at: *const timespec);
    pthread_rwlock_wrlock(rwlock: *mut Rwlock);
    pthread_rwlock_trywrlock(rwlock: *mut Rwlock);
    pthread_rwlock_timedwrlock(rwlock: *mut Rwlock, at: *const timespec);
    pthread_rwlock_clockwrlock(rwlock: *mut Rwlock, clock: clockid_t, at: *const timespec);
    pthread_rwlock_unlock(rwlock: *mut Rwlock);
    _exit(status: c_int);
    mtx_init(mutex: *mut Mutex, kind: c_int);
    mtx_lock(mutex: *mut Mutex);
    mtx_trylock(mutex: *mut Mutex);
    mtx_timedlock(mutex: *mut Mutex, at: *const timespec);
    mtx_unlock(mutex: *mut Mutex);
    cnd_signal(cond: *mut Cond);
    cnd_broadcast(cond: *mut Cond);
    cnd_wait(cond: *mut Cond, mutex: *mut Mutex);
    cnd_timedwait(cond: *mut Cond, mutex: *mut Mutex, at: *const timespec);
}

/// The next function of a name.
struct Next {
    at: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl Next {
    const fn new(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("it ends with a zero byte");
        };
        Self {
            at: AtomicPtr::new(ptr::null_mut()),
            name,
        }
    }

    /// Null if there is none.
    #[inline]
    fn get(&self) -> *mut c_void {
        let mut function = self.at.load(Relaxed); // code, there since the program was loaded
        if function.is_null() {
            function = self.look_up();
            self.at.store(function, Relaxed); // likewise
        }
        function
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let name = self.name.as_ptr();
        // On x86-64 the first version is for objects of another layout.
        if cfg!(target_arch = "x86_64") && versions::FUNCTIONS.contains(&self.name) {
            // SAFETY: both are C strings, the handle is valid.
            unsafe { libc::dlvsym(libc::RTLD_NEXT, name, c"GLIBC_2.3.2".as_ptr()) }
        } else {
            // SAFETY: the name is a C string, the handle is valid.
            unsafe { libc::dlsym(libc::RTLD_NEXT, name) }
        }
    }
}
