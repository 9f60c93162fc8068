//! What runs did, for programs and for people.

use lockyard_sim::Stats;
use lockyard_torture::locktorture::{Config, Counts, Report};
use serde::Serialize;

use crate::{
    format, place::Place, reproduce::pairs::Spread, simulation::Simulation, values::World,
};

/// One run, as `--json` prints it: the field order is part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    world: World,
    lock: &'static str,
    writers: usize,
    readers: usize,
    /// How long they did: measured, not planned.
    seconds: f64,
    delays: &'static str,
    long_hold_ms: u64,
    stutter_s: f64,
    shuffle_s: f64,
    boost: bool,
    writes: Side,
    reads: Side,
    /// The number of the run, from 1.
    run: u32,
    seed: u64,
    /// In the simulated world: what the simulation was.
    #[serde(flatten)]
    simulation: Option<Simulation>,
}

/// What threads of a kind did.
#[derive(Clone, Debug, Serialize)]
struct Side {
    total: u64,
    max: u64,
    min: u64,
    /// How often one found somebody in who should not be.
    fail: u64,
    longest_wait_ns: u64,
}

impl Side {
    fn new(counts: &Counts) -> Self {
        Self {
            total: counts.total(),
            max: counts.per_task.iter().copied().max().unwrap_or(0),
            min: counts.per_task.iter().copied().min().unwrap_or(0),
            fail: counts.failures,
            longest_wait_ns: counts.longest_wait_ns,
        }
    }

    /// The kernel's line. It doubts a run in which one got more than twice what
    /// another did.
    fn text(&self, kind: &str) -> String {
        let Self {
            total,
            max,
            min,
            fail,
            ..
        } = self;
        let doubt = if max / 2 > *min { "???" } else { "" };
        let shout = if *fail > 0 { "!!!" } else { "" };
        let line =
            format!("{kind}:  Total: {total}  Max/Min: {max}/{min} {doubt}  Fail: {fail} {shout}");
        format!("{}\n", line.trim_end())
    }
}

impl Record {
    /// The record of a run of `lock`.
    pub fn new(
        place: &Place,
        lock: &'static str,
        config: &Config<'_>,
        delays: &'static str,
        run: u32,
        (report, stats): (&Report, Option<&Stats>),
    ) -> Self {
        let operations = report.writes.total() + report.reads.total();
        let simulation = match (place, stats) {
            (Place::Simulated(machine), Some(stats)) => {
                Some(Simulation::new(&machine.name, stats, operations))
            }
            _ => None,
        };
        Self {
            world: place.world(),
            lock,
            writers: config.writers,
            readers: config.readers,
            seconds: report.elapsed_ns as f64 / 1e9,
            delays,
            long_hold_ms: config.long_hold.as_millis() as u64,
            stutter_s: config.stutter.as_secs_f64(),
            shuffle_s: config.shuffle.as_secs_f64(),
            boost: config.boost,
            writes: Side::new(&report.writes),
            reads: Side::new(&report.reads),
            run,
            seed: config.seed,
            simulation,
        }
    }

    /// The kernel's lines of the run, and one of waits.
    pub fn text(&self) -> String {
        let mut text = self.writes.text("Writes");
        let mut waits = format!("{} to write", format::time(self.writes.longest_wait_ns));
        if self.readers > 0 {
            text += &self.reads.text("Reads ");
            waits += &format!(", {} to read", format::time(self.reads.longest_wait_ns));
        }
        text += &format!("Longest wait: {waits}\n");
        if let Some(simulation) = &self.simulation {
            text += &simulation.text(&format!("Tasks = {}", self.writers + self.readers));
        }
        text
    }
}

/// All runs of a lock.
pub struct Runs {
    lock: &'static str,
    runs: usize,
    /// The runs that failed: the number of each and how often it did.
    failed: Vec<(u32, u64)>,
    reads: Vec<u64>,
    writes: Vec<u64>,
}

impl Runs {
    /// Those of this lock: none yet.
    pub fn of(lock: &'static str) -> Self {
        Self {
            lock,
            runs: 0,
            failed: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// One more.
    pub fn add(&mut self, record: &Record) {
        self.runs += 1;
        let fail = record.writes.fail + record.reads.fail;
        if fail > 0 {
            self.failed.push((record.run, fail));
        }
        self.writes.push(record.writes.total);
        if record.readers > 0 {
            self.reads.push(record.reads.total);
        }
    }

    /// The totals of the runs in the columns of ministat, if there were any.
    pub fn table(&self) -> Option<String> {
        let rows = [("R", &self.reads), ("W", &self.writes)];
        let rows = rows.iter().filter_map(|(name, totals)| row(name, totals));
        let rows: Vec<_> = rows.collect();
        let head = columns(["", "N", "Min", "Max", "Median", "Avg", "Stddev"]);
        (!rows.is_empty()).then(|| format!("{} over its runs:\n{head}{}", self.lock, rows.concat()))
    }

    /// What to say of the lock, if it failed.
    pub fn failure(&self) -> Option<String> {
        let &(first, _) = self.failed.first()?;
        let times: u64 = self.failed.iter().map(|(_, fail)| fail).sum();
        Some(format!(
            "{} let in who should not be in {} of {} runs, first in run {first}: Fail = {times}",
            self.lock,
            self.failed.len(),
            self.runs
        ))
    }
}

fn row(name: &str, totals: &[u64]) -> Option<String> {
    let mut totals = totals.to_vec();
    totals.sort_unstable();
    let (min, max) = (*totals.first()?, *totals.last()?);
    let n = totals.len();
    let median = (totals[(n - 1) / 2] + totals[n / 2]) as f64 / 2.0;
    let spread = Spread::of(totals.iter().map(|&total| Some(total as f64)), 1e2)?;
    Some(columns([
        name,
        &n.to_string(),
        &min.to_string(),
        &max.to_string(),
        &median.to_string(),
        &spread.mean.to_string(),
        &spread.sd.unwrap_or(0.0).to_string(),
    ]))
}

fn columns([name, n, rest @ ..]: [&str; 7]) -> String {
    let rest = rest.map(|column| format!(" {column:>12}"));
    format!("{name:1} {n:>4}{}\n", rest.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(per_task: &[u64], failures: u64) -> Side {
        Side::new(&Counts {
            per_task: per_task.to_vec(),
            failures,
            longest_wait_ns: 5,
        })
    }

    #[test]
    fn lines_are_the_kernels() {
        let fine = side(&[468, 472, 470], 0).text("Writes");
        assert_eq!(fine, "Writes:  Total: 1410  Max/Min: 472/468   Fail: 0\n");
        let unfair = side(&[1, 4], 0).text("Reads ");
        assert_eq!(unfair, "Reads :  Total: 5  Max/Min: 4/1 ???  Fail: 0\n");
        let failed = side(&[2, 2], 7).text("Writes");
        assert_eq!(failed, "Writes:  Total: 4  Max/Min: 2/2   Fail: 7 !!!\n");
    }

    #[test]
    fn totals_of_runs_stand_in_the_columns_of_ministat() {
        let runs = Runs {
            writes: vec![4, 1, 3, 2],
            reads: vec![],
            ..Runs::of("a")
        };
        assert_eq!(
            runs.table().expect("there are runs"),
            "a over its runs:\n\
             \u{20}    N          Min          Max       Median          Avg       Stddev\n\
             W    4            1            4          2.5          2.5         1.29\n"
        );
        assert_eq!(Runs::of("a").table(), None);
    }

    #[test]
    fn a_lock_that_fails_is_named_with_its_first_run() {
        let runs = Runs {
            runs: 9,
            failed: vec![(3, 2), (4, 1)],
            ..Runs::of("a")
        };
        let line = "a let in who should not be in 2 of 9 runs, first in run 3: Fail = 3";
        assert_eq!(runs.failure().as_deref(), Some(line));
        assert_eq!(Runs::of("a").failure(), None);
    }
}
