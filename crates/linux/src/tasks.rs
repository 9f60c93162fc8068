//! Task numbers and records.
//!
//! A record is never freed, so a number from a stale hint indexes valid memory.
//! Numbers are reused: a thread takes one at its first lock and gives it back
//! when its thread-local destructors have run. Destructors that lock after
//! that take another: see [`lockyard_core::roster`].
//!
//! For locks whose word the kernel reads, a thread goes by the kernel's number of it
//! as well, which leads to its record by way of a table.

use std::{
    cell::Cell,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use lockyard_core::{
    Deadline, KERNEL_WAITERS, TaskId, TaskRecord, Woken,
    announced::Announcement,
    keeper::Keeper,
    roster::{Entry, Membership, Roster},
    rwsem::Readers,
};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::{
    Linux, LinuxPi, Threads, errno,
    exit::AtExit,
    futex, mapping, park, rseq,
    urgency::{URGENCY, Urgency},
    whereabouts::{self, Whereabouts},
};

/// A task's record, on cache lines of its own.
#[repr(align(128))]
pub struct Record {
    pub locks: TaskRecord<Linux>,
    pub pi_locks: TaskRecord<LinuxPi>,
    /// The futex that the task sleeps on.
    pub parker: AtomicU32,
    /// Which thread it is, by the kernel's number.
    pub entry: Entry<AtomicU32>,
    /// Which CPU the thread is on.
    pub whereabouts: Whereabouts,
    /// Whether the thread is at a guarded store that cannot be restarted.
    pub announcement: Announcement<Linux>,
    /// The thread's handle, while its waits can be interrupted; else 0.
    pub interruptible: AtomicUsize,
    /// Whether somebody has interrupted one.
    pub interrupted: AtomicBool,
}

/// Chunk `c` holds the records of the numbers from `FIRST << c` to
/// `(FIRST << c + 1) - 1`.
const FIRST: u32 = 64;
const CHUNKS: usize = (TaskId::MAX / FIRST).ilog2() as usize + 1;
static TABLE: [AtomicPtr<Record>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// Who has which number, counted from `FIRST`.
static ROSTER: Roster<AtomicU32, { TaskId::MAX.div_ceil(u32::BITS) as usize }> = Roster::new();
/// Whose records say perhaps that they read, counted from `FIRST`.
static READERS: Readers<AtomicU32, 128> = Readers::new();
/// The process that the threads are of.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Whether this process is a fork's child, in which some tasks are gone.
static FORKED: AtomicBool = AtomicBool::new(false);

/// What a thread needs for a lock that nobody else wants. In one place: a shared library
/// looks up where each thread-local is.
pub struct Own {
    /// The thread's number.
    me: Membership,
    /// The kernel's number, once the table knows it.
    tid: Cell<u32>,
    /// The area of its restartable sequences; null where it has none.
    pub area: Cell<*mut u8>,
    /// The record of `me`.
    record: Cell<Option<&'static Record>>,
    /// Whether the thread ends, and destructors run.
    ends: Cell<bool>,
    /// The locks that are reserved for the thread.
    keeper: Keeper,
}

thread_local! {
    static OWN: Own = const {
        Own {
            me: Membership::new(),
            tid: Cell::new(0),
            area: Cell::new(ptr::null_mut()),
            record: Cell::new(None),
            ends: Cell::new(false),
            keeper: Keeper::new(is_mine),
        }
    };
}

/// The calling thread's. `LocalKey::with` would stand out of line where the lock stands,
/// and call back.
#[inline(always)]
pub fn own() -> &'static Own {
    // SAFETY: it has no destructor and is there as long as the thread runs, which the
    // reference cannot leave: an `Own` is not `Sync`.
    unsafe { &*OWN.with(ptr::from_ref) }
}

/// The locks that are reserved for the calling thread.
#[inline(always)]
pub fn keeper() -> &'static Keeper {
    &own().keeper
}

/// How tasks are numbered.
pub trait Numbers: Send + Sync + 'static {
    /// Whether these are the kernel's numbers.
    const KERNEL: bool;
    /// The calling thread's number.
    fn me() -> TaskId;
    /// The calling thread's number, or 0 if it has none yet.
    fn number() -> u32;
    /// Whether the calling thread must know soon that an owner does not run.
    fn hurries() -> bool;
    /// The number of its record.
    fn dense(task: TaskId) -> TaskId;
    /// What the locks that go by such numbers keep in the record.
    fn locks(record: &'static Record) -> &'static TaskRecord<Threads<Self>>
    where
        Self: Sized;
}

/// The numbers of the records.
pub struct Dense;

impl Numbers for Dense {
    const KERNEL: bool = false;

    #[inline(always)]
    fn me() -> TaskId {
        me()
    }
    #[inline(always)]
    fn number() -> u32 {
        number()
    }
    #[inline(always)]
    fn hurries() -> bool {
        false
    }
    #[inline(always)]
    fn dense(task: TaskId) -> TaskId {
        task
    }
    #[inline(always)]
    fn locks(record: &'static Record) -> &'static TaskRecord<Linux> {
        &record.locks
    }
}

/// The kernel's numbers, as this PID namespace has them.
pub struct Tids;

/// The numbers of the records of as many TIDs, 0 for those that have none.
type Page = [AtomicU32; 4096];
/// Linux has fewer than 2^22 TIDs.
static TIDS: [AtomicPtr<Page>; 1024] = [const { AtomicPtr::new(ptr::null_mut()) }; 1024];

impl Numbers for Tids {
    const KERNEL: bool = true;

    #[inline(always)]
    fn me() -> TaskId {
        match TaskId::new(own().tid.get()) {
            Some(me) => me,
            None => enter_tid(),
        }
    }
    #[inline(always)]
    fn number() -> u32 {
        own().tid.get()
    }
    fn hurries() -> bool {
        URGENCY.with(Urgency::is_urgent)
    }
    fn dense(task: TaskId) -> TaskId {
        let dense = entry(task).map_or(0, |entry| entry.load(Relaxed)); // set before it locked
        TaskId::new(dense).expect("a lock word names a thread that never locked")
    }
    #[inline(always)]
    fn locks(record: &'static Record) -> &'static TaskRecord<LinuxPi> {
        &record.pi_locks
    }
}

/// Where a TID's record is said, if any of its page is.
fn entry(tid: TaskId) -> Option<&'static AtomicU32> {
    let (page, index) = (tid.number() as usize / 4096, tid.number() as usize % 4096);
    let page = TIDS[page].load(Acquire); // (T1)
    // SAFETY: `enter_tid` has mapped it as a page of zeroed entries, never unmapped.
    (!page.is_null()).then(|| unsafe { &(*page)[index] })
}

/// Gives the calling thread its kernel's number for its locks to go by.
#[cold]
fn enter_tid() -> TaskId {
    let dense = me();
    let tid = TaskId::new(tid()).expect("the kernel numbers threads from 1 on");
    map(&TIDS[tid.number() as usize / 4096], size_of::<Page>());
    let entry = entry(tid).expect("it was just mapped");
    entry.store(dense.number(), Relaxed); // the lock word that names the TID publishes it
    own().tid.set(tid.number());
    URGENCY.with(Urgency::ask);
    tid
}

/// The calling thread's number.
#[inline(always)]
pub fn me() -> TaskId {
    match TaskId::new(own().me.number()) {
        Some(me) => me,
        None => errno::kept(register),
    }
}

/// The calling thread's number, or 0 if it has none yet.
#[inline(always)]
pub fn number() -> u32 {
    own().me.number()
}

/// The calling thread's record, if it has one: then no lock has to register it. Its number comes
/// before, and goes right before as the thread ends.
#[inline(always)]
pub fn known() -> Option<&'static Record> {
    own().record.get()
}

/// The calling thread's record.
#[inline(always)]
pub fn mine() -> &'static Record {
    known().unwrap_or_else(mine_by_number)
}

/// Of its own, so that what stands in the caller's code is small.
#[cold]
#[inline(never)]
fn mine_by_number() -> &'static Record {
    record(me())
}

/// The record of a number that some thread has or had.
#[inline]
pub fn record(task: TaskId) -> &'static Record {
    let chunk = chunk_of(task);
    let records = TABLE[chunk].load(Acquire); // (T1) set before the number was known to anybody
    let index = task.number() - (FIRST << chunk);
    // SAFETY: a number exists only after `fresh` has mapped its chunk, which
    // holds `FIRST << chunk` records from number `FIRST << chunk` on, zeroed
    // (a valid record: atomics and the locks' nodes) and never unmapped. The
    // number reached us through a word that was written after that.
    unsafe { &*records.add(index as usize) }
}

/// Whether the task still runs in this process.
#[inline]
pub fn exists(task: TaskId) -> bool {
    !FORKED.load(Relaxed) || record(task).entry.thread.load(Relaxed) != 0
}

/// Whether this process is a fork's child.
pub fn is_fork() -> bool {
    FORKED.load(Relaxed) // set before the child's first lock
}

/// The records of all numbers that were ever given out.
pub fn records() -> impl Iterator<Item = &'static Record> {
    let numbers = (0..ROSTER.ever_taken()).map(numbered);
    numbers.filter(has_record).map(record)
}

fn has_record(task: &TaskId) -> bool {
    !TABLE[chunk_of(*task)].load(Acquire).is_null() // (T1)
}

/// The records of those that may read by a slot.
pub fn readers() -> impl Iterator<Item = &'static Record> {
    let numbers = READERS.each(ROSTER.ever_taken()).map(numbered);
    numbers.filter(has_record).map(record)
}

/// The calling thread may read by a slot from now on.
pub fn lists_reader() {
    READERS.list(me().number() - FIRST);
}

/// The thread is about to sleep, or has ended: nobody need look whether it reads, unless it does.
fn unlist_reader(task: TaskId) {
    let (number, record) = (task.number() - FIRST, record(task));
    if READERS.lists(number) && record.locks.unbinds_slots() && record.pi_locks.unbinds_slots() {
        READERS.unlist(number);
    }
}

/// Sleeps as the task until it is woken.
pub fn park(deadline: Option<Deadline>) -> Woken {
    let me = me();
    unlist_reader(me);
    park::park(&record(me).parker, deadline)
}

#[inline(always)]
const fn chunk_of(task: TaskId) -> usize {
    (task.number() / FIRST).ilog2() as usize
}

#[cold]
fn register() -> TaskId {
    // Nobody waits for another here, who may not be there after a fork. Two that come at
    // once both announce the handler, which does the same twice.
    static ANNOUNCED: AtomicBool = AtomicBool::new(false);
    if !ANNOUNCED.load(Acquire) {
        // SAFETY: the handler is a function of this crate, which stays loaded.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
        ANNOUNCED.store(true, Release); // who sees it need not announce it
    }
    if PROCESS.load(Relaxed) == 0 {
        PROCESS.store(process(), Relaxed); // all store the same
    }
    let me = unused();
    let record = record(me);
    record.parker.store(0, Relaxed); // nobody waits for this task yet
    ROSTER.enter(&record.entry, asked_tid());
    own().me.join(me.number());
    own().record.set(Some(record));
    begin_to_keep();
    if on_exit(me) && !was_another() {
        record.whereabouts.begin();
    }
    me
}

/// Whether the calling thread, which ends, may hold what it took by another number.
pub fn was_another() -> bool {
    own().me.was_another()
}

/// A record that is no thread's, until it is [`release`]d.
pub fn borrow() -> TaskId {
    errno::kept(unused)
}

/// A number that no thread has.
fn unused() -> TaskId {
    (ROSTER.take_free().map(numbered))
        .or_else(lost)
        .unwrap_or_else(fresh)
}

/// From now on locks may be reserved for the calling thread, if it has restartable
/// sequences.
pub fn begin_to_keep() {
    let restarts = rseq::init_thread();
    keeper().begin(restarts);
}

/// The kernel's number of the calling thread.
pub fn tid() -> u32 {
    record(me()).entry.thread.load(Relaxed) // its own
}

/// Whether the calling thread has the lock whose owner word is, or was, at this address. The
/// kernel compares, for there may be no memory any more; and does nothing else, since it is
/// to wake nobody and requeue nobody. It may mark a word that is the caller's, but not take
/// the mark off: so the bare number comes first.
fn is_mine(word: usize) -> bool {
    const OPERATION: i32 = libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
    [0, KERNEL_WAITERS].into_iter().any(|mark| {
        let mine = Tids::number() | mark;
        errno::kept(|| {
            // SAFETY: the kernel reads the word if it is mapped; it gives an error if it is
            // not.
            let compared =
                unsafe { libc::syscall(libc::SYS_futex, word, OPERATION, 0, 0_usize, word, mine) };
            let error = std::io::Error::last_os_error().raw_os_error();
            compared == 0 || !matches!(error, Some(libc::EAGAIN | libc::EFAULT))
        })
    })
}

fn process() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

fn asked_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The task of a number that is counted from `FIRST`.
fn numbered(number: u32) -> TaskId {
    TaskId::new(FIRST.saturating_add(number)).expect("numbers start at FIRST")
}

/// The number is no thread's.
pub fn release(task: TaskId) {
    ROSTER.give_back(task.number() - FIRST);
}

/// The number of a thread that is gone and was not told. After all destructors the C library
/// still frees memory, and if that takes a lock the thread has a number again.
fn lost() -> Option<TaskId> {
    if PROCESS.load(Relaxed) != process() {
        return None; // a copy that nobody told so: it would find all of them gone
    }
    let entry = |number| {
        let task = Some(numbered(number)).filter(has_record)?;
        Some(&record(task).entry)
    };
    let lost = ROSTER.take_lost(entry, is_gone).map(numbered)?;
    ended(lost);
    Some(lost)
}

/// Whether no thread of this process has that number of the kernel's. Then nothing that it did is
/// still on its way.
pub fn is_gone(tid: u32) -> bool {
    errno::kept(|| {
        // SAFETY: a signal of number 0 is not sent.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) };
        let error = std::io::Error::last_os_error().raw_os_error();
        sent != 0 && error == Some(libc::ESRCH)
    })
}

/// A number that nobody has had.
fn fresh() -> TaskId {
    let number = ROSTER.take_fresh();
    assert!(
        number < TaskId::MAX - FIRST,
        "more threads than Linux can have"
    );
    let task = numbered(number);
    let chunk = chunk_of(task);
    map(
        &TABLE[chunk],
        ((FIRST as usize) << chunk) * size_of::<Record>(),
    );
    task
}

/// Maps zeroed memory unless `place` has it already.
fn map<T>(place: &AtomicPtr<T>, bytes: usize) {
    // (T1) Acquire pairs with the Release below: what another mapped.
    if !place.load(Acquire).is_null() {
        return;
    }
    // SAFETY: a new private mapping at an address of the kernel's choice
    // touches no other memory.
    let mapped = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    };
    let Ok(mapped) = mapped else {
        let found = mapping::another_maps(place);
        return assert!(found, "no memory for the records of more threads");
    };
    // (T1) Release and Acquire: the loser uses the winner's.
    if place
        .compare_exchange(ptr::null_mut(), mapped.cast(), AcqRel, Acquire)
        .is_err()
    {
        // SAFETY: it was mapped above, by us, and nobody else has seen it.
        unsafe { rustix::mm::munmap(mapped, bytes) }.expect("the mapping is ours");
    }
}

/// Arranges for `on_thread_exit` to be called with the number. Returns whether it may be: where
/// it may not, the number is lost when the thread ends.
fn on_exit(me: TaskId) -> bool {
    static AT_EXIT: AtExit = AtExit::new(on_thread_exit);
    AT_EXIT.ask(me.number() as usize)
}

/// A thread ends, after the thread-local destructors of Rust and C++. Destructors of other keys
/// may release what it holds, which they can by the number that it has now: it is given back in
/// the next round. Those of that round may lock, too, and then it registers again.
extern "C" fn on_thread_exit(value: *mut libc::c_void) {
    let told = value.addr() as u32;
    let Some(me) = TaskId::new(told).filter(|_| own().me.number() == told) else {
        return;
    };
    if !own().ends.replace(true) && on_exit(me) {
        return;
    }
    if own().me.leave(told) {
        own().record.set(None);
        own().tid.set(0);
        whereabouts::show_no_more();
        keeper().begin(false); // what was reserved for `me` is the next one's
        ended(me);
        release(me);
    }
}

/// The thread of this number is none any more.
fn ended(task: TaskId) {
    record(task).entry.leave();
    record(task).whereabouts.end();
    unlist_reader(task);
}

/// In a fork's child only the forking thread is left. The others' numbers are
/// never reused, for queues may still hold them.
extern "C" fn after_fork_in_child() {
    rseq::after_fork_in_child();
    if !rseq::init_thread() {
        keeper().begin(false);
    }
    let mine = TaskId::new(own().me.number()).map(record);
    for record in records() {
        let mine = mine.is_some_and(|mine| ptr::eq(mine, record));
        if mine {
            record.entry.thread.store(asked_tid(), Relaxed); // the child has one thread
        } else {
            record.entry.leave(); // nobody else is here
            record.announcement.forget();
        }
        record.whereabouts.after_fork_in_child(mine);
    }
    // What it held by the parent's number it does not hold by its own.
    own().tid.set(0);
    keeper().holds_none();
    futex::after_fork_in_child();
    PROCESS.store(process(), Relaxed); // the child has one thread
    FORKED.store(true, Relaxed); // likewise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_looked_at_by_no_writer() {
        let is_shown = || readers().any(|reader| ptr::eq(reader, record(me())));
        assert!(!is_shown());
        for _ in 0..2 {
            lists_reader();
            assert!(is_shown());
            park::unpark(&record(me()).parker);
            assert_eq!(park(None), Woken::Unparked);
            assert!(!is_shown());
        }
    }

    /// A signal handler forks while its thread is inside, and returns in the child.
    #[test]
    fn who_forks_inside_is_inside_in_the_child() {
        let me = record(me());
        let (guard, mut pid) = (AtomicU32::new(0), 0);
        me.announcement.store_if(&guard, 0, || {
            // SAFETY: the child looks at a word, and ends without destructors.
            pid = unsafe { libc::fork() };
            if pid == 0 {
                let code = i32::from(!me.announcement.is_inside());
                // SAFETY: ending a process has no conditions.
                unsafe { libc::_exit(code) };
            }
        });
        assert!(pid > 0, "there is no forking");
        let mut status = 0;
        // SAFETY: `status` is writable, and the child was not waited for yet.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!((ended, status), (pid, 0));
    }
}
