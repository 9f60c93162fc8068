//! The memory and the reduction: litmus tests, an oracle, loom, and random
//! programs.

mod axioms;
mod fork;
mod kernel;
mod litmus;
mod loom;
mod pair;
mod program;
mod reduction;

/// Random numbers below an end: xorshift (Marsaglia, 2003).
fn random(mut state: u64) -> impl FnMut(usize) -> usize {
    move |end| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % end as u64) as usize
    }
}
