//! Our locks as the workloads take them: the way their users call them.

use lockyard_core::{Platform, RawMutex, osq::Wait};
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
