//! Variants of the locks: the workspace with a change to `crates/core`, under
//! the models.

mod code;
mod models;
mod tree;

pub use code::Code;
pub use models::{Catch, Models, Suite, Verdict, compile};
#[cfg(test)]
pub use tree::CORE;
pub use tree::Tree;
