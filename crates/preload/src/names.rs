//! Older names of the functions, which programs were linked against.

use std::ffi::c_int;

use libc::{pthread_mutexattr_t, pthread_rwlockattr_t};

use crate::{
    mutex::{self, Mutex},
    rwlock::{self, Rwlock},
};

macro_rules! names {
    ($($old:ident is $module:ident::$new:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// # Safety
            /// As for the function of the newer name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $old($($argument: $type),*) -> c_int {
                // SAFETY: the caller's.
                unsafe { $module::$new($($argument),*) }
            }
        )*
    };
}

names! {
    __pthread_mutex_init is mutex::pthread_mutex_init(
        mutex: *mut Mutex, attributes: *const pthread_mutexattr_t
    );
    __pthread_mutex_destroy is mutex::pthread_mutex_destroy(mutex: *mut Mutex);
    __pthread_mutex_lock is mutex::pthread_mutex_lock(mutex: *mut Mutex);
    __pthread_mutex_trylock is mutex::pthread_mutex_trylock(mutex: *mut Mutex);
    __pthread_mutex_unlock is mutex::pthread_mutex_unlock(mutex: *mut Mutex);
    pthread_mutex_consistent_np is mutex::pthread_mutex_consistent(mutex: *mut Mutex);
    __pthread_rwlock_init is rwlock::pthread_rwlock_init(
        rwlock: *mut Rwlock, attributes: *const pthread_rwlockattr_t
    );
    __pthread_rwlock_destroy is rwlock::pthread_rwlock_destroy(rwlock: *mut Rwlock);
    __pthread_rwlock_rdlock is rwlock::pthread_rwlock_rdlock(rwlock: *mut Rwlock);
    __pthread_rwlock_tryrdlock is rwlock::pthread_rwlock_tryrdlock(rwlock: *mut Rwlock);
    __pthread_rwlock_wrlock is rwlock::pthread_rwlock_wrlock(rwlock: *mut Rwlock);
    __pthread_rwlock_trywrlock is rwlock::pthread_rwlock_trywrlock(rwlock: *mut Rwlock);
    __pthread_rwlock_unlock is rwlock::pthread_rwlock_unlock(rwlock: *mut Rwlock);
}
