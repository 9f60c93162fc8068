//! Locks from the textbook, generic over the world they run in.
//!
//! All but [`Drepper`] spin however long it takes: with more tasks than CPUs
//! they wait for tasks that are not running.

mod drepper;
mod mcs;
mod per_task;
mod tas;
mod ticket;

pub use drepper::Drepper;
pub use mcs::Mcs;
pub use tas::Tas;
pub use ticket::Ticket;
