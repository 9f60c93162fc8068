//! The rivals written in Rust.

use lockyard_torture::Lock;

/// Declares a rival: its lock type and the guard of whoever has a lock; and, of
/// one for readers and writers, a reader's.
macro_rules! rival {
    (
        $(#[$about:meta])*
        $name:ident($lock:ty): |$this:ident| $write:expr $(, $read:expr)?
    ) => {
        $(#[$about])*
        pub struct $name($lock);

        impl $name {
            pub(crate) const SIZE: usize = size_of::<$lock>();
        }

        impl Lock for $name {
            fn new() -> Self {
                Self(<$lock>::new(()))
            }

            #[inline]
            fn with<R>(&self, section: impl FnOnce() -> R) -> R {
                let $this = &self.0;
                let _held = $write;
                section()
            }

            $(
                #[inline]
                fn read<R>(&self, section: impl FnOnce() -> R) -> R {
                    let $this = &self.0;
                    let _held = $read;
                    section()
                }
            )?
        }
    };
}

const NO_POISON: &str = "no section panicked";

rival! {
    /// [`std::sync::Mutex`].
    Std(std::sync::Mutex<()>): |lock| lock.lock().expect(NO_POISON)
}

rival! {
    /// [`std::sync::RwLock`].
    StdRw(std::sync::RwLock<()>):
    |lock| lock.write().expect(NO_POISON), lock.read().expect(NO_POISON)
}

rival! {
    /// [`parking_lot::Mutex`], version 0.13.
    ParkingLot(parking_lot::Mutex<()>): |lock| lock.lock()
}

rival! {
    /// [`parking_lot::RwLock`], version 0.13.
    ParkingLotRw(parking_lot::RwLock<()>): |lock| lock.write(), lock.read()
}

rival! {
    /// [`parking_lot_012::Mutex`], version 0.12.
    ParkingLot012(parking_lot_012::Mutex<()>): |lock| lock.lock()
}

rival! {
    /// [`usync::Mutex`].
    Usync(usync::Mutex<()>): |lock| lock.lock()
}

rival! {
    /// [`usync::RwLock`].
    UsyncRw(usync::RwLock<()>): |lock| lock.write(), lock.read()
}

rival! {
    /// [`crossbeam_utils::sync::ShardedLock`].
    Sharded(crossbeam_utils::sync::ShardedLock<()>):
    |lock| lock.write().expect(NO_POISON), lock.read().expect(NO_POISON)
}
