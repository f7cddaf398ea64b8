//! What a finding is.

use std::fmt::Write as _;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::facts::PhaseFacts;
use crate::format;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A fifth of a step or more, or a limit that puts the figures in doubt.
    High,
    /// A twentieth of a step or more, or what should be looked at first.
    Medium,
    /// Less.
    Low,
}

impl Severity {
    /// The stable text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }

    /// Of a gain, by its part of a step.
    pub(super) fn of_share(share: f64) -> Self {
        match share {
            s if s >= 0.2 => Self::High,
            s if s >= 0.05 => Self::Medium,
            _ => Self::Low,
        }
    }
}

/// A conclusion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Which rule; stable.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The steps that it is about; null where it is about the capture.
    pub phase: Option<&'static str>,
    /// Their number of requests; null where unknown.
    pub batch: Option<u32>,
    /// What was found, in one sentence.
    pub title: String,
    /// The numbers that it rests on.
    pub evidence: Evidence,
    /// Wall time of a typical step that goes away if what is found took none, in ns: a ceiling.
    /// Null where it has no size.
    pub gain_ns_per_step: Option<i64>,
    /// Its part of a typical step, 0..1.
    pub gain_share: Option<f64>,
    /// Tokens a second that the steps would gain; null where their tokens are unknown.
    pub gain_tokens_per_s: Option<f64>,
    /// What to try first, in one sentence; what to expect of it and what else there is after that.
    pub action: String,
    /// The title without the steps that it is about.
    #[serde(skip)]
    pub(crate) said: String,
}

impl Finding {
    /// About the capture: without a size.
    pub(super) fn of_capture(id: &'static str, severity: Severity, title: String) -> Self {
        Self {
            id,
            severity,
            phase: None,
            batch: None,
            said: title.clone(),
            title,
            evidence: Evidence::default(),
            gain_ns_per_step: None,
            gain_share: None,
            gain_tokens_per_s: None,
            action: String::new(),
        }
    }

    /// About the steps of a phase, which the title begins with, and what they would gain.
    pub(super) fn of_phase(
        id: &'static str,
        phase: &PhaseFacts<'_>,
        gain_ns: i64,
        said: impl Into<String>,
    ) -> Self {
        let gain_ns = gain_ns.clamp(0, phase.wall_ns);
        let share = phase.part(gain_ns);
        let rate = phase.tokens_per_step.filter(|_| gain_ns < phase.wall_ns).map(|tokens| {
            tokens * 1e9 / (phase.wall_ns - gain_ns) as f64 - tokens * 1e9 / phase.wall_ns as f64
        });
        Self {
            gain_ns_per_step: Some(gain_ns),
            gain_share: Some(share),
            gain_tokens_per_s: rate,
            ..Self::unsized_of_phase(id, Severity::of_share(share), phase, said)
        }
    }

    /// About the steps of a phase, without a size.
    pub(super) fn unsized_of_phase(
        id: &'static str,
        severity: Severity,
        phase: &PhaseFacts<'_>,
        said: impl Into<String>,
    ) -> Self {
        let said = said.into();
        let mut label = phase.label();
        // As a sentence begins; labels are ASCII.
        if let Some(first) = label.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Self {
            phase: Some(phase.phase.as_str()),
            batch: phase.batch,
            title: format!("{label}: {said}"),
            said,
            ..Self::of_capture(id, severity, String::new())
        }
    }

    /// What to try first: the first sentence of the action.
    pub fn first_action(&self) -> &str {
        match self.action.find(". ") {
            Some(end) => &self.action[..=end],
            None => &self.action,
        }
    }

    pub(super) fn because(mut self, name: &'static str, figure: Figure) -> Self {
        self.evidence.0.push((name, figure));
        self
    }

    pub(super) fn and(mut self, name: &'static str, figure: Option<Figure>) -> Self {
        self.evidence.0.extend(figure.map(|figure| (name, figure)));
        self
    }

    pub(super) fn try_this(mut self, action: impl Into<String>) -> Self {
        self.action = action.into();
        self
    }
}

/// A number, or a name, that a finding rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// A duration in ns.
    Ns(i64),
    /// A part of a whole, 0..1.
    Share(f64),
    /// A number of things.
    Count(u64),
    /// Any other number.
    Number(f64),
    /// Bytes.
    Bytes(u64),
    /// Bytes a second.
    Rate(f64),
    /// A name.
    Text(String),
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&match self {
            Self::Ns(ns) => format::ns(*ns),
            Self::Share(share) => format::percent(*share),
            Self::Count(count) => format::count(*count),
            Self::Number(number) => format!("{number:.1}"),
            Self::Bytes(bytes) => format::bytes(*bytes),
            Self::Rate(rate) => format::rate(*rate),
            Self::Text(text) => text.clone(),
        })
    }
}

/// Figures by name, in the order in which they are told: an object in JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence(pub(super) Vec<(&'static str, Figure)>);

impl Evidence {
    /// The figure of a name.
    pub fn get(&self, name: &str) -> Option<&Figure> {
        self.iter().find(|(known, _)| *known == name).map(|(_, figure)| figure)
    }

    /// Names and figures in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Figure)> {
        self.0.iter().map(|(name, figure)| (*name, figure))
    }

    /// One line for a reader: names without the unit that their figures carry.
    pub(crate) fn line(&self) -> String {
        let stem = |name: &'static str| {
            name.strip_suffix("_bytes_per_s")
                .or_else(|| name.strip_suffix("_share"))
                .or_else(|| name.strip_suffix("_ns"))
                .unwrap_or(name)
        };
        let mut out = String::new();
        let mut before = "";
        for (name, figure) in self.iter() {
            let name = stem(name);
            // A time and its share are one thing.
            if name == before {
                let _ = write!(out, " ({figure})");
                continue;
            }
            let comma = if out.is_empty() { "" } else { ", " };
            let _ = write!(out, "{comma}{} {figure}", name.replace('_', " "));
            before = name;
        }
        out
    }
}

impl Serialize for Evidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, figure) in &self.0 {
            map.serialize_entry(name, figure)?;
        }
        map.end()
    }
}
