//! The payload of a lock, checked for data races.

use std::cell::Cell;

use crate::{fiber::ask, op::Request, word::Handle};

/// A cell whose accesses must be ordered by happens-before when they conflict,
/// as those of plain memory; else the model fails.
pub struct Tracked<T> {
    handle: Handle,
    value: Cell<T>,
}

impl<T: Copy> Tracked<T> {
    /// A cell with a value that was there before everything.
    pub const fn new(value: T) -> Self {
        Self {
            handle: Handle::new(),
            value: Cell::new(value),
        }
    }

    fn access(&self, write: bool) {
        let cell = self.handle.index(|| Request::Cell);
        ask(Request::Access { cell, write });
    }

    /// Reads the cell.
    pub fn get(&self) -> T {
        self.access(false);
        self.value.get()
    }

    /// Writes the cell.
    pub fn set(&self, value: T) {
        self.access(true);
        self.value.set(value);
    }
}
