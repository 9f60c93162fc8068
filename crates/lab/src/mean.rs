//! A mean, and how sure it is, as perf has it; and how sure a median is.

/// The mean of some numbers.
pub fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// The standard error of their mean, in per cent of it.
pub fn spread_pct(of: &[f64]) -> f64 {
    let (mean, count) = (mean(of), of.len() as f64);
    let squares: f64 = of.iter().map(|n| (n - mean).powi(2)).sum();
    let variance = squares / (count - 1.0).max(1.0);
    100.0 * (variance / count).sqrt() / mean.max(1e-9)
}

/// Between which of some numbers the median of what they are drawn from lies, 19 times of 20:
/// whatever their distribution, for each lies above it as often as below. All of them, where
/// they are too few for that.
pub fn median_within(mut of: Vec<f64>) -> (f64, f64) {
    of.sort_by(f64::total_cmp);
    let count = of.len();
    // That so many, or fewer, lie below it: of 1,000 numbers still no number too small.
    let mut exactly = 0.5_f64.powi(count as i32);
    let mut at_most = exactly;
    let mut below = 0;
    while at_most <= 0.025 {
        below += 1;
        exactly *= (count + 1 - below) as f64 / below as f64;
        at_most += exactly;
    }
    let lowest = below.max(1) - 1;
    (of[lowest], of[count - 1 - lowest])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean() {
        assert_eq!((mean(&[7.0]), spread_pct(&[7.0])), (7.0, 0.0));
        // A variance of 1 over 4 numbers.
        let of = [3.5, 4.5, 5.0, 3.0].map(|n| (n - 4.0) * 1.2_f64.sqrt() + 4.0);
        assert!((spread_pct(&of) - 12.5).abs() < 1e-9);
    }

    #[test]
    fn a_median_lies_within_some_of_the_numbers() {
        let of = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
        // As in tables of the sign test: from the 6th on, the 25th's 8th, the 100th's 40th.
        assert_eq!(median_within(of(1)), (1.0, 1.0));
        assert_eq!(median_within(of(5)), (1.0, 5.0));
        assert_eq!(median_within(of(6)), (1.0, 6.0));
        assert_eq!(median_within(of(9)), (2.0, 8.0));
        assert_eq!(median_within(of(25)), (8.0, 18.0));
        assert_eq!(median_within(of(100)), (40.0, 61.0));
        assert_eq!(median_within(of(1000)).0, 469.0);
    }
}
