//! `lockyard futex-pingpong`: from wait to wake, on our futex and the kernel's.

use std::{io, sync::atomic::AtomicU32, time::Duration};

use lockyard_linux::futex::{
    self as ours,
    shared::{self, Region},
};
use lockyard_torture::{
    futexhash::{self, Memory},
    futexpingpong::{self, APART, Config, Futex, Report},
};
use rustix::thread::futex::{self, Flags};
use serde::Serialize;

use crate::{
    compare::median,
    failure::Failure,
    format,
    mean::median_within,
    measure,
    place::Place,
    record::rounded,
    screen,
    values::{self, World},
};

/// Measure how soon a thread that waits for a futex is woken
///
/// Two threads hand a token to and fro, each kept on a CPU; who does not have it waits for a
/// futex. The time is from before the one lets the token go until the other has it, the
/// median of the rounds. In each round the same two threads use ours and the kernel's in
/// turns, ten hand-overs at a time; how many times as fast ours was is the median of what
/// rounds say, and lies, 19 times of 20, between the two numbers behind it. The waiter is
/// asleep when the token is let go, 20 µs after it has come, on two CPUs and on one; or has
/// come 0.3 µs before: ours is still spinning then, and the kernel's is on its way to sleep.
/// Both times are averages of times at random. How often one slept, the kernel counts.
#[derive(clap::Args)]
pub struct Args {
    /// How many hand-overs by each futex a round has, after as many to warm up
    #[arg(short = 'l', long = "loop", value_name = "N", default_value = "200")]
    #[arg(value_parser = values::runs, allow_negative_numbers = true)]
    times: u32,

    /// How many rounds
    #[arg(short, long, value_name = "N", default_value = "50")]
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
    futex: Futex,
}

const OURS: Kind = Kind {
    lock: "futex",
    shared: false,
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

/// How many words both kinds of futex have.
const WORDS: usize = APART + 1;

/// The words of a region, which is never closed.
fn region() -> io::Result<&'static [AtomicU32]> {
    Ok(Box::leak(Box::new(Region::open(Region::file(WORDS)?)?)).words())
}

/// Measures both kinds of futex, in each round.
pub fn run(args: &Args) -> Result<(), Failure> {
    measure::can_start(2)?;
    let (kinds, words) = match args.shared {
        true => ([OURS_SHARED, SHARED], region()),
        false => ([OURS, PRIVATE], futexhash::words(Memory::Anonymous, WORDS)),
    };
    let words =
        words.map_err(|why| Failure::Usage(format!("no memory for {WORDS} words ({why})")))?;
    let waiters = WAITERS.into_iter();
    let waiters = waiters.filter(|waiter| waiter.cpus <= Place::Here.cpus());
    let mut all: Vec<_> = waiters
        .map(|waiter| Measured {
            kinds,
            words,
            waiter,
            times: args.times,
            rounds: Vec::new(),
        })
        .collect();
    screen::take_turns(
        &mut all,
        args.rounds,
        "rounds",
        |measured| measured.waiter.name,
        Measured::run,
    );
    all.retain(|measured| !measured.rounds.is_empty());
    let records: Vec<_> = all.iter().flat_map(Measured::records).collect();
    screen::print(&match args.json {
        true => screen::json_lines(&records),
        false => text(&records),
    })?;
    Ok(())
}

/// What was measured of a waiter so far.
struct Measured {
    /// Ours and the kernel's.
    kinds: [Kind; 2],
    words: &'static [AtomicU32],
    waiter: Waiter,
    times: u32,
    rounds: Vec<[Report; 2]>,
}

impl Measured {
    fn run(&mut self) {
        let config = Config {
            after: self.waiter.after,
            one_cpu: self.waiter.cpus == 1,
            times: self.times,
        };
        let [ours, kernels] = self.kinds.map(|kind| kind.futex);
        // Who is first and last of a round is not measured quite as the other is.
        let round = if self.rounds.len().is_multiple_of(2) {
            futexpingpong::run([ours, kernels], self.words, config)
        } else {
            let [kernels, ours] = futexpingpong::run([kernels, ours], self.words, config);
            [ours, kernels]
        };
        self.rounds.push(round);
    }

    fn records(&self) -> [Record; 2] {
        [0, 1].map(|which| {
            let of = |what: fn(&Report) -> f64| {
                let rounds = self.rounds.iter().map(|round| what(&round[which]));
                rounds.collect::<Vec<_>>()
            };
            let ratios = || {
                let rounds = self.rounds.iter();
                rounds.map(|[ours, kernels]| kernels.ns / ours.ns).collect()
            };
            let kind = self.kinds[which];
            Record {
                world: World::Native,
                lock: kind.lock,
                shared: kind.shared,
                waiter: self.waiter.name,
                cpus: self.waiter.cpus,
                after_ns: self.waiter.after.as_nanos() as u64,
                rounds: self.rounds.len(),
                times: self.times,
                ns_min: rounded(
                    of(|of| of.ns).into_iter().fold(f64::INFINITY, f64::min),
                    1e1,
                ),
                ns_p50: rounded(median(of(|of| of.ns)), 1e1),
                slept_p50: rounded(median(of(|of| of.slept)), 1e3),
                faster: (which == 0).then(|| Faster::new(ratios())),
            }
        })
    }
}

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
    for of in records {
        let times = of.faster.as_ref().map(|faster| {
            let [p50, low, high] = [faster.p50, faster.low, faster.high].map(format::number);
            format!("{p50} ({low} to {high})")
        });
        table.add_row([
            of.waiter.to_owned(),
            of.cpus.to_string(),
            of.lock.to_owned(),
            format::number(of.ns_p50),
            format::number(of.ns_min),
            format!("{:.0} %", of.slept_p50 * 100.0),
            times.unwrap_or_default(),
        ]);
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
    /// The hand-overs of a round by each futex.
    times: u32,
    /// From letting the token go to having it, on average of a round: the fastest round's,
    /// and the median of rounds.
    ns_min: f64,
    ns_p50: f64,
    /// How often a thread slept, per hand-over; the median of rounds.
    slept_p50: f64,
    /// Of ours.
    faster: Option<Faster>,
}

/// How many times as fast as the kernel's ours was, round by round.
#[derive(Serialize)]
struct Faster {
    p50: f64,
    /// The median lies between these, 19 times of 20.
    low: f64,
    high: f64,
}

impl Faster {
    fn new(ratios: Vec<f64>) -> Self {
        let (low, high) = median_within(ratios.clone());
        let [p50, low, high] = [median(ratios), low, high].map(|times| rounded(times, 1e4));
        Self { p50, low, high }
    }
}
