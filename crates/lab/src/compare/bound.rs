//! What a lock promises, held against what was measured.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{failure::Failure, format, record::rounded};

/// What fewer rounds say, an interrupt having come, is not judged.
pub const ROUNDS: usize = 3;

/// The side of a number that a promise is on.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// It is no more than this.
    AtMost(f64),
    /// It is no less than this.
    AtLeast(f64),
}

/// A promise and what was measured of it.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// Its name.
    pub bound: &'static str,
    /// What it is about.
    pub what: String,
    /// Whether it holds; null when it was not measured.
    pub holds: Option<bool>,
    /// What was measured; null when nothing was.
    pub measured: Option<f64>,
    /// What was promised.
    #[serde(flatten)]
    pub side: Side,
    /// What it was made of.
    pub numbers: BTreeMap<&'static str, f64>,
}

impl Side {
    fn has(self, number: f64) -> bool {
        match self {
            Self::AtMost(most) => number <= most,
            Self::AtLeast(least) => number >= least,
        }
    }
}

impl Bound {
    /// A promise, held against what was measured of it, if anything was.
    pub fn new(
        bound: &'static str,
        what: impl Into<String>,
        side: Side,
        measured: Option<f64>,
        numbers: impl IntoIterator<Item = (&'static str, f64)>,
    ) -> Self {
        let numbers = numbers.into_iter().map(|(name, n)| (name, rounded(n, 1e3)));
        let measured = measured.map(|measured| rounded(measured, 1e4));
        Self {
            bound,
            what: what.into(),
            holds: measured.map(|measured| side.has(measured)),
            measured,
            side,
            numbers: numbers.collect(),
        }
    }

    fn text(&self) -> String {
        let (bound, what) = (self.bound, &self.what);
        let side = match self.side {
            Side::AtMost(most) => format!("at most {most}"),
            Side::AtLeast(least) => format!("at least {least}"),
        };
        let Some(measured) = self.measured else {
            return format!("  {bound}: NOT MEASURED\n    {what}: {side}\n");
        };
        let verdict = if self.holds == Some(true) {
            "holds"
        } else {
            "MISSED"
        };
        let measured = number(measured);
        let numbers = self.numbers.iter();
        let numbers: Vec<_> = numbers
            .map(|(name, n)| format!("{name} {}", number(*n)))
            .collect();
        let lines = numbers
            .chunks(4)
            .map(|some| format!("    {}\n", some.join(", ")));
        format!("  {bound}: {verdict}\n    {what}: {measured}, {side}\n")
            + &lines.collect::<String>()
    }
}

fn number(n: f64) -> String {
    if n >= 0.0 && n.fract() == 0.0 {
        format::count(n as u64)
    } else {
        format::number(n)
    }
}

/// Whether all hold: none when none is missed but not all were measured.
pub fn hold(bounds: &[Bound]) -> Option<bool> {
    let any = |holds| bounds.iter().any(|bound| bound.holds == holds);
    match (any(Some(false)), any(None)) {
        (true, _) => Some(false),
        (false, true) => None,
        (false, false) => Some(true),
    }
}

/// Makes sure that none is missed.
///
/// # Errors
/// Some are.
pub fn check(bounds: &[Bound]) -> Result<(), Failure> {
    let missed = bounds.iter().filter(|bound| bound.holds == Some(false));
    let names: Vec<_> = missed.map(|bound| bound.bound).collect();
    match names.len() {
        0 => Ok(()),
        n => Err(Failure::Check(format!(
            "{n} of {} bounds missed: {}",
            bounds.len(),
            names.join(", ")
        ))),
    }
}

/// The bounds for people.
pub fn text(bounds: &[Bound]) -> String {
    let all = bounds.iter().map(Bound::text);
    ["\nBounds\n".into()].into_iter().chain(all).collect()
}
