//! How long lines take from one cache to another, and from memory.

use std::{
    hint::black_box,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use super::{
    Group,
    beyond::{Beyond, cycle},
    file::{Parameter, Value},
    samples::{Samples, short},
    threads::{Baton, each, on, pair},
    topology::{Distance, Host},
};

/// Lines that move at a time: a quarter of a first-level cache of 32 KiB.
const LINES: usize = 128;
const REPEATS: usize = 60;

/// The times of group `memory`.
#[derive(Default)]
pub struct Caches {
    hit: Samples,
    transfers: [Transfer; 3],
    memory: Samples,
    beyond: Option<Beyond>,
}

impl Group for Caches {
    fn name(&self) -> &'static str {
        "caches"
    }

    fn round(&mut self, host: &Host, round: usize) {
        let beyond = self.beyond.get_or_insert_with(Beyond::new);
        on(host.cpu(round), || {
            for _ in 0..REPEATS {
                self.hit.push(hit());
                self.memory.push(beyond.read());
            }
        });
        for (transfer, (_, distance)) in self.transfers.iter_mut().zip(DISTANCES) {
            if let Some(cpus) = host.pair(distance, round) {
                transfer.round(cpus);
            }
        }
        if self
            .transfers
            .iter()
            .all(|transfer| transfer.mean.is_empty())
        {
            // Only the threads of one core: a line does not move between them.
            self.transfers[0].round(host.neighbours(round));
        }
    }

    fn parameters(&self, _: &Host) -> Vec<Parameter> {
        let mut all = vec![Parameter::time(
            "memory.hit",
            &self.hit,
            "loads of lines in its own first-level cache, each found by the one before",
        )];
        all.extend((0..3).map(|at| self.transfer(at)));
        let size = self.beyond.as_ref().map_or(0, Beyond::mebibytes);
        all.push(Parameter::time(
            "memory.memory",
            &self.memory,
            &format!("dependent loads in random order within 256 KiB at a time of {size} MiB"),
        ));
        all.push(self.upgrade());
        all.push(Parameter::given_time(
            "memory.occupancy",
            5.0,
            "estimate: reads of a line by many cores at once were not measured",
        ));
        all
    }
}

const DISTANCES: [(&str, Distance); 3] = [
    ("memory.cluster", Distance::Cluster),
    ("memory.socket", Distance::Socket),
    ("memory.remote", Distance::Remote),
];

impl Caches {
    /// What it costs to have a copy given up, at the nearest distance.
    fn upgrade(&self) -> Parameter {
        let mut measured = self.transfers.iter().filter(|t| !t.mean.is_empty());
        let transfer = measured.next().expect("something was measured");
        let share = transfer.upgrade.median() / transfer.mean.median();
        Parameter::given(
            "memory.upgrade",
            Value::Number(short(share.clamp(0.0, 1.0))),
            &format!(
                "measured: an atomic read-modify-write of lines that both cores have read, less \
                 what it costs on lines of one's own, over a transfer; in ns {}",
                transfer.upgrade.spread()
            ),
        )
    }

    /// The transfer at this distance, or at the nearest one that this host has.
    fn transfer(&self, at: usize) -> Parameter {
        let has = |other: &usize| !self.transfers[*other].mean.is_empty();
        let nearest = (0..3).filter(has).min_by_key(|other| other.abs_diff(at));
        let from = nearest.expect("something was measured");
        let (key, _) = DISTANCES[at];
        let missing = if from == at {
            String::new()
        } else {
            format!(
                "no such distance on this host, so as {}: ",
                DISTANCES[from].0
            )
        };
        self.transfers[from].parameter(key, &missing)
    }
}

/// The times of a line's ways between two cores.
#[derive(Default)]
struct Transfer {
    /// Of the next two; this is the parameter.
    mean: Samples,
    /// To a reader, from who wrote it.
    read: Samples,
    /// To who writes it, from who wrote it.
    write: Samples,
    /// The other's copy of a line that both have read is given up.
    upgrade: Samples,
}

impl Transfer {
    fn round(&mut self, cpus: (usize, usize)) {
        const READER: u32 = 1;
        const WRITER: u32 = 2;
        let (ring, baton) = (Ring::new(), Baton::default());
        baton.hand(WRITER);
        let reader = || {
            for _ in 0..REPEATS {
                baton.wait(READER);
                let read = ring.read();
                let upgrade = ring.modify();
                baton.hand(WRITER);
                baton.wait(READER);
                let write = ring.modify();
                // The lines are mine by now: what is left is the instruction.
                let locked = ring.modify();
                baton.hand(WRITER);
                self.add(read, write - locked, upgrade - locked);
            }
        };
        let writer = || {
            for _ in 0..2 * REPEATS {
                baton.wait(WRITER);
                ring.dirty();
                baton.hand(READER);
            }
        };
        pair(cpus, reader, writer);
    }

    fn add(&mut self, read: f64, write: f64, upgrade: f64) {
        self.mean.push((read + write) / 2.0);
        self.read.push(read);
        self.write.push(write);
        self.upgrade.push(upgrade);
    }

    fn parameter(&self, key: &'static str, missing: &str) -> Parameter {
        let [read, write] = [&self.read, &self.write].map(|samples| short(samples.median()));
        let how = format!(
            "{missing}lines that the other core wrote, each found by the one before; mean of a \
             read ({read}) and of an atomic read-modify-write less what it costs on lines of \
             one's own ({write})"
        );
        Parameter::time(key, &self.mean, &how)
    }
}

/// Twice a line, as some processors fetch two.
#[repr(align(128))]
struct Line(AtomicU32);

/// Lines of which each names the next, in random order.
struct Ring(Vec<Line>);

impl Ring {
    fn new() -> Self {
        let order = cycle(LINES);
        Self(
            order
                .into_iter()
                .map(|next| Line(AtomicU32::new(next)))
                .collect(),
        )
    }

    /// Writes every line.
    fn dirty(&self) {
        for Line(next) in &self.0 {
            next.store(next.load(Relaxed), Relaxed); // the baton orders it
        }
    }

    /// Nanoseconds to read a line.
    fn read(&self) -> f64 {
        self.walk(|line| line.load(Acquire))
    }

    /// Nanoseconds to modify a line.
    fn modify(&self) -> f64 {
        // Hidden from the compiler, which knows how to add 0 without writing.
        let nothing = black_box(0);
        self.walk(|line| line.fetch_add(nothing, AcqRel))
    }

    fn walk(&self, next: impl Fn(&AtomicU32) -> u32) -> f64 {
        let mut at = 0;
        let time = each(LINES as u32, || at = next(&self.0[at].0) as usize);
        black_box(at);
        time
    }
}

/// A lock's accesses wait for each other: what one reads decides on the next.
fn hit() -> f64 {
    let ring = Ring::new();
    ring.read(); // brings the lines in
    ring.read()
}
