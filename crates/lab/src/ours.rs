//! Our locks as the workloads take them: the way their users call them.

use lockyard_core::{
    RawMutex, RawPercpuRwLock, RawPiMutex, RawRtMutex, RawRwLock, osq::Event, percpu_rwsem::Bounded,
};
use lockyard_linux::LinuxPi;

/// `lockyard::Mutex` in the world `P`; `W` is how its spin queue waits.
pub type Mutex<P, W> = lock_api::Mutex<RawMutex<P, W>, ()>;

/// `lockyard::PiMutex`; `S` is who waits in the kernel.
pub type PiMutex<S> = lock_api::Mutex<RawPiMutex<LinuxPi, S>, ()>;

/// The real-time mutex in the world `P`; `W` is how its top waiter waits.
pub type RtMutex<P, W> = lock_api::Mutex<RawRtMutex<P, W>, ()>;

/// `lockyard::RwLock` in the world `P`; `C` is when a waker looks for waiters.
pub type RwLock<P, C> = lock_api::RwLock<RawRwLock<P, C, Event>, ()>;

/// `lockyard::PercpuRwLock` in the world `P`; `G` is whom a writer leaves it to.
pub type PercpuRwLock<P, G> = lock_api::RwLock<RawPercpuRwLock<P, G>, ()>;

/// A bound for seed 002's experiment: first come, first served makes everybody wait
/// for two seconds there, so that a shorter one would be no different.
pub type Patient = Bounded<3_000_000>;
