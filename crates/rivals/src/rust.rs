//! The rivals written in Rust.

use lockyard_torture::Lock;

/// [`std::sync::Mutex`].
pub struct Std(std::sync::Mutex<()>);

impl Std {
    pub(crate) const SIZE: usize = size_of::<std::sync::Mutex<()>>();
}

impl Lock for Std {
    fn new() -> Self {
        Self(std::sync::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().expect("no section panicked");
        section()
    }
}

/// [`parking_lot::Mutex`], version 0.13.
pub struct ParkingLot(parking_lot::Mutex<()>);

impl ParkingLot {
    pub(crate) const SIZE: usize = size_of::<parking_lot::Mutex<()>>();
}

impl Lock for ParkingLot {
    fn new() -> Self {
        Self(parking_lot::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}

/// [`parking_lot_012::Mutex`], version 0.12.
pub struct ParkingLot012(parking_lot_012::Mutex<()>);

impl ParkingLot012 {
    pub(crate) const SIZE: usize = size_of::<parking_lot_012::Mutex<()>>();
}

impl Lock for ParkingLot012 {
    fn new() -> Self {
        Self(parking_lot_012::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}

/// [`usync::Mutex`].
pub struct Usync(usync::Mutex<()>);

impl Usync {
    pub(crate) const SIZE: usize = size_of::<usync::Mutex<()>>();
}

impl Lock for Usync {
    fn new() -> Self {
        Self(usync::Mutex::new(()))
    }

    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.0.lock();
        section()
    }
}
