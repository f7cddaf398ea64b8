//! The report as one HTML page that needs nothing else: no network, no file beside it.
//!
//! Its text and tables are those of the other views, so its numbers are those of the JSON. Pictures
//! come from the caller, since this crate draws nothing.

mod findings;
mod provenance;
mod timeline;

use std::fmt::Write as _;

use super::Report;
use crate::document::{Block, Document, escape};
use crate::scene::Timeline;
use crate::scene::palette::{Ink, hex};

/// A picture for a page, as `<svg>` elements whose colours are classes `f-NAME` and `s-NAME` where
/// they are those of [`Ink`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figure {
    /// For pages of the width of a screen: 1100 pixels.
    pub wide: String,
    /// For those of a tablet: 720 pixels; empty where the wide one has to do.
    pub medium: String,
    /// For those of a telephone: 340 pixels; empty where the next wider one has to do.
    pub narrow: String,
}

impl Figure {
    /// For pages of three widths.
    pub fn new(wide: String, medium: String, narrow: String) -> Self {
        Self { wide, medium, narrow }
    }
}

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

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A section of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    body: String,
}

impl Report {
    /// As one self-contained page.
    pub fn to_html(&self, figures: &Figures) -> String {
        let sections = self.sections(figures);
        let mut head = Vec::new();
        self.head(&mut head);
        let title = match head.first() {
            Some(Block::Title(title)) => escape(title),
            _ => "nsyscope report".to_owned(),
        };
        let mut out = String::with_capacity(256 << 10);
        // The page may run its own script and style and nothing else, whatever a name holds.
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'; script-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"{}\">\n\
             <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">To the answer</a>\n<header>\n{}</header>\n",
            escape(&self.generator),
            colors(),
            Document(head).html(2),
        );
        out.push_str("<nav aria-label=\"Sections\"><ul>\n");
        for section in &sections {
            let _ = writeln!(out, "<li><a href=\"#{}\">{}</a></li>", section.id, section.title);
        }
        out.push_str("</ul></nav>\n<main id=\"main\">\n");
        for section in &sections {
            let _ = write!(
                out,
                "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
                section.id, section.title, section.body
            );
        }
        let _ = write!(
            out,
            "</main>\n<footer><p>Made by {}. This page needs no network.</p></footer>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            escape(&self.generator)
        );
        out
    }

    /// The sections that have anything to say, the answer first.
    fn sections(&self, figures: &Figures) -> Vec<Section> {
        let of = |write: &dyn Fn(&mut Vec<Block>)| {
            let mut blocks = Vec::new();
            write(&mut blocks);
            blocks
        };
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
        sections
            .into_iter()
            .map(|(id, title, body)| Section { id, title, body })
            .filter(|section| !section.body.is_empty())
            .collect()
    }
}

fn body(blocks: Vec<Block>) -> String {
    Document(blocks).html(3)
}

/// Of blocks whose first heading is the section's own.
fn body_without_heading(mut blocks: Vec<Block>) -> String {
    if matches!(blocks.first(), Some(Block::Heading(_))) {
        blocks.remove(0);
    }
    body(blocks)
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
    let Some(figure) = figure else { return String::new() };
    let caption = escape(caption);
    let mut out = String::new();
    // The classes say at which widths of the page a version shows.
    let mut add = |class: &str, svg: &str| {
        if !svg.is_empty() {
            let _ = write!(
                out,
                "<figure class=\"{class}\"><div class=\"scroll\" role=\"region\" tabindex=\"0\" \
                 aria-label=\"{caption}\">\n{svg}</div></figure>\n"
            );
        }
    };
    let (medium, narrow) = (!figure.medium.is_empty(), !figure.narrow.is_empty());
    add(
        match (medium, narrow) {
            (false, false) => "",
            (false, true) => "l m",
            (true, _) => "l",
        },
        &figure.wide,
    );
    add(if narrow { "m" } else { "m s" }, &figure.medium);
    add("s", &figure.narrow);
    out
}

/// The colours of both themes, for the page and for the pictures on it.
fn colors() -> String {
    let variables =
        |ink: &Ink| ink.named().map(|(name, rgb)| format!("--{name}:{};", hex(rgb))).concat();
    let mut out = format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n\
         @media print{{:root{{{}}}}}\n",
        variables(&Ink::LIGHT),
        variables(&Ink::DARK),
        variables(&Ink::LIGHT),
    );
    for (name, _) in Ink::LIGHT.named() {
        let _ = writeln!(out, ".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}");
    }
    out
}

/// The colours of the families that categories have, by category.
fn family_colors(categories: &[String]) -> Vec<String> {
    categories.iter().map(|category| hex(crate::scene::palette::color(category))).collect()
}
