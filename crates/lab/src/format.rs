//! Numbers as people read them.

use indicatif::HumanCount;

/// A whole number with thousands separators.
pub fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// Operations per second with their unit: `2,757 kop/s`, and `op/s` when there
/// is less than one thousand.
pub fn rate(per_second: f64) -> String {
    if per_second < 1e3 {
        format!("{} op/s", count(per_second.round() as u64))
    } else {
        format!("{} kop/s", count((per_second / 1e3).round() as u64))
    }
}

/// A number with thousands separators and at least three significant digits.
pub fn number(n: f64) -> String {
    match n {
        n if n >= 99.95 => count(n.round() as u64),
        n if n >= 9.995 => format!("{n:.1}"),
        n if n >= 0.9995 => format!("{n:.2}"),
        n => format!("{n:.3}"),
    }
}

/// A time: `730 ns`, `1.07 µs`, `12.3 ms`, `4.00 s`.
pub fn time(ns: u64) -> String {
    let n = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", number(n / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", number(n / 1e6)),
        _ => format!("{} s", number(n / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_change_unit_below_one_thousand() {
        assert_eq!(rate(2_757_400.0), "2,757 kop/s");
        assert_eq!(rate(14_780.0), "15 kop/s");
        assert_eq!(rate(999.2), "999 op/s");
        assert_eq!(rate(0.0), "0 op/s");
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [0.0, 0.07, 1.0, 9.994, 9.996, 99.96, 1234.5].map(number);
        assert_eq!(
            shown,
            ["0.000", "0.070", "1.00", "9.99", "10.0", "100", "1,235"]
        );
    }

    #[test]
    fn times_change_unit_at_each_thousand() {
        let shown = [0, 999, 1_000, 12_345, 1_500_000, 4_000_000_000].map(time);
        assert_eq!(
            shown,
            ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "1.50 ms", "4.00 s"]
        );
    }
}
