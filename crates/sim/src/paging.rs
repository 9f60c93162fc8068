//! The simulated machine's memory management: that of crates/paging, with what it costs.

use std::cell::Cell;

use lockyard_core::futex::memory::{Inode, Memory, Page, Sequences, Space};
use lockyard_paging::{Paging, Sizes};

use crate::{
    engine::{Engine, Spending},
    world::{Sim, name, spend},
};

thread_local! {
    static PAGING: Cell<Option<&'static Paging<Sim>>> = const { Cell::new(None) };
}

/// Gives the machine memory, in which everything is free, for the simulations of this
/// thread from now on. It is never freed: what a simulation has seen stays valid.
pub fn new_memory(sizes: Sizes) -> &'static Paging<Sim> {
    let paging = &*Box::leak(Box::new(Paging::new(sizes)));
    PAGING.set(Some(paging));
    paging
}

/// Names memory's parts, as tasks of a simulation know them.
pub(crate) fn name_parts() {
    if let Some(paging) = PAGING.get() {
        let (pages, inodes, spaces) = paging.parts();
        name(pages, "page", &[]);
        name(inodes, "inode", &[]);
        name(spaces, "space", &[]);
    }
}

fn paging() -> &'static Paging<Sim> {
    PAGING.get().expect("the machine was given memory")
}

/// The active task makes a system call that does nothing.
pub fn system_call() {
    kernel(|engine| engine.costs.kernel.map_or(0, |kernel| kernel.system_call));
}

fn kernel(cost: impl FnOnce(&Engine) -> u64) {
    spend(|engine| {
        let cost = cost(engine);
        cost == 0 || engine.advance(engine.now + cost, Spending::Compute)
    });
}

impl Memory for Sim {
    fn page(number: u32) -> &'static Page<Self> {
        paging().page(number)
    }

    fn inode(number: u32) -> &'static Inode<Self> {
        paging().inode(number)
    }

    fn space(number: u32) -> &'static Space<Self> {
        paging().space(number)
    }

    fn sequences() -> &'static Sequences<Self> {
        paging().sequences()
    }

    fn pin(space: u32, address: u64, write: bool) -> Option<u32> {
        kernel(|engine| engine.costs.kernel.map_or(0, |kernel| kernel.walk));
        paging().pin(space, address, write)
    }

    fn unpin(page: u32) {
        paging().unpin(page);
    }

    fn evict(inode: u32) {
        paging().free(inode);
    }

    fn read_section<R>(section: impl FnOnce() -> R) -> R {
        paging().read_section(section)
    }
}
