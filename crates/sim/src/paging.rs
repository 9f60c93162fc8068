//! The simulated machine's memory management: that of crates/paging, with what it costs.

use std::cell::RefCell;

use lockyard_core::futex::memory::{Inode, Memory, Page, Sequences, Space};
use lockyard_paging::{Paging, Sizes};

use crate::{
    engine::{Engine, Spending},
    world::{Sim, name, spend},
};

thread_local! {
    /// All that the thread's machines were given, of different sizes: the last is in use.
    static PAGING: RefCell<Vec<&'static Paging<Sim>>> = const { RefCell::new(Vec::new()) };
}

/// Gives the machine memory, in which everything is free, for the simulations of this
/// thread from now on. It is never freed: what a simulation has seen stays valid. But who asks
/// for the same sizes again gets the same memory, and what was in it is gone.
pub fn new_memory(sizes: Sizes) -> &'static Paging<Sim> {
    let again = PAGING.with_borrow_mut(|made| {
        let place = made.iter().position(|paging| paging.sizes() == sizes)?;
        Some(made.remove(place))
    });
    again.inspect(|paging| paging.clear());
    let paging = again.unwrap_or_else(|| Box::leak(Box::new(Paging::new(sizes))));
    PAGING.with_borrow_mut(|made| made.push(paging));
    paging
}

/// Names memory's parts, as tasks of a simulation know them.
pub(crate) fn name_parts() {
    if let Some(paging) = PAGING.with_borrow(|made| made.last().copied()) {
        name(paging.pages(), "page", &[]);
        name(paging.inodes(), "inode", &[]);
        name(paging.spaces(), "space", &[]);
    }
}

fn paging() -> &'static Paging<Sim> {
    let given = PAGING.with_borrow(|made| made.last().copied());
    given.expect("the machine was given memory")
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use lockyard_core::{
        Event,
        futex::{
            lookup::{Access, Fault, Lockless, PageLock, Pin, Sequenced, SharedKey},
            memory::Mapping,
        },
    };

    use super::*;
    use crate::{Machine, Policy, Scenario, Stats, work};

    const SIZES: Sizes = Sizes {
        pages: 2,
        inodes: 1,
        spaces: 1,
        entries: 1,
        tasks: 4,
    };

    /// Three tasks look a key up again and again, while another swaps its page out,
    /// moves it, and at last unmaps and closes the file.
    fn looked_up<F: Pin>() -> Stats {
        let machine = Machine::find("x86-60c").expect("a preset").resized(4, 1);
        let memory = new_memory(SIZES);
        memory.open(1);
        memory.cache(1, 0, (1, 1));
        memory.map(1, 0, 1, true);
        let (known, moves) = (Cell::new(None), Cell::new(0));
        let look = || loop {
            match SharedKey::<Sim, F>::find(1, 8, Access::Read) {
                Ok(found) => {
                    let key = *found.key();
                    assert_eq!(known.replace(Some(key)).unwrap_or(key), key);
                    found.put();
                }
                // The file is closed; or is being closed while the page is pinned.
                Err(fault) => return assert!([Fault::Unmapped, Fault::Gone].contains(&fault)),
            }
        };
        let scenario = Scenario { machine, seed: 1 };
        let result = scenario.simulate(&[Policy::Fair; 4], None, |task| {
            if task > 0 {
                return look();
            }
            let mut free = 2;
            for _ in 0..1_000 {
                work(500);
                memory.swap_out(1, 0);
                work(500);
                let page = Sim::pin(1, 0, true).expect("it is mapped");
                Sim::unpin(page);
                if memory.migrate(1, 0, free) {
                    free = page;
                    moves.set(moves.get() + 1);
                }
            }
            memory.unmap(1, 0);
            memory.close(1);
        });
        assert!(moves.get() > 0, "it was always pinned");
        result.expect("nobody is left behind")
    }

    #[test]
    fn a_page_keeps_its_key_wherever_it_goes() {
        for look in [
            looked_up::<PageLock>,
            looked_up::<Lockless>,
            looked_up::<Sequenced>,
        ] {
            let stats = look();
            assert!(stats.events[Event::KeySought as usize] > 0);
            assert!(stats.lines["page"] > 0);
            assert_eq!(stats, look(), "the same each time");
        }
    }

    #[test]
    fn memory_is_used_again_empty() {
        let memory = new_memory(SIZES);
        memory.open(1);
        memory.cache(1, 7, (1, 2));
        memory.map(1, 0, 1, true);
        memory.sequences().skip_to(7);
        let again = new_memory(SIZES);
        assert!(std::ptr::eq(memory, again));
        let page = again.page(2);
        assert_eq!((page.head(), again.page(1).index()), (None, 0));
        assert_eq!(again.page(1).mapping(), Mapping::Nothing);
        assert_eq!(again.pin(1, 0, false), None);
        let more = Sizes { pages: 3, ..SIZES };
        assert!(!std::ptr::eq(memory, new_memory(more)));
    }

    #[test]
    fn a_look_up_takes_the_time_of_its_walk() {
        let time = |walk| {
            let mut machine = Machine::find("x86-60c").expect("a preset");
            machine.costs.kernel = machine
                .costs
                .kernel
                .map(|kernel| crate::Kernel { walk, ..kernel });
            let memory = new_memory(SIZES);
            memory.space(1).count.set(1);
            memory.map_anonymous(1, 0, (1, 1));
            let scenario = Scenario { machine, seed: 1 };
            let result = scenario.simulate(&[Policy::Fair], None, |_| {
                let key = SharedKey::<Sim>::find(1, 8, Access::Write);
                key.expect("it is mapped").put();
            });
            result.expect("it ends").simulated_ps
        };
        assert_eq!(time(70_000), time(20_000) + 50_000);
    }
}
