//! `lockyard futex-wake`: `perf bench futex wake`, on our futex and the kernel's.

use lockyard_torture::futexblock::Act;

use crate::{
    failure::Failure,
    futex_block::{self, Common},
    values,
};

/// Measure how fast threads that wait for a futex are woken
///
/// As `perf bench futex wake`: threads, each kept on one CPU, block for one futex, and one
/// thread wakes them, so many at a time. Ours and the kernel's take turns. What is measured
/// is the waker's time: the woken may not run yet.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,

    /// How many threads are woken at a time
    #[arg(short = 'w', long, value_name = "N", default_value = "1")]
    #[arg(value_parser = values::threads, allow_negative_numbers = true)]
    nwakes: usize,

    /// Each thread waits for a futex of its own
    #[arg(long, conflicts_with = "nwakes")]
    distinct: bool,
}

/// Measures both kinds of futex.
pub fn run(args: &Args) -> Result<(), Failure> {
    let act = match args.distinct {
        true => Act::WakeEach,
        false => Act::Wake(args.nwakes as u32),
    };
    futex_block::run(&args.common, act)
}
