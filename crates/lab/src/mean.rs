//! A mean, and how sure it is; as perf has it.

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
}
