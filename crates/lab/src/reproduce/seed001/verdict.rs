//! Whether the paper's effect appears.

use serde::Serialize;

use super::{
    super::{
        pairs::{Effect, Row, Setting, Sign, Size},
        text::{percent, signed},
    },
    Kind, NAME, PAPER, PAPER_SECONDS, Published, paper_effect,
};
use crate::record::rounded;

/// What was to be run, and what was.
pub struct Scope {
    /// The name of the simulated machine.
    pub machine: String,
    /// Seeds.
    pub seeds: usize,
    /// Gaps.
    pub gaps: usize,
    /// Runs that were to be.
    pub runs_planned: u64,
    /// Runs of whole pairs.
    pub runs: usize,
}

/// The paper's results.
#[derive(Serialize)]
pub struct Paper {
    seconds: f64,
    before: Published,
    after: Published,
    effect: f64,
    max_share_before: f64,
    max_share_after: f64,
}

/// A setting, judged: it has the runs of all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
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
    /// The share of the most favoured thread before.
    pub max_share_before: Option<f64>,
    /// The same after.
    pub max_share_after: Option<f64>,
    /// Its direction: the paper's is a fall.
    pub max_share: Option<Sign>,
}

impl Judged {
    fn new(row: &Row<Kind>, bounds: [f64; 2]) -> Self {
        let direction = row.effect.sign();
        let size = Size::of_rise(row.effect, bounds);
        Self {
            setting: row.setting,
            effect: row.effect,
            direction,
            size,
            max_share_before: row.before.max_share.map(|share| share.mean),
            max_share_after: row.after.max_share.map(|share| share.mean),
            max_share: row.share_effect.sign(),
        }
    }
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
    /// The paper's results.
    pub paper: Paper,
    /// Half of the paper's effect, and twice as much.
    pub size_bounds: [f64; 2],
    /// At the published setting; null unless all seeds ran.
    pub published: Option<Judged>,
    /// Gaps that were to be.
    pub gaps_planned: usize,
    /// At each gap that all seeds ran with.
    pub gaps: Vec<Judged>,
}

impl Verdict {
    /// Draws it from the rows alone.
    pub fn new(scope: Scope, rows: &[Row<Kind>]) -> Self {
        let effect = paper_effect(|paper| paper.rate_kops);
        let size_bounds = [0.5, 2.0].map(|times| rounded(times * effect, 1e4));
        let complete = rows.iter().filter(|row| row.seeds == scope.seeds);
        let of = |kind: Kind| {
            let rows = complete.clone().filter(move |row| row.kind == kind);
            rows.map(|row| Judged::new(row, size_bounds))
        };
        let [before, after] = PAPER;
        Self {
            experiment: NAME,
            machine: scope.machine,
            seeds: scope.seeds,
            runs_planned: scope.runs_planned,
            runs: scope.runs,
            paper: Paper {
                seconds: PAPER_SECONDS,
                before,
                after,
                effect: rounded(effect, 1e4),
                max_share_before: rounded(before.max_share(), 1e4),
                max_share_after: rounded(after.max_share(), 1e4),
            },
            size_bounds,
            published: of(Kind::Experiment).next(),
            gaps_planned: scope.gaps,
            gaps: of(Kind::Gap).collect(),
        }
    }

    /// The verdict in sentences. Every number in them stands in it.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        match &self.published {
            Some(judged) => {
                said.push(self.rate(judged));
                said.push(self.share(judged));
            }
            None => said.push(format!(
                "No verdict on the published setting: {} of {} runs were made.",
                self.runs, self.runs_planned
            )),
        }
        said.extend(self.over_the_gaps());
        said
    }

    /// What the total rate does at the published setting.
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
        let paper = format!("paper: a rise by {}", percent(self.paper.effect));
        match (judged.direction, judged.size) {
            (Some(Sign::Rise), Some(size)) => format!(
                "{head} the paper's effect appears: the total rate rises by {by} (sd {sd}; \
                 {paper}). That is {}.",
                size.sized()
            ),
            (Some(Sign::Fall), _) => format!(
                "{head} the effect is reversed: the total rate falls by {by} (sd {sd}; {paper})."
            ),
            _ => format!(
                "{head} no effect shows: the total rate changes by {}, which is no more than \
                 its standard deviation of {sd} ({paper}).",
                signed(effect)
            ),
        }
    }

    /// What the share of the most favoured thread does there.
    fn share(&self, judged: &Judged) -> String {
        let (Some(before), Some(after)) = (judged.max_share_before, judged.max_share_after) else {
            return "No thread is favoured: a run made no operation.".into();
        };
        let ours = format!("from {} to {}", percent(before), percent(after));
        let paper = format!(
            "from {} to {}",
            percent(self.paper.max_share_before),
            percent(self.paper.max_share_after)
        );
        let head = "The most favoured thread's share of all operations";
        match judged.max_share {
            Some(Sign::Fall) => format!("{head} falls {ours}, as in the paper ({paper})."),
            Some(Sign::Rise) => {
                format!("{head} rises {ours}; in the paper it falls ({paper}).")
            }
            _ => format!(
                "{head} goes {ours}, no further than its standard deviation; in the paper it \
                 falls ({paper})."
            ),
        }
    }

    fn over_the_gaps(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.gaps.len() < self.gaps_planned {
            said.push(format!(
                "No verdict over the gaps: {} of {} were measured.",
                self.gaps.len(),
                self.gaps_planned
            ));
            return said;
        }
        let of = |what: fn(&Judged) -> bool, shown: fn(&Judged) -> String| {
            let gaps = self.gaps.iter().filter(|judged| what(judged));
            match &gaps.map(shown).collect::<Vec<_>>()[..] {
                [] => "at none".to_owned(),
                gaps => format!("at {} ({})", gaps.len(), gaps.join(", ")),
            }
        };
        let gap = |judged: &Judged| judged.setting.gap.to_string();
        let effect = |judged: &Judged| {
            let change = judged.effect.effect.unwrap_or_default();
            format!("{}: {}", judged.setting.gap, signed(change))
        };
        said.push(format!(
            "Of {} gaps the paper's effect appears {}, from half to twice its size {}, and it is \
             reversed {}.",
            self.gaps.len(),
            of(|judged| judged.direction == Some(Sign::Rise), effect),
            of(|judged| judged.size == Some(Size::Rough), gap),
            of(|judged| judged.direction == Some(Sign::Fall), effect),
        ));
        said.push(format!(
            "The most favoured thread's share falls as in the paper {}.",
            of(|judged| judged.max_share == Some(Sign::Fall), gap)
        ));
        let first = self.gaps.first().map(|judged| judged.direction);
        let same = |judged: &Judged| Some(judged.direction) == first;
        said.push(if self.gaps.iter().all(same) {
            "The direction does not depend on the gap, which the seed does not give.".into()
        } else {
            "So the direction depends on the gap, which the seed does not give.".into()
        });
        said
    }
}

#[cfg(test)]
mod tests {
    use lockyard_sim::Machine;

    use super::{
        super::{
            super::pairs::{Pair, Run},
            LOCKS, explanation,
        },
        *,
    };

    /// A run of such a rate in which the most favoured thread made that share,
    /// and an operation took so long to compute.
    fn run(rate_kops: f64, share: f64, compute: f64) -> Run {
        let some = rate_kops > 0.0;
        Run {
            rate_kops,
            ops: [1.0, 100.0, 22_400.0 * share],
            max_share: some.then_some(share),
            cost: some.then_some([compute, 80.0, 9_000.0, 0.0, 0.0]),
            events: [0; _],
        }
    }

    fn row(kind: Kind, gap: u32, pairs: &[(Run, Run)]) -> Row<Kind> {
        let setting = Setting {
            threads_per_core: 4,
            threads: 224,
            load: 1,
            gap,
            seconds: 0.05,
        };
        let pair = |&(before, after)| Pair { before, after };
        let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
        Row::new(kind, NAME, setting, LOCKS, &pairs).expect("there are pairs")
    }

    /// Two seeds: from 1,000 kop/s to these, and from that share to this.
    fn made(kind: Kind, gap: u32, after: [f64; 2], shares: [f64; 2]) -> Row<Kind> {
        let pair = |rate| (run(1_000.0, shares[0], 30.0), run(rate, shares[1], 20.0));
        row(kind, gap, &after.map(pair))
    }

    fn judged(rows: &[Row<Kind>]) -> Verdict {
        let scope = Scope {
            machine: "m".into(),
            seeds: 2,
            gaps: rows.iter().filter(|row| row.kind == Kind::Gap).count(),
            runs_planned: 40,
            runs: 4 * rows.len(),
        };
        Verdict::new(scope, rows)
    }

    /// What is said of an experiment that came out so.
    fn said(after: [f64; 2], shares: [f64; 2]) -> Vec<String> {
        judged(&[made(Kind::Experiment, 0, after, shares)]).sentences()
    }

    #[test]
    fn an_effect_that_is_shown_is_said_with_its_size() {
        for (after, by, size) in [
            ([1_200.0, 1_220.0], "21.0 % (sd 1.4 %", "from half to twice"),
            ([1_050.0, 1_060.0], "5.5 % (sd 0.7 %", "less than half"),
            ([1_500.0, 1_500.0], "50.0 % (sd 0.0 %", "more than twice"),
        ] {
            let said = said(after, [0.08, 0.04]);
            let expected = format!(
                "At the published setting the paper's effect appears: the total rate rises by \
                 {by}; paper: a rise by 20.1 %). That is {size} the paper's."
            );
            let expected = expected.replace("less than half the", "less than half of the");
            assert_eq!(said[0], expected);
            assert_eq!(
                said[1],
                "The most favoured thread's share of all operations falls from 8.0 % to 4.0 %, \
                 as in the paper (from 7.7 % to 3.9 %)."
            );
        }
    }

    #[test]
    fn an_effect_within_its_deviation_is_none() {
        let said = said([900.0, 1_120.0], [0.08, 0.08]);
        assert_eq!(
            said[0],
            "At the published setting no effect shows: the total rate changes by +1.0 %, which \
             is no more than its standard deviation of 15.6 % (paper: a rise by 20.1 %)."
        );
        let same = "from 8.0 % to 8.0 %, no further than its standard deviation; in the paper";
        assert!(said[1].contains(same), "{}", said[1]);
    }

    #[test]
    fn an_effect_that_is_reversed_is_said_so() {
        let said = said([700.0, 720.0], [0.08, 0.5]);
        assert_eq!(
            said[0],
            "At the published setting the effect is reversed: the total rate falls by 29.0 % \
             (sd 1.4 %; paper: a rise by 20.1 %)."
        );
        let rises = "rises from 8.0 % to 50.0 %; in the paper it falls (from 7.7 % to 3.9 %).";
        assert!(said[1].ends_with(rises), "{}", said[1]);
    }

    #[test]
    fn the_gaps_are_counted_by_what_they_show() {
        let gap = |gap, after, shares| made(Kind::Gap, gap, [after; 2], shares);
        let verdict = judged(&[
            gap(0, 700.0, [0.9, 0.1]),
            gap(10, 1_600.0, [0.1, 0.1]),
            gap(50, 1_200.0, [0.1, 0.2]),
            gap(200, 1_000.0, [0.2, 0.1]),
        ]);
        assert_eq!(
            verdict.sentences(),
            [
                "No verdict on the published setting: 16 of 40 runs were made.",
                "Of 4 gaps the paper's effect appears at 2 (10: +60.0 %, 50: +20.0 %), from half \
                 to twice its size at 1 (50), and it is reversed at 1 (0: -30.0 %).",
                "The most favoured thread's share falls as in the paper at 2 (0, 200).",
                "So the direction depends on the gap, which the seed does not give.",
            ]
        );
        let everywhere = judged(&[gap(0, 1_300.0, [0.1; 2]), gap(10, 1_400.0, [0.1; 2])]);
        let said = everywhere.sentences();
        assert!(
            said[1].contains("at 2 (0, 10), and it is reversed at none."),
            "{said:?}"
        );
        assert!(said[2].ends_with("as in the paper at none."), "{said:?}");
        assert!(
            said[3].starts_with("The direction does not depend"),
            "{said:?}"
        );
    }

    #[test]
    fn what_is_not_whole_is_not_judged() {
        let one = [(run(1_000.0, 0.1, 30.0), run(2_000.0, 0.1, 20.0))];
        let verdict = judged(&[row(Kind::Experiment, 0, &one), row(Kind::Gap, 0, &one)]);
        assert!(verdict.published.is_none() && verdict.gaps.is_empty());
        assert_eq!(
            verdict.sentences(),
            [
                "No verdict on the published setting: 8 of 40 runs were made.",
                "No verdict over the gaps: 0 of 1 were measured.",
            ]
        );
        let nothing = [(run(0.0, 0.0, 0.0), run(10.0, 0.1, 20.0)); 2];
        let verdict = judged(&[row(Kind::Experiment, 0, &nothing)]);
        let said = verdict.sentences();
        assert!(said[0].ends_with("there is no effect to judge: a run made no operation."));
        assert!(said[1].starts_with("No thread is favoured"), "{said:?}");
    }

    #[test]
    fn the_explanation_follows_the_costs() {
        let machine = Machine::find("arm64-2s56c224t").expect("it comes with the simulator");
        let with = |compute: [f64; 2], shares: [f64; 2]| {
            let [before, after] = compute;
            let pair = (
                run(10_000.0, shares[0], before),
                run(5_000.0, shares[1], after),
            );
            row(Kind::Smt, 0, &[pair; 2])
        };
        let said = |four, one| explanation::sentences(&machine, &with(four, [0.9, 0.1]), one);
        let alone = with([16.0, 16.0], [0.1; 2]);
        let gained = said([40.0, 20.0], Some(&alone));
        assert_eq!(
            gained[0],
            "Spinners that wait for events leave the core to their siblings: computing time per \
             operation falls by 50.0 % (from 40.0 ns to 20.0 ns); with one thread per core, 224 in \
             all, it stays at 16.0 ns."
        );
        assert!(gained[1].ends_with("stays at 80.0 ns."), "{gained:?}");
        assert!(
            gained[2].starts_with("An operation ends every 100 ns before and every 200 ns after. ")
                && gained[2].contains(" at least 91.5 % of the time before and 95.8 % after "),
            "{gained:?}"
        );
        let kept = "at most 20.0 % of the operations before took it over";
        assert!(gained[3].contains(kept), "{gained:?}");

        let lost = said([20.0, 40.0], Some(&alone));
        assert!(lost[0].contains("does not show") && lost[0].contains("rises by 100.0 %"));
        let falls = with([40.0, 20.0], [0.1; 2]);
        let alike = said([40.0, 20.0], Some(&falls));
        assert!(alike[0].contains("does not show"), "{alike:?}");
        let unknown = said([40.0, 20.0], None);
        assert!(unknown[0].starts_with("Computing time per operation falls by 50.0 %"));
        let spread = explanation::sentences(&machine, &with([1.0; 2], [0.1; 2]), None);
        assert_eq!(spread.len(), 3, "nobody keeps the lock: {spread:?}");
    }
}
