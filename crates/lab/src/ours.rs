//! Our locks as the workloads take them: the way their users call them.

use lockyard::{RawMutex, osq::Wait};
use lockyard_linux::Linux;
use lockyard_torture::Lock;

/// [`lockyard::Mutex`]; `W` is how its spin queue waits.
pub struct Mutex<W: Wait<Linux>>(lock_api::Mutex<RawMutex<W>, ()>);

impl<W: Wait<Linux>> Lock for Mutex<W> {
    fn new() -> Self {
        Self(lock_api::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}
