//! Student's t distribution.

/// The probability that a variable of `df` degrees of freedom exceeds `t`.
///
/// By the regularised incomplete beta function (Abramowitz and Stegun, 26.7.1), whose continued
/// fraction (26.5.8) is evaluated by Lentz's method.
pub(crate) fn tail(t: f64, df: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    let half = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t));
    if t >= 0.0 { half } else { 1.0 - half }
}

/// The value that a variable of `df` degrees of freedom exceeds with probability `p` below 1/2.
pub(crate) fn quantile(p: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 2.0);
    while tail(high, df) > p && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if tail(middle, df) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut above = 1.0;
    let mut below = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut out = below;
    for i in 1..300 {
        let i = f64::from(i);
        let even = i * (b - i) * x / ((a + 2.0 * i - 1.0) * (a + 2.0 * i));
        let odd = -(a + i) * (a + b + i) * x / ((a + 2.0 * i) * (a + 2.0 * i + 1.0));
        let mut factor = 1.0;
        for term in [even, odd] {
            below = 1.0 / guard(1.0 + term * below);
            above = guard(1.0 + term / above);
            factor = below * above;
            out *= factor;
        }
        if (factor - 1.0).abs() < 1e-14 {
            break;
        }
    }
    out
}

/// The logarithm of the gamma function by Lanczos' approximation (g = 7, nine terms), good to 15
/// digits.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum =
        TERMS[1..].iter().zip(1..).fold(TERMS[0], |sum, (term, i)| sum + term / (x + f64::from(i)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of published tables.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, df, value) in [
            (0.025, 1.0, 12.706_2),
            (0.025, 4.0, 2.776_4),
            (0.025, 10.0, 2.228_1),
            (0.025, 30.0, 2.042_3),
            (0.005, 15.0, 2.946_7),
            (0.0005, 20.0, 3.849_5),
            (0.05, 120.0, 1.657_7),
            (0.025, 1e6, 1.960_0),
        ] {
            assert!((quantile(p, df) - value).abs() < 1e-4 * value, "{p} {df} {}", quantile(p, df));
        }
        assert!((tail(-2.0, 7.5) + tail(2.0, 7.5) - 1.0).abs() < 1e-12);
        assert!(tail(f64::INFINITY, 3.0) < 1e-300);
        assert!(tail(f64::NAN, 3.0) > 0.999);
        assert!(tail(60.0, 20.0) > 0.0 && tail(60.0, 20.0) < 1e-20);
    }
}
