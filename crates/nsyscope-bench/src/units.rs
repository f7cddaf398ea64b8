//! How figures are written in tables.

/// Seconds with three digits: `3.41 s`, `58.2 ms`.
pub(crate) fn time(s: f64) -> String {
    match s {
        s if s >= 99.95 => format!("{s:.0} s"),
        s if s >= 9.995 => format!("{s:.1} s"),
        s if s >= 0.9995 => format!("{s:.2} s"),
        s if s >= 0.099_95 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.009_995 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// Bytes in decimal units.
pub(crate) fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b >= 0.9995e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 9.95e6 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.1} MB", b / 1e6),
    }
}

/// A whole number with separators.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [123.4, 12.34, 3.414, 0.5824, 0.05824, 0.001_234].map(time),
            ["123 s", "12.3 s", "3.41 s", "582 ms", "58.2 ms", "1.23 ms"]
        );
        assert_eq!(
            [1_340_000_000, 27_400_000, 4_440_000].map(bytes),
            ["1.34 GB", "27 MB", "4.4 MB"]
        );
        assert_eq!([7, 1_000, 10_499_671].map(count), ["7", "1,000", "10,499,671"]);
    }
}
