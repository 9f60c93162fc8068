//! Kernel-grade sleeping locks, written once over a [`Platform`].
//!
//! `no_std`, no allocation, no clock of its own, no operating system: what a
//! lock needs of its world it asks of the `Platform` it is generic over.
//! A word of zero bytes is an unlocked lock, and every lock has a `const fn
//! new`.
#![no_std]

pub mod announced;
mod api;
pub mod condvar;
pub mod futex;
mod gate;
pub mod keeper;
pub mod mutex;
pub mod osq;
pub mod percpu_rwsem;
pub mod pimutex;
pub mod platform;
mod quick;
pub mod roster;
pub mod rtmutex;
pub mod rwsem;
mod wait_queue;

pub use condvar::Condvar;
pub use mutex::{RawMutex, Unlocks};
pub use percpu_rwsem::RawPercpuRwLock;
pub use pimutex::RawPiMutex;
pub use platform::*;
pub use quick::Quick;
pub use rtmutex::RawRtMutex;
pub use rwsem::RawRwLock;
