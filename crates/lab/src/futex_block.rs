//! What `futex-wake` and `futex-requeue` share: threads block for a futex, ours and the
//! kernel's in turn.

use std::{io, process, sync::atomic::AtomicU32, time::Duration};

use lockyard_linux::futex::{
    self as ours,
    shared::{self, Region},
};
use lockyard_torture::{
    futexblock::{self, Act, Futex, Waiters},
    futexhash::{self, Memory},
};
use rustix::thread::futex::{self, Flags};
use serde::Serialize;

use crate::{
    failure::Failure,
    format,
    mean::{mean, spread_pct},
    measure,
    place::Place,
    record::rounded,
    screen,
    values::{self, World},
};

/// The flags of both.
#[derive(clap::Args)]
pub struct Common {
    /// How many threads block [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = values::threads)]
    #[arg(allow_negative_numbers = true)]
    threads: Option<usize>,

    /// How many times each kind of futex is measured
    #[arg(short, long, value_name = "N", default_value = "10")]
    #[arg(value_parser = values::runs, allow_negative_numbers = true)]
    runs: u32,

    /// Measure the futexes that processes can share. Ours cannot requeue: there it is the
    /// private one
    #[arg(short = 'S', long)]
    shared: bool,

    /// Print one JSON object per kind of futex
    #[arg(long)]
    json: bool,
}

/// A kind of futex.
#[derive(Clone, Copy)]
struct Kind {
    lock: &'static str,
    shared: bool,
    /// Maps so many of its words.
    words: fn(usize) -> io::Result<&'static [AtomicU32]>,
    futex: Futex,
}

const OURS: Kind = Kind {
    lock: "futex",
    shared: false,
    words: |count| futexhash::words(Memory::Anonymous, count),
    futex: Futex {
        wait: |word| {
            ours::wait(word, 0, None);
        },
        wake: |word, most| ours::wake(word, most),
        waiters: Waiters::Requeued(|from, to, most| ours::requeue(from, to, 0, most).moved),
    },
};

const PRIVATE: Kind = Kind {
    lock: "kernel-private",
    futex: Futex {
        wait: |word| wait(word, Flags::PRIVATE),
        wake: |word, most| wake(word, Flags::PRIVATE, most),
        waiters: Waiters::Requeued(|from, to, most| requeue(from, to, Flags::PRIVATE, most)),
    },
    ..OURS
};

const OURS_SHARED: Kind = Kind {
    lock: "futex-shared",
    shared: true,
    words: |count| Ok(Box::leak(Box::new(Region::open(Region::file(count)?)?)).words()),
    futex: Futex {
        wait: |word| {
            shared::wait(word, 0, None);
        },
        wake: |word, most| shared::wake(word, most),
        // The queues are the kernel's, which counts whom it moves from a word to itself.
        waiters: Waiters::Counted(|word| requeue(word, word, Flags::empty(), ALL)),
    },
};

const SHARED: Futex = Futex {
    wait: |word| wait(word, Flags::empty()),
    wake: |word, most| wake(word, Flags::empty(), most),
    waiters: Waiters::Requeued(|from, to, most| requeue(from, to, Flags::empty(), most)),
};

const SHARED_FILE: Kind = Kind {
    lock: "kernel-shared-file",
    shared: true,
    words: |count| futexhash::words(Memory::File, count),
    futex: SHARED,
};

/// As perf's: this process's memory, by a key that would serve others as well.
const SHARED_ANONYMOUS: Kind = Kind {
    lock: "kernel-shared-anonymous",
    shared: true,
    futex: SHARED,
    ..OURS
};

/// The most that the kernel takes.
const ALL: u32 = i32::MAX.cast_unsigned();

fn wait(word: &AtomicU32, flags: Flags) {
    // A signal may interrupt it.
    while futex::wait(word, flags, 0, None).is_err() {}
}

fn wake(word: &AtomicU32, flags: Flags, most: u32) -> u32 {
    let woken = futex::wake(word, flags, most.min(ALL));
    woken.expect("a futex wake on a mapped word cannot fail") as u32
}

fn requeue(from: &AtomicU32, to: &AtomicU32, flags: Flags, most: u32) -> u32 {
    let moved = futex::cmp_requeue(from, flags, 0, most.min(ALL), to, 0);
    moved.expect("the word is 0, and stays 0") as u32
}

/// Does it to the threads of each kind of futex, in turns, and prints what that took.
///
/// # Errors
/// This machine cannot start so many threads, or results could not be written.
pub fn run(args: &Common, act: Act) -> Result<(), Failure> {
    let threads = args.threads.unwrap_or_else(|| Place::Here.cpus());
    measure::can_start(threads + 1)?;
    let act = match act {
        Act::Requeue(most) => Act::Requeue(most.min(threads as u32)), // as perf
        other => other,
    };
    let kinds = match (args.shared, act) {
        (false, _) => [OURS, PRIVATE],
        (true, Act::Wake(_) | Act::WakeEach) => [OURS_SHARED, SHARED_FILE],
        (true, Act::Requeue(_)) => [OURS, SHARED_ANONYMOUS],
    };
    let measured = |kind: Kind| -> Result<_, Failure> {
        let words = (kind.words)(threads + 1).map_err(|why| {
            Failure::Usage(format!(
                "--threads '{threads}': no memory for their words ({why})"
            ))
        })?;
        Ok(Measured {
            kind,
            act,
            threads,
            words,
            ms: Vec::new(),
        })
    };
    let mut all = [measured(kinds[0])?, measured(kinds[1])?];
    screen::take_turns(
        &mut all,
        args.runs,
        "runs",
        |measured| measured.kind.lock,
        Measured::run,
    );
    let measured = all.iter().filter(|kind| !kind.ms.is_empty());
    if args.json {
        let records: Vec<_> = measured.map(Measured::record).collect();
        screen::print(&screen::json_lines(&records))?;
    } else {
        let texts: String = measured.map(Measured::text).collect();
        screen::print(&(texts + &ratio(&all)))?;
    }
    Ok(())
}

/// What was measured of a kind so far.
struct Measured {
    kind: Kind,
    act: Act,
    threads: usize,
    words: &'static [AtomicU32],
    /// How long each run took.
    ms: Vec<f64>,
}

impl Measured {
    fn run(&mut self) {
        let threads = self.threads as u32;
        let took: Duration = futexblock::run(self.kind.futex, self.act, threads, self.words);
        self.ms.push(took.as_secs_f64() * 1e3);
    }

    fn record(&self) -> Record {
        let (operation, at_a_time) = match self.act {
            Act::Wake(most) => ("wake", most),
            Act::WakeEach => ("wake-each", 1),
            Act::Requeue(most) => ("requeue", most),
        };
        let ms = |ms: f64| rounded(ms, 1e6);
        Record {
            world: World::Native,
            operation,
            lock: self.kind.lock,
            threads: self.threads,
            at_a_time,
            shared: self.kind.shared,
            runs: self.ms.len(),
            ms_min: ms(self.ms.iter().copied().fold(f64::INFINITY, f64::min)),
            ms_mean: ms(mean(&self.ms)),
            ms_max: ms(self.ms.iter().copied().fold(0.0, f64::max)),
            spread_pct: rounded(spread_pct(&self.ms), 1e2),
        }
    }

    /// The lines of perf.
    fn text(&self) -> String {
        let (lock, pid, threads) = (self.kind.lock, process::id(), self.threads);
        let shared = match self.kind.shared {
            true => "shared",
            false => "private",
        };
        let (to, from) = (&raw const self.words[0], &raw const self.words[1]);
        let (does, did) = match self.act {
            Act::Wake(most) => (
                format!(
                    "blocking on {threads} threads (at [{shared}] futex {from:p}), waking up \
                     {most} at a time."
                ),
                "Wokeup",
            ),
            Act::WakeEach => (
                format!(
                    "blocking on {threads} threads (each at a [{shared}] futex of its own, from \
                     {from:p} on), waking up 1 at a time."
                ),
                "Wokeup",
            ),
            Act::Requeue(most) => (
                format!(
                    "Requeuing {threads} threads (from [{shared}] {from:p} to {to:p}), {most} at \
                     a time."
                ),
                "Requeued",
            ),
        };
        let mut text = format!("\n# {lock}\nRun summary [PID {pid}]: {does}\n\n");
        for (run, ms) in (1..).zip(&self.ms) {
            text += &format!("[Run {run}]: {did} {threads} of {threads} threads in {ms:.4} ms\n");
        }
        let (mean, spread) = (mean(&self.ms), spread_pct(&self.ms));
        text + &format!("{did} {threads} of {threads} threads in {mean:.4} ms (+-{spread:.2}%)\n")
    }
}

/// How many times as fast as the other the first is.
fn ratio([ours, kernel]: &[Measured; 2]) -> String {
    if ours.ms.is_empty() || kernel.ms.is_empty() {
        return String::new();
    }
    let times = format::number(mean(&kernel.ms) / mean(&ours.ms).max(1e-9));
    format!("\n{} = {times} x {}\n", ours.kind.lock, kernel.kind.lock)
}

/// A kind of futex, as `--json` prints it: the field order is part of the interface.
#[derive(Serialize)]
struct Record {
    world: World,
    operation: &'static str,
    lock: &'static str,
    threads: usize,
    at_a_time: u32,
    /// Whether other processes could wait by the same keys.
    shared: bool,
    runs: usize,
    /// How long the fastest run took.
    ms_min: f64,
    ms_mean: f64,
    ms_max: f64,
    /// The standard error of the mean, in per cent.
    spread_pct: f64,
}
