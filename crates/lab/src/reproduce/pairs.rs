//! Two locks, before and after a change, under the same load: what each seed
//! says of the two, and what all seeds say together.

use std::{collections::BTreeMap, time::Duration};

use lockyard_core::Event;
use lockyard_sim::{Machine, SPENDINGS, Spending, Stats};
use lockyard_torture::{interrupted, locktest::Config};
use serde::Serialize;

use crate::{
    failure::Failure,
    measure::{self, Measured},
    place::Place,
    record::rounded,
    registry::Entry,
    screen::Screen,
    simulation::per_operation,
};

/// Where and how locktest runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Setting {
    /// Hardware threads of a core of the machine.
    pub threads_per_core: usize,
    /// Threads that contend.
    pub threads: usize,
    /// Work units inside the critical section.
    pub load: u32,
    /// Work units between an unlock and the next lock.
    pub gap: u32,
    /// Simulated seconds of a run.
    pub seconds: f64,
}

/// What a run measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Run {
    /// Operations of all threads together, in thousands per second.
    pub rate_kops: f64,
    /// Operations of the thread that made the fewest, of a thread on average,
    /// and of the one that made the most.
    pub ops: [f64; 3],
    /// The share of all operations that the last of these made.
    pub max_share: Option<f64>,
    /// What all threads together spent for an operation, by [`Spending`], in
    /// nanoseconds.
    pub cost: Option<[f64; SPENDINGS]>,
    /// How often the lock took each rare path, by [`Event`].
    pub events: [u64; Event::ALL.len()],
}

impl Run {
    /// From the operations of each thread, and of all in a second.
    fn new(ops: &[u64], rate: f64, stats: &Stats) -> Self {
        let all: u64 = ops.iter().sum();
        let total = all as f64;
        let min = ops.iter().copied().min().unwrap_or(0) as f64;
        let max = ops.iter().copied().max().unwrap_or(0) as f64;
        let some = total > 0.0;
        Self {
            rate_kops: rate / 1e3,
            ops: [min, total / ops.len().max(1) as f64, max],
            max_share: some.then(|| max / total),
            cost: some.then(|| per_operation(&stats.spent, all)),
            events: stats.events,
        }
    }
}

/// A run before the change and one after it, of the same seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    /// Before.
    pub before: Run,
    /// After.
    pub after: Run,
}

/// A machine and two locks.
pub struct Bench {
    /// The machine; a setting says how many threads its cores have.
    pub machine: Machine,
    /// The lock before the change.
    pub before: Entry,
    /// The lock after it.
    pub after: Entry,
    /// Seeds: 1 to so many.
    pub seeds: u32,
}

impl Bench {
    /// How many runs these settings take.
    pub fn runs(&self, settings: &[Setting]) -> u64 {
        2 * settings.len() as u64 * u64::from(self.seeds)
    }

    /// The pairs of each setting, a pair for each seed, until the end, an
    /// interrupt or a failure. Only whole pairs count.
    pub fn measure(&self, settings: &[Setting]) -> (Vec<Vec<Pair>>, Result<(), Failure>) {
        let screen = Screen::new(self.runs(settings), None);
        let mut pairs = vec![Vec::new(); settings.len()];
        let done = self.fill(&mut pairs, settings, &screen);
        screen.close();
        (pairs, done)
    }

    fn fill(
        &self,
        pairs: &mut [Vec<Pair>],
        settings: &[Setting],
        screen: &Screen,
    ) -> Result<(), Failure> {
        for (pairs, setting) in pairs.iter_mut().zip(settings) {
            for seed in 1..=self.seeds {
                let before = self.run(setting, &self.before, seed, screen)?;
                if interrupted() {
                    return Ok(());
                }
                let after = self.run(setting, &self.after, seed, screen)?;
                if interrupted() {
                    return Ok(());
                }
                pairs.push(Pair { before, after });
            }
        }
        Ok(())
    }

    fn run(
        &self,
        setting: &Setting,
        lock: &Entry,
        seed: u32,
        screen: &Screen,
    ) -> Result<Run, Failure> {
        let Setting {
            threads_per_core,
            threads,
            load,
            gap,
            seconds,
        } = *setting;
        screen.begins(format!(
            "{threads} threads, {threads_per_core} per core, gap {gap}, seed {seed}, {}",
            lock.name
        ));
        let machine = (self.machine.clone()).with_threads_per_core(threads_per_core);
        let place = Place::Simulated(Box::new(machine));
        let config = Config {
            threads,
            duration: Duration::from_secs_f64(seconds),
            load,
            gap,
            read_pct: 0,
            lines: 0,
            sample: place.sampling(load, gap),
            seed: seed.into(),
        };
        let Measured { report, stats } = measure::locktest(&place, lock, &config)?;
        screen.ended();
        let stats = stats.expect("a simulation has them");
        Ok(Run::new(&report.ops, report.rate(), &stats))
    }
}

/// A number that each seed has its own of.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation; `None` of a single seed.
    pub sd: Option<f64>,
}

impl Spread {
    /// Of these, to the nearest `1 / parts`; `None` without any, or when one of
    /// them is not known.
    pub fn of(values: impl IntoIterator<Item = Option<f64>>, parts: f64) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (values.len() > 1).then(|| rounded((squares / (n - 1.0)).sqrt(), parts));
        let mean = rounded(mean, parts);
        (!values.is_empty()).then_some(Self { mean, sd })
    }
}

/// What all threads together spent for an operation, in nanoseconds: the mean
/// over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// Computing: work, and accesses of lines in the core's own cache.
    pub compute: f64,
    /// Waiting for a cache line.
    pub cache: f64,
    /// Spinning on a CPU, for another thread.
    pub spin: f64,
    /// Parked.
    pub sleep: f64,
    /// Ready to run, but without a CPU, or on the way to one.
    pub ready: f64,
}

impl Cost {
    fn of(runs: &[Run]) -> Option<Self> {
        let each = |kind: Spending| {
            let all = runs.iter().map(|run| Some(run.cost?[kind as usize]));
            Spread::of(all, 1e3).map(|spread| spread.mean)
        };
        Some(Self {
            compute: each(Spending::Compute)?,
            cache: each(Spending::Cache)?,
            spin: each(Spending::Spin)?,
            sleep: each(Spending::Sleep)?,
            ready: each(Spending::Ready)?,
        })
    }

    /// All of it, in the order of the fields.
    pub fn all(&self) -> [f64; SPENDINGS] {
        [self.compute, self.cache, self.spin, self.sleep, self.ready]
    }
}

/// A lock at a setting, over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Side {
    /// The lock.
    pub lock: &'static str,
    /// Operations of all threads together, in thousands per second.
    pub rate_kops: Spread,
    /// Operations of the thread that made the fewest.
    pub ops_min: Spread,
    /// Operations of a thread on average.
    pub ops_mean: Spread,
    /// Operations of the thread that made the most.
    pub ops_max: Spread,
    /// The share of all operations that this thread made; null when none was.
    pub max_share: Option<Spread>,
    /// What an operation cost; null when none was made.
    pub cost_ns: Option<Cost>,
    /// How often the lock took each of its rare paths in a run: the mean.
    pub events: BTreeMap<String, f64>,
}

impl Side {
    fn new(lock: &'static str, runs: &[Run]) -> Option<Self> {
        let ops = |which: usize| Spread::of(runs.iter().map(|run| Some(run.ops[which])), 1e3);
        Some(Self {
            lock,
            rate_kops: Spread::of(runs.iter().map(|run| Some(run.rate_kops)), 1e3)?,
            ops_min: ops(0)?,
            ops_mean: ops(1)?,
            ops_max: ops(2)?,
            max_share: Spread::of(runs.iter().map(|run| run.max_share), 1e6),
            cost_ns: Cost::of(runs),
            events: events(runs),
        })
    }
}

/// The mean of each event that happened.
fn events(runs: &[Run]) -> BTreeMap<String, f64> {
    let mean = |event: Event| {
        let all: u64 = runs.iter().map(|run| run.events[event as usize]).sum();
        rounded(all as f64 / runs.len() as f64, 1e3)
    };
    let all = Event::ALL.into_iter().map(|event| (event, mean(event)));
    all.filter(|(_, mean)| *mean > 0.0)
        .map(|(event, mean)| (format!("{event:?}"), mean))
        .collect()
}

/// A change relative to what was before.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Effect {
    /// The mean over the seeds: 0.2 when there is a fifth more after than
    /// before; `None` when there was nothing before.
    pub effect: Option<f64>,
    /// Its standard deviation; `None` of a single seed.
    pub effect_sd: Option<f64>,
}

impl Effect {
    /// Of each pair, then over all.
    fn of(pairs: &[Pair], what: impl Fn(&Run) -> Option<f64>) -> Self {
        Self::between(
            pairs
                .iter()
                .map(|pair| (what(&pair.before), what(&pair.after))),
        )
    }

    /// Of each number before and the one after, then over all.
    pub fn between(pairs: impl IntoIterator<Item = (Option<f64>, Option<f64>)>) -> Self {
        let one = |(before, after): (Option<f64>, Option<f64>)| {
            let (before, after) = (before?, after?);
            (before > 0.0).then(|| after / before - 1.0)
        };
        let all = pairs.into_iter().map(one);
        Spread::of(all, 1e4).map_or_else(Self::default, |spread| Self {
            effect: Some(spread.mean),
            effect_sd: spread.sd,
        })
    }

    /// Whether it is a rise or a fall by more than its standard deviation, or
    /// neither.
    pub fn sign(self) -> Option<Sign> {
        let (effect, sd) = (self.effect?, self.effect_sd?);
        Some(match effect {
            effect if effect > sd => Sign::Rise,
            effect if effect < -sd => Sign::Fall,
            _ => Sign::Neither,
        })
    }
}

/// The direction of an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// More after than before.
    Rise,
    /// Less.
    Fall,
    /// No difference that exceeds the standard deviation.
    Neither,
}

/// How large an effect is beside the paper's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Less than half of it.
    Smaller,
    /// From half to twice.
    Rough,
    /// More than twice.
    Larger,
}

impl Size {
    /// Of a rise, between half of the paper's and twice as much; nothing of what
    /// is no rise.
    pub fn of_rise(effect: Effect, bounds: [f64; 2]) -> Option<Self> {
        let risen = effect.effect.filter(|_| effect.sign() == Some(Sign::Rise));
        risen.map(|effect| match effect {
            effect if effect < bounds[0] => Self::Smaller,
            effect if effect > bounds[1] => Self::Larger,
            _ => Self::Rough,
        })
    }

    /// The size in words.
    pub fn sized(self) -> &'static str {
        match self {
            Self::Smaller => "less than half of the paper's",
            Self::Rough => "from half to twice the paper's",
            Self::Larger => "more than twice the paper's",
        }
    }
}

/// Both locks at a setting, over the seeds; `K` says what the row is for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row<K> {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: K,
    /// The experiment.
    pub experiment: &'static str,
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// Seeds whose pair was measured.
    pub seeds: usize,
    /// Before the change.
    pub before: Side,
    /// After it.
    pub after: Side,
    /// In the total rate.
    #[serde(flatten)]
    pub effect: Effect,
    /// In the largest share.
    pub share_effect: Effect,
}

impl<K> Row<K> {
    /// What the pairs say; nothing when there are none.
    pub fn new(
        kind: K,
        experiment: &'static str,
        setting: Setting,
        locks: [&'static str; 2],
        pairs: &[Pair],
    ) -> Option<Self> {
        let before: Vec<Run> = pairs.iter().map(|pair| pair.before).collect();
        let after: Vec<Run> = pairs.iter().map(|pair| pair.after).collect();
        Some(Self {
            kind,
            experiment,
            setting,
            seeds: pairs.len(),
            before: Side::new(locks[0], &before)?,
            after: Side::new(locks[1], &after)?,
            effect: Effect::of(pairs, |run| Some(run.rate_kops)),
            share_effect: Effect::of(pairs, |run| run.max_share),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied().map(Some), 1e3);
        let of = |mean, sd| Some(Spread { mean, sd });
        assert_eq!(spread(&[1.0, 2.0, 3.0]), of(2.0, Some(1.0)));
        assert_eq!(spread(&[5.0]), of(5.0, None));
        assert_eq!(spread(&[]), None);
        assert_eq!(Spread::of([Some(1.0), None], 1.0), None);
    }

    #[test]
    fn effects_are_those_of_pairs_and_need_something_before() {
        let run = |rate_kops| Run {
            rate_kops,
            ops: [0.0; 3],
            max_share: None,
            cost: None,
            events: [0; _],
        };
        let rate = |pairs: &[(f64, f64)]| {
            let pair = |&(before, after)| Pair {
                before: run(before),
                after: run(after),
            };
            let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
            Effect::of(&pairs, |run| Some(run.rate_kops))
        };
        let twice = rate(&[(10.0, 20.0), (100.0, 200.0)]);
        assert_eq!((twice.effect, twice.effect_sd), (Some(1.0), Some(0.0)));
        assert_eq!(twice.sign(), Some(Sign::Rise));
        let either = rate(&[(10.0, 20.0), (20.0, 10.0)]);
        assert_eq!(either.effect, Some(0.25));
        assert_eq!(either.sign(), Some(Sign::Neither));
        assert_eq!(rate(&[(10.0, 5.0), (10.0, 6.0)]).sign(), Some(Sign::Fall));
        assert_eq!(rate(&[(0.0, 5.0), (10.0, 6.0)]), Effect::default());
        assert_eq!(rate(&[(10.0, 5.0)]).sign(), None, "one has no deviation");
    }

    #[test]
    fn a_run_without_operations_has_no_share_and_no_cost() {
        let stats = Stats {
            simulated_ps: 1_000,
            stopped_ps: None,
            happened: 0,
            accesses: 0,
            spent: vec![[4_000, 2_000, 0, 0, 0], [4_000, 0, 0, 6_000, 0]],
            events: [0; _],
            lines: BTreeMap::new(),
        };
        let idle = Run::new(&[0, 0], 0.0, &stats);
        assert_eq!((idle.max_share, idle.cost), (None, None));
        let busy = Run::new(&[3, 1], 4_000.0, &stats);
        assert_eq!(busy.ops, [1.0, 2.0, 3.0]);
        assert_eq!((busy.rate_kops, busy.max_share), (4.0, Some(0.75)));
        assert_eq!(busy.cost, Some([2.0, 0.5, 0.0, 1.5, 0.0]));
    }
}
