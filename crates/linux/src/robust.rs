//! The robust mutex: the kernel's priority-inheriting futex ([`kernel_pi`]) in
//! memory that processes may share, which is passed on when its owner ends.
//!
//! The kernel passes on what it finds in the thread's list of robust locks. A
//! thread has one list, and glibc has registered its own, so the mutex joins that
//! one, in glibc's layout: an entry is the address of a `next`, whose lowest bit
//! says that the lock inherits priorities; the word lies 32 bytes before it, and
//! `prev` just before it. The kernel reads only the `next`s.
//!
//! # A death between any two instructions
//!
//! The list's head has a field `pending`, for the lock that the thread is just
//! taking or releasing. When a thread ends, the kernel looks at each word in the
//! list, and at the pending one, once. What names the thread it marks
//! [`OWNER_DIED`] and gives to the first waiter; others it leaves alone. So all is
//! well if a word that names the thread is listed or pending, at any time:
//!
//! | lock | word | pending | listed | |
//! |---|---|---|---|---|
//! | | not mine | | | nothing to do |
//! | (D1) announce it | not mine | yes | | left alone |
//! | (D2) take it, by an exchange or by the kernel | mine | yes | | passed on |
//! | (D3) link it: prepare its node, then store the head's `next` | mine | yes | yes | passed on |
//! | (D4) end the announcement | mine | | yes | passed on |
//!
//! | unlock | word | pending | listed | |
//! |---|---|---|---|---|
//! | (D5) announce it | mine | yes | yes | passed on |
//! | (D6) unlink it: store the `next` of the one before | mine | yes | | passed on |
//! | (D7) release it, by an exchange or by the kernel | not mine | yes | | left alone |
//! | (D8) end the announcement | not mine | | | nothing to do |
//!
//! Each row differs from the one before it in one field, by one store: there is
//! nothing in between. It is enough that the compiler keeps the order, for the
//! kernel ends a thread on the thread's own behalf. A system call that is killed has
//! either taken the word or not. The `prev`s may be wrong in between, but only the
//! thread reads them. Who takes a word that is marked first notes it in `died`, then
//! wipes the mark; if it ends in between, its word is marked again.

use std::{
    cell::Cell,
    ffi::c_long,
    mem::offset_of,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU32,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        compiler_fence,
    },
};

use lockyard_core::Deadline;

use crate::{
    kernel_pi::{self, LockPi, OWNER_DIED, Scope, TID_MASK},
    tasks,
};

/// A mutex that is passed on when its owner ends: 40 bytes, all zero when
/// unlocked.
#[repr(C)]
pub struct RawRobustPiMutex {
    /// As [`kernel_pi`] says.
    word: AtomicU32,
    /// 1 from when an owner's end is noticed until [`Self::mark_consistent`]. The
    /// owner alone uses it.
    died: AtomicU32,
    /// The list's layout leaves room here.
    room: [u64; 2],
    node: Node,
}

/// A place in a list; an entry is the address of its `next`. The owner alone uses
/// it, and the kernel when the owner ends.
#[repr(C)]
struct Node {
    prev: AtomicPtr<Entry>,
    next: AtomicPtr<Entry>,
}

/// What an entry points to, maybe marked: the second half of some lock's node, or
/// of the two words that the list's head begins with.
struct Entry;

/// The mark of an entry whose lock inherits priorities.
const INHERITS: usize = 1;

/// From an entry to its word.
const OFFSET: c_long = -32;

const _: () = assert!(
    (offset_of!(RawRobustPiMutex, node) + offset_of!(Node, next)) as c_long + OFFSET
        == offset_of!(RawRobustPiMutex, word) as c_long
);

/// What a locker is told of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Held {
    /// Each owner since the last repair has unlocked.
    Consistent,
    /// An owner ended while it held the mutex, and nobody has called
    /// [`RawRobustPiMutex::mark_consistent`] since.
    OwnerDied,
}

impl Default for RawRobustPiMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl RawRobustPiMutex {
    /// A mutex that nobody holds.
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            died: AtomicU32::new(0),
            room: [0; 2],
            node: Node {
                prev: AtomicPtr::new(ptr::null_mut()),
                next: AtomicPtr::new(ptr::null_mut()),
            },
        }
    }

    /// Takes the mutex, waiting until `deadline` at the latest; `None` when that
    /// passed. A free mutex is taken even when the deadline has passed.
    ///
    /// # Panics
    /// When the caller holds it already, or holds what its owner waits for; when it
    /// names an owner that does not exist; and where there is no list, as
    /// [`is_supported`] says.
    ///
    /// # Safety
    /// Once it is taken, the mutex stays where it is, mapped for writing, until the
    /// calling thread has unlocked it or has ended: it is linked to what else the
    /// thread holds.
    #[inline]
    pub unsafe fn lock_until(&self, deadline: Option<Deadline>) -> Option<Held> {
        // SAFETY: the mutex stays where it is, as the caller says.
        match unsafe { self.take(deadline) } {
            Ok(held) => Some(held),
            Err(LockPi::TimedOut) => None,
            Err(failed) => self.misused(failed),
        }
    }

    /// Takes the mutex if nobody holds it.
    ///
    /// # Panics
    /// Where there is no list, as [`is_supported`] says.
    ///
    /// # Safety
    /// As for [`Self::lock_until`].
    pub unsafe fn try_lock(&self) -> Option<Held> {
        let is_free = self.word.load(Relaxed) & TID_MASK == 0; // a hint
        let past = Some(Deadline(0));
        // SAFETY: the mutex stays where it is, as the caller says.
        is_free.then(|| unsafe { self.take(past) }.ok()).flatten()
    }

    /// # Safety
    /// As for [`Self::lock_until`].
    #[inline]
    unsafe fn take(&self, deadline: Option<Deadline>) -> Result<Held, LockPi> {
        let me = tasks::tid();
        let list = List::mine();
        let _pending = list.announce(marked(self.node.entry())); // (D1), (D4)
        // (R1) Acquire pairs with unlock's Release.
        let free = self.word.compare_exchange(0, me, Acquire, Relaxed); // (D2)
        if free.is_err() {
            self.take_in_kernel(deadline)?;
        }
        step();
        // SAFETY: the node is in no list, since nobody held the mutex, or who did has
        // ended; it stays where it is, as the caller says.
        unsafe { list.link(&self.node) }; // (D3)
        tasks::keeper().holds_unkept();
        Ok(match self.died.load(Relaxed) {
            0 => Held::Consistent,
            _ => Held::OwnerDied,
        })
    }

    #[cold]
    fn take_in_kernel(&self, deadline: Option<Deadline>) -> Result<(), LockPi> {
        match kernel_pi::lock_pi(&self.word, Scope::Shared, deadline) {
            LockPi::Taken => {}
            failed => return Err(failed),
        }
        // (R1) Acquire, for an owner that released it before the kernel took it: the
        // kernel's exchange reads from the owner's, and this from the kernel's.
        if self.word.load(Acquire) & OWNER_DIED != 0 {
            self.died.store(1, Relaxed); // the owner's own
            self.word.fetch_and(!OWNER_DIED, Relaxed); // the owner's own
        }
        Ok(())
    }

    /// Releases the mutex, to the waiter of the highest priority if there is one.
    ///
    /// In a fork's child it does nothing: the parent still holds the mutex.
    ///
    /// # Safety
    /// The calling thread took the mutex and has not released it, or it is a fork's
    /// child of the one that did.
    #[inline]
    pub unsafe fn unlock(&self) {
        let me = tasks::tid();
        if self.word.load(Relaxed) & TID_MASK != me {
            return; // the node is in the parent's list
        }
        let list = List::mine();
        let _pending = list.announce(marked(self.node.entry())); // (D5), (D8)
        // SAFETY: the word names this thread, which took it in `take`, and so linked
        // the node into its list.
        unsafe { unlink(&self.node) }; // (D6)
        step();
        // (R1) Release pairs with Acquire in `take`.
        let alone = self.word.compare_exchange(me, 0, Release, Relaxed); // (D7)
        if alone.is_err() {
            kernel_pi::unlock_pi(&self.word, Scope::Shared);
        }
        tasks::keeper().lets_go_unkept();
    }

    /// Says that the value is whole: lockers are no longer told that an owner died.
    /// The owner alone may say so.
    pub fn mark_consistent(&self) {
        self.died.store(0, Relaxed); // the owner's own
    }

    #[cold]
    fn misused(&self, how: LockPi) -> ! {
        let me = tasks::tid();
        let owner = self.word.load(Relaxed) & TID_MASK; // for the message
        match how {
            LockPi::Deadlock if owner == me => {
                panic!("thread {me} locks the robust mutex at {self:p}, which it holds")
            }
            LockPi::Deadlock => panic!(
                "thread {me} locks the robust mutex at {self:p} of thread {owner}, which waits \
                 for what thread {me} holds"
            ),
            _ => panic!(
                "the robust mutex at {self:p} names thread {owner} as its owner, which does not \
                 exist: the memory is older than the system's start, or is shared with another \
                 PID namespace, or the thread, not the first of its process, called exec"
            ),
        }
    }
}

/// Whether there are robust mutexes here: the thread's C library must have
/// registered a list of robust locks in the layout of glibc for 64 bits, and the
/// kernel must know it.
pub fn is_supported() -> bool {
    List::find().is_some()
}

/// Until [`disown`], if the calling thread ends while `word` holds its TID, the kernel
/// leaves [`OWNER_DIED`] in its place. `false` where there is no list.
///
/// The word is the pending one, as if it were a lock that inherits no priorities: in
/// between the thread uses no robust lock. It may be in memory that others write to, for
/// the list does not lead there.
pub(crate) fn own(word: &AtomicU32) -> bool {
    let Some(list) = List::get() else {
        return false;
    };
    let entry = ptr::from_ref(word).wrapping_byte_offset(-(OFFSET as isize));
    std::mem::forget(list.announce(entry.cast_mut().cast())); // until `disown`
    true
}

/// Ends what [`own`] began.
pub(crate) fn disown() {
    if let Some(list) = List::get() {
        drop(Pending(list.pending()));
    }
}

/// Keeps the compiler from moving a step of the tables above past another.
#[inline(always)]
fn step() {
    compiler_fence(SeqCst);
}

/// What glibc registers for each thread.
#[repr(C)]
struct Head {
    first: AtomicPtr<Entry>,
    offset: c_long,
    pending: AtomicPtr<Entry>,
}

/// The calling thread's list.
#[derive(Clone, Copy)]
struct List {
    /// It lives as long as the thread. Two words before it, as in a [`Node`], stands
    /// the `prev` of the list's end.
    head: *mut Head,
}

thread_local! {
    /// Null before the first use. No destructor: it can be read as long as the
    /// thread runs. In a fork's child it is the same.
    static HEAD: Cell<*mut Head> = const { Cell::new(ptr::null_mut()) };
}

impl List {
    #[inline]
    fn mine() -> Self {
        Self::get().expect(
            "robust mutexes need a list of robust locks that is registered for the thread \
             and has the layout of glibc for 64 bits: there is none",
        )
    }

    #[inline]
    fn get() -> Option<Self> {
        let head = HEAD.get();
        if head.is_null() {
            return Self::find();
        }
        Some(Self { head })
    }

    /// The list, if there is one in the layout that we know.
    #[cold]
    fn find() -> Option<Self> {
        let mut head: *mut Head = ptr::null_mut();
        let mut size = 0usize;
        // SAFETY: the kernel writes to the two variables what was registered for the
        // calling thread, 0.
        let failed =
            unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut size) };
        if failed != 0 || head.is_null() || size != size_of::<Head>() {
            return None;
        }
        // SAFETY: the kernel has this address and this size from the thread's C
        // library, which keeps the memory for as long as the thread runs.
        let offset = unsafe { (*head).offset };
        let list = Self { head };
        (offset == OFFSET && list.has_prevs()).then(|| {
            HEAD.set(head);
            list
        })
    }

    /// Whether entries have a `prev`: that of the first then leads to the head.
    fn has_prevs(self) -> bool {
        // SAFETY: an entry at 32 bytes behind its word is in a lock of at least that
        // size, and an empty list's head is inside of what the C library knows of a
        // thread. Both are mapped in the word before the entry.
        unsafe { prev_of(self.first().load(Relaxed)).load(Relaxed) == self.end() }
    }

    fn first(self) -> &'static AtomicPtr<Entry> {
        // SAFETY: `find` had the head from the kernel, for this thread; a `List` does
        // not leave the thread, and lives in calls of it.
        unsafe { &(*self.head).first }
    }

    /// The entry that ends the list: the head's own.
    fn end(self) -> *mut Entry {
        self.head.cast()
    }

    /// Makes a lock the pending one, until the returned value is dropped.
    #[inline]
    fn announce(self, entry: *mut Entry) -> Pending {
        let pending = self.pending();
        pending.store(entry, Relaxed); // ordered by `step`
        step();
        Pending(pending)
    }

    fn pending(self) -> &'static AtomicPtr<Entry> {
        // SAFETY: as in `first`.
        unsafe { &(*self.head).pending }
    }

    /// Puts a lock that the thread has just taken at the beginning.
    ///
    /// # Safety
    /// The node is in no living thread's list, and stays where it is until it is
    /// unlinked or the thread ends.
    #[inline]
    unsafe fn link(self, node: &Node) {
        let first = self.first().load(Relaxed); // the thread's own, as all of this
        node.next.store(first, Relaxed);
        node.prev.store(self.end(), Relaxed);
        // SAFETY: `first` is in the thread's list, and so in a lock that it holds, or
        // it is the end. Who linked it keeps it where it is, and it has a `prev`, as
        // `find` has tested.
        unsafe { prev_of(first) }.store(node.entry(), Relaxed);
        step();
        self.first().store(marked(node.entry()), Relaxed);
        step();
    }
}

/// Takes a lock out of the thread's list.
///
/// # Safety
/// The node is in the calling thread's list.
#[inline]
unsafe fn unlink(node: &Node) {
    let (prev, next) = (node.prev.load(Relaxed), node.next.load(Relaxed)); // the thread's own
    // SAFETY: a neighbour in the thread's list is in a lock that the thread holds, or
    // it is the end, and who linked it keeps it where it is.
    unsafe {
        next_of(prev).store(next, Relaxed);
        step();
        prev_of(next).store(unmarked(prev), Relaxed);
    }
}

/// A lock is the pending one while this lives.
struct Pending(&'static AtomicPtr<Entry>);

impl Drop for Pending {
    #[inline]
    fn drop(&mut self) {
        step();
        self.0.store(ptr::null_mut(), Relaxed); // ordered by `step`
    }
}

impl Node {
    /// The entry, unmarked. It may be used for all of the node.
    fn entry(&self) -> *mut Entry {
        let start = ptr::from_ref(self).cast_mut();
        start.wrapping_byte_add(offset_of!(Self, next)).cast()
    }
}

fn marked(entry: *mut Entry) -> *mut Entry {
    entry.map_addr(|address| address | INHERITS)
}

fn unmarked(entry: *mut Entry) -> *mut Entry {
    entry.map_addr(|address| address & !INHERITS)
}

/// # Safety
/// The entry is in the calling thread's list, or ends it, for as long as the
/// reference is used.
unsafe fn next_of<'a>(entry: *mut Entry) -> &'a AtomicPtr<Entry> {
    // SAFETY: an entry is the address of a `next`; the caller keeps it alive.
    unsafe { &*unmarked(entry).cast() }
}

/// # Safety
/// As for [`next_of`].
unsafe fn prev_of<'a>(entry: *mut Entry) -> &'a AtomicPtr<Entry> {
    // SAFETY: a `prev` lies just before the `next`; the caller keeps both alive.
    unsafe { &*unmarked(entry).cast::<AtomicPtr<Entry>>().sub(1) }
}
