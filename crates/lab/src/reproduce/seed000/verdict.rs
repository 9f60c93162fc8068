//! Whether the paper's effect appears, pinned and unpinned.

use serde::Serialize;

use super::{
    super::{
        pairs::{Effect, Sign},
        text::{percent, signed},
    },
    NAME,
    stress::{Bench, Row, Side, Waits},
};
use crate::{format, record::rounded};

/// What the paper says of a number of groups, in 30 seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Paper {
    /// Groups.
    #[serde(skip)]
    pub groups: usize,
    /// Inversions before and after: the harmonic means.
    pub hmean: [f64; 2],
    /// Their standard deviation, over runs whose number is not given.
    pub sd: [f64; 2],
}

/// The seconds of the paper's runs.
pub const PAPER_SECONDS: f64 = 30.0;

/// The paper's results.
pub const PAPER: [Paper; 8] = [
    paper(1, [2_321_586.73, 2_339_847.23], [653_473.88, 527_076.59]),
    paper(4, [8_209_026.49, 8_597_809.55], [664_995.50, 359_487.15]),
    paper(7, [12_655_322.45, 13_194_896.45], [248_476.88, 278_307.31]),
    paper(12, [4_210_477.03, 4_348_643.08], [74_537.42, 54_305.86]),
    paper(21, [2_996_823.05, 3_104_513.47], [72_143.80, 40_371.42]),
    paper(30, [2_463_107.53, 2_584_275.71], [31_981.43, 42_306.07]),
    paper(48, [2_656_668.46, 2_719_324.53], [21_317.95, 42_608.50]),
    paper(64, [2_397_253.65, 2_471_628.92], [23_433.99, 21_502.56]),
];

const fn paper(groups: usize, hmean: [f64; 2], sd: [f64; 2]) -> Paper {
    Paper { groups, hmean, sd }
}

impl Paper {
    /// 0.04 when there are 4 % more after.
    pub fn effect(&self) -> f64 {
        self.hmean[1] / self.hmean[0] - 1.0
    }

    /// 0.04 when the standard deviation is 4 % greater after.
    pub fn sd_change(&self) -> f64 {
        self.sd[1] / self.sd[0] - 1.0
    }
}

/// A number of groups, judged.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Judged {
    /// Groups.
    pub groups: usize,
    /// In the rate.
    #[serde(flatten)]
    pub effect: Effect,
    /// Its direction: the paper's is a rise.
    pub direction: Option<Sign>,
    /// The paper's.
    pub paper_effect: f64,
    /// The share of inversions, after the change, in which the top waiter had the
    /// lock by spinning.
    pub spun: Option<f64>,
}

impl Judged {
    fn new(row: &Row) -> Self {
        // Whatever the deviation: what a table shows as 0.0 % is no effect.
        const SHOWN: f64 = 0.0005;
        let shows = row
            .effect
            .effect
            .is_some_and(|effect| effect.abs() >= SHOWN);
        let sign = row.effect.sign();
        Self {
            groups: row.setting.groups,
            effect: row.effect,
            direction: sign.map(|sign| if shows { sign } else { Sign::Neither }),
            paper_effect: rounded(row.paper.effect(), 1e4),
            spun: shares(&row.after).map(|[_, spun]| rounded(spun, 1e4)),
        }
    }
}

/// Groups that are pinned, or groups that are not.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Which.
    pub pinned: bool,
    /// Each number of groups that all seeds ran with.
    pub groups: Vec<Judged>,
    /// Inversions of all runs after the change.
    pub inversions: u64,
    /// What became of the waits in them.
    pub waits: Waits,
    /// And of those before the change.
    pub waits_before: Waits,
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
    pub seeds: u32,
    /// Rows that were to be.
    pub planned: usize,
    /// Pinned, and unpinned.
    pub parts: [Part; 2],
}

impl Verdict {
    /// Draws it from the rows alone.
    pub fn new(bench: &Bench, rows: &[Row]) -> Self {
        let complete = |row: &&Row| row.seeds == bench.seeds as usize;
        let part = |pinned| {
            let rows = rows.iter().filter(complete);
            Part::new(pinned, rows.filter(|row| row.setting.pinned == pinned))
        };
        Self {
            experiment: NAME,
            machine: bench.machine.name.clone(),
            seeds: bench.seeds,
            planned: bench.settings.len(),
            parts: [true, false].map(part),
        }
    }

    /// The verdict in sentences. Every number in them stands in it.
    pub fn sentences(&self) -> Vec<String> {
        let judged: usize = self.parts.iter().map(|part| part.groups.len()).sum();
        if judged < self.planned {
            let planned = self.planned;
            return vec![format!(
                "No verdict: {judged} of {planned} rows were measured."
            )];
        }
        self.parts.iter().flat_map(Part::sentences).collect()
    }
}

impl Part {
    fn new<'a>(pinned: bool, rows: impl Iterator<Item = &'a Row> + Clone) -> Self {
        let waits = |of: fn(&Row) -> Waits| rows.clone().map(of).fold(Waits::default(), Waits::and);
        Self {
            pinned,
            groups: rows.clone().map(Judged::new).collect(),
            inversions: rows.clone().map(|row| row.after.inversions).sum(),
            waits: waits(|row| row.after.waits),
            waits_before: waits(|row| row.before.waits),
        }
    }

    fn sentences(&self) -> [String; 3] {
        [self.effect(), self.where_it_spun(), self.reason()]
    }

    /// Those whose effect has this direction, or another.
    fn of(&self, sign: Sign, has: bool) -> impl Iterator<Item = &Judged> {
        let all = self.groups.iter();
        all.filter(move |judged| (judged.direction == Some(sign)) == has)
    }

    fn effect(&self) -> String {
        let of = |sign| self.of(sign, true).count();
        let effects = range(self.groups.iter().filter_map(|judged| judged.effect.effect));
        let papers = range(self.groups.iter().map(|judged| judged.paper_effect));
        let effects = effects.map_or("not known".into(), |both| both.map(signed).join(" to "));
        let papers = papers.map_or("not known".into(), |both| both.map(signed).join(" to "));
        format!(
            "{} the rate rises at {} of {} numbers of groups, and falls at {}, by more than its \
             deviation; the effects are {effects} (paper: {papers}).",
            if self.pinned { "Pinned," } else { "Unpinned," },
            of(Sign::Rise),
            self.groups.len(),
            of(Sign::Fall),
        )
    }

    /// How the effect goes with spinning.
    fn where_it_spun(&self) -> String {
        let spun = |has| {
            let all = self.of(Sign::Rise, has).filter_map(|judged| judged.spun);
            range(all).map(|both| both.map(percent).join(" to "))
        };
        match (spun(true), spun(false)) {
            (None, None) => "There was no inversion.".into(),
            (None, Some(all)) => {
                format!("The top waiter had the lock by spinning in {all} of the inversions.")
            }
            (Some(all), None) => format!(
                "The top waiter had the lock by spinning in {all} of the inversions, at all numbers \
                 of groups."
            ),
            (Some(rise), Some(other)) => format!(
                "Where the rate rises the top waiter had the lock by spinning in {rise} of the \
                 inversions, elsewhere in {other}."
            ),
        }
    }

    /// What became of the waits, and what that says.
    fn reason(&self) -> String {
        let Waits {
            spun,
            owner_off,
            stopped,
            slept,
        } = self.waits;
        let all = [
            self.inversions,
            spun,
            owner_off,
            stopped,
            slept,
            self.waits_before.slept,
        ];
        let [inversions, had_it, off, other, sleeps, before] = all.map(format::count);
        let counts = format!(
            "In {inversions} inversions it had the lock by spinning {had_it} times, gave up since \
             the owner was off its CPU {off} times and for another reason {other} times, and \
             slept {sleeps} times ({before} before).",
        );
        let alone = self.pinned && spun == 0 && owner_off > 0;
        let why = if alone {
            " The threads of a group share a CPU, so the owner is off it whenever a waiter looks: \
             there is nobody to spin for."
        } else {
            ""
        };
        counts + why
    }
}

/// The least and the greatest.
fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |range, value| {
        let [least, most] = range.unwrap_or([value; 2]);
        Some([value.min(least), value.max(most)])
    })
}

/// Of a side's inversions the share in which a high thread waited, and in which it
/// had the lock by spinning.
pub fn shares(side: &Side) -> Option<[f64; 2]> {
    let Waits { spun, slept, .. } = side.waits;
    let share = |n: u64| n as f64 / side.inversions as f64;
    (side.inversions > 0).then(|| [share(spun + slept), share(spun)])
}

#[cfg(test)]
mod tests {
    use super::{super::stress::tests::row, *};

    fn part(pinned: bool, rows: &[Row]) -> [String; 3] {
        Part::new(pinned, rows.iter()).sentences()
    }

    #[test]
    fn where_nobody_spins_nothing_changes_and_it_is_said_why() {
        let said = part(true, &[row(true, 1, [1_000.1, 1_000.2], 0)]);
        assert_eq!(
            said[0],
            "Pinned, the rate rises at 0 of 1 numbers of groups, and falls at 0, by more than its \
             deviation; the effects are +0.0 % to +0.0 % (paper: +0.8 % to +0.8 %)."
        );
        assert!(said[1].contains("by spinning in 0.0 % to 0.0 % of the inversions"));
        assert!(said[2].contains("gave up since the owner was off its CPU 2,000 times"));
        assert!(said[2].ends_with("there is nobody to spin for."));
    }

    #[test]
    fn a_rise_is_told_with_how_often_it_was_spun() {
        let rows = [
            row(false, 1, [1_000.0, 1_000.0], 1),
            row(false, 64, [1_200.0, 1_250.0], 800),
        ];
        let said = part(false, &rows);
        assert!(said[0].contains("rises at 1 of 2 numbers of groups, and falls at 0"));
        assert_eq!(
            said[1],
            "Where the rate rises the top waiter had the lock by spinning in 80.0 % to 80.0 % of \
             the inversions, elsewhere in 0.1 % to 0.1 %."
        );
        assert!(
            said[2].ends_with("slept 2,398 times (4,000 before)."),
            "{}",
            said[2]
        );
    }

    #[test]
    fn the_mean_is_harmonic_and_the_deviation_compared() {
        let row = row(false, 4, [500.0, 2_000.0], 0);
        assert_eq!((row.before.hmean, row.after.hmean), (1_000.0, 800.0));
        assert_eq!((row.before.sd, row.sd_change), (Some(0.0), None));
    }
}
