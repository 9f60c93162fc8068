//! A stateless model checker, and the world that it is for the locks.
//!
//! [`Explorer::check`] runs a model in every way in which its threads can
//! interleave and its loads can be answered under C11 without load buffering
//! (see `memory.rs` for the model, `trail.rs` for how executions that differ
//! only in the order of independent steps are explored once). A failure is
//! printed with a timeline and a string that [`Explorer::replay`] takes.
//!
//! What is explored completely is the model within its limits: so many whims
//! ([`Explorer::whims`]) and spurious wake-ups ([`Wakes::Permissive`]) for each
//! thread. In a spin, what `done` says of a value must depend on the value
//! alone, and `stop` must only read.

mod execution;
mod explore;
mod fiber;
mod memory;
mod op;
mod timeline;
mod tracked;
mod trail;
mod word;
mod world;

pub use explore::{Explorer, Failure, Report, Wakes};
pub use tracked::Tracked;
pub use word::{CheckWord, afterwards, fence, free, history, limit_whims, name, spawn};
pub use world::Check;
