//! The workload on a simulated machine with memory: the words of all threads are
//! anonymous memory of one process.

use std::time::Duration;

use fastrand::Rng;
use lockyard_core::{
    Ordering::Relaxed,
    Word,
    futex::{
        Key, Table, Waited, Waiter,
        lookup::{Access, Lockless, PageLock, Pin, Sequenced, SharedKey},
        memory::PAGE,
    },
};
use lockyard_sim::{Sim, SimWord, Sizes, name, new_memory, system_call};

use super::{Report, WRONG, run};
use crate::Simulated;

/// How a wait knows its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// As one that this process alone has: no page is looked for.
    Private,
    /// As one that others may map, by [`PageLock`].
    PageLock,
    /// The same, by [`Lockless`].
    Lockless,
    /// The same, by [`Sequenced`].
    Sequenced,
}

/// Where the words of the threads lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// As glibc's `calloc` has the array of one thread after that of another: each
    /// behind a header of 16 bytes. Those of 4,096 bytes share pages with both neighbours.
    Neighbours,
    /// Each thread's begin on a page of their own.
    Apart,
    /// As [`Layout::Neighbours`], in huge pages: compound ones of 512.
    Huge,
}

/// glibc's header of a chunk, with the padding of the chunk before.
const HEADER: usize = 16;
const HUGE: u64 = 512;
const SPACE: u32 = 1;
const WORD: usize = size_of::<u32>();
const LINE: usize = 64;

impl Layout {
    /// From the words of one thread to those of the next, in bytes; and where the first
    /// begin.
    fn stride(self, futexes: usize) -> (usize, usize) {
        let bytes = (futexes * WORD).next_multiple_of(HEADER);
        match self {
            Self::Neighbours | Self::Huge => (bytes + HEADER, HEADER),
            Self::Apart => (bytes.next_multiple_of(PAGE as usize), 0),
        }
    }
}

/// Words from address 0 of the space on, at line boundaries where that has them.
struct Words {
    words: Vec<SimWord>,
    first: usize,
}

impl Words {
    fn new(bytes: usize) -> Self {
        let all = (bytes + LINE) / WORD;
        let words: Vec<_> = (0..all).map(|_| SimWord::ZERO).collect();
        let first = words.as_ptr().addr().wrapping_neg() % LINE / WORD;
        Self { words, first }
    }

    fn all(&self) -> &[SimWord] {
        &self.words[self.first..]
    }

    fn address(&self, word: &SimWord) -> u64 {
        let first = self.all().as_ptr().addr();
        (std::ptr::from_ref(word).addr() - first) as u64
    }
}

/// Runs the workload in [`Simulated::on`], on a futex of so many buckets: so many threads
/// with so many words each. They begin at different ones: that is where they are after a
/// while, and a simulation is short.
///
/// # Panics
/// As [`run`].
pub fn simulate<const BUCKETS: usize>(
    keys: Keys,
    layout: Layout,
    threads: usize,
    futexes: usize,
    duration: Duration,
) -> Report {
    let (stride, first) = layout.stride(futexes);
    let bytes = first + threads * stride;
    let words = Words::new(bytes);
    let parts = (0..threads).map(|thread| {
        let from = (first + thread * stride) / WORD;
        &words.all()[from..from + futexes]
    });
    let parts: Vec<_> = parts.collect();
    map(layout, bytes, threads);

    let table = Box::new(Table::<Sim, BUCKETS>::new());
    let first = |thread| {
        if thread == 0 {
            name(&*table, "bucket", &[]);
            name(words.all(), "word", &[]);
        }
        Rng::with_seed(thread as u64).usize(..futexes)
    };
    let wait_for = |word: &SimWord, key: &Key| {
        let unchanged = || word.load(Relaxed) == WRONG;
        table.wait(key, Waiter::ANY, unchanged, None) == Waited::Changed
    };
    let wait = |word: &SimWord| {
        system_call();
        let address = words.address(word);
        let wait = |key: &Key| wait_for(word, key);
        match keys {
            Keys::Private => wait(&Key::private(SPACE.into(), address)),
            Keys::PageLock => with_key::<PageLock>(address, wait),
            Keys::Lockless => with_key::<Lockless>(address, wait),
            Keys::Sequenced => with_key::<Sequenced>(address, wait),
        }
    };
    run::<Simulated, _>(&parts, duration, &first, &wait)
}

fn with_key<F: Pin>(address: u64, wait: impl FnOnce(&Key) -> bool) -> bool {
    let found = SharedKey::<Sim, F>::find(SPACE, address, Access::Read);
    let key = found.unwrap_or_else(|fault| panic!("{address:#x} has no key: {fault:?}"));
    let changed = wait(key.key());
    key.put();
    changed
}

/// Maps so many bytes of anonymous memory, from address 0 on.
fn map(layout: Layout, bytes: usize, threads: usize) {
    let entries = (bytes as u64).div_ceil(PAGE);
    let compound = if layout == Layout::Huge { HUGE } else { 1 };
    let entries = entries.next_multiple_of(compound) as u32;
    let memory = new_memory(Sizes {
        pages: entries,
        inodes: 0,
        spaces: SPACE,
        entries,
        tasks: threads as u32,
    });
    memory.space(SPACE).count.set(1);
    for first in (0..entries).step_by(compound as usize) {
        let pages = (first + 1, first + compound as u32);
        memory.map_anonymous(SPACE, u64::from(first) * PAGE, pages);
    }
}

#[cfg(test)]
mod tests {
    use lockyard_sim::{Machine, Scenario, Stats};

    use super::*;

    fn simulated(keys: Keys, layout: Layout) -> (Report, Stats) {
        let machine = Machine::find("x86-60c").expect("a preset").resized(4, 1);
        let scenario = Scenario { machine, seed: 1 };
        let duration = Duration::from_micros(200);
        Simulated::on(scenario, || simulate::<64>(keys, layout, 4, 1024, duration))
    }

    #[test]
    fn every_thread_finds_its_keys_in_every_layout() {
        for keys in [
            Keys::Private,
            Keys::PageLock,
            Keys::Lockless,
            Keys::Sequenced,
        ] {
            for layout in [Layout::Neighbours, Layout::Apart, Layout::Huge] {
                let (report, stats) = simulated(keys, layout);
                let busy = report.ops.iter().all(|&ops| ops > 10);
                assert!(busy, "{keys:?} {layout:?}: {:?}", report.ops);
                assert_eq!(
                    stats.lines.contains_key("page"),
                    keys != Keys::Private,
                    "{keys:?} {layout:?}: {:?}",
                    stats.lines
                );
                let refers = matches!(keys, Keys::PageLock | Keys::Lockless);
                assert_eq!(stats.lines.contains_key("space"), refers);
            }
        }
    }

    /// A thread that has its pages for itself never waits for a page lock.
    #[test]
    fn who_shares_no_page_waits_for_no_lock() {
        let asleep = |layout| {
            let (_, stats) = simulated(Keys::PageLock, layout);
            stats.events[lockyard_core::Event::GateParked as usize]
        };
        assert_eq!(asleep(Layout::Apart), 0);
        assert!(asleep(Layout::Huge) > 0);
    }
}
