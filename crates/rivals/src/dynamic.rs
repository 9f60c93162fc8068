//! Locks of C and C++ libraries, found when the program runs.

use std::{cell::UnsafeCell, error::Error, ffi::c_void};

use libloading::Library;
use lockyard_torture::Lock;

use crate::{Line, unlocking};

/// A library's lock object.
///
/// # Safety
/// `UNLOCKED` must be an unlocked lock to the functions that `calls` returns,
/// of the size and alignment they expect, and one that may move as long as no
/// thread is in a call.
pub unsafe trait Object: Send + Sized + 'static {
    /// An unlocked lock.
    const UNLOCKED: Self;

    /// The library's functions, or one line that says which library is missing
    /// and which package has it.
    fn calls() -> Result<Calls, String>;
}

type Call = unsafe extern "C" fn(*mut c_void);

/// A way to have a library's lock; each function takes its address.
#[derive(Clone, Copy)]
struct Way {
    lock: Call,
    unlock: Call,
}

/// The functions of a library's lock; each takes its address.
#[derive(Clone, Copy)]
pub struct Calls {
    write: Way,
    read: Way,
    destroy: Option<Call>,
}

/// What a library calls the functions.
pub(crate) struct Names<'a> {
    /// Locks it, unlocks it.
    pub write: [&'a str; 2],
    /// Locks it for one of many readers, unlocks it.
    pub read: [&'a str; 2],
    /// Ends its life, if the library has such a function.
    pub destroy: Option<&'a str>,
}

impl Calls {
    /// Finds the functions by name. A library may lack `destroy`.
    ///
    /// # Safety
    /// Those of the names that `library` has must name functions that take an
    /// object's address and return nothing, and do what [`Names`] says; `destroy`
    /// when nobody uses the object any more.
    pub(crate) unsafe fn find(library: &'static Library, names: &Names) -> Result<Self, String> {
        let call = |name: &str| -> Result<Call, String> {
            // SAFETY: the caller vouches for the names' types; the library is
            // never closed, so the functions outlive every copy of their addresses.
            unsafe { library.get(name) }
                .map(|call| *call)
                .map_err(reason)
        };
        let way = |[lock, unlock]: [&str; 2]| -> Result<Way, String> {
            Ok(Way {
                lock: call(lock)?,
                unlock: call(unlock)?,
            })
        };
        Ok(Self {
            write: way(names.write)?,
            read: way(names.read)?,
            destroy: names.destroy.and_then(|name| call(name).ok()),
        })
    }
}

/// Opens a library for as long as the program runs.
///
/// # Safety
/// The initialisers of the library of that name must ask nothing of whoever
/// opens it.
pub(crate) unsafe fn open(name: &str) -> Result<&'static Library, String> {
    // SAFETY: of the initialisers, the caller knows; the finalisers never run.
    let library = unsafe { Library::new(name) }.map_err(reason)?;
    Ok(Box::leak(Box::new(library)))
}

/// What the dynamic linker says of an error: it names the library.
fn reason(error: libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// A lock of a library.
pub struct Dynamic<M: Object> {
    /// Copied into the lock, so that no call asks whether the library is open;
    /// and on another line than the object, which moves between the CPUs.
    calls: Calls,
    object: Line<UnsafeCell<M>>,
}

// SAFETY: the object is a lock, made to be used by many threads at once, and
// all of its uses here go through its library until it is dropped.
unsafe impl<M: Object> Sync for Dynamic<M> {}

impl<M: Object> Dynamic<M> {
    pub(crate) const SIZE: usize = size_of::<M>();

    /// Whether the library is on this machine.
    ///
    /// # Errors
    /// One line that names the library and the package that has it.
    pub fn available() -> Result<(), String> {
        M::calls().map(drop)
    }

    #[inline]
    fn address(&self) -> *mut c_void {
        self.object.0.get().cast()
    }

    /// Runs `section` while this thread has the lock in that way, which is one of
    /// its `calls`.
    #[inline]
    fn locked<R>(&self, way: Way, section: impl FnOnce() -> R) -> R {
        // SAFETY: the object started as `M::UNLOCKED`, only its `calls` have
        // touched it since, and the borrow of self keeps it alive and in place.
        unsafe { (way.lock)(self.address()) };
        unlocking(
            // SAFETY: as above, and this thread locked it in the same way.
            || unsafe { (way.unlock)(self.address()) },
            section,
        )
    }
}

impl<M: Object> Lock for Dynamic<M> {
    fn new() -> Self {
        Self {
            calls: M::calls().expect("this lock is available"),
            object: Line(UnsafeCell::new(M::UNLOCKED)),
        }
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.locked(self.calls.write, section)
    }
}

impl<M: Object> Drop for Dynamic<M> {
    fn drop(&mut self) {
        if let Some(destroy) = self.calls.destroy {
            // SAFETY: `locked` borrows self, so nobody holds the lock or waits
            // for it, and nobody will again.
            unsafe { destroy(self.address()) };
        }
    }
}

/// The same lock with its readers in at the same time.
pub struct Shared<M: Object>(Dynamic<M>);

impl<M: Object> Lock for Shared<M> {
    fn new() -> Self {
        Self(Dynamic::new())
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.with(section)
    }

    #[inline]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.locked(self.0.calls.read, section)
    }
}
