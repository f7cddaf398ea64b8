//! Ticks of axes: round values, and how they are written.

/// Round values within a range: 1, 2 or 5 times a power of ten apart, at most `most` of them.
pub(crate) fn ticks(from: f64, until: f64, most: usize) -> Vec<f64> {
    let span = until - from;
    if !span.is_finite() || span <= 0.0 || most == 0 {
        return Vec::new();
    }
    let least = span / most as f64;
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(power * 10.0);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (until / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// The powers of ten within a range, and half of them or fewer where there are too many.
pub(crate) fn decades(from: f64, until: f64, most: usize) -> Vec<f64> {
    let first = (from.log10() - 1e-9).ceil() as i32;
    let last = (until.log10() + 1e-9).floor() as i32;
    let count = (last - first + 1).max(0) as usize;
    let stride = count.div_ceil(most.max(1)).max(1);
    (first..=last).step_by(stride).map(|power| 10f64.powi(power)).collect()
}

/// A unit of time for a span in ns: its name and its length in ns.
pub(crate) fn time_unit(span_ns: f64) -> (&'static str, f64) {
    match span_ns {
        s if s < 2e3 => ("ns", 1.0),
        s if s < 2e6 => ("µs", 1e3),
        s if s < 2e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

/// A tick's value without digits that say nothing.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// A value with an SI prefix: 1.5 T, 20 G.
pub(crate) fn si(value: f64) -> String {
    for (power, prefix) in [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= power * 0.999_999 {
            return format!("{} {prefix}", number(value / power));
        }
    }
    format!("{} ", number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(3.0, 4.1, 4), [3.0, 3.5, 4.0]);
        assert!(ticks(1.0, 1.0, 5).is_empty());
        for (from, until) in [(0.0, 7e-3), (-12.0, 1e9), (0.1, 0.2)] {
            let found = ticks(from, until, 6);
            assert!((2..=7).contains(&found.len()), "{found:?}");
        }
        assert_eq!(decades(0.5, 2e3, 9), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(number(0.5), "0.5");
        assert_eq!(si(4.8e12), "4.8 T");
    }
}
