//! The shell of an HTML page that needs nothing else: no network, no file beside it.
//!
//! Pictures come from the caller, since this crate draws nothing.

use std::fmt::Write as _;

use crate::document::{Block, Document, escape};
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

    /// The picture for every width of a page.
    pub(crate) fn html(&self, caption: &str) -> String {
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
        let (medium, narrow) = (!self.medium.is_empty(), !self.narrow.is_empty());
        add(
            match (medium, narrow) {
                (false, false) => "",
                (false, true) => "l m",
                (true, _) => "l",
            },
            &self.wide,
        );
        add(if narrow { "m" } else { "m s" }, &self.medium);
        add("s", &self.narrow);
        out
    }
}

const STYLE: &str = include_str!("page.css");
const TABLES: &str = include_str!("tables.js");

/// A section of a page.
pub(crate) struct Section {
    /// One of a kind on the page, of characters that need no escape.
    id: String,
    title: String,
    /// HTML.
    body: String,
}

impl Section {
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, body: String) -> Self {
        Self { id: id.into(), title: title.into(), body }
    }
}

/// A page.
pub(crate) struct Page<'a> {
    /// The program and its version.
    pub(crate) generator: &'a str,
    /// The title, and what else comes before the sections.
    pub(crate) head: Vec<Block>,
    /// Those without a body are left out.
    pub(crate) sections: Vec<Section>,
    /// What its own parts need beside the script of tables.
    pub(crate) script: &'a str,
}

impl Page<'_> {
    pub(crate) fn html(self) -> String {
        let Self { generator, head, mut sections, script } = self;
        sections.retain(|section| !section.body.is_empty());
        let generator = escape(generator);
        let title = match head.first() {
            Some(Block::Title(title)) => escape(title),
            _ => "nsyscope".to_owned(),
        };
        let mut out = String::with_capacity(256 << 10);
        // The page may run its own script and style and nothing else, whatever a name holds.
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'; script-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"{generator}\">\n\
             <title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">To the answer</a>\n<header>\n{}</header>\n",
            colors(),
            Document(head).html(2),
        );
        out.push_str("<nav aria-label=\"Sections\"><ul>\n");
        for section in &sections {
            let title = escape(&section.title);
            let _ = writeln!(out, "<li><a href=\"#{}\">{title}</a></li>", section.id);
        }
        out.push_str("</ul></nav>\n<main id=\"main\">\n");
        for Section { id, title, body } in &sections {
            let title = escape(title);
            let _ = write!(
                out,
                "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n\
                 {body}</section>\n",
            );
        }
        let _ = write!(
            out,
            "</main>\n<footer><p>Made by {generator}. This page needs no network.</p></footer>\n\
             <script>\n{TABLES}{script}</script>\n</body>\n</html>\n"
        );
        out
    }
}

/// The content of a section.
pub(crate) fn body(blocks: Vec<Block>) -> String {
    Document(blocks).html(3)
}

/// Of blocks whose first heading is the section's own.
pub(crate) fn body_without_heading(mut blocks: Vec<Block>) -> String {
    if matches!(blocks.first(), Some(Block::Heading(_))) {
        blocks.remove(0);
    }
    body(blocks)
}

/// The blocks that a view writes.
pub(crate) fn blocks(write: impl FnOnce(&mut Vec<Block>)) -> Vec<Block> {
    let mut blocks = Vec::new();
    write(&mut blocks);
    blocks
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
