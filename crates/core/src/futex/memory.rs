//! What an address maps to: pages, the inodes that they belong to, and the address
//! spaces that map them, as far as the look-up of a key has to know. All have numbers,
//! from 1 on.
//!
//! | field of a page | meaning | changed by |
//! |---|---|---|
//! | lock | the page lock: mapping and swap cache stay as they are | |
//! | count | references; of 0 nobody takes one | who owns or pins the page |
//! | mapping | none, anonymous, or an inode | the holder of the lock |
//! | swap cache | whether the page is in it | the holder of the lock |
//! | index | its place in its object, in pages | who adds it to that |
//! | head | of a tail of a compound page: the head's number | who makes it one |
//!
//! A tail has no lock, count and mapping of its own: those of its head count.
//!
//! Inodes are type-stable, and their memory is that of another inode only after a grace
//! period: inside [`Memory::read_section`] the inode that a page was seen to belong to
//! stays the same one, though it may be gone from everywhere else.

use crate::{
    gate::Gate,
    platform::{Ordering::*, Platform, Word},
};

/// The bytes of a page.
pub const PAGE: u64 = 4_096;

/// A world in which words lie in pages that several address spaces may map.
pub trait Memory: Platform {
    /// The page of this number.
    fn page(number: u32) -> &'static Page<Self>;

    /// The inode of this number.
    fn inode(number: u32) -> &'static Inode<Self>;

    /// The address space of this number.
    fn space(number: u32) -> &'static Space<Self>;

    /// What numbers inodes.
    fn sequences() -> &'static Sequences<Self>;

    /// The page that a space maps at an address, with a reference to its head taken;
    /// `None` if it maps none there, or none that it may `write` to. Brings in what is
    /// swapped out, and waits for what is being moved.
    fn pin(space: u32, address: u64, write: bool) -> Option<u32>;

    /// Gives back what [`Memory::pin`] of this page took.
    fn unpin(page: u32);

    /// The last reference to an inode is gone: frees it.
    fn evict(inode: u32);

    /// Runs `section`, which must not wait. A grace period that begins before it ends
    /// ends after it, and what was before one that has ended is seen by it.
    fn read_section<R>(section: impl FnOnce() -> R) -> R;
}

/// A count of references.
///
/// Who finds it at 0, or sets it, orders what it looks at next:
///
/// | (C1) who gives the last reference back, or freezes | (C2), (C3) who finds no object, or another one |
/// |---|---|
/// | each: uses the object, gives its reference back | change what leads to the object, then the count: (C2) to 0, (C3) from 0 |
/// | the last: take the object apart | (C2) find the count at 0, or (C3) take a reference: look again at what led here |
pub struct Count<P: Platform>(P::U32);

impl<P: Platform> Count<P> {
    const fn new() -> Self {
        Self(P::U32::ZERO)
    }

    /// Takes a reference: the caller knows of another, which stays.
    pub fn get(&self) {
        self.0.fetch_add(1, Relaxed); // the other one orders it
    }

    /// Takes a reference unless there is none. Who got none looks again at what led here,
    /// and tries again if that is as it was.
    pub fn try_get(&self) -> bool {
        // (C2) Acquire pairs with freeze's and put's Release: why it is 0.
        let mut count = self.0.load(Acquire);
        while count != 0 {
            let taken = self.0.compare_exchange(
                count,
                count + 1,
                // (C3) Acquire pairs with set's Release: the count that was read may be an
                // earlier object's.
                Acquire,
                Relaxed, // of 0, the caller's next try acquires
            );
            match taken {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Gives a reference back. Returns whether it was the last.
    #[must_use]
    pub fn put(&self) -> bool {
        // (C1) Release: my use. Acquire: that of the others. Pairs with itself and
        // with freeze. (C2) Release pairs with try_get's Acquire: why it is 0.
        self.0.fetch_add(u32::MAX, AcqRel) == 1
    }

    /// Has nobody take a reference, if there are just so many. Returns whether there were.
    #[must_use]
    pub fn freeze(&self, references: u32) -> bool {
        // (C1) Acquire pairs with put's Release: the use of the others. (C2) Release pairs
        // with try_get's Acquire: why it is 0.
        (self.0)
            .compare_exchange(references, 0, AcqRel, Relaxed)
            .is_ok()
    }

    /// So many references, where there were none.
    pub fn set(&self, references: u32) {
        // (C3) Release pairs with try_get's Acquire: what does not lead here any more.
        self.0.store(references, Release);
    }
}

/// What a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// Nothing: it was truncated, or is being moved between page cache and swap cache.
    Nothing,
    /// The address spaces that map it.
    Anonymous,
    /// An inode, and its page cache.
    Inode(u32),
}

impl Mapping {
    const fn encode(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Anonymous => 1,
            Self::Inode(number) => number << 1,
        }
    }

    const fn decode(word: u32) -> Self {
        match word {
            0 => Self::Nothing,
            1 => Self::Anonymous,
            number => Self::Inode(number >> 1),
        }
    }
}

/// A page. Its fields share a cache line, as those of a kernel's do.
#[repr(align(64))]
pub struct Page<P: Platform> {
    lock: Gate<P>,
    /// References to it: of what it belongs to, and of who has pinned it.
    pub count: Count<P>,
    mapping: P::U32,
    swap_cache: P::U32,
    index: P::U32,
    head: P::U32,
}

impl<P: Platform> Default for Page<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Page<P> {
    /// A free page.
    pub const fn new() -> Self {
        Self {
            lock: Gate::new(),
            count: Count::new(),
            mapping: P::U32::ZERO,
            swap_cache: P::U32::ZERO,
            index: P::U32::ZERO,
            head: P::U32::ZERO,
        }
    }

    /// Makes it a free page, whatever it was. Nobody uses it.
    pub fn clear(&self) {
        self.lock.forget();
        self.count.set(0);
        self.set_mapping(Mapping::Nothing);
        self.set_in_swap_cache(false);
        self.set_index(0);
        self.set_head(None);
    }

    /// Runs `section` under the page lock. Who finds it taken sleeps, as in kernels.
    pub fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock.lock_asleep();
        let result = section();
        self.lock.unlock();
        result
    }

    /// What it belongs to: what is true for long only under its lock.
    pub fn mapping(&self) -> Mapping {
        Mapping::decode(self.mapping.load(Relaxed)) // the lock orders it, or it is a hint
    }

    /// Whether it still belongs to this inode: then what its number names is that inode,
    /// until the end of the caller's read section.
    pub(super) fn belongs_to(&self, inode: u32) -> bool {
        // (K1) Acquire pairs with set_mapping's Release: the inode as it was made.
        Mapping::decode(self.mapping.load(Acquire)) == Mapping::Inode(inode)
    }

    /// Says what it belongs to. The caller has its lock, or the page is new.
    pub fn set_mapping(&self, mapping: Mapping) {
        // (K1) Release pairs with belongs_to's Acquire: the inode is whole.
        self.mapping.store(mapping.encode(), Release);
    }

    /// Whether it is in the swap cache. The caller has its lock.
    pub fn is_in_swap_cache(&self) -> bool {
        self.swap_cache.load(Relaxed) != 0 // the lock orders it
    }

    /// Puts it into the swap cache, or takes it out. The caller has its lock.
    pub fn set_in_swap_cache(&self, is: bool) {
        self.swap_cache.store(u32::from(is), Relaxed); // the lock orders it
    }

    /// Its place in what it belongs to, in pages.
    pub fn index(&self) -> u32 {
        self.index.load(Relaxed) // what leads to the page orders it
    }

    /// Gives it a place. It is new: nothing leads to it.
    pub fn set_index(&self, index: u32) {
        self.index.store(index, Relaxed); // published by what will lead to it
    }

    /// The head of the compound page that it belongs to, which may be itself.
    pub fn head(&self) -> Option<u32> {
        let head = self.head.load(Relaxed); // what leads to the page orders it
        (head != 0).then_some(head)
    }

    /// Makes it a part of a compound page, or of none. It is new: nothing leads to it.
    pub fn set_head(&self, head: Option<u32>) {
        self.head.store(head.unwrap_or(0), Relaxed); // published by what will lead to it
    }
}

/// An inode, and the page cache that it is the host of.
#[repr(align(64))]
pub struct Inode<P: Platform> {
    /// References to it: of who has it open or mapped, and of keys, if they have one.
    pub count: Count<P>,
    /// Its number of [`Sequences`], the upper half first; the lower is 0 for none.
    sequence: [P::U32; 2],
}

impl<P: Platform> Default for Inode<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Inode<P> {
    /// Memory for an inode.
    pub const fn new() -> Self {
        Self {
            count: Count::new(),
            sequence: [P::U32::ZERO, P::U32::ZERO],
        }
    }

    /// Makes it memory for an inode again. Nobody uses it.
    pub fn clear(&self) {
        self.count.set(0);
        self.sequence.iter().for_each(|half| half.store(0, Relaxed)); // as the caller says
    }

    /// Makes it another inode, with a reference. A grace period has passed since
    /// anything led to the old one.
    pub fn renew(&self) {
        self.sequence[1].store(0, Relaxed); // published by the mapping of a page (K1)
        self.count.set(1);
    }

    fn sequence(&self) -> Option<u64> {
        let [high, low] = &self.sequence;
        // (K2) Acquire pairs with give's Release: the upper half.
        let low = low.load(Acquire);
        let high = || high.load(Relaxed); // written once, before the lower half
        (low != 0).then(|| u64::from(high()) << 32 | u64::from(low))
    }
}

/// The numbers of inodes that were asked for theirs: 64 bits, none twice.
///
/// A kernel of 64 bits has one word, and exchanges it. Here a gate makes two words one,
/// but who finds it closed inside a read section must not wait there.
#[repr(align(64))]
pub struct Sequences<P: Platform> {
    gate: Gate<P>,
    /// The last number, the upper half first.
    last: [P::U32; 2],
}

impl<P: Platform> Default for Sequences<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Sequences<P> {
    /// No inode has a number.
    pub const fn new() -> Self {
        Self {
            gate: Gate::new(),
            last: [P::U32::ZERO, P::U32::ZERO],
        }
    }

    /// From now on no inode has a number. Nobody uses it.
    pub fn clear(&self) {
        self.gate.forget();
        self.skip_to(0);
    }

    /// Goes on behind this number, the last that was given. The caller has the gate, or is
    /// alone.
    pub fn skip_to(&self, last: u64) {
        for (word, half) in self.last.iter().zip([(last >> 32) as u32, last as u32]) {
            word.store(half, Relaxed); // the gate orders it
        }
    }

    /// The number of an inode, which gets one if it has none; `None` while another
    /// task gives one.
    pub(super) fn number(&self, inode: &Inode<P>) -> Option<u64> {
        let give = || inode.sequence().unwrap_or_else(|| self.give(inode));
        inode.sequence().or_else(|| self.gate.try_with(give))
    }

    /// Waits until the others have given theirs.
    pub(super) fn wait(&self) {
        self.gate.with(|| ());
    }

    /// The caller has the gate, and the inode has no number.
    fn give(&self, inode: &Inode<P>) -> u64 {
        let [high, low] = &self.last;
        let last = u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed)); // the gate orders them
        // A lower half of 0 would be none.
        let number = last + if last as u32 == u32::MAX { 2 } else { 1 };
        self.skip_to(number); // the gate orders it
        let [high, low] = &inode.sequence;
        high.store((number >> 32) as u32, Relaxed); // published below
        // (K2) Release pairs with sequence's Acquire: the upper half.
        low.store(number as u32, Release);
        number
    }
}

/// An address space.
#[repr(align(64))]
pub struct Space<P: Platform> {
    /// References to it: of its tasks together, and of keys, if they have one.
    pub count: Count<P>,
}

impl<P: Platform> Default for Space<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> Space<P> {
    /// Memory for a space.
    pub const fn new() -> Self {
        Self {
            count: Count::new(),
        }
    }
}
