//! How much change matters.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::{Error, ErrorKind, Result};

/// The least relative change that matters: of a step's wall time, and of each category.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Thresholds {
    /// Of the wall time of a step, and of categories that are not named; 0.03 is 3 %.
    pub step: f64,
    /// Of categories, by category, family, kind, or `idle` with or without its cause.
    pub categories: BTreeMap<String, f64>,
}

impl Default for Thresholds {
    /// 3 %.
    fn default() -> Self {
        Self { step: 0.03, categories: BTreeMap::new() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    step: Option<Share>,
    #[serde(default)]
    categories: BTreeMap<String, Share>,
}

struct Share(f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Number(f64),
        }
        let share = match Written::deserialize(deserializer)? {
            Written::Text(text) => parse(&text),
            Written::Number(share) => within(share),
        };
        share.map(Self).map_err(serde::de::Error::custom)
    }
}

fn within(share: f64) -> Result<f64, String> {
    if (0.0..=10.0).contains(&share) {
        Ok(share)
    } else {
        Err(format!("{share} is no threshold: a share from 0 (any change matters) to 10 is"))
    }
}

fn parse(text: &str) -> Result<f64, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .map_err(|_| format!("`{text}` is no threshold such as 3% or 0.03"))
    };
    match text.trim().strip_suffix('%') {
        Some(percent) => within(number(percent)? / 100.0),
        None => match number(text)? {
            share if share > 1.0 => {
                Err(format!("`{text}` could be meant in per cent: write {share}%"))
            }
            share => within(share),
        },
    }
}

impl Thresholds {
    /// Reads a threshold as it is typed: `3%` or `0.03`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] where it is none.
    pub fn parse_share(text: &str) -> Result<f64> {
        parse(text).map_err(|message| Error::new(ErrorKind::Argument, message))
    }

    /// Reads a file of thresholds:
    ///
    /// ```toml
    /// step = "3%"
    /// [categories]
    /// comm = "10%"
    /// "moe/moe_gemm" = "2%"
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] with the file and the line that is wrong.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = crate::text::read_file(path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot be read: {error}")).in_file(path)
        })?;
        let read: Document = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.get(..at).unwrap_or_default().split('\n').count();
            Error::new(ErrorKind::Argument, error.message().to_owned())
                .in_file(path)
                .at(format!("line {line}"))
                .with_hint("`step` and the table `categories` hold shares such as \"3%\"")
        })?;
        let step = read.step.map_or(Self::default().step, |share| share.0);
        let categories = read.categories.into_iter().map(|(name, share)| (name, share.0)).collect();
        Ok(Self { step, categories })
    }

    /// The threshold of a category: the most exact name counts.
    pub(super) fn of(&self, category: &str) -> f64 {
        self.named(category).unwrap_or(self.step)
    }

    /// The threshold that a name in the file gives a category.
    fn named(&self, category: &str) -> Option<f64> {
        let (family, kind) = category.split_once('/').unwrap_or((category, category));
        [category, kind, family].iter().find_map(|name| self.categories.get(*name).copied())
    }
}

/// Whether a category has a name as a user writes it: category, family or kind.
pub(super) fn is_named(category: &str, name: &str) -> bool {
    let (family, kind) = category.split_once('/').unwrap_or((category, category));
    [category, family, kind].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_name_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write(
            "step = \"5%\"\n[categories]\ncomm = 0.1\nall_reduce = \"7 %\"\n\"moe/moe_gemm\" = \"2%\"\n",
        );
        let read = Thresholds::from_file(file.path()).unwrap();
        for (category, share) in [
            ("comm/all_reduce", 0.07),
            ("comm/all_gather", 0.1),
            ("moe/moe_gemm", 0.02),
            ("moe/topk", 0.05),
            ("idle/launch", 0.05),
        ] {
            assert!((read.of(category) - share).abs() < 1e-12, "{category}");
        }
        for (text, line) in [
            ("steps = \"5%\"", 1),
            ("\n[categories]\ncomm = \"much\"", 3),
            ("step = -1", 1),
            ("step = ", 1),
        ] {
            write(text);
            let error = Thresholds::from_file(file.path()).unwrap_err();
            assert!(error.to_string().contains(&format!("line {line}:")), "{error}");
        }
        assert!(Thresholds::from_file("/nowhere.toml").is_err());
        assert!(Thresholds::parse_share("3").is_err() && Thresholds::parse_share("3000%").is_err());
    }
}
