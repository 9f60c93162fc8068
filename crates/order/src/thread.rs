//! A record of each thread, never freed: others look into it.

use std::{
    cell::Cell,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
        compiler_fence,
    },
};

use lockyard_linux::{errno, exit::AtExit, is_gone};

use crate::{
    GRAPH, graph,
    held::Holds,
    lookup,
    report::{self, Limit},
    stack::{Shown, Stack, mix},
};

/// Threads that are watched at a time.
const THREADS: u32 = 1 << 12;
/// Chains that a thread remembers to have told.
const KNOWN: usize = 1 << 10;
/// Stacks that a thread remembers.
const STACKS: usize = 1 << 8;
/// Both are in one of so many places from that of their hash on.
const PLACES: usize = 1 << 3;

/// What is known of a thread; zero bytes are a record of nobody.
pub struct Thread {
    /// The next record, mapped before this one.
    next: AtomicPtr<Thread>,
    used: AtomicBool,
    tid: AtomicU32,
    pub holds: Holds,
    known: [AtomicU64; KNOWN],
    /// The graph's age when `known` was last empty.
    age: AtomicU32,
    stacks: [(AtomicU64, Shown); STACKS],
}

/// The latest record.
static RECORDS: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The thread is inside this crate, or was refused.
const INSIDE: u32 = 1;
const REFUSED: u32 = 2;

thread_local! {
    /// No destructor: it can be read as long as the thread runs.
    static STATE: Cell<u32> = const { Cell::new(0) };
    static RECORD: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    /// Rounds of destructors of the thread's end.
    static ROUNDS: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, what the thread's locks do is not seen: those of this crate's own work,
/// and of signal handlers that interrupt it.
pub struct Inside {
    me: &'static Thread,
    /// The caller's, which stays.
    _errno: errno::Kept,
}

impl Drop for Inside {
    fn drop(&mut self) {
        compiler_fence(Release); // what was done inside, before a handler may come in
        STATE.set(0);
    }
}

impl std::ops::Deref for Inside {
    type Target = Thread;

    fn deref(&self) -> &Thread {
        self.me
    }
}

/// `None` when the thread is inside already, or is one too many.
#[inline]
pub fn enter() -> Option<Inside> {
    if STATE.get() != 0 {
        return None;
    }
    STATE.set(INSIDE);
    compiler_fence(Acquire); // no handler comes in before what is done inside
    let _errno = errno::Kept::now();
    // SAFETY: it is null, or a record that is never unmapped.
    let me = unsafe { RECORD.get().as_ref() }.or_else(register)?;
    Some(Inside { me, _errno })
}

#[cold]
#[inline(never)]
fn register() -> Option<&'static Thread> {
    let free = || records().find(|record| record.claim());
    let found = free().or_else(|| if forget_gone() { free() } else { None });
    let Some(me) = found.or_else(map) else {
        STATE.set(REFUSED);
        Limit::Threads.say_once();
        return None;
    };
    me.tid.store(tid(), Relaxed); // for a report
    me.holds.clear();
    for (known, _) in &me.stacks {
        known.store(0, Relaxed); // they were another's
    }
    RECORD.set(me);
    on_fork();
    on_exit(me);
    Some(me)
}

impl Thread {
    fn claim(&self) -> bool {
        // (R1) Acquire pairs with the Release of who used it before.
        !self.used.load(Relaxed) && !self.used.swap(true, Acquire)
    }

    fn release(&self) {
        self.tid.store(0, Relaxed); // it is nobody's
        self.holds.clear();
        self.used.store(false, Release); // (R1)
    }

    /// The kernel's number of the thread.
    pub fn tid(&self) -> u32 {
        self.tid.load(Relaxed) // for a report
    }

    /// Whether the thread has told of a chain, and it was not forgotten since.
    pub fn knows(&self, chain: u64) -> bool {
        let age = graph::age();
        if self.age.load(Relaxed) != age {
            self.known.iter().for_each(|known| known.store(0, Relaxed)); // its own, all of it
            self.age.store(age, Relaxed);
        }
        self.places(chain).any(|known| known.load(Relaxed) == chain) // its own
    }

    /// The stack of the caller, as it was when the thread was last known to do the same at
    /// the same depth of its stack: to unwind takes microseconds.
    #[inline(never)]
    pub fn stack(&self, chain: u64) -> Stack {
        let depth = 0_u8;
        let key = mix(chain, (&raw const depth).addr() as u64) | 1;
        let place = |at: usize| &self.stacks[((key >> 40) as usize + at) % STACKS];
        let mut places = (0..PLACES).map(place);
        let fits = |known: u64| known == key || known == 0;
        let found = places.find(|(known, _)| fits(known.load(Relaxed))); // its own
        let (known, stack) = found.unwrap_or(place((key >> 50) as usize % PLACES));
        if known.load(Relaxed) != key {
            stack.set(&Stack::capture());
            known.store(key, Relaxed); // its own
        }
        stack.get()
    }

    pub fn remember(&self, chain: u64) {
        let free = self.places(chain).find(|known| known.load(Relaxed) == 0); // its own
        let place = free.unwrap_or(&self.known[(chain >> 40) as usize % KNOWN]);
        place.store(chain, Relaxed); // likewise
    }

    fn places(&self, chain: u64) -> impl Iterator<Item = &AtomicU64> {
        (0..PLACES).map(move |at| &self.known[((chain >> 40) as usize + at) % KNOWN])
    }
}

fn tid() -> u32 {
    // SAFETY: it has no clause.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// All that there are, of threads and of nobody.
pub fn records() -> impl Iterator<Item = &'static Thread> {
    let record = |at: *mut Thread| {
        // SAFETY: it is null, or was mapped zeroed, which is valid, and is never unmapped;
        // (R2) Acquire below has what was written to it before it was put there.
        unsafe { at.as_ref() }
    };
    let next = move |at: &&'static Thread| record(at.next.load(Acquire));
    std::iter::successors(record(RECORDS.load(Acquire)), next)
}

/// Gives back the records of threads that are gone: one that took its first lock after its last
/// destructor has not said so. It looks when there are twice as many records as last time, and
/// none is free. Returns whether it looked.
fn forget_gone() -> bool {
    const FEW: u32 = 64;
    let count = COUNT.load(Relaxed);
    let looks = count >= FEW && count.is_power_of_two();
    if looks {
        for record in records() {
            let tid = record.tid();
            // One that looks has it, and no thread that has it again by now loses it.
            let gone = tid != 0 && is_gone(tid);
            if gone
                && record
                    .tid
                    .compare_exchange(tid, 0, Relaxed, Relaxed)
                    .is_ok()
            {
                record.release();
            }
        }
    }
    looks
}

/// A new record, in use.
fn map() -> Option<&'static Thread> {
    if COUNT.fetch_add(1, Relaxed) >= THREADS {
        COUNT.fetch_sub(1, Relaxed); // it is a bound, no more
        return None;
    }
    // SAFETY: a new private mapping at an address of the kernel's choice touches no other
    // memory.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<Thread>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let at: *mut Thread = mapped.cast();
    // SAFETY: it is mapped, aligned to a page, zeroed, which is valid, and never unmapped.
    let record: &'static Thread = unsafe { &*at };
    record.used.store(true, Relaxed); // published below
    let mut latest = RECORDS.load(Relaxed); // checked by the exchange
    loop {
        record.next.store(latest, Relaxed); // published by the exchange
        // (R2) Release pairs with the Acquire of `records`.
        match RECORDS.compare_exchange(latest, at, AcqRel, Relaxed) {
            Ok(_) => return Some(record),
            Err(now) => latest = now,
        }
    }
}

/// Arranges for `on_thread_exit` to be called. Where it may not be, the record is lost when the
/// thread ends.
fn on_exit(me: &'static Thread) {
    static AT_EXIT: AtExit = AtExit::new(on_thread_exit);
    AT_EXIT.ask(ptr::from_ref(me).expose_provenance());
}

/// A thread ends. Destructors of others may release what it holds, in as many rounds as
/// there are: it is the last that counts. While it holds nothing it needs no record; if a
/// destructor still takes a lock, it has one again.
extern "C" fn on_thread_exit(record: *mut libc::c_void) {
    const LAST: u32 = 3; // of PTHREAD_DESTRUCTOR_ITERATIONS, from 0
    // SAFETY: `on_exit` has put a record there.
    let me: &'static Thread = unsafe { &*record.cast() };
    if !ptr::eq(me, RECORD.get()) {
        return; // an earlier thread's, that had this stack and locked after its last destructor
    }
    let is_last = ROUNDS.get() == LAST;
    if !is_last && !me.holds.trim() {
        ROUNDS.set(ROUNDS.get() + 1);
        return on_exit(me);
    }
    if let Some(me) = enter() {
        crate::exits(&me);
    }
    if is_last {
        STATE.set(REFUSED); // what it still does is not seen
    }
    RECORD.set(ptr::null());
    me.release();
}

/// The graph is whole in a fork's child, whose other threads are gone, and names can be looked
/// up there. Called before the program has handlers of its own, these may still lock.
pub fn on_fork() {
    static ANNOUNCED: AtomicBool = AtomicBool::new(false);
    if !ANNOUNCED.swap(true, Relaxed) {
        // SAFETY: the handlers are functions of this crate, which stays loaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    }
}

thread_local! {
    /// How often the thread forks: once, and once more in each signal handler that interrupts
    /// that. The first has the graph's lock and that of lookups.
    static FORKS: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn before_fork() {
    let depth = FORKS.get();
    if depth > 0 {
        FORKS.set(depth + 1);
    } else if STATE.get() != INSIDE {
        STATE.set(INSIDE);
        FORKS.set(1);
        errno::kept(lookup::before_fork); // first: under the graph's lock nothing waits for long
        std::mem::forget(GRAPH.lock());
    }
}

extern "C" fn after_fork() {
    let depth = FORKS.get();
    FORKS.set(depth.saturating_sub(1));
    if depth == 1 {
        // SAFETY: the thread has locked it before the fork.
        unsafe { GRAPH.force_unlock(lock_api::GuardNoSend::new()) };
        lookup::after_fork();
        STATE.set(0);
    }
}

extern "C" fn in_child() {
    for record in records() {
        if ptr::eq(record, RECORD.get()) {
            record.tid.store(tid(), Relaxed); // for a report
        } else {
            record.release();
        }
    }
    report::after_fork_in_child();
    after_fork();
}
