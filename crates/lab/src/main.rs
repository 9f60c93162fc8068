//! The lab's command: lists locks, loads them and compares them with their
//! rivals.

mod calibrate;
mod cli;
mod compare;
mod events;
mod explore;
mod failure;
mod format;
mod futex_block;
mod futex_crowd;
mod futex_hash;
mod futex_pingpong;
mod futex_requeue;
mod futex_wake;
mod inherited;
mod locks;
mod locktest;
mod machine;
mod mean;
mod measure;
mod ours;
mod pi_stress;
mod place;
mod program;
mod record;
mod registry;
mod reproduce;
mod run;
mod screen;
mod simulation;
mod torture;
mod usage;
mod validate;
mod values;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
