//! The C library's mutexes, and its lock for readers and writers.

use std::{cell::UnsafeCell, ffi::c_int, io, marker::PhantomData, mem::MaybeUninit};

use libc::{pthread_mutex_t, pthread_rwlock_t};
use lockyard_torture::Lock;

use crate::{Line, unlocking};

/// What distinguishes the kinds of [`Pthread`].
pub trait Attributes: Send + Sync + 'static {
    /// The argument of `pthread_mutexattr_settype`.
    const TYPE: c_int;
    /// The argument of `pthread_mutexattr_setprotocol`.
    const PROTOCOL: c_int;
}

/// Sleeps at once when it finds the lock held.
pub struct Normal;

/// Spins a bounded number of times before it sleeps; glibc has it.
pub struct Adaptive;

/// Lends the owner its waiters' priority.
pub struct Inherit;

impl Attributes for Normal {
    const TYPE: c_int = libc::PTHREAD_MUTEX_NORMAL;
    const PROTOCOL: c_int = libc::PTHREAD_PRIO_NONE;
}

impl Attributes for Adaptive {
    const TYPE: c_int = libc::PTHREAD_MUTEX_ADAPTIVE_NP;
    const PROTOCOL: c_int = libc::PTHREAD_PRIO_NONE;
}

impl Attributes for Inherit {
    const TYPE: c_int = libc::PTHREAD_MUTEX_NORMAL;
    const PROTOCOL: c_int = libc::PTHREAD_PRIO_INHERIT;
}

/// A `pthread_mutex_t` with the attributes `A`.
pub struct Pthread<A> {
    /// Boxed because POSIX lets no mutex move once it is initialised. The
    /// pointer is only ever read, so it stays in every CPU's cache.
    mutex: Box<Line<UnsafeCell<pthread_mutex_t>>>,
    attributes: PhantomData<A>,
}

// SAFETY: a pthread mutex is made to be used by many threads at once, and all
// of its uses here go through the pthread functions until it is dropped.
unsafe impl<A: Attributes> Sync for Pthread<A> {}

impl<A: Attributes> Pthread<A> {
    fn create() -> io::Result<Self> {
        let mutex = Box::new(Line(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: the mutex is on the heap, where it stays until it is dropped,
        // and nobody else knows it yet.
        unsafe { init(mutex.0.get(), A::TYPE, A::PROTOCOL)? };
        Ok(Self {
            mutex,
            attributes: PhantomData,
        })
    }

    /// Whether the C library and the kernel have such a mutex.
    ///
    /// # Errors
    /// One line that says why not.
    pub fn available() -> Result<(), String> {
        match Self::create() {
            Ok(_) => Ok(()),
            Err(e) => Err(format!("the C library refuses such a mutex: {e}")),
        }
    }
}

impl<A: Attributes> Lock for Pthread<A> {
    fn new() -> Self {
        Self::create().expect("this mutex is available")
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let mutex = self.mutex.0.get();
        // SAFETY: `create` initialised the mutex, and it lives as long as self.
        expect(unsafe { libc::pthread_mutex_lock(mutex) });
        unlocking(
            // SAFETY: as above, and this thread locked it.
            || expect(unsafe { libc::pthread_mutex_unlock(mutex) }),
            section,
        )
    }
}

impl<A> Drop for Pthread<A> {
    fn drop(&mut self) {
        // SAFETY: `create` initialised the mutex. `with` borrows self, so
        // nobody holds it or waits for it, and nobody will again.
        expect(unsafe { libc::pthread_mutex_destroy(self.mutex.0.get()) });
    }
}

/// A `pthread_rwlock_t`.
pub struct PthreadRw {
    /// Boxed as the mutex is.
    lock: Box<Line<UnsafeCell<pthread_rwlock_t>>>,
}

// SAFETY: a pthread lock is made to be used by many threads at once, and all of
// its uses here go through the pthread functions until it is dropped.
unsafe impl Sync for PthreadRw {}

/// Who wants a [`PthreadRw`].
#[derive(Clone, Copy)]
enum Who {
    Reader,
    Writer,
}

impl PthreadRw {
    pub(crate) const SIZE: usize = size_of::<pthread_rwlock_t>();

    #[inline]
    fn locked<R>(&self, who: Who, section: impl FnOnce() -> R) -> R {
        let lock = self.lock.0.get();
        // SAFETY: the lock was initialised statically, lives as long as self, and
        // has not moved since its first use.
        expect(unsafe {
            match who {
                Who::Reader => libc::pthread_rwlock_rdlock(lock),
                Who::Writer => libc::pthread_rwlock_wrlock(lock),
            }
        });
        unlocking(
            // SAFETY: as above, and this thread locked it.
            || expect(unsafe { libc::pthread_rwlock_unlock(lock) }),
            section,
        )
    }
}

impl Lock for PthreadRw {
    fn new() -> Self {
        Self {
            lock: Box::new(Line(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER))),
        }
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.locked(Who::Writer, section)
    }

    #[inline]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.locked(Who::Reader, section)
    }
}

impl Drop for PthreadRw {
    fn drop(&mut self) {
        // SAFETY: the lock was initialised statically. `locked` borrows self, so
        // nobody holds it or waits for it, and nobody will again.
        expect(unsafe { libc::pthread_rwlock_destroy(self.lock.0.get()) });
    }
}

/// Initialises a mutex.
///
/// # Safety
/// `mutex` must be valid for writes, must not be in use, and must neither move
/// nor be freed before it is destroyed.
unsafe fn init(mutex: *mut pthread_mutex_t, kind: c_int, protocol: c_int) -> io::Result<()> {
    let mut attributes = MaybeUninit::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: `attributes` points to a local of the right type, is initialised
    // first and destroyed last; what `mutex` needs, the caller promises.
    unsafe {
        check(libc::pthread_mutexattr_init(attributes))?;
        let done = check(libc::pthread_mutexattr_settype(attributes, kind))
            .and_then(|()| check(libc::pthread_mutexattr_setprotocol(attributes, protocol)))
            .and_then(|()| check(libc::pthread_mutex_init(mutex, attributes)));
        check(libc::pthread_mutexattr_destroy(attributes))?;
        done
    }
}

fn check(code: c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// As `check`, where no failure can be helped.
#[inline]
fn expect(code: c_int) {
    #[cold]
    fn failed(code: c_int) -> ! {
        panic!(
            "a pthread lock failed: {}",
            io::Error::from_raw_os_error(code)
        );
    }
    if code != 0 {
        failed(code);
    }
}
