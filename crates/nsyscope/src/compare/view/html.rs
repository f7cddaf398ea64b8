//! A comparison as one HTML page that needs nothing else: what the text says, with pictures, and
//! the parts of every phase.

use super::{Comparison, PhaseChange, shares, trend, waterfall};
use crate::document::Block;
use crate::page::{Figure, Page, Section, blocks, body, body_without_heading};

/// The pictures of a comparison's page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComparisonFigures {
    /// One for each of [`Comparison::phases`], or of [`Comparison::shares`] where these are
    /// compared, in their order; what is absent is left out.
    pub parts: Vec<Option<Figure>>,
}

impl ComparisonFigures {
    /// For each phase, in order.
    pub fn new(parts: Vec<Option<Figure>>) -> Self {
        Self { parts }
    }

    fn html(&self, at: usize, caption: &str) -> String {
        let figure = self.parts.get(at).and_then(Option::as_ref);
        figure.map_or_else(String::new, |figure| figure.html(caption))
    }
}

impl Comparison {
    /// As one self-contained page.
    pub fn to_html(&self, figures: &ComparisonFigures) -> String {
        let generator = self.generator.as_str();
        let head = vec![self.title(), Block::Paragraph(self.headline())];
        let mut sections = match &self.shares {
            Some(_) => self.share_sections(figures),
            None => self.step_sections(figures),
        };
        let changes = body_without_heading(blocks(|blocks| self.changes(blocks)));
        sections.push(Section::new("changes", "What else changed", changes));
        if let Some(found) = &self.trend {
            let trend = body(blocks(|blocks| trend(blocks, found)));
            sections.push(Section::new("trend", "Trend", trend));
        }
        let limits = body_without_heading(blocks(|blocks| self.limits(blocks)));
        sections.push(Section::new("limits", "Limits", limits));
        Page { generator, head, sections, script: "" }.html()
    }

    fn step_sections(&self, figures: &ComparisonFigures) -> Vec<Section> {
        let mut out = vec![
            Section::new("answer", "Answer", body(blocks(|blocks| self.answer(blocks)))),
            Section::new(
                "steps",
                "Steps",
                body_without_heading(blocks(|blocks| self.steps(blocks))),
            ),
        ];
        let at = |phase: &PhaseChange| self.phases.iter().position(|of| std::ptr::eq(of, phase));
        let figure = |phase: &PhaseChange| {
            let caption = format!("{}: from base to new", phase.label());
            at(phase).map_or_else(String::new, |at| figures.html(at, &caption))
        };
        let shown = self.shown();
        for (i, phase) in shown.iter().enumerate() {
            let table = body(blocks(|blocks| waterfall(blocks, phase)));
            out.push(Section::new(
                format!("phase-{}", i + 1),
                phase.label(),
                figure(phase) + &table,
            ));
        }
        // What did not change is there for those who look for it.
        let mut rest = String::new();
        for phase in self.ranked() {
            if phase.rows.is_empty() || shown.iter().any(|of| std::ptr::eq(*of, phase)) {
                continue;
            }
            rest.push_str(&body(blocks(|blocks| {
                waterfall(blocks, phase);
                // The picture stands between heading and table.
                blocks.truncate(1);
            })));
            rest.push_str(&figure(phase));
            rest.push_str(&body_without_heading(blocks(|blocks| waterfall(blocks, phase))));
        }
        if !rest.is_empty() {
            let body = format!(
                "<details><summary>Steps that did not change, or of which that cannot be said\
                 </summary>\n{rest}</details>\n"
            );
            out.push(Section::new("other-steps", "Other steps", body));
        }
        out
    }

    fn share_sections(&self, figures: &ComparisonFigures) -> Vec<Section> {
        let of = self.shares.as_deref().unwrap_or_default();
        let mut out = vec![
            Section::new(
                "answer",
                "Answer",
                body(blocks(|blocks| shares::answer(self, blocks, of))),
            ),
            Section::new(
                "grounds",
                "What this rests on",
                body(blocks(|blocks| shares::grounds(self, blocks))),
            ),
        ];
        for (i, phase) in of.iter().enumerate() {
            let title = match (phase.base_batch, phase.new_batch) {
                (Some(a), Some(b)) if a == b => format!("{}, batch {a}", phase.phase),
                _ => phase.phase.clone(),
            };
            let table = body(blocks(|blocks| shares::table(blocks, phase)));
            let figure = figures.html(i, &phase.label());
            out.push(Section::new(format!("phase-{}", i + 1), title, figure + &table));
        }
        out
    }
}
