//! The report as one HTML page that needs nothing else: no network, no file beside it.
//!
//! Its text and tables are those of the other views, so its numbers are those of the JSON. Pictures
//! come from the caller, since this crate draws nothing.

mod findings;
mod provenance;
mod timeline;

use super::Report;
use crate::document::Block;
pub use crate::page::Figure;
use crate::page::{Page, Section, blocks, body, body_without_heading};
use crate::scene::Timeline;
use crate::scene::palette::hex;

/// The pictures of a page; what is absent is left out.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Where the time goes.
    pub breakdown: Option<Figure>,
    /// All steps as a timeline.
    pub timeline: Option<Figure>,
    /// All steps, how long each took.
    pub steps: Option<Figure>,
    /// Layers against what runs in them.
    pub layers: Option<Figure>,
    /// Operations under the roofs of the GPU.
    pub roofline: Option<Figure>,
    /// Waiting and transferring.
    pub collectives: Option<Figure>,
    /// A step with every kernel of it, which the page can zoom into and search.
    pub step: Option<Timeline>,
}

const SCRIPT: &str = include_str!("zoom.js");

impl Report {
    /// As one self-contained page.
    pub fn to_html(&self, figures: &Figures) -> String {
        Page {
            generator: &self.generator,
            head: blocks(|blocks| self.head(blocks)),
            sections: self.sections(figures),
            script: SCRIPT,
        }
        .html()
    }

    /// The sections that have anything to say, the answer first.
    fn sections(&self, figures: &Figures) -> Vec<Section> {
        let of = |write: &dyn Fn(&mut Vec<Block>)| blocks(write);
        // Beside selected steps, figures of the whole capture would be taken for theirs.
        let whole = self.selection.is_none();
        let if_whole =
            |write: &dyn Fn(&mut Vec<Block>)| if whole { body(of(write)) } else { String::new() };
        let roofline = figure(figures.roofline.as_ref(), "Operations under the roofs of the GPU");
        let layers = figure(figures.layers.as_ref(), "Time by layer");
        let sections = [
            (
                "answer",
                "Answer",
                body_without_heading(of(&|blocks| self.answer(blocks)))
                    + &body(of(&|blocks| {
                        self.shares(blocks);
                        self.expectations(blocks);
                        self.baseline(blocks);
                    })),
            ),
            ("findings", "Findings", findings::html(self)),
            (
                "what-if",
                "What if",
                body(of(&|blocks| {
                    self.what_if(blocks);
                    self.ceilings(blocks);
                })),
            ),
            (
                "breakdown",
                "Breakdown",
                figure(figures.breakdown.as_ref(), "Wall time by category")
                    + &body(of(&|blocks| self.breakdown(blocks))),
            ),
            (
                "timeline",
                "Timeline",
                figure(figures.timeline.as_ref(), "Ranks and streams over time")
                    + &figures.step.as_ref().map_or_else(String::new, timeline::html),
            ),
            (
                "steps",
                "Steps",
                figure(figures.steps.as_ref(), "Wall time of every step")
                    + &body(of(&|blocks| self.floors(blocks))),
            ),
            ("ops", "Operations", {
                let table = filtered(&body(of(&|blocks| self.ops(blocks))), "operations");
                if table.is_empty() { table } else { roofline + &table }
            }),
            ("kernels", "Kernels", filtered(&if_whole(&|blocks| self.kernels(blocks)), "kernels")),
            (
                "layers",
                "Layers",
                if self.layers.is_empty() {
                    String::new()
                } else {
                    layers + &body_without_heading(of(&|blocks| self.layers(blocks)))
                },
            ),
            (
                "collectives",
                "Collectives",
                if self.collectives.is_empty() {
                    String::new()
                } else {
                    figure(figures.collectives.as_ref(), "Waiting and transferring")
                        + &body(of(&|blocks| {
                            self.collectives(blocks);
                            self.experts(blocks);
                        }))
                        + &if_whole(&|blocks| self.overlap(blocks))
                },
            ),
            (
                "launches",
                "Launches and copies",
                if_whole(&|blocks| {
                    self.launches(blocks);
                    self.memory(blocks);
                }),
            ),
            (
                "capture",
                "Provenance",
                provenance::html(self)
                    + &body(of(&|blocks| self.health(blocks)))
                    + &if_whole(&|blocks| self.ranks(blocks)),
            ),
            ("method", "Method and limits", provenance::method()),
        ];
        sections.into_iter().map(|(id, title, body)| Section::new(id, title, body)).collect()
    }
}

/// A table with a field that filters its rows.
fn filtered(body: &str, what: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"filter\" hidden><label>Show {what} that contain <input type=\"search\" \
         data-filter></label> <span role=\"status\"></span></div>\n{body}"
    )
}

fn figure(figure: Option<&Figure>, caption: &str) -> String {
    figure.map_or_else(String::new, |figure| figure.html(caption))
}

/// The colours of the families that categories have, by category.
fn family_colors(categories: &[String]) -> Vec<String> {
    categories.iter().map(|category| hex(crate::scene::palette::color(category))).collect()
}
