//! The most common of a few values.

/// The value that occurs most often; of equally common ones the smallest. `None` for nothing.
pub(super) fn mode<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut sorted: Vec<T> = values.into_iter().collect();
    sorted.sort_unstable();
    let mut best: Option<(T, usize)> = None;
    for run in sorted.chunk_by(|a, b| a == b) {
        if best.is_none_or(|(_, count)| run.len() > count) {
            best = Some((run[0], run.len()));
        }
    }
    best.map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::mode;

    #[test]
    fn the_most_common_wins_then_the_smallest() {
        assert_eq!(mode([3, 1, 3, 2]), Some(3));
        assert_eq!(mode([2, 1, 1, 2]), Some(1));
        assert_eq!(mode::<i32>([]), None);
    }
}
