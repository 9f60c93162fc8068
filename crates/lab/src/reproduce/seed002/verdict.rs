//! Whether the paper's effects appear.

use serde::Serialize;

use super::{
    super::{
        pairs::{Effect, Sign},
        text::{percent, signed},
    },
    NAME, is_published,
    story::Told,
    torture::{Kind, Row},
};
use crate::{format, record::rounded};

/// What the paper says of a variant of the delays: writes and reads before and
/// after, of 72 CPUs in ten minutes. Of the old one they are averages over 50 runs
/// before and 30 after.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Paper {
    /// The variant.
    pub delays: &'static str,
    /// Writes before and after.
    pub writes: [f64; 2],
    /// Reads before and after.
    pub reads: [f64; 2],
}

/// The paper's results.
pub const PAPER: [Paper; 2] = [
    Paper {
        delays: "new",
        writes: [33_801.0, 56_094.0],
        reads: [33_649.0, 21_522.0],
    },
    Paper {
        delays: "old",
        writes: [11_952.04, 27_844.53],
        reads: [11_951.72, 14_458.47],
    },
];

/// 0.2 when there is a fifth more after.
pub fn change([before, after]: [f64; 2]) -> f64 {
    after / before - 1.0
}

/// Writes or reads, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Ours.
    #[serde(flatten)]
    pub effect: Effect,
    /// Its direction.
    pub direction: Option<Sign>,
    /// The paper's.
    pub paper_effect: f64,
    /// Whether both have one direction.
    pub as_in_paper: bool,
}

impl Judged {
    fn new(effect: Effect, paper: [f64; 2]) -> Self {
        let paper_effect = rounded(change(paper), 1e4);
        let direction = effect.sign();
        let papers = match paper_effect > 0.0 {
            true => Sign::Rise,
            false => Sign::Fall,
        };
        Self {
            effect,
            direction,
            paper_effect,
            as_in_paper: direction == Some(papers),
        }
    }

    fn said(&self, what: &str) -> String {
        let paper = match self.as_in_paper {
            true => "as in the paper",
            false => "unlike in the paper",
        };
        let Effect {
            effect: Some(effect),
            effect_sd: Some(sd),
        } = self.effect
        else {
            return format!("of {what} nothing is known");
        };
        let does = match self.direction {
            Some(Sign::Rise) => format!("rise by {}", percent(effect)),
            Some(Sign::Fall) => format!("fall by {}", percent(-effect)),
            _ => format!("change by {}, within the deviation", signed(effect)),
        };
        format!(
            "{what} {does} (sd {}), {paper} ({})",
            percent(sd),
            signed(self.paper_effect)
        )
    }
}

/// A variant of the delays, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Variant {
    /// The variant.
    pub delays: &'static str,
    /// The paper's results.
    pub paper: Paper,
    /// The writes.
    pub writes: Judged,
    /// The reads.
    pub reads: Judged,
    /// What the bound leaves of the change of the writes; null when nothing is
    /// known of that.
    pub bounded_writes: Option<f64>,
    /// The varied settings at which both have the paper's direction.
    pub elsewhere: Vec<String>,
    /// How many varied settings there are.
    pub varied: usize,
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
    /// Each variant of the delays that was measured.
    pub variants: Vec<Variant>,
    /// The waits of the story's mover.
    pub story: Vec<Waits>,
}

/// How long the mover waits under a quota, in milliseconds: the median, and the
/// longest.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Waits {
    /// CPUs that the antagonists may use; null when they may use all.
    pub quota_cpus: Option<f64>,
    /// Whether tasks may be preempted while they are inside the lock.
    pub preempted_inside: bool,
    /// Before.
    pub before_ms: [f64; 2],
    /// After.
    pub after_ms: [f64; 2],
    /// After, with the bound.
    pub bounded_ms: [f64; 2],
}

impl Waits {
    fn new(told: &Told) -> Self {
        let [before, after, bounded] = &told.locks[..] else {
            unreachable!("each quota has all three locks");
        };
        Self {
            quota_cpus: told.quota_cpus,
            preempted_inside: told.preempted_inside,
            before_ms: [before.wait_p50_ms, before.wait_max_ms],
            after_ms: [after.wait_p50_ms, after.wait_max_ms],
            bounded_ms: [bounded.wait_p50_ms, bounded.wait_max_ms],
        }
    }

    fn said(&self) -> String {
        let quota = match self.quota_cpus {
            Some(cpus) => format!("with {cpus} CPUs for the antagonists"),
            None => "without a quota".to_owned(),
        };
        let inside = match self.preempted_inside {
            true => "Preempted inside the lock",
            false => "Not preempted inside the lock",
        };
        let times = |which: usize| {
            let all = [self.before_ms, self.after_ms, self.bounded_ms];
            all.map(|ms| format::time((ms[which] * 1e6) as u64))
        };
        let ([before, after, bounded], [longest, later, last]) = (times(0), times(1));
        format!(
            "{inside}, {quota}, the median wait of a move goes from {before} to {after} ({bounded} \
             with the bound), and the longest from {longest} to {later} ({last})."
        )
    }
}

impl Verdict {
    /// Draws it from the rows alone.
    pub fn new(machine: &str, seeds: u32, rows: &[Row], told: &[Told]) -> Self {
        let of = |paper: &Paper| {
            let mut rows = rows
                .iter()
                .filter(|row| row.setting.delays == paper.delays && row.seeds == seeds as usize);
            let published = rows.clone().find(|row| is_published(&row.setting))?;
            let judge = |row: &Row| {
                (
                    Judged::new(row.writes, paper.writes),
                    Judged::new(row.reads, paper.reads),
                )
            };
            let (writes, reads) = judge(published);
            let varied = rows.clone().filter(|row| !is_published(&row.setting));
            let (before, bounded) = (&published.before.writes, &published.bounded.writes);
            let gain = writes.effect.effect.filter(|gain| *gain != 0.0);
            Some(Variant {
                delays: paper.delays,
                paper: *paper,
                bounded_writes: gain.map(|gain| {
                    let bounded = bounded.total.mean / before.total.mean - 1.0;
                    rounded(bounded / gain, 1e4)
                }),
                writes,
                reads,
                varied: varied.count(),
                elsewhere: rows
                    .by_ref()
                    .filter(|row| !is_published(&row.setting))
                    .filter(|row| {
                        let (writes, reads) = judge(row);
                        writes.as_in_paper && reads.as_in_paper
                    })
                    .map(named)
                    .collect(),
            })
        };
        Self {
            experiment: NAME,
            machine: machine.to_owned(),
            seeds: seeds as usize,
            variants: PAPER.iter().filter_map(of).collect(),
            story: told.iter().map(Waits::new).collect(),
        }
    }

    /// The verdict in sentences. Every number in them stands in it.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        for paper in PAPER {
            let delays = paper.delays;
            let variant = self.variants.iter().find(|one| one.delays == delays);
            said.push(match variant {
                Some(variant) => variant.said(),
                None => format!("No verdict on the {delays} delays: not all seeds ran."),
            });
        }
        said.extend(self.story.iter().map(Waits::said));
        said
    }
}

impl Variant {
    fn said(&self) -> String {
        let elsewhere = match &self.elsewhere[..] {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        let bounded = match self.bounded_writes {
            Some(share) => format!(
                " The bound leaves {} of the writes' change.",
                percent(share)
            ),
            None => String::new(),
        };
        format!(
            "With the {} delays {}, and {}. Of {} varied settings both have the paper's \
             direction at: {elsewhere}.{bounded}",
            self.delays,
            self.writes.said("writes"),
            self.reads.said("reads"),
            self.varied,
        )
    }
}

/// What is varied in a row, in words.
pub fn named(row: &Row) -> String {
    match row.setting.kind {
        Kind::Experiment => "as published".to_owned(),
        Kind::Stutter => "no pauses".to_owned(),
        Kind::Idle => "light idle".to_owned(),
        Kind::Gap => format!("gap {} µs", row.setting.gap_us),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;
    use lockyard_torture::{
        antagonist,
        locktorture::{Counts, Report},
    };

    use super::{
        super::{
            LOCKS,
            story::Teller,
            torture::{Setting, settings},
        },
        *,
    };

    fn report(writes: u64, reads: u64) -> Report {
        let counts = |total: u64| Counts {
            per_task: vec![total / 2, total - total / 2],
            ..Counts::default()
        };
        Report {
            elapsed_ns: 1,
            writes: counts(writes),
            reads: counts(reads),
        }
    }

    /// Two seeds that have these writes and reads before, after and bounded.
    fn row(setting: Setting, [before, after, bounded]: [(u64, u64); 3]) -> Row {
        let runs = [before, after, bounded].map(|(w, r)| vec![report(w, r), report(w + 2, r + 2)]);
        Row::new(setting, LOCKS, &runs).expect("there are runs")
    }

    fn setting(kind: Kind, delays: &str) -> Setting {
        let all = settings(Duration::from_secs(1));
        let found = all
            .into_iter()
            .find(|one| one.kind == kind && one.delays == delays);
        found.expect("it is run")
    }

    #[test]
    fn the_paper_is_quoted_right() {
        let changes =
            PAPER.map(|paper| [signed(change(paper.writes)), signed(change(paper.reads))]);
        assert_eq!(changes, [["+66.0 %", "-36.0 %"], ["+133.0 %", "+21.0 %"]]);
    }

    #[test]
    fn both_directions_are_judged_and_the_bound_too() {
        let rows = [
            row(
                setting(Kind::Experiment, "new"),
                [(1_000, 1_000), (1_500, 700), (1_250, 900)],
            ),
            row(
                setting(Kind::Stutter, "new"),
                [(1_000, 1_000), (1_500, 700), (1_250, 900)],
            ),
            row(
                setting(Kind::Idle, "new"),
                [(1_000, 1_000), (900, 700), (1_250, 900)],
            ),
            row(
                setting(Kind::Experiment, "old"),
                [(1_000, 1_000), (1_500, 700), (1_250, 900)],
            ),
        ];
        let said = Verdict::new("m", 2, &rows, &[]).sentences();
        assert_eq!(
            said[0],
            "With the new delays writes rise by 50.0 % (sd 0.1 %), as in the paper (+66.0 %), and \
             reads fall by 30.0 % (sd 0.0 %), as in the paper (-36.0 %). Of 2 varied settings both \
             have the paper's direction at: no pauses. The bound leaves 50.0 % of the writes' \
             change."
        );
        assert!(
            said[1].contains("reads fall by 30.0 % (sd 0.0 %), unlike in the paper (+21.0 %)"),
            "{}",
            said[1]
        );
    }

    #[test]
    fn what_did_not_run_is_not_judged() {
        let said = Verdict::new("m", 3, &[], &[]).sentences();
        assert_eq!(
            said,
            [
                "No verdict on the new delays: not all seeds ran.",
                "No verdict on the old delays: not all seeds ran."
            ]
        );
    }

    #[test]
    fn the_story_says_how_the_longest_wait_changes() {
        let teller = |lock, nanos: u64| {
            let mut waits = Histogram::new(3).expect("valid");
            waits.record(nanos).expect("it grows");
            let run = antagonist::Report {
                elapsed_ns: 1_000_000_000,
                waits,
                forks: 7,
            };
            Teller::new(lock, &[run])
        };
        let told = Told {
            experiment: NAME,
            world: "sim",
            quota_cpus: Some(36.0),
            preempted_inside: false,
            forkers: 1,
            soakers: 1,
            seconds: 1.0,
            runs: 1,
            locks: vec![
                teller(LOCKS[0], 2_000_000_000),
                teller(LOCKS[1], 3_000_000),
                teller(LOCKS[2], 4_000_000),
            ],
        };
        let said = Verdict::new("m", 2, &[], &[told]).sentences();
        assert_eq!(
            said[2],
            "Not preempted inside the lock, with 36 CPUs for the antagonists, the median wait of a \
             move goes from 2.00 s to 3.00 ms (4.00 ms with the bound), and the longest from 2.00 s \
             to 3.00 ms (4.00 ms)."
        );
    }
}
