//! The order validator: learns in which order a program takes its locks, and reports a
//! deadlock when it becomes possible, not only when it happens.
//!
//! Locks call [`wants`] before they wait, [`took`] once they are taken, [`released`] before
//! they are released, [`destroyed`] when they cease to be; and have a [`Tag`] of zero in
//! them. `docs/deadlock.md` says what is reported.
//!
//! It may be called from inside an allocator and under any lock: to see what is known it
//! neither allocates nor takes a lock of the C library's. It allocates to make a report,
//! when it has released its own lock. Its tables are of fixed size; the bounds are in
//! `graph.rs`, `held.rs` and `thread.rs`.

mod graph;
mod held;
mod lock;
mod lookup;
mod mode;
mod report;
mod signals;
mod stack;
mod stderr;
mod thread;

use std::ffi::c_int;

use corosensei::stack::DefaultStack;
use graph::{Found, Mapped};
use held::Held;
use lock::Known;
pub use lock::{Kind, Lock, Tag};
use lockyard_linux::{Linux, errno};
pub use lookup::Lookup;
pub use mode::Mode;
use report::{Inversion, Limit, Misuse};
pub use report::{reports, say};
pub use signals::PutOff;
use stack::Stack;
pub use stderr::{keep_stderr, write_stderr};
pub use thread::on_fork;
use thread::{Thread, enter, records};

/// Who has it calls nothing that locks.
static GRAPH: lock_api::Mutex<lockyard_core::RawMutex<Linux>, Mapped> =
    lock_api::Mutex::new(Mapped::new());

/// The calling thread is about to wait for a lock, for as long as it takes: it may be
/// reported. Where it waits with a deadline it gets on, and this is not called.
pub fn wants(lock: Lock, mode: Mode) {
    let Some(me) = enter() else { return };
    if !me.holds.trim() {
        wants_beside(&me, &lock.make_known(), mode);
    }
}

/// The calling thread is about to release a lock that it holds, and to want it again, with all
/// else that it holds: it waits for a condition. It is seen to hold it still.
pub fn wants_back(lock: Lock, mode: Mode) {
    let Some(me) = enter() else { return };
    let lock = lock.make_known();
    if let Some(held) = me.holds.find(lock.address, None) {
        held.take_out(lock.address);
        if me.holds.iter().next().is_some() {
            wants_beside(&me, &lock, mode);
        }
        held.put_back(lock.address);
    }
}

/// The thread holds something, and wants the lock.
fn wants_beside(me: &Thread, lock: &Known, mode: Mode) {
    let mut own = me.holds.of(lock.address);
    if let Some(held) = own.find(|held| waits_for_own(lock, mode, held)) {
        wants_own(me, lock, mode, held);
    }
    let chain = me.holds.chain(lock, mode);
    if !me.knows(chain) {
        learn(me, lock, mode);
        me.remember(chain);
    }
}

#[cold]
#[inline(never)]
fn learn(me: &Thread, lock: &Known, mode: Mode) {
    let chain = me.holds.chain(lock, mode);
    let mut graph = GRAPH.lock();
    if graph.if_any().is_some_and(|graph| graph.knows(chain)) {
        return; // from another thread
    }
    drop(graph);
    let at = Stack::capture();
    let mut graph = GRAPH.lock();
    let found = match graph.get() {
        Some(graph) => graph.learn(me.tid(), &me.holds, lock, mode, &at),
        None => Found::Limit(Limit::Memory),
    };
    match found {
        Found::Nothing => {}
        Found::Cycle(edges) => {
            on_own_stack(move || {
                let inversion = graph.if_any().map(|graph| Inversion::of(graph, edges));
                drop(graph);
                inversion.iter().for_each(Inversion::report);
            });
        }
        Found::Limit(limit) => {
            drop(graph);
            limit.say_once();
        }
    }
}

/// Whether who wants the lock waits for `held`, a hold of its own of a lock at that address,
/// which is not perhaps another's by now.
fn waits_for_own(lock: &Known, mode: Mode, held: &Held) -> bool {
    let upgrades = mode == Mode::Upgrade && held.mode() == Mode::Upgradable;
    let is_own = held.lock().key == lock.key && held.mode() != Mode::SharedPassable;
    is_own && !upgrades && mode.waits_for(held.mode())
}

/// The thread holds already what it is about to wait for.
#[cold]
fn wants_own(me: &Thread, lock: &Known, mode: Mode, held: &Held) {
    let if_writer = match mode.waits_behind_writers_for(held.mode()) {
        true => " as soon as a writer waits between its two reads",
        false => "",
    };
    report(
        format_args!("thread {} waits for itself{if_writer}", me.tid()),
        lock,
        (me.tid(), held),
    );
}

/// Reports what the calling thread does now.
fn report(what: std::fmt::Arguments, lock: &Known, holder: (u32, &Held)) {
    report_at(Some(Stack::capture()), what, lock, holder);
}

fn report_at(
    at: Option<Stack>,
    what: std::fmt::Arguments,
    lock: &Known,
    (thread, held): (u32, &Held),
) {
    let misuse = Misuse {
        what,
        lock: *lock,
        at,
        holder: (thread, held.mode(), held.stack()),
    };
    if misuse.is_first() {
        on_own_stack(|| misuse.report()); // or it is not said
    }
}

unsafe extern "C" {
    /// The C library's.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const DISABLE: c_int = 1; // of cancellation

/// Does work on a stack of 256 KiB, for the thread's may be small; not at all without memory for
/// it. The thread is not cancelled meanwhile, as it would not be in a lock, and `errno` stays.
pub fn on_own_stack<R>(work: impl FnOnce() -> R) -> Option<R> {
    const BYTES: usize = 1 << 18;
    let mut state = 0;
    // SAFETY: the state is writable.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut state) };
    let done = errno::kept(|| {
        let stack = DefaultStack::new(BYTES).ok()?;
        Some(corosensei::on_stack(stack, work))
    });
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(state, &raw mut state) };
    done
}

/// The calling thread has taken a lock, however it did.
pub fn took(lock: Lock, mode: Mode) {
    let Some(me) = enter() else { return };
    me.holds.trim();
    let lock = lock.make_known();
    if mode == Mode::Exclusive {
        // What it held at the address was another lock, and is no more.
        while let Some(stale) = me.holds.find(lock.address, None) {
            stale.take_out(lock.address);
        }
    }
    let at = me.stack(me.holds.chain(&lock, mode));
    if !me.holds.push(&lock, mode, &at) {
        Limit::Held.say_once();
    }
}

/// The calling thread holds a lock in mode `now`, not `before`: it was upgraded or downgraded.
pub fn changed(lock: Lock, before: Mode, now: Mode) {
    let Some(me) = enter() else { return };
    if let Some(held) = me.holds.find(lock.address, Some(before)) {
        held.set_mode(now);
    }
}

/// The calling thread is about to release a lock, which a reader may do for another thread.
/// The mode, if it is known, is that in which it has it.
pub fn released(lock: Lock, mode: Option<Mode>) {
    let Some(me) = enter() else { return };
    match me.holds.find(lock.address, mode) {
        Some(held) => {
            held.take_out(lock.address);
            me.holds.trim();
        }
        None => release_for_another(&me, lock),
    }
}

/// The calling thread tried to release a lock that is another's, and was refused.
pub fn refused(lock: Lock) {
    let Some(me) = enter() else { return };
    if let Some(lock) = lock.known() {
        strange(&me, &lock);
    }
}

#[cold]
#[inline(never)]
fn release_for_another(me: &Thread, lock: Lock) {
    if !me.holds.release_unseen()
        && let Some(lock) = lock.known()
        && let Some(held) = strange(me, &lock)
    {
        held.take_out(lock.address);
    }
}

/// The thread unlocks what another holds. Returns that.
fn strange(me: &Thread, lock: &Known) -> Option<&'static Held> {
    let (thread, held) = holder(lock)?;
    if !held.mode().is_shared() {
        let what = format_args!(
            "thread {} unlocks what thread {} holds",
            me.tid(),
            thread.tid()
        );
        report(what, lock, (thread.tid(), held));
    }
    Some(held)
}

/// Some thread that holds the lock.
fn holder(lock: &Known) -> Option<(&'static Thread, &'static Held)> {
    records().find_map(|thread| {
        let held = thread.holds.find(lock.address, None)?;
        (held.lock().key == lock.key).then_some((thread, held))
    })
}

/// A lock is destroyed, and `held` if it is locked.
pub fn destroyed(lock: Lock, held: bool) {
    let Some(known) = lock.known() else { return };
    let Some(me) = enter() else { return };
    if held && let Some((thread, held)) = holder(&known) {
        let what = format_args!(
            "thread {} destroys what thread {} holds",
            me.tid(),
            thread.tid()
        );
        report(what, &known, (thread.tid(), held));
        held.take_out(known.address);
    }
    if let Some(graph) = GRAPH.lock().if_any() {
        graph.gone(known.key);
    }
    lock.make_unknown();
}

/// The calling thread ends.
fn exits(me: &Thread) {
    let is_own = |held: &&Held| held.mode() != Mode::SharedPassable; // not perhaps passed on
    for held in me.holds.iter().filter(is_own) {
        report_at(
            None,
            format_args!("thread {} ends without unlocking what it holds", me.tid()),
            &held.lock(),
            (me.tid(), held),
        );
    }
}
