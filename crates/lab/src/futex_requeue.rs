//! `lockyard futex-requeue`: `perf bench futex requeue`, on our futex and the kernel's.

use lockyard_torture::futexblock::Act;

use crate::{
    failure::Failure,
    futex_block::{self, Common},
    values,
};

/// Measure how fast threads that wait for a futex are moved to another
///
/// As `perf bench futex requeue`: threads, each kept on one CPU, block for one futex, and
/// one thread has them wait for another futex, so many at a time. Ours and the kernel's
/// take turns.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// How many threads are moved at a time
    #[arg(short = 'q', long, value_name = "N", default_value = "1")]
    #[arg(value_parser = values::threads, allow_negative_numbers = true)]
    nrequeue: usize,
}

/// Measures both kinds of futex.
pub fn run(args: &Args) -> Result<(), Failure> {
    futex_block::run(&args.common, Act::Requeue(args.nrequeue as u32))
}
