//! Interval algebra over time in ns: pure functions on half-open intervals `[start, end)`.

/// A half-open interval of time in ns.
pub type Interval = (i64, i64);

/// Joins intervals that overlap or touch; the result is sorted and disjoint.
pub fn union(intervals: impl IntoIterator<Item = Interval>) -> Vec<Interval> {
    let mut sorted: Vec<Interval> =
        intervals.into_iter().filter(|(start, end)| start < end).collect();
    sorted.sort_unstable();
    let mut out: Vec<Interval> = Vec::new();
    for (start, end) in sorted {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// The total length of disjoint intervals in ns.
pub fn length(disjoint: &[Interval]) -> i64 {
    disjoint.iter().map(|(start, end)| end - start).sum()
}

/// What two sorted, disjoint sets have in common.
pub fn intersection(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    while let (Some(&(a0, a1)), Some(&(b0, b1))) = (a.get(i), b.get(j)) {
        let (start, end) = (a0.max(b0), a1.min(b1));
        if start < end {
            out.push((start, end));
        }
        if a1 <= b1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

/// What a window holds beside a sorted, disjoint set.
pub fn gaps(window: Interval, disjoint: &[Interval]) -> Vec<Interval> {
    let mut out = Vec::new();
    let mut at = window.0;
    for &(start, end) in disjoint {
        let start = start.min(window.1);
        if start > at {
            out.push((at, start));
        }
        at = at.max(end);
    }
    if at < window.1 {
        out.push((at, window.1));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covered(set: &[Interval], t: i64) -> bool {
        set.iter().any(|&(start, end)| start <= t && t < end)
    }

    fn some() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((0i64..60, 0i64..12).prop_map(|(s, d)| (s, s + d)), 0..12)
    }

    proptest! {
        #[test]
        fn agree_with_a_bitmap(a in some(), b in some()) {
            let (ua, ub) = (union(a.iter().copied()), union(b.iter().copied()));
            let both = intersection(&ua, &ub);
            let free = gaps((0, 80), &ua);
            for t in 0..80 {
                prop_assert_eq!(covered(&a, t), covered(&ua, t));
                prop_assert_eq!(covered(&both, t), covered(&ua, t) && covered(&ub, t));
                prop_assert_eq!(covered(&free, t), !covered(&ua, t));
            }
            prop_assert!(ua.windows(2).all(|w| w[0].1 < w[1].0));
            prop_assert_eq!(length(&ua) + length(&free), 80);
        }
    }
}
