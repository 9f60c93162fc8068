//! `lockyard futex-pingpong`: from wait to wake, on our futex and the kernel's.

use std::{io, sync::atomic::AtomicU32, time::Duration};

use lockyard_linux::futex::{
    self as ours,
    shared::{self, Region},
};
use lockyard_torture::{
    futexhash::{self, Memory},
    futexpingpong::{self, APART, Config, Futex},
};
use rustix::thread::futex::{self, Flags};
use serde::Serialize;

use crate::{
    compare::median,
    failure::Failure,
    format, measure,
    place::Place,
    record::rounded,
    screen,
    values::{self, World},
};

/// Measure how soon a thread that waits for a futex is woken
///
/// Two threads hand a token to and fro, each kept on a CPU; who does not have it waits for a
/// futex. The time is from before the one lets the token go until the other has it, the
/// median of the rounds; ours and the kernel's take turns. The waiter is asleep when the token
/// is let go, 20 µs after it has come, on two CPUs and on one; or has come 0.3 µs before: ours
/// is still spinning then, and the kernel's is on its way to sleep. How often one slept, the
/// kernel counts.
#[derive(clap::Args)]
pub struct Args {
    /// How many hand-overs a round has, after as many to warm up
    #[arg(short = 'l', long = "loop", value_name = "N", default_value = "200")]
    #[arg(value_parser = values::runs, allow_negative_numbers = true)]
    times: u32,

    /// How many rounds
    #[arg(short, long, value_name = "N", default_value = "25")]
    #[arg(value_parser = values::rounds, allow_negative_numbers = true)]
    rounds: u32,

    /// Measure the futexes that processes can share
    #[arg(short = 'S', long)]
    shared: bool,

    /// Print one JSON object per waiter, number of CPUs, and kind of futex
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
        wake: |word| {
            ours::wake(word, 1);
        },
    },
};

const PRIVATE: Kind = Kind {
    lock: "kernel-private",
    futex: Futex {
        wait: |word| wait(word, Flags::PRIVATE),
        wake: |word| wake(word, Flags::PRIVATE),
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
        wake: |word| {
            shared::wake(word, 1);
        },
    },
};

const SHARED: Kind = Kind {
    lock: "kernel-shared-file",
    shared: true,
    words: |count| futexhash::words(Memory::File, count),
    futex: Futex {
        wait: |word| wait(word, Flags::empty()),
        wake: |word| wake(word, Flags::empty()),
    },
};

fn wait(word: &AtomicU32, flags: Flags) {
    // It may have changed, and a signal may interrupt it.
    let _ = futex::wait(word, flags, 0, None);
}

fn wake(word: &AtomicU32, flags: Flags) {
    futex::wake(word, flags, 1).expect("a futex wake on a mapped word cannot fail");
}

/// How the waiter waits.
#[derive(Clone, Copy)]
struct Waiter {
    name: &'static str,
    after: Duration,
    cpus: usize,
}

const WAITERS: [Waiter; 3] = [
    Waiter {
        name: "asleep",
        after: Duration::from_micros(20),
        cpus: 2,
    },
    Waiter {
        name: "asleep",
        after: Duration::from_micros(20),
        cpus: 1,
    },
    Waiter {
        name: "spinning",
        after: Duration::from_nanos(300),
        cpus: 2,
    },
];

/// Measures both kinds of futex, a round after the other.
pub fn run(args: &Args) -> Result<(), Failure> {
    measure::can_start(2)?;
    let kinds = match args.shared {
        true => [OURS_SHARED, SHARED],
        false => [OURS, PRIVATE],
    };
    let words = |kind: &Kind| {
        (kind.words)(APART + 1).map_err(|why| {
            let lock = kind.lock;
            Failure::Usage(format!("no memory for the words of {lock} ({why})"))
        })
    };
    let words = [words(&kinds[0])?, words(&kinds[1])?];
    let mut all = Vec::new();
    for waiter in WAITERS {
        if waiter.cpus <= Place::Here.cpus() {
            let measured = |(kind, words)| Measured::new(kind, words, waiter, args.times);
            all.extend(kinds.into_iter().zip(words).map(measured));
        }
    }
    screen::take_turns(
        &mut all,
        args.rounds,
        "rounds",
        |measured| measured.kind.lock,
        Measured::run,
    );
    all.retain(|measured| !measured.ns.is_empty());
    let records: Vec<_> = all.iter().map(Measured::record).collect();
    screen::print(&match args.json {
        true => screen::json_lines(&records),
        false => text(&records),
    })?;
    Ok(())
}

/// What was measured of a kind so far.
struct Measured {
    kind: Kind,
    words: &'static [AtomicU32],
    waiter: Waiter,
    times: u32,
    /// What a hand-over took, and how often it had a sleeper to wake, in each round.
    ns: Vec<f64>,
    slept: Vec<f64>,
}

impl Measured {
    fn new(kind: Kind, words: &'static [AtomicU32], waiter: Waiter, times: u32) -> Self {
        Self {
            kind,
            words,
            waiter,
            times,
            ns: Vec::new(),
            slept: Vec::new(),
        }
    }

    fn run(&mut self) {
        let config = Config {
            after: self.waiter.after,
            one_cpu: self.waiter.cpus == 1,
            times: self.times,
        };
        let report = futexpingpong::run(self.kind.futex, config, self.words);
        self.ns.push(report.ns);
        self.slept.push(report.slept);
    }

    fn record(&self) -> Record {
        Record {
            world: World::Native,
            lock: self.kind.lock,
            shared: self.kind.shared,
            waiter: self.waiter.name,
            cpus: self.waiter.cpus,
            after_ns: self.waiter.after.as_nanos() as u64,
            rounds: self.ns.len(),
            times: self.times,
            ns_min: rounded(self.ns.iter().copied().fold(f64::INFINITY, f64::min), 1e1),
            ns_p50: rounded(median(self.ns.clone()), 1e1),
            slept_p50: rounded(median(self.slept.clone()), 1e3),
        }
    }
}

/// The records are pairs of ours and the kernel's.
fn text(records: &[Record]) -> String {
    let mut table = screen::table();
    table.set_header([
        "waiter",
        "CPUs",
        "lock",
        "ns",
        "least",
        "slept",
        "times as fast",
    ]);
    for pair in records.chunks(2) {
        for of in pair {
            let times = match pair {
                [ours, kernel] if of.lock == ours.lock => {
                    format::number(kernel.ns_p50 / ours.ns_p50)
                }
                _ => String::new(),
            };
            table.add_row([
                of.waiter.to_owned(),
                of.cpus.to_string(),
                of.lock.to_owned(),
                format::number(of.ns_p50),
                format::number(of.ns_min),
                format!("{:.0} %", of.slept_p50 * 100.0),
                times,
            ]);
        }
    }
    screen::rendered(table)
}

/// How one kind of futex woke, as `--json` prints it: the field order is part of the
/// interface.
#[derive(Serialize)]
struct Record {
    world: World,
    lock: &'static str,
    /// Whether other processes could wait by the same keys.
    shared: bool,
    waiter: &'static str,
    cpus: usize,
    /// How long the waiter had been there when it was woken.
    after_ns: u64,
    rounds: usize,
    /// The hand-overs of a round.
    times: u32,
    /// From letting the token go to having it, on average of a round: the fastest round's,
    /// and the median of rounds.
    ns_min: f64,
    ns_p50: f64,
    /// How often a thread slept, per hand-over; the median of rounds.
    slept_p50: f64,
}
