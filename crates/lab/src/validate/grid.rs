//! What runs, here and simulated.

use std::{collections::BTreeSet, time::Duration};

use lockyard_sim::Machine;
use lockyard_torture::{interrupted, locktest::Config};
use serde::Serialize;

use super::Args;
use crate::{
    compare::{Out, Point},
    failure::Failure,
    measure,
    place::Place,
    record::Record,
    registry::{self, Entry},
    screen::Screen,
    values::{self, MAX_THREADS, World},
};

/// Every lock at every point.
pub struct Grid {
    /// The locks.
    pub locks: Vec<Entry>,
    /// The points: for each work, each number of threads.
    pub points: Vec<Point>,
    /// How often each lock runs at each point on this host.
    pub rounds: u32,
    /// How long a run lasts.
    pub seconds: Duration,
    seed: u64,
}

/// A lock at a point, and the throughputs measured, in thousands per second.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The lock.
    pub lock: &'static str,
    /// The point.
    pub at: Point,
    /// On this host, one for each round.
    pub native: Vec<f64>,
    /// On the simulated machine.
    pub simulated: Option<f64>,
}

/// A run of a cell.
struct Job {
    cell: usize,
    round: u32,
}

/// A run, as `raw.jsonl` holds it.
#[derive(Serialize)]
struct Raw {
    #[serde(flatten)]
    record: Record,
    round: u32,
}

impl Grid {
    /// The grid that the flags ask for.
    ///
    /// # Errors
    /// A lock does not run in both worlds, or there are too many threads for
    /// this host.
    pub fn new(args: &Args) -> Result<Self, Failure> {
        let threads = if args.threads.is_empty() {
            threads(Place::Here.cpus())
        } else {
            values::distinct(&args.threads)
        };
        let locks = registry::named(&args.lock, World::Sim)?;
        registry::named(&args.lock, World::Native)?; // each must run in both
        measure::can_start(threads.iter().copied().max().unwrap_or(1))?;
        let points = values::distinct(&args.points).into_iter();
        let points = points
            .flat_map(|work| {
                threads
                    .iter()
                    .map(move |&threads| Point::new(work, threads))
            })
            .collect();
        Ok(Self {
            locks,
            points,
            rounds: args.rounds,
            seconds: args.seconds,
            seed: args.seed,
        })
    }

    /// How many cells there are.
    pub fn size(&self) -> usize {
        self.points.len() * self.locks.len()
    }

    /// How long the runs on this host last together.
    pub fn planned(&self) -> Duration {
        self.seconds * self.rounds * self.size() as u32
    }

    /// The cells, empty: the locks of a point are neighbours.
    pub fn cells(&self) -> Vec<Cell> {
        let at = |point: &Point| {
            let at = *point;
            self.locks.iter().map(move |lock| Cell {
                lock: lock.name,
                at,
                native: Vec::new(),
                simulated: None,
            })
        };
        self.points.iter().flat_map(at).collect()
    }

    /// Fills the cells, on this host and then on the machine, until the end or
    /// an interrupt. Only whole runs count.
    pub fn measure(
        &self,
        machine: Machine,
        mut out: Option<&mut Out>,
        cells: &mut [Cell],
    ) -> Result<(), Failure> {
        self.warm_up()?;
        let planned = Some(self.planned());
        let jobs = self.shuffled();
        self.run(&Place::Here, &jobs, planned, out.as_deref_mut(), cells)?;
        let jobs: Vec<Job> = (0..cells.len())
            .map(|cell| Job { cell, round: 1 })
            .collect();
        let simulated = Place::Simulated(Box::new(machine));
        self.run(&simulated, &jobs, None, out, cells)
    }

    /// In each round every point with the locks in another order: locks that
    /// are compared are neighbours in time, and none is always the first.
    fn shuffled(&self) -> Vec<Job> {
        let mut dice = fastrand::Rng::with_seed(self.seed);
        let mut jobs = Vec::new();
        for round in 1..=self.rounds {
            for point in 0..self.points.len() {
                let first = point * self.locks.len();
                let mut order: Vec<usize> = (first..first + self.locks.len()).collect();
                dice.shuffle(&mut order);
                jobs.extend(order.into_iter().map(|cell| Job { cell, round }));
            }
        }
        jobs
    }

    fn run(
        &self,
        place: &Place,
        jobs: &[Job],
        planned: Option<Duration>,
        out: Option<&mut Out>,
        cells: &mut [Cell],
    ) -> Result<(), Failure> {
        let screen = Screen::new(jobs.len() as u64, planned);
        let done = self.each(place, jobs, &screen, out, cells);
        screen.close();
        done
    }

    fn each(
        &self,
        place: &Place,
        jobs: &[Job],
        screen: &Screen,
        mut out: Option<&mut Out>,
        cells: &mut [Cell],
    ) -> Result<(), Failure> {
        for (job, run) in jobs.iter().zip(1..) {
            if interrupted() {
                return Ok(());
            }
            let cell = &mut cells[job.cell];
            let world = place.world().name();
            screen.begins(format!("{world}, {}, {}", cell.at, cell.lock));
            let lock = &self.locks[job.cell % self.locks.len()];
            let config = self.config(place, cell.at, job.round);
            let measured = measure::locktest(place, lock, &config)?;
            if interrupted() {
                return Ok(());
            }
            let record = Record::new(place, lock.name, &config, run, &measured);
            match place {
                Place::Here => cell.native.push(record.rate_kops),
                Place::Simulated(_) => cell.simulated = Some(record.rate_kops),
            }
            if let Some(out) = out.as_mut() {
                let round = job.round;
                out.raw(&Raw { record, round })?;
            }
            screen.ended();
        }
        Ok(())
    }

    fn config(&self, place: &Place, at: Point, round: u32) -> Config {
        Config {
            threads: at.threads,
            duration: self.seconds,
            load: at.setting.work.load,
            gap: at.setting.work.gap,
            read_pct: 0,
            lines: 0,
            sample: place.sampling(at.setting.work.load, at.setting.work.gap),
            seed: self.seed.wrapping_add(u64::from(round) - 1),
        }
    }

    /// Brings in code, stacks and thread records before anything counts.
    fn warm_up(&self) -> Result<(), Failure> {
        let most = self.points.iter().max_by_key(|point| point.threads);
        for (lock, at) in self.locks.iter().zip(most.into_iter().cycle()) {
            let config = Config {
                duration: Duration::from_millis(5),
                ..self.config(&Place::Here, *at, 1)
            };
            measure::locktest(&Place::Here, lock, &config)?;
        }
        Ok(())
    }
}

/// One thread, and one and four for each CPU.
fn threads(cpus: usize) -> Vec<usize> {
    let all = BTreeSet::from([1, cpus, 4 * cpus].map(|n| n.min(MAX_THREADS)));
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_each_number_of_threads_once() {
        assert_eq!(threads(1), [1, 4]);
        assert_eq!(threads(2), [1, 2, 8]);
        assert_eq!(threads(4096), [1, 4096, MAX_THREADS]);
    }

    #[test]
    fn a_round_runs_every_cell_once_and_point_after_point() {
        let work = values::Work { load: 0, gap: 0 };
        let grid = Grid {
            locks: registry::all().into_iter().take(3).collect(),
            points: [1, 2].map(|threads| Point::new(work, threads)).to_vec(),
            rounds: 20,
            seconds: Duration::ZERO,
            seed: 1,
        };
        let jobs = grid.shuffled();
        let mut orders = BTreeSet::new();
        for (at, order) in jobs.chunks(3).enumerate() {
            assert!(order.iter().all(|job| job.round as usize == 1 + at / 2));
            let mut cells: Vec<usize> = order.iter().map(|job| job.cell % 3).collect();
            orders.insert(cells.clone());
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2]);
            assert!(order.iter().all(|job| job.cell / 3 == at % 2));
        }
        assert_eq!((jobs.len(), orders.len()), (20 * 6, 6), "{orders:?}");
    }
}
