//! What was measured of one parameter.

/// Samples of a time in nanoseconds, or of a share.
#[derive(Clone, Default, Debug)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Adds some.
    pub fn extend(&mut self, samples: impl IntoIterator<Item = f64>) {
        self.0.extend(samples);
    }

    /// Adds those of another.
    pub fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Adds `by` to each.
    pub fn shift(&mut self, by: f64) {
        for sample in &mut self.0 {
            *sample += by;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sample that this share of all is not above; 0 where there are none.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut all = self.0.clone();
        all.sort_unstable_by(f64::total_cmp);
        let at = (all.len().saturating_sub(1) as f64 * share).round() as usize;
        all.get(at).copied().unwrap_or(0.0)
    }

    /// The one in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Where most of them lie: `p10 X, p90 Y`.
    pub fn spread(&self) -> String {
        let [low, high] = [0.1, 0.9].map(|share| short(self.quantile(share)));
        format!("p10 {low}, p90 {high}")
    }
}

/// `x` with four digits: more were not measured.
pub fn short(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.median(), 0.0);
        samples.extend((0..=10).rev().map(f64::from));
        let found = [0.0, 0.1, 0.5, 0.9, 1.0].map(|share| samples.quantile(share));
        assert_eq!(found, [0.0, 1.0, 5.0, 9.0, 10.0]);
        assert_eq!(samples.spread(), "p10 1, p90 9");
    }

    #[test]
    fn four_digits_are_kept() {
        let shown = [0.123_456, 5.0, 21_853.7, 4_000_000.0].map(short);
        assert_eq!(shown, [0.1235, 5.0, 21_850.0, 4_000_000.0]);
    }
}
