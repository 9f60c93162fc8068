//! Whether the paper's effect appears.

use lockyard_core::Event;
use serde::Serialize;

use super::{
    super::{
        pairs::{Effect, Row, Setting, Side, Sign, Size},
        text::{percent, signed, whole},
    },
    Kind, NAME, PAPER_KOPS,
};
use crate::record::rounded;

/// What was to be run, and what was.
pub struct Scope {
    /// The name of the simulated machine.
    pub machine: String,
    /// Seeds.
    pub seeds: usize,
    /// Rows.
    pub rows: usize,
    /// Runs that were to be.
    pub runs_planned: u64,
    /// Runs of whole pairs.
    pub runs: usize,
}

/// A setting, judged: it has the runs of all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What was varied.
    #[serde(rename = "of")]
    kind: Kind,
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// In the total rate.
    #[serde(flatten)]
    pub effect: Effect,
    /// Its direction: the paper's is a rise. Null when a run made no operation.
    pub direction: Option<Sign>,
    /// How large it is; null when it has another direction than the paper's.
    pub size: Option<Size>,
    /// Of the operations before, the share whose unlock found a waiter. Only
    /// there the two locks differ. Null when there was no operation.
    pub checked: Option<f64>,
}

impl Judged {
    fn new(row: &Row<Kind>, bounds: [f64; 2]) -> Self {
        Self {
            kind: row.kind,
            setting: row.setting,
            effect: row.effect,
            direction: row.effect.sign(),
            size: Size::of_rise(row.effect, bounds),
            checked: checked(&row.before, row.setting.threads),
        }
    }
}

/// The share of operations whose unlock found a waiter.
pub fn checked(side: &Side, threads: usize) -> Option<f64> {
    let ends = [Event::WokeFirst, Event::WakeSkipped, Event::HandedOff];
    let found = ends.iter().fold(0.0, |found, event| {
        found + side.events.get(&format!("{event:?}")).unwrap_or(&0.0)
    });
    let operations = side.ops_mean.mean * threads as f64;
    (operations > 0.0).then(|| rounded(found / operations, 1e6))
}

/// What the rows say together.
#[derive(Serialize)]
#[serde(tag = "type", rename = "verdict")]
pub struct Verdict {
    /// The experiment.
    pub experiment: &'static str,
    /// The simulated machine.
    pub machine: String,
    /// Seeds that were to be.
    pub seeds: usize,
    /// Runs that were to be.
    pub runs_planned: u64,
    /// Runs of whole pairs.
    pub runs: usize,
    /// The paper's rates, before and after, in thousands per second.
    pub paper_kops: [f64; 2],
    /// Its effect.
    pub paper_effect: f64,
    /// Half of it, and twice as much.
    pub size_bounds: [f64; 2],
    /// At the published setting; null unless all seeds ran.
    pub published: Option<Judged>,
    /// Varied settings that were to be.
    pub varied_planned: usize,
    /// Those that all seeds ran with.
    pub varied: Vec<Judged>,
}

impl Verdict {
    /// Draws it from the rows alone.
    pub fn new(scope: Scope, rows: &[Row<Kind>]) -> Self {
        let [before, after] = PAPER_KOPS;
        let effect = after / before - 1.0;
        let size_bounds = [0.5, 2.0].map(|times| rounded(times * effect, 1e4));
        let complete = rows.iter().filter(|row| row.seeds == scope.seeds);
        let judged = complete.map(|row| Judged::new(row, size_bounds));
        let (published, varied): (Vec<_>, Vec<_>) =
            judged.partition(|judged| judged.kind == Kind::Experiment);
        Self {
            experiment: NAME,
            machine: scope.machine,
            seeds: scope.seeds,
            runs_planned: scope.runs_planned,
            runs: scope.runs,
            paper_kops: PAPER_KOPS,
            paper_effect: rounded(effect, 1e4),
            size_bounds,
            published: published.into_iter().next(),
            varied_planned: scope.rows.saturating_sub(1),
            varied,
        }
    }

    /// The verdict in sentences. Every number in them stands in it.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = match &self.published {
            Some(judged) => vec![self.rate(judged), reason(judged)],
            None => vec![format!(
                "No verdict on the published setting: {} of {} runs were made.",
                self.runs, self.runs_planned
            )],
        };
        said.push(self.elsewhere());
        said
    }

    fn rate(&self, judged: &Judged) -> String {
        let head = "At the published setting";
        let Effect {
            effect: Some(effect),
            effect_sd: Some(sd),
        } = judged.effect
        else {
            return format!("{head} there is no effect to judge: a run made no operation.");
        };
        let (by, sd) = (percent(effect.abs()), percent(sd));
        let paper = format!("paper: a rise by {}", percent(self.paper_effect));
        match (judged.direction, judged.size) {
            (Some(Sign::Rise), Some(size)) => format!(
                "{head} the paper's effect appears: the rate rises by {by} (sd {sd}; {paper}). \
                 That is {}.",
                size.sized()
            ),
            (Some(Sign::Fall), _) => {
                format!("{head} the effect is reversed: the rate falls by {by} (sd {sd}; {paper}).")
            }
            _ => format!(
                "{head} no effect shows: the rate changes by {}, which is no more than its \
                 standard deviation of {sd} ({paper}).",
                signed(effect)
            ),
        }
    }

    fn elsewhere(&self) -> String {
        if self.varied.len() < self.varied_planned {
            return format!(
                "No verdict on the varied settings: {} of {} were measured.",
                self.varied.len(),
                self.varied_planned
            );
        }
        let of = |sign: Sign| {
            let found = self
                .varied
                .iter()
                .filter(|judged| judged.direction == Some(sign));
            match &found.map(named).collect::<Vec<_>>()[..] {
                [] => "nowhere".to_owned(),
                all => format!("at {}", all.join(", ")),
            }
        };
        format!(
            "Of {} varied settings the rate rises {}, and falls {}.",
            self.varied.len(),
            of(Sign::Rise),
            of(Sign::Fall)
        )
    }
}

/// How often the two locks may have differed at all.
fn reason(judged: &Judged) -> String {
    let threads = judged.setting.threads;
    match judged.checked {
        None => "No unlock is known of: a run made no operation.".into(),
        Some(0.0) => format!(
            "No unlock of the {threads} threads found anybody asleep in the queue, and only there \
             the two differ. In the paper's kernel a writer that was about to take the lock \
             changed the count as a sleeper did, and sent every unlock into the check; here the \
             count tells sleepers, and nobody else."
        ),
        Some(share) => format!(
            "Of the unlocks before, {} found somebody asleep in the queue: only there the two \
             differ.",
            percent(share)
        ),
    }
}

/// `72 threads (+3.0 %)`.
fn named(judged: &Judged) -> String {
    let Setting {
        threads, load, gap, ..
    } = judged.setting;
    let what = match judged.kind {
        Kind::Experiment | Kind::Threads => format!("{} threads", whole(threads as f64)),
        Kind::Load => format!("load {load}"),
        Kind::Gap => format!("gap {gap}"),
    };
    format!(
        "{what} ({})",
        signed(judged.effect.effect.unwrap_or_default())
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            super::pairs::{Pair, Run},
            LOCKS,
        },
        *,
    };

    /// From 1,000 kop/s to these, with so many skipped wake-ups in each run.
    fn row(kind: Kind, threads: usize, after: [f64; 2], skipped: u64) -> Row<Kind> {
        let run = |rate_kops: f64| {
            let mut events = [0; Event::ALL.len()];
            events[Event::WakeSkipped as usize] = skipped;
            Run {
                rate_kops,
                ops: [1.0, 100.0, 200.0],
                max_share: None,
                cost: None,
                events,
            }
        };
        let setting = Setting {
            threads_per_core: 1,
            threads,
            load: 1,
            gap: 0,
            seconds: 0.05,
        };
        let pairs = after.map(|after| Pair {
            before: run(1_000.0),
            after: run(after),
        });
        Row::new(kind, NAME, setting, LOCKS, &pairs).expect("there are pairs")
    }

    fn judged(rows: &[Row<Kind>]) -> Verdict {
        let scope = Scope {
            machine: "m".into(),
            seeds: 2,
            rows: rows.len(),
            runs_planned: 40,
            runs: 4 * rows.len(),
        };
        Verdict::new(scope, rows)
    }

    #[test]
    fn an_effect_is_said_with_its_size_and_its_cause() {
        let said = judged(&[row(Kind::Experiment, 36, [1_040.0, 1_050.0], 36)]).sentences();
        assert_eq!(
            said[0],
            "At the published setting the paper's effect appears: the rate rises by 4.5 % (sd \
             0.7 %; paper: a rise by 4.3 %). That is from half to twice the paper's."
        );
        assert_eq!(
            said[1],
            "Of the unlocks before, 1.0 % found somebody asleep in the queue: only there the two \
             differ."
        );
    }

    #[test]
    fn where_nobody_sleeps_there_is_nothing_to_differ() {
        let said = judged(&[row(Kind::Experiment, 36, [1_000.0; 2], 0)]).sentences();
        assert!(said[0].contains("no effect shows: the rate changes by +0.0 %"));
        assert!(said[1].starts_with("No unlock of the 36 threads found anybody asleep"));
    }

    #[test]
    fn what_is_varied_is_listed_by_direction() {
        let verdict = judged(&[
            row(Kind::Experiment, 36, [900.0, 910.0], 0),
            row(Kind::Threads, 72, [900.0, 910.0], 36),
            row(Kind::Threads, 144, [1_100.0, 1_110.0], 36),
            row(Kind::Load, 36, [1_000.0; 2], 0),
        ]);
        let said = verdict.sentences();
        assert!(said[0].contains("reversed: the rate falls by 9.5 %"));
        assert_eq!(
            said[2],
            "Of 3 varied settings the rate rises at 144 threads (+10.5 %), and falls at 72 \
             threads (-9.5 %)."
        );
    }

    #[test]
    fn what_is_not_whole_is_not_judged() {
        let mut short = row(Kind::Experiment, 36, [900.0; 2], 0);
        short.seeds = 1;
        let verdict = Verdict::new(
            Scope {
                machine: "m".into(),
                seeds: 2,
                rows: 3,
                runs_planned: 12,
                runs: 2,
            },
            &[short],
        );
        assert_eq!(
            verdict.sentences(),
            [
                "No verdict on the published setting: 2 of 12 runs were made.",
                "No verdict on the varied settings: 0 of 2 were measured.",
            ]
        );
    }
}
