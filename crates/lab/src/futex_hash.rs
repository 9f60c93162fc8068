//! `lockyard futex-hash`: `perf bench futex hash`, on our futex and the kernel's.

use std::{io, process, sync::atomic::AtomicU32, time::Duration};

use lockyard_linux::futex::{
    self as ours, Waited,
    shared::{self, Region},
};
use lockyard_torture::{
    Native,
    futexhash::{self, Memory, Report, WRONG},
    interrupted,
};
use rustix::{
    io::Errno,
    thread::futex::{self, Flags},
};
use serde::Serialize;

use crate::{
    failure::Failure,
    format,
    mean::{mean, spread_pct},
    measure,
    place::Place,
    record::rounded,
    screen::{self, Screen},
    values::{self, World},
};

/// Measure how fast a futex finds a word's queue
///
/// As `perf bench futex hash`: each thread, kept on one CPU, waits for one futex after
/// the other, with a value that none of them has. So each wait is over when the key and
/// its bucket were found. Ours and the kernel's take turns, some tens of times a second.
///
/// futex knows the words of this process only, futex-shared those of a file. That one looks
/// at the word before it looks for its bucket; so with --shared there are also wakes where
/// nobody waits, which cannot do without.
#[derive(clap::Args)]
pub struct Args {
    /// How many threads [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = values::threads)]
    #[arg(allow_negative_numbers = true)]
    threads: Option<usize>,

    /// How long each kind of futex is measured, in seconds
    #[arg(short = 'r', long, value_name = "S", default_value = "1")]
    #[arg(visible_alias = "runtime", value_parser = values::seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Duration,

    /// How many futexes each thread waits for
    #[arg(short, long, value_name = "N", default_value = "1024")]
    #[arg(value_parser = values::futexes, allow_negative_numbers = true)]
    futexes: usize,

    /// Measure only futexes that processes can share, and wakes as well as waits
    #[arg(short = 'S', long)]
    shared: bool,

    /// Print one JSON object per kind of futex
    #[arg(long)]
    json: bool,
}

/// A kind of futex.
struct Kind {
    lock: &'static str,
    shared: bool,
    /// Maps so many of its words.
    words: fn(usize) -> io::Result<&'static [AtomicU32]>,
    /// The threads' loop, with this kind's call in it.
    run: fn(usize, &[AtomicU32], Duration) -> Report,
}

const OURS: Kind = Kind {
    lock: "futex",
    shared: false,
    words: |count| futexhash::words(Memory::Anonymous, count),
    run: |threads, words, slice| {
        let wait = |word: &AtomicU32| ours::wait(word, WRONG, None) == Waited::Changed;
        on_threads(threads, words, slice, wait)
    },
};

const PRIVATE: Kind = Kind {
    lock: "kernel-private",
    shared: false,
    words: OURS.words,
    run: |threads, words, slice| in_kernel(threads, words, slice, Flags::PRIVATE),
};

const OURS_SHARED: Kind = Kind {
    lock: "futex-shared",
    shared: true,
    words: |count| Ok(Box::leak(Box::new(Region::open(Region::file(count)?)?)).words()),
    run: |threads, words, slice| {
        let wait = |word: &AtomicU32| shared::wait(word, WRONG, None) == Waited::Changed;
        on_threads(threads, words, slice, wait)
    },
};

const OURS_SHARED_WAKE: Kind = Kind {
    lock: "futex-shared-wake",
    run: |threads, words, slice| {
        on_threads(threads, words, slice, |word| shared::wake(word, 1) == 0)
    },
    ..OURS_SHARED
};

/// As perf's: this process's memory, by a key that would serve others as well.
const SHARED_ANONYMOUS: Kind = Kind {
    lock: "kernel-shared-anonymous",
    shared: true,
    run: |threads, words, slice| in_kernel(threads, words, slice, Flags::empty()),
    ..PRIVATE
};

const SHARED_FILE: Kind = Kind {
    lock: "kernel-shared-file",
    words: |count| futexhash::words(Memory::File, count),
    ..SHARED_ANONYMOUS
};

const SHARED_FILE_WAKE: Kind = Kind {
    lock: "kernel-shared-file-wake",
    run: |threads, words, slice| {
        let wake = |word: &AtomicU32| futex::wake(word, Flags::empty(), 1) == Ok(0);
        on_threads(threads, words, slice, wake)
    },
    ..SHARED_FILE
};

/// Which is held against which.
const RIVALS: [(Kind, Kind); 5] = [
    (OURS, PRIVATE),
    (OURS, SHARED_ANONYMOUS),
    (OURS, SHARED_FILE),
    (OURS_SHARED, SHARED_FILE),
    (OURS_SHARED_WAKE, SHARED_FILE_WAKE),
];

fn in_kernel(threads: usize, words: &[AtomicU32], slice: Duration, flags: Flags) -> Report {
    let wait = |word: &AtomicU32| futex::wait(word, flags, WRONG, None) == Err(Errno::AGAIN);
    on_threads(threads, words, slice, wait)
}

/// Each thread has its part of the words.
fn on_threads(
    threads: usize,
    words: &[AtomicU32],
    slice: Duration,
    wait: impl Fn(&AtomicU32) -> bool + Sync,
) -> Report {
    let parts: Vec<_> = words.chunks_exact(words.len() / threads).collect();
    futexhash::run::<Native, _>(&parts, slice, &|_| 0, &wait)
}

/// Measures each kind of futex, a slice of time after the other.
pub fn run(args: &Args) -> Result<(), Failure> {
    let threads = args.threads.unwrap_or_else(|| Place::Here.cpus());
    measure::can_start(threads)?;
    let kinds = match args.shared {
        true => vec![
            OURS_SHARED,
            SHARED_ANONYMOUS,
            SHARED_FILE,
            OURS_SHARED_WAKE,
            SHARED_FILE_WAKE,
        ],
        false => vec![OURS, PRIVATE, OURS_SHARED, SHARED_ANONYMOUS, SHARED_FILE],
    };
    let mut all = Vec::new();
    for kind in kinds {
        let words = (kind.words)(threads * args.futexes).map_err(|why| {
            let futexes = args.futexes;
            Failure::Usage(format!(
                "--futexes '{futexes}': no memory for so many of {threads} threads ({why})"
            ))
        })?;
        all.push(Measured::new(kind, words, threads));
    }
    if !args.json {
        let names: Vec<_> = all.iter().map(|kind| kind.kind.lock).collect();
        let (names, seconds) = (names.join(", "), args.seconds.as_secs_f64());
        screen::print(&format!(
            "Running futex-hash with {names} [runtime = {seconds}s each, in turns]\n"
        ))?;
    }
    take_turns(&mut all, args.seconds);
    let measured = all.iter().filter(|kind| kind.elapsed > Duration::ZERO);
    if args.json {
        let records: Vec<_> = measured.map(|kind| kind.record(args.futexes)).collect();
        screen::print(&screen::json_lines(&records))?;
    } else {
        let texts: String = measured.map(|kind| kind.text(args.futexes)).collect();
        screen::print(&(texts + &ratios(&all)))?;
    }
    Ok(())
}

/// Runs all kinds for a slice each, until each has run for so long. A disturbance of
/// the machine that lasts longer than a slice meets all of them.
fn take_turns(all: &mut [Measured], duration: Duration) {
    const SLICE: Duration = Duration::from_millis(20);
    let rounds = duration.div_duration_f64(SLICE).ceil();
    let slice = duration.div_f64(rounds);
    let runs = rounds as u64 * all.len() as u64;
    let screen = Screen::new(runs, duration * all.len() as u32);
    for _ in 0..rounds as u64 {
        for kind in &mut *all {
            screen.begins(kind.kind.lock.into());
            kind.run(slice);
            screen.ended();
            if interrupted() {
                let ended = screen.count();
                screen.close();
                return screen::log(&format!(
                    "interrupted: {ended} of {runs} slices, the last cut short"
                ));
            }
        }
    }
    screen.close();
}

/// What was measured of a kind so far.
struct Measured {
    kind: Kind,
    words: &'static [AtomicU32],
    /// The calls of each thread.
    ops: Vec<u64>,
    elapsed: Duration,
}

impl Measured {
    fn new(kind: Kind, words: &'static [AtomicU32], threads: usize) -> Self {
        Self {
            kind,
            words,
            ops: vec![0; threads],
            elapsed: Duration::ZERO,
        }
    }

    fn run(&mut self, slice: Duration) {
        let report = (self.kind.run)(self.ops.len(), self.words, slice);
        let both = self.ops.iter_mut().zip(report.ops);
        both.for_each(|(ops, more)| *ops += more);
        self.elapsed += Duration::from_nanos(report.elapsed_ns);
    }

    /// What each thread did in a second.
    fn rates(&self) -> Vec<f64> {
        let seconds = self.elapsed.as_secs_f64();
        let rates = self.ops.iter().map(|&ops| ops as f64 / seconds);
        rates.collect()
    }

    /// That of a thread on average.
    fn rate(&self) -> f64 {
        mean(&self.rates())
    }

    fn record(&self, futexes: usize) -> Record {
        let total = self.ops.iter().sum::<u64>();
        Record {
            world: World::Native,
            lock: self.kind.lock,
            threads: self.ops.len(),
            futexes,
            shared: self.kind.shared,
            seconds: self.elapsed.as_secs_f64(),
            ops_min: self.ops.iter().copied().min().unwrap_or(0),
            ops_mean: rounded(total as f64 / self.ops.len() as f64, 1e3),
            ops_max: self.ops.iter().copied().max().unwrap_or(0),
            ops_per_sec: rounded(self.rate(), 1e1),
            spread_pct: rounded(spread_pct(&self.rates()), 1e2),
            rate_kops: rounded(self.rate() * self.ops.len() as f64 / 1e3, 1e3),
        }
    }

    /// The lines of perf.
    fn text(&self, futexes: usize) -> String {
        let (pid, threads) = (process::id(), self.ops.len());
        let shared = if self.kind.shared {
            "shared"
        } else {
            "private"
        };
        let seconds = self.elapsed.as_secs_f64();
        let mut text = format!(
            "\n# {}\nRun summary [PID {pid}]: {threads} threads, each operating on {futexes} [{shared}] \
             futexes for {seconds:.3} secs.\n\n",
            self.kind.lock
        );
        let parts = self.words.chunks_exact(futexes);
        for ((thread, part), rate) in parts.enumerate().zip(self.rates()) {
            let (first, last) = (&raw const part[0], &raw const part[futexes - 1]);
            let words = match futexes {
                1 => format!("futex: {first:p}"),
                _ => format!("futexes: {first:p} ... {last:p}"),
            };
            text += &format!("[thread {thread:2}] {words} [ {rate:.0} ops/sec ]\n");
        }
        text + &format!(
            "\nAveraged {:.0} operations/sec (+- {:.2}%), total secs = {seconds:.3}\n",
            self.rate(),
            spread_pct(&self.rates())
        )
    }
}

/// How many times as fast as their rivals ours are.
fn ratios(all: &[Measured]) -> String {
    let measured = |kind: &Kind| {
        let mut all = all.iter().filter(|measured| measured.rate() > 0.0);
        all.find(|measured| measured.kind.lock == kind.lock)
    };
    let ratio = |(ours, other): &(Kind, Kind)| {
        let times = format::number(measured(ours)?.rate() / measured(other)?.rate());
        Some(format!("{} = {times} x {}\n", ours.lock, other.lock))
    };
    let lines: String = RIVALS.iter().filter_map(ratio).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\n{lines}")
    }
}

/// A kind of futex, as `--json` prints it: the field order is part of the interface.
#[derive(Serialize)]
struct Record {
    world: World,
    lock: &'static str,
    threads: usize,
    /// The words of each thread.
    futexes: usize,
    /// Whether other processes could wait by the same keys.
    shared: bool,
    /// How long it was measured: measured itself, not planned.
    seconds: f64,
    /// Calls of the thread that made the fewest.
    ops_min: u64,
    ops_mean: f64,
    ops_max: u64,
    /// Calls of a thread in a second, on average.
    ops_per_sec: f64,
    /// The standard error of that average, in per cent.
    spread_pct: f64,
    /// Calls of all threads together, in thousands per second.
    rate_kops: f64,
}
