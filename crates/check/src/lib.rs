//! A stateless model checker, and the world that it is for the locks.
//!
//! [`Explorer::check`] runs a model in every way in which its threads can
//! interleave and its loads can be answered under C11 without load buffering.
//! A failure is printed with a timeline and a string that [`Explorer::replay`]
//! takes.
//!
//! ```
//! use std::rc::Rc;
//!
//! use lockyard_check::{Check, Explorer, Tracked, afterwards, spawn};
//! use lockyard_core::RawMutex;
//!
//! let report = Explorer::new().check(|| {
//!     let shared = Rc::new((RawMutex::<Check>::new(), Tracked::new(0)));
//!     for _ in 0..2 {
//!         let shared = Rc::clone(&shared);
//!         spawn(move || {
//!             let (mutex, payload) = &*shared;
//!             mutex.lock();
//!             payload.set(payload.get() + 1); // a data race, were it not locked
//!             // SAFETY: locked above.
//!             unsafe { mutex.unlock() };
//!         });
//!     }
//!     afterwards(move || assert_eq!(shared.1.get(), 2));
//! });
//! assert!(report.unwrap().executions > 1);
//! ```
//!
//! What is explored is complete, but for:
//! - limits that the model sets: how many rare things ([`Explorer::whims`]) and
//!   spurious wake-ups ([`Wakes::Permissive`]) a thread may meet;
//! - spinners that give up after so many looks although something else could end
//!   their spin; and all that do whose `stop` reads a word: these look for ever;
//! - load buffering, which the memory does not show (nor does RC11);
//! - what `SeqCst` fences leave open between two threads of which a third relays, by relaxed
//!   accesses, that one has passed its fence: here that orders the two;
//! - what depends on a spinner that read a value it does not wait for: such a
//!   look neither synchronises nor keeps the spinner from reading older ones.
//!
//! What a model may see that C11 forbids: `SeqCst` *accesses* are no more than
//! `AcqRel` ones; the time and what runs are as the
//! checker likes, for each thread on its own.
//!
//! In a spin, what `done` says of a value must depend on the value alone;
//! `stop` must only read and ask.

mod execution;
mod explore;
mod fiber;
mod memory;
mod op;
mod paging;
mod timeline;
mod tracked;
mod trail;
mod word;
mod world;

pub use explore::{Explorer, Failure, Report, Wakes};
pub use paging::memory;
pub use tracked::Tracked;
pub use word::{
    CheckWord, afterwards, fence, free, history, limit_whims, name, spawn, spawn_in_child,
};
pub use world::{
    Check, CheckCounter, Forks, await_boost, await_lent, be_urgent, become_another, die,
    lent_levels, level, set_level,
};
