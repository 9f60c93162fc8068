//! How a key is found for a word that several address spaces may map.
//!
//! An anonymous page's word is known by its space and address: the calling task pins
//! both. A file's is known by its inode and its place in that; so the page must be seen
//! to belong to the inode at a moment at which the inode cannot be taken for another.
//! How that moment is had is a policy, [`Pin`]; these are the kernel's three, in the
//! order of their age:
//!
//! | | holds the page lock | inode is known by | the key refers to it |
//! |---|---|---|---|
//! | [`PageLock`], before seed 004 | while it looks | its number | yes |
//! | [`Lockless`], seed 004 as merged in Linux 4.6 | to tell why there is no mapping | its number | yes, if its count is not 0 |
//! | [`Sequenced`], Linux 5.7 and later | to tell why there is no mapping | a number of its own, never given again | no |
//!
//! | step, without the page lock | who takes the page away |
//! |---|---|
//! | 1. pin the page, read its mapping | end the mapping, under the page lock |
//! | 2. read section: still the same mapping? else start over | wait for a grace period |
//! | 3. read the inode | free the inode, make another of its memory |
//!
//! What is wrong with the first two: `PageLock` takes a reference to an inode that may
//! have none left, and is then freed all the same. And a reference does not keep an
//! inode whose file system is unmounted. Then a key names memory, and the inode that is
//! made there next has the same keys. The number of [`Sequenced`] says nothing of
//! memory: a waiter on what is gone is not found any more, and nobody else is instead.

use core::marker::PhantomData;

use super::{
    Key,
    memory::{Mapping, Memory, PAGE, Page},
};
use crate::platform::Event;

/// What the caller is going to do with the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It will read it, as who waits for it does.
    Read,
    /// It will write to it.
    Write,
}

/// Why there is no key: a system call's `EFAULT`, or `EINVAL` for the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The address is no multiple of a word's size.
    Unaligned,
    /// Nothing is mapped there, or nothing that the access is allowed to.
    Unmapped,
    /// The page is anonymous and may only be read: nobody could change the word.
    ReadOnly,
    /// The page belongs to nothing any more: the file was truncated.
    Gone,
}

/// How a look-up makes sure that the inode it reads is the page's. A policy.
pub trait Pin: 'static {
    /// Whether it holds the page lock all the time.
    const LOCKS: bool;
    /// Whether a key refers to its space or inode.
    const REFERS: bool;
    /// What the inode, which the page was seen to belong to, is known by; a reference is
    /// taken if keys refer to inodes. `None` when that has to be looked at again.
    fn identify<P: Memory>(page: &Page<P>, inode: u32) -> Option<u64>;
}

/// The page lock keeps the mapping as it is, and so the inode there.
pub struct PageLock;

impl Pin for PageLock {
    const LOCKS: bool = true;
    const REFERS: bool = true;

    fn identify<P: Memory>(_page: &Page<P>, inode: u32) -> Option<u64> {
        P::inode(inode).count.get();
        Some(inode.into())
    }
}

/// A read section keeps the inode's memory as it is, and a reference its contents
/// (Gorman and Bueso, "futex: Reduce the scope of lock_page", 2016: seed 004).
pub struct Lockless;

impl Pin for Lockless {
    const LOCKS: bool = false;
    const REFERS: bool = true;

    fn identify<P: Memory>(page: &Page<P>, inode: u32) -> Option<u64> {
        let referred = || page.belongs_to(inode) && P::inode(inode).count.try_get();
        P::read_section(referred).then(|| inode.into())
    }
}

/// A read section keeps the inode's memory as it is until its number has been read
/// (Zijlstra, "futex: Fix inode life-time issue", 2020).
pub struct Sequenced;

impl Pin for Sequenced {
    const LOCKS: bool = false;
    const REFERS: bool = false;

    fn identify<P: Memory>(page: &Page<P>, inode: u32) -> Option<u64> {
        let number = P::read_section(|| {
            let belongs = page.belongs_to(inode);
            belongs.then(|| P::sequences().number(P::inode(inode)))
        })?;
        if number.is_none() {
            P::sequences().wait();
        }
        number
    }
}

/// What a key refers to.
#[derive(Clone, Copy)]
enum Object {
    Nothing,
    Space(u32),
    Inode(u32),
}

/// The key of a word that several address spaces may map, as one of them finds it.
#[must_use = "what it refers to stays until it is put back"]
pub struct SharedKey<P: Memory, F: Pin = Sequenced> {
    key: Key,
    refers: Object,
    policy: PhantomData<(P, F)>,
}

impl<P: Memory, F: Pin> SharedKey<P, F> {
    /// The key of the word at `address` of a space.
    ///
    /// # Errors
    /// There is none, as [`Fault`] says.
    pub fn find(space: u32, address: u64, access: Access) -> Result<Self, Fault> {
        if !address.is_multiple_of(size_of::<u32>() as u64) {
            return Err(Fault::Unaligned);
        }
        loop {
            let (page, writable) = Self::pin(space, address, access)?;
            let looked = Self::look(page, writable, space, address);
            P::unpin(page);
            match looked {
                Some(Ok((key, object))) => return Ok(Self::new(key, object)),
                Some(Err(fault)) => return Err(fault),
                None => P::event(Event::KeySought),
            }
        }
    }

    const fn new(key: Key, object: Object) -> Self {
        Self {
            key,
            refers: if F::REFERS { object } else { Object::Nothing },
            policy: PhantomData,
        }
    }

    /// The page, and whether the space may write to it.
    fn pin(space: u32, address: u64, access: Access) -> Result<(u32, bool), Fault> {
        let pin = |write| P::pin(space, address, write).map(|page| (page, write));
        let reads = || (access == Access::Read).then(|| pin(false)).flatten();
        pin(true).or_else(reads).ok_or(Fault::Unmapped)
    }

    /// What the page says. `None` when it must be looked for again.
    fn look(
        number: u32,
        writable: bool,
        space: u32,
        address: u64,
    ) -> Option<Result<(Key, Object), Fault>> {
        let page = P::page(number);
        let head_number = page.head().unwrap_or(number);
        let head = P::page(head_number);
        let look = || match head.mapping() {
            Mapping::Nothing => Self::without_mapping(head),
            Mapping::Anonymous if !writable => Some(Err(Fault::ReadOnly)),
            Mapping::Anonymous => {
                if F::REFERS {
                    P::space(space).count.get();
                }
                let key = Key::anonymous(space.into(), address);
                Some(Ok((key, Object::Space(space))))
            }
            Mapping::Inode(inode) => {
                let known = F::identify(head, inode)?;
                let index = head.index() + (number - head_number);
                let offset = u64::from(index) * PAGE + address % PAGE;
                Some(Ok((Key::shared(known, offset), Object::Inode(inode))))
            }
        };
        match F::LOCKS {
            true => head.locked(look),
            false => look(),
        }
    }

    /// The page belonged to nothing when it was looked at. What is on its way between
    /// page cache and swap cache belongs somewhere again when its lock is free.
    fn without_mapping(head: &Page<P>) -> Option<Result<(Key, Object), Fault>> {
        let moves = || head.is_in_swap_cache() || head.mapping() != Mapping::Nothing;
        let moves = if F::LOCKS {
            moves()
        } else {
            head.locked(moves)
        };
        (!moves).then_some(Err(Fault::Gone))
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Gives back what the key refers to.
    pub fn put(self) {
        match self.refers {
            Object::Nothing => {}
            Object::Space(space) => {
                let last = P::space(space).count.put();
                debug_assert!(!last, "the calling task is in that space");
            }
            Object::Inode(inode) => {
                if P::inode(inode).count.put() {
                    P::evict(inode);
                }
            }
        }
    }
}
