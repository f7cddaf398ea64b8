//! A column of integers as one short text.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One integer a step, written as a text: the lower median, then each step's distance from it.
/// Where all are equal, the value alone.
///
/// Neighbouring steps differ by little, so most distances have one to three digits; and a text is
/// one line in a file that is meant for version control.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    at: i64,
    by: Vec<i64>,
}

impl Column {
    /// Of values, one a step.
    pub fn new(values: &[i64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let at = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0);
        if sorted.first() == sorted.last() {
            return Self { at, by: Vec::new() };
        }
        Self { at, by: values.iter().map(|value| value - at).collect() }
    }

    /// The value of a step.
    pub fn get(&self, step: usize) -> i64 {
        self.at.saturating_add(self.by.get(step).copied().unwrap_or(0))
    }

    /// The lower median.
    pub fn median(&self) -> i64 {
        self.at
    }

    /// The values of so many steps.
    pub fn values(&self, steps: usize) -> Vec<i64> {
        (0..steps).map(|step| self.get(step)).collect()
    }

    /// Whether it can hold so many steps.
    pub(super) fn fits(&self, steps: usize) -> bool {
        self.by.is_empty() || self.by.len() == steps
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = self.at.to_string();
        for by in &self.by {
            text.push(' ');
            text.push_str(&by.to_string());
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut numbers = text.split(' ').map(|word| {
            word.parse::<i64>().map_err(|_| D::Error::custom(format!("`{word}` is no integer")))
        });
        let at = numbers.next().unwrap_or(Ok(0))?;
        Ok(Self { at, by: numbers.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_values_are_one() {
        assert_eq!(serde_json::to_string(&Column::new(&[7, 7, 7])).unwrap(), "\"7\"");
        assert_eq!(serde_json::to_string(&Column::new(&[7, 9, 8])).unwrap(), "\"8 -1 1 0\"");
        assert_eq!(Column::new(&[]), Column::default());
        for bad in ["\"\"", "\"1  2\"", "\"x\"", "\"1.5\"", "3", "\"9223372036854775808\""] {
            assert!(serde_json::from_str::<Column>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 0..40)) {
            let column = Column::new(&values);
            let text = serde_json::to_string(&column).unwrap();
            let read: Column = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &column);
            prop_assert!(read.fits(values.len()));
            prop_assert_eq!(read.values(values.len()), values);
        }
    }
}
