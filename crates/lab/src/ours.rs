//! Our locks as the workloads take them: the way their users call them.

use lock_api::RawRwLock as Raw;
use lockyard_core::{
    RawMutex, RawPercpuRwLock, RawPiMutex, RawRtMutex, RawRwLock, osq::Event, percpu_rwsem::Bounded,
};
use lockyard_linux::LinuxPi;
use lockyard_torture::Lock;

/// `lockyard::Mutex` in the world `P`; `W` is how its spin queue waits.
pub type Mutex<P, W> = Exclusive<RawMutex<P, W>>;

/// `lockyard::PiMutex`; `S` is who waits in the kernel.
pub type PiMutex<S> = Exclusive<RawPiMutex<LinuxPi, S>>;

/// The real-time mutex in the world `P`; `W` is how its top waiter waits.
pub type RtMutex<P, W> = Exclusive<RawRtMutex<P, W>>;

/// A mutex.
pub struct Exclusive<R>(lock_api::Mutex<R, ()>);

impl<L: lock_api::RawMutex + Send + Sync + 'static> Lock for Exclusive<L> {
    fn new() -> Self {
        Self(lock_api::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}

/// `lockyard::RwLock` in the world `P`; `C` is when a waker looks for waiters.
pub type RwLock<P, C> = ReadersWriters<RawRwLock<P, C, Event>>;

/// `lockyard::PercpuRwLock` in the world `P`; `G` is whom a writer leaves it to.
pub type PercpuRwLock<P, G> = ReadersWriters<RawPercpuRwLock<P, G>>;

/// A bound for seed 002's experiment: first come, first served makes everybody wait
/// for two seconds there, so that a shorter one would be no different.
pub type Patient = Bounded<3_000_000>;

/// A lock for readers and writers.
pub struct ReadersWriters<R>(lock_api::RwLock<R, ()>);

impl<L: Raw + Send + Sync + 'static> Lock for ReadersWriters<L> {
    fn new() -> Self {
        Self(lock_api::RwLock::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.write();
        section()
    }

    #[inline]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.read();
        section()
    }
}
