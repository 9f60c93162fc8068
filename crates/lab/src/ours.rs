//! Our locks as the workloads take them: the way their users call them.

use lock_api::RawRwLock as Raw;
use lockyard_core::{
    Platform, Priority, RawMutex, RawPercpuRwLock, RawRtMutex, RawRwLock,
    osq::{Event, Wait},
    percpu_rwsem::Bounded,
    rtmutex::Policy,
};
use lockyard_torture::Lock;

/// `lockyard::Mutex` in the world `P`; `W` is how its spin queue waits.
pub struct Mutex<P: Platform, W: Wait<P>>(lock_api::Mutex<RawMutex<P, W>, ()>);

impl<P: Platform, W: Wait<P>> Lock for Mutex<P, W> {
    fn new() -> Self {
        Self(lock_api::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}

/// The real-time mutex in the world `P`; `W` is how its top waiter waits.
pub struct RtMutex<P: Priority, W: Policy>(lock_api::Mutex<RawRtMutex<P, W>, ()>);

impl<P: Priority, W: Policy> Lock for RtMutex<P, W> {
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
