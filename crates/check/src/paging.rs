//! The checker's memory management: that of crates/paging.

use lockyard_core::futex::memory::{Inode, Memory, Page, Sequences, Space};
use lockyard_paging::{Paging, Sizes};

use crate::world::Check;

/// A little of everything: each execution starts with all of it free.
const SIZES: Sizes = Sizes {
    pages: 4,
    inodes: 2,
    spaces: 2,
    entries: 3,
    tasks: 3,
};

thread_local! {
    static PAGING: &'static Paging<Check> = Box::leak(Box::new(Paging::new(SIZES)));
}

/// The memory that a model's tasks look up keys in.
pub fn memory() -> &'static Paging<Check> {
    PAGING.with(|paging| *paging)
}

impl Memory for Check {
    fn page(number: u32) -> &'static Page<Self> {
        memory().page(number)
    }

    fn inode(number: u32) -> &'static Inode<Self> {
        memory().inode(number)
    }

    fn space(number: u32) -> &'static Space<Self> {
        memory().space(number)
    }

    fn sequences() -> &'static Sequences<Self> {
        memory().sequences()
    }

    fn pin(space: u32, address: u64, write: bool) -> Option<u32> {
        memory().pin(space, address, write)
    }

    fn unpin(page: u32) {
        memory().unpin(page);
    }

    fn evict(inode: u32) {
        memory().free(inode);
    }

    fn read_section<R>(section: impl FnOnce() -> R) -> R {
        memory().read_section(section)
    }
}
