//! Waiting for a line as an event, where the processor can: `WFE`, `UMWAIT` or
//! `MWAITX`.

use std::{
    fs,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

use lockyard_core::{FOREVER, Look, Platform};
use lockyard_linux::Linux;
use lockyard_torture::{Host as _, Native};

use super::{
    Group,
    file::Parameter,
    samples::Samples,
    threads::{Baton, pair},
    topology::Host,
};

/// How long a spinner waits before the line changes: it sleeps by then.
const WAIT: Duration = Duration::from_micros(3);
const REPEATS: u32 = 100;

/// The times of group `cpu` that are there only where the processor can wait.
#[derive(Default)]
pub struct Events {
    wake: Samples,
}

impl Group for Events {
    fn name(&self) -> &'static str {
        "events"
    }

    fn round(&mut self, host: &Host, round: usize) {
        if !can_wait() {
            return;
        }
        let cpus = host.neighbours(round);
        let polled = one_way(cpus, Look::Poll).median();
        let mut waited = one_way(cpus, Look::Event);
        waited.shift(-polled);
        self.wake.append(waited);
    }

    fn parameters(&self, _: &Host) -> Vec<Parameter> {
        if self.wake.is_empty() {
            return Vec::new();
        }
        vec![
            Parameter::time(
                "cpu.event_wake",
                &self.wake,
                "from a store to the next instruction of a thread that waits for its line as an \
                 event, less the same of one that polls",
            ),
            Parameter::given_time(
                "cpu.event_stream",
                1e5,
                "lockyard's: it lets no wait for an event last longer",
            ),
        ]
    }
}

/// Whether the processor has one of the instructions that lockyard uses.
fn can_wait() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let line = text.lines().find(flags).unwrap_or_default();
    let known = ["waitpkg", "mwaitx", "evtstrm"];
    line.split_whitespace().any(|flag| known.contains(&flag))
}

/// From a store to the moment when another core that looks so has seen it.
fn one_way(cpus: (usize, usize), look: Look) -> Samples {
    const STORER: u32 = 1;
    let (ready, line) = (Baton::default(), Line::default());
    let seen_at = AtomicU64::new(0);
    let storer = || {
        let mut samples = Samples::default();
        for turn in 1..=REPEATS {
            ready.wait(STORER + turn);
            let begin = Native::now_ns() + WAIT.as_nanos() as u64;
            let mut stored_at = Native::now_ns();
            while stored_at < begin {
                stored_at = Native::now_ns();
            }
            line.0.store(turn, Release);
            ready.wait(0);
            samples.push(seen_at.load(Relaxed).saturating_sub(stored_at) as f64);
            ready.hand(STORER);
        }
        samples
    };
    let waiter = || {
        for turn in 1..=REPEATS {
            ready.hand(STORER + turn);
            let done = |value| value == turn;
            Linux::spin_until(&line.0, Acquire, look, FOREVER, done, || false);
            seen_at.store(Native::now_ns(), Relaxed); // the baton publishes it
            ready.hand(0);
            ready.wait(STORER);
        }
    };
    pair(cpus, storer, waiter).0
}

/// A line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);
