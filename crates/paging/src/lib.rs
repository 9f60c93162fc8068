//! A kernel's memory management, for the worlds that have none: page tables, page cache
//! and swap cache, with truncation, migration, eviction and unmounting against look-ups
//! that run. Just what the key of a futex depends on, written once over [`Platform`]: the
//! simulator charges its cache lines, the checker explores its orders.
//!
//! Pages, inodes and spaces are numbered from 1 on. A page table has an entry for each
//! page of a space, from address 0 on:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | the space may write to the page |
//! | 1 | the page is in the swap cache: a fault brings it back |
//! | 2 | the page is being moved: a fault waits for its lock |
//! | 3.. | the page, 0 for none |
//!
//! Whoever takes a page away changes the entry before the page, so that a look-up which
//! finds the page gone finds the entry changed, too.

mod read_section;

use lockyard_core::{
    Ordering::{Acquire, Relaxed, Release},
    Platform, Word,
    futex::memory::{Inode, Mapping, PAGE, Page, Sequences, Space},
};
use read_section::Readers;

const WRITABLE: u32 = 1;
const SWAPPED: u32 = 1 << 1;
const MOVING: u32 = 1 << 2;
const PAGE_SHIFT: u32 = 3;

/// How much of everything there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Pages.
    pub pages: u32,
    /// Inodes.
    pub inodes: u32,
    /// Spaces.
    pub spaces: u32,
    /// Pages that a space can map.
    pub entries: u32,
    /// Tasks.
    pub tasks: u32,
}

/// The memory of a machine.
pub struct Paging<P: Platform> {
    sizes: Sizes,
    pages: Box<[Page<P>]>,
    inodes: Box<[Inode<P>]>,
    spaces: Box<[Space<P>]>,
    tables: Box<[Words<P::U32>]>,
    /// To which inode a page in the swap cache goes back; for its lock's holder.
    swapped_from: Words<P::U32>,
    sequences: Sequences<P>,
    readers: Readers<P>,
}

/// Words on lines of their own: which share one does not depend on the allocator.
struct Words<W> {
    lines: Box<[Line<W>]>,
    count: usize,
}

#[repr(align(64))]
struct Line<W>([W; IN_A_LINE]);
const IN_A_LINE: usize = 16;

impl<W: Word> Words<W> {
    fn new(count: u32) -> Self {
        let lines = count.div_ceil(IN_A_LINE as u32);
        Self {
            lines: zeroed(lines, || Line([const { W::ZERO }; IN_A_LINE])),
            count: count as usize,
        }
    }

    fn clear(&self) {
        let words = self.lines.iter().flat_map(|line| &line.0);
        words.for_each(|word| word.store(0, Relaxed)); // nobody uses them
    }

    fn get(&self, index: usize) -> Option<&W> {
        (index < self.count).then(|| &self.lines[index / IN_A_LINE].0[index % IN_A_LINE])
    }
}

fn zeroed<T>(count: u32, one: impl Fn() -> T) -> Box<[T]> {
    (0..count).map(|_| one()).collect()
}

impl<P: Platform> Paging<P> {
    /// Memory in which everything is free.
    pub fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            pages: zeroed(sizes.pages, Page::new),
            inodes: zeroed(sizes.inodes, Inode::new),
            spaces: zeroed(sizes.spaces, Space::new),
            tables: zeroed(sizes.spaces, || Words::new(sizes.entries)),
            swapped_from: Words::new(sizes.pages),
            sequences: Sequences::new(),
            readers: Readers::new(sizes.tasks),
        }
    }

    /// How much of everything there is.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Makes everything free again. No task uses it.
    pub fn clear(&self) {
        self.pages.iter().for_each(Page::clear);
        self.inodes.iter().for_each(Inode::clear);
        self.spaces.iter().for_each(|space| space.count.set(0));
        self.tables.iter().for_each(Words::clear);
        self.swapped_from.clear();
        self.sequences.clear();
        self.readers.clear();
    }

    /// The page of this number.
    pub fn page(&self, number: u32) -> &Page<P> {
        &self.pages[number as usize - 1]
    }

    /// The inode of this number.
    pub fn inode(&self, number: u32) -> &Inode<P> {
        &self.inodes[number as usize - 1]
    }

    /// The space of this number.
    pub fn space(&self, number: u32) -> &Space<P> {
        &self.spaces[number as usize - 1]
    }

    /// What numbers the inodes.
    pub fn sequences(&self) -> &Sequences<P> {
        &self.sequences
    }

    /// All pages: to name them.
    pub fn pages(&self) -> &[Page<P>] {
        &self.pages
    }

    /// All inodes.
    pub fn inodes(&self) -> &[Inode<P>] {
        &self.inodes
    }

    /// All spaces.
    pub fn spaces(&self) -> &[Space<P>] {
        &self.spaces
    }

    /// Runs `section`, as `Memory::read_section` says.
    pub fn read_section<R>(&self, section: impl FnOnce() -> R) -> R {
        self.readers.read_section(section)
    }

    fn swapped_from(&self, page: u32) -> &P::U32 {
        let word = self.swapped_from.get(page as usize - 1);
        word.expect("the page is there")
    }

    fn entry(&self, space: u32, address: u64) -> Option<&P::U32> {
        let table = &self.tables[space as usize - 1];
        table.get(usize::try_from(address / PAGE).ok()?)
    }

    fn mapped(&self, space: u32, address: u64) -> &P::U32 {
        let entry = self.entry(space, address);
        entry.unwrap_or_else(|| panic!("space {space} has no page table at {address:#x}"))
    }

    fn head(&self, page: u32) -> &Page<P> {
        self.page(self.page(page).head().unwrap_or(page))
    }

    /// The page, which can be taken away by itself: other pages of a compound one are mapped by
    /// entries of their own, which nobody would change.
    fn alone(&self, number: u32) -> &Page<P> {
        let page = self.page(number);
        let head = page.head();
        assert!(head.is_none(), "page {number} is of a compound page");
        page
    }

    /// Takes a reference to the page of an address, as `Memory::pin` says.
    pub fn pin(&self, space: u32, address: u64, write: bool) -> Option<u32> {
        let entry = self.entry(space, address)?;
        loop {
            let found = entry.load(Acquire); // (E)
            let page = found >> PAGE_SHIFT;
            if page == 0 || write && found & WRITABLE == 0 {
                return None;
            }
            let head = self.head(page);
            if found & SWAPPED != 0 {
                self.swap_in(entry, found);
            } else if found & MOVING != 0 {
                head.locked(|| ());
            } else if head.count.try_get() {
                if entry.load(Relaxed) == found {
                    return Some(page); // whoever changes the entry sees the reference
                }
                self.put_page(head);
            }
        }
    }

    /// Gives it back.
    pub fn unpin(&self, page: u32) {
        self.put_page(self.head(page));
    }

    /// A page without references is free: nothing more is to be done.
    fn put_page(&self, page: &Page<P>) {
        let _free = page.count.put();
    }

    /// Makes an anonymous page, and maps it: or a compound page, from the first to the last.
    pub fn map_anonymous(&self, space: u32, address: u64, pages: (u32, u32)) {
        let (first, last) = pages;
        let head = self.page(first);
        head.set_mapping(Mapping::Anonymous);
        head.count.set(1);
        for (page, at) in (first..=last).zip(0..) {
            self.page(page).set_head((first != last).then_some(first));
            self.map(space, address + at * PAGE, page, true);
        }
    }

    /// Makes an inode, with a reference.
    pub fn open(&self, inode: u32) {
        self.inode(inode).renew();
    }

    /// Puts a free page into the page cache of an inode, at a place of its own: or a
    /// compound page, from the first to the last.
    pub fn cache(&self, inode: u32, index: u32, pages: (u32, u32)) {
        let (first, last) = pages;
        let head = self.page(first);
        head.set_index(index);
        for page in first..=last {
            self.page(page).set_head((first != last).then_some(first));
        }
        head.set_mapping(Mapping::Inode(inode));
        head.count.set(1);
    }

    /// Maps a page.
    pub fn map(&self, space: u32, address: u64, page: u32, writable: bool) {
        let flags = if writable { WRITABLE } else { 0 };
        let entry = self.mapped(space, address);
        entry.store(page << PAGE_SHIFT | flags, Release); // (E)
    }

    /// Ends the mapping of an address.
    pub fn unmap(&self, space: u32, address: u64) {
        self.mapped(space, address).store(0, Relaxed); // what follows is released
    }
}

/// What takes pages away from look-ups.
impl<P: Platform> Paging<P> {
    /// Gives a reference to an inode back. The last frees it: returns whether it was.
    pub fn close(&self, inode: u32) -> bool {
        let last = self.inode(inode).count.put();
        if last {
            self.free(inode);
        }
        last
    }

    /// Takes all pages out of the page cache of an inode, and what it has in the swap cache.
    /// They are not mapped any more.
    pub fn truncate(&self, inode: u32) {
        let mapping = Mapping::Inode(inode);
        for (page, number) in self.pages.iter().zip(1..) {
            if page.head().is_some_and(|head| head != number) {
                continue; // its head's lock and mapping count
            }
            // A look-up may be bringing it back: who has the lock after this finds it unmapped.
            let was_its = page.locked(|| {
                let swapped =
                    page.is_in_swap_cache() && self.swapped_from(number).load(Relaxed) == inode; // the lock orders it
                let was_its = swapped || page.mapping() == mapping;
                if was_its {
                    page.set_in_swap_cache(false);
                    page.set_mapping(Mapping::Nothing);
                }
                was_its
            });
            if was_its {
                self.put_page(page);
            }
        }
    }

    /// Frees an inode, whoever refers to it, as unmounting its file system does; and as
    /// `Memory::evict` does when nobody refers to it. When this returns its memory may
    /// be [`Self::open`]ed as another.
    pub fn free(&self, inode: u32) {
        self.truncate(inode);
        self.readers.grace_period();
    }

    /// Moves a page from the page cache to the swap cache, as that of a shared mapping.
    /// It is mapped here alone, and of no compound page.
    pub fn swap_out(&self, space: u32, address: u64) {
        let entry = self.mapped(space, address);
        let number = entry.load(Relaxed) >> PAGE_SHIFT; // the caller maps and unmaps it
        let page = self.alone(number);
        let Mapping::Inode(inode) = page.mapping() else {
            panic!("page {number} belongs to no inode");
        };
        page.locked(|| {
            let from = self.swapped_from(number);
            from.store(inode, Relaxed); // the lock orders it
            entry.fetch_or(SWAPPED, Relaxed); // the lock orders it
            page.set_in_swap_cache(true);
            page.set_mapping(Mapping::Nothing);
        });
    }

    /// Moves a page, which is mapped here alone and of no compound page, to a free one:
    /// `false` if somebody has pinned it.
    pub fn migrate(&self, space: u32, address: u64, to: u32) -> bool {
        let entry = self.mapped(space, address);
        let found = entry.load(Relaxed); // the caller maps and unmaps it
        if found & SWAPPED != 0 {
            self.swap_in(entry, found);
        }
        let from = found >> PAGE_SHIFT;
        let (page, new) = (self.alone(from), self.page(to));
        page.locked(|| {
            let flags = entry.fetch_or(MOVING, Relaxed) & WRITABLE; // released by the freeze
            let moves = page.count.freeze(1);
            if moves {
                new.set_head(None);
                new.set_index(page.index());
                new.set_mapping(page.mapping());
                page.set_mapping(Mapping::Nothing);
                new.count.set(1);
            }
            let now = if moves { to } else { from };
            entry.store(now << PAGE_SHIFT | flags, Release); // (E)
            moves
        })
    }

    /// Brings a page back from the swap cache, if the entry is still as it was found: else
    /// somebody else has, and may have moved it since.
    fn swap_in(&self, entry: &P::U32, found: u32) {
        let number = found >> PAGE_SHIFT;
        let page = self.page(number);
        page.locked(|| {
            if entry.load(Relaxed) == found {
                let from = self.swapped_from(number);
                page.set_in_swap_cache(false);
                page.set_mapping(Mapping::Inode(from.load(Relaxed))); // the lock orders it
                entry.fetch_and(!SWAPPED, Release); // (E)
            }
        });
    }
}
